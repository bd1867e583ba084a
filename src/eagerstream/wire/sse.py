"""`SSEDecoder`: bytes to server-sent events, by the letter of the WHATWG standard.

https://html.spec.whatwg.org/multipage/server-sent-events.html, section "Interpreting an event stream".
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..errors import LimitError, UsageError
from ..limits import DEFAULT_LIMITS

_BOM: Final = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS: Final = 4_300  # what int() converts by default; no reconnection time is longer


class ServerSentEvent(NamedTuple):
    """One dispatched event.

    Attributes:
        event: The event type, `"message"` where the stream names none.
        data: The data lines, joined by line feeds.
        id: The last event id of the stream when this event was dispatched, `""` before the first.
        retry: The reconnection time in milliseconds, where this event's own lines set it.
    """

    event: str
    data: str
    id: str = ""
    retry: int | None = None


class SSEDecoder:
    """Turns chunks of a `text/event-stream` body, cut anywhere, into events.

    Lines end with LF, CR or CRLF, in any mix, and an event is dispatched by the byte that ends it: a CR does not wait
    for the LF that may follow. Work and memory are linear in the bytes fed, also for one line in a million chunks.

    Args:
        max_event_bytes: The most that the lines of one event may hold, line ends and comments not counted; no single
            line, comments included, may be longer either.
    """

    def __init__(self, *, max_event_bytes: int = DEFAULT_LIMITS.max_event_bytes) -> None:
        if max_event_bytes <= 0:
            raise UsageError(f"max_event_bytes must be a positive number, not {max_event_bytes!r}")
        self.reconnection_time_ms: int | None = None
        """The last `retry` of the stream, also from an event that had no data and was not dispatched."""
        self._max_event_bytes = max_event_bytes
        self._start: bytes | None = b""  # the first bytes, until they are known to be a byte order mark or not
        self._after_cr = False  # the last chunk ended with CR: a LF at the start of the next belongs to it
        self._pieces: list[bytes] = []  # of the line under way, from earlier chunks
        self._pieces_bytes = 0
        self._event_bytes = 0
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        self._failed = False
        self._closed = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that this chunk completes, in order; often none.

        Raises:
            LimitError: An event is over `max_event_bytes`. Events that the same chunk completed before it are returned
                first, and the next call raises; from then on every call does.
            UsageError: After `close`.
        """
        self._check()
        if self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._start = chunk
                return []
            self._start = None
            chunk = chunk.removeprefix(_BOM)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        # bytes.splitlines() ends lines at LF, CR and CRLF and nowhere else (str.splitlines() also at U+2028).
        lines = chunk.splitlines()
        last = chunk[-1]
        unfinished = b"" if last in b"\r\n" else lines.pop()
        self._after_cr = last == 0x0D
        events: list[ServerSentEvent] = []
        for line in lines:
            if self._pieces:
                self._pieces.append(line)
                line = b"".join(self._pieces)
                self._pieces.clear()
                self._pieces_bytes = 0
            if not line:
                self._dispatch(events)
            elif self._event_bytes + len(line) > self._max_event_bytes:
                return self._fail(events)
            else:
                self._take_line(line)
        if unfinished:
            self._pieces.append(unfinished)
            self._pieces_bytes += len(unfinished)
            if self._event_bytes + self._pieces_bytes > self._max_event_bytes:
                return self._fail(events)
        return events

    def close(self) -> list[ServerSentEvent]:
        """The body has ended: an unfinished event is discarded, as the standard says, so the list is always empty.

        Raises:
            LimitError: As `feed`.
        """
        if not self._closed:
            self._check()
            self._closed = True
        return []

    def _check(self) -> None:
        if self._failed:
            raise LimitError("max_event_bytes", self._max_event_bytes, "a server-sent event")
        if self._closed:
            raise UsageError("SSEDecoder.feed() after close()")

    def _fail(self, events: list[ServerSentEvent]) -> list[ServerSentEvent]:
        self._failed = True
        self._pieces.clear()
        self._data.clear()
        if not events:
            self._check()
        return events

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b":"):
            return
        else:
            name, _, value = line.partition(b":")
            self._take_field(name, value.removeprefix(b" "))
        self._event_bytes += len(line)

    def _take_field(self, name: bytes, value: bytes) -> None:
        if name == b"event":
            self._event = _decode(value)
        elif name == b"data":
            self._data.append(value)
        elif name == b"id":
            if b"\0" not in value:
                self._id = _decode(value)
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            # bytes.isdigit() knows ASCII digits only; int() alone would take "+5", "1_000" and Arabic digits.
            self._retry = self.reconnection_time_ms = int(value)

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            data = _decode(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
            events.append(ServerSentEvent(self._event or "message", data, self._id, self._retry))
            self._data.clear()
        self._event = ""
        self._retry = None
        self._event_bytes = 0


def _decode(value: bytes) -> str:
    # A field ends at a line end or a colon, which are never part of a longer UTF-8 sequence: decoding field by field
    # gives the same as decoding the stream, and one U+FFFD per maximal invalid part is also what the standard asks.
    return value.decode("utf-8", "replace")
