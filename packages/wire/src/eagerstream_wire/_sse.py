"""Decoding of bytes to server-sent events, exactly as the WHATWG standard requires.

https://html.spec.whatwg.org/multipage/server-sent-events.html, section "Interpreting an event stream".

The decoder splits bytes and decodes text field by field. Decoding first would need an incremental UTF-8 decoder for
sequences that a chunk cuts. Besides, `str.splitlines` (used by httpx's `iter_lines`) also ends a line at U+2028 and
U+0085, which a JSON string may contain. The bytes of LF, CR and the colon never occur inside a longer UTF-8 sequence.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ._decoder import Decoder, T
from ._errors import LimitError
from ._limits import DEFAULT_LIMITS
from ._mypyc import mypyc_attr
from ._value_count import ValueCount

_BOM: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data:"
_CR: Final = 0x0D
_LF: Final = 0x0A
_MAX_RETRY_DIGITS: Final = 4_300  # the default limit of int(); no reconnection time is longer


class ServerSentEvent(NamedTuple):
    """One dispatched event.

    Attributes:
        event: The event type, `"message"` if the stream names none.
        data: The data lines, joined by line feeds.
        id: The last event id of the stream when this event was dispatched, `""` before the first.
        retry: The reconnection time in milliseconds, if this event's own lines set it.
    """

    event: str
    data: str
    id: str = ""
    retry: int | None = None

    def __repr__(self) -> str:
        # Without the data, which contains the model's text.
        return f"ServerSentEvent({self.event!r:.80}, {len(self.data)} chars)"


@mypyc_attr(allow_interpreted_subclasses=True)
class EventStreamDecoder(Decoder[T]):
    """A decoder of a `text/event-stream` body. The subclass converts the data of each event (`_dispatched`).

    Lines end with LF, CR or CRLF, in any mix. An event is dispatched by the byte that ends it: a CR does not wait for
    the LF that may follow. Work and memory are linear in the bytes fed, also for one line in a million chunks.

    Args:
        max_event_bytes: Maximum bytes of the lines of one event, without line ends and comments. No single line,
            comments included, may be longer either.

    Raises:
        UsageError: `max_event_bytes` is not a positive number.
    """

    __slots__ = (
        "_after_cr",
        "_between_events",
        "_data",
        "_event",
        "_event_bytes",
        "_id",
        "_max_uncounted_bytes",
        "_pieces",
        "_pieces_bytes",
        "_retry",
        "_start",
        "_values",
        "reconnection_time_ms",
    )

    media_type = "text/event-stream"

    def __init__(self, *, max_event_bytes: int = DEFAULT_LIMITS.max_event_bytes) -> None:
        super().__init__(max_event_bytes=max_event_bytes)
        self.reconnection_time_ms: int | None = None
        """The last `retry` of the stream, also from an event that had no data and was not dispatched."""
        self._start: bytes | None = b""  # the first bytes, until they are known to be a byte order mark or not
        # The last chunk ended with CR: a LF at the start of the next belongs to it. If the peer ends its lines with CR
        # alone, waiting for that LF would hold back each event until the next one comes.
        self._after_cr = False
        # Parts of the current line from earlier chunks, joined once. `line += chunk` copies the line with each chunk.
        # Another decoder took 70 s for an event of 8 MiB that way. The test of a line in very many chunks keeps it
        # linear.
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self._event_bytes = 0
        self._between_events = False  # no event is in progress: the next byte starts one
        self._data: list[bytes] = []
        self._event = b""
        self._id = b""
        self._retry: int | None = None
        self._max_uncounted_bytes = max_event_bytes  # of an event whose data a subclass need not count
        self._values: ValueCount | None = None  # of the data of the current event, once it is longer than that

    # A subclass, without a list of `ServerSentEvent`s in between. An event of the Messages API repeats its type in its
    # data, so a wire decoder needs neither the name nor the id, nor the data as text (jiter reads bytes).
    def _dispatched(self, data: bytes) -> T | None:
        """Return the event for this data; None for no event. An `EagerStreamError` ends the decoding."""
        raise NotImplementedError

    def _check_values(self, values: int) -> None:
        """Refuse an event whose data has so many values. It is called only for long events."""

    def _take(self, chunk: bytes, events: list[T]) -> None:
        # The API sends events of two lines that end with LF, and an HTTP client usually returns complete ones. Such a
        # chunk is split at its blank lines in one call. All others go line by line, the slow way, which alone handles
        # all rules. Nothing is guessed: the end of a chunk never ends a line or an event.
        if not self._between_events:
            end = chunk.find(b"\n\n") + 2
            if end >= 2:  # the end of the current event; complete events may follow
                self._feed_lines(chunk[:end], events)
                chunk = chunk[end:]
        # No event of a chunk this short can exceed the limit, so the short way need not count.
        if self._between_events and _CR not in chunk and len(chunk) <= self._max_event_bytes:
            self._feed_blocks(chunk, events)
        else:
            self._feed_lines(chunk, events)

    def _forget(self) -> None:
        self._pieces.clear()
        self._data.clear()
        self._values = None

    def _feed_blocks(self, chunk: bytes, events: list[T]) -> None:
        """Read LF-terminated lines from the first byte of an event on: nearly all chunks of nearly all streams."""
        blocks = chunk.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            self._feed_block(block, events)
        if rest:
            self._feed_lines(rest, events)

    def _feed_block(self, block: bytes, events: list[T]) -> None:
        """Read an event without its blank line. One of two lines, its name and its data, is split in one step."""
        name, _, data = block.partition(b"\ndata: ")
        is_short = len(data) <= self._max_uncounted_bytes
        if data and is_short and _LF not in data and name.startswith(b"event: ") and _LF not in name:
            self._event = name[7:]
            event = self._dispatched(data)
            if event is not None:
                events.append(event)
            self._event = b""
        else:
            self._feed_lines(block + b"\n\n", events)

    def _feed_lines(self, chunk: bytes, events: list[T]) -> None:
        """Read any bytes, line by line."""
        # A byte order mark may be cut too; three other Python decoders do not find it then.
        if self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._start = chunk
                return
            self._start = None
            chunk = chunk.removeprefix(_BOM)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return
        # bytes.splitlines() ends lines at LF, CR and CRLF and nowhere else (str.splitlines() also at U+2028).
        lines = chunk.splitlines()
        last = chunk[-1]
        unfinished = b"" if last in b"\r\n" else lines.pop()
        self._after_cr = last == _CR
        pieces = self._pieces
        for line in lines:
            if self._event_bytes + self._pieces_bytes + len(line) > self._max_uncounted_bytes:
                self._count(line, is_end=True)
            if pieces:
                pieces.append(line)
                line = b"".join(pieces)
                pieces.clear()
                self._pieces_bytes = 0
            if line:
                self._take_line(line)
            elif self._event_bytes:
                # By the standard, there is no event without a data line, and one empty data line is enough. The id and
                # the reconnection time outlive the event; its name does not.
                data = self._data
                if data:
                    event = self._dispatched(data[0] if len(data) == 1 else b"\n".join(data))
                    if event is not None:
                        events.append(event)
                    data.clear()
                self._event = b""
                self._retry = None
                self._event_bytes = 0
                self._values = None
        if unfinished:
            if self._event_bytes + self._pieces_bytes + len(unfinished) > self._max_uncounted_bytes:
                self._count(unfinished, is_end=False)
            self._pieces.append(unfinished)
            self._pieces_bytes += len(unfinished)
            self._check_size(self._pieces[0], self._pieces_bytes)
        # The last line alone does not tell: it may be the end of one that started in an earlier chunk.
        self._between_events = not (self._pieces or self._after_cr or self._event_bytes)

    def _check_size(self, line: bytes, line_bytes: int) -> None:
        """Refuse a line that starts with `line` if it is too long or makes its event too large.

        Also while the line is incomplete: a peer that never ends it must not fill the memory first. Line ends and
        comments do not count, so the limit applies at the same byte for every cut of the body.
        """
        event_bytes = 0 if line.startswith(b":") else self._event_bytes
        if event_bytes + line_bytes > self._max_event_bytes:
            raise LimitError("max_event_bytes", self._max_event_bytes, "a server-sent event")

    def _count(self, piece: bytes, *, is_end: bool) -> None:
        """Count the values in the next piece of the current line if it is a line of data, and check their number.

        The count begins with the piece that makes the event longer than `_max_uncounted_bytes`. It ends at
        `max_event_bytes`, so every cut of the body exceeds the same of the two limits. A line counts, too: it is work.
        """
        values = self._values
        if values is None:
            values = self._values = ValueCount()
            for line in self._data:
                values.feed(line)
                values.end_line()
            if self._is_data(b""):
                values.feed(b"".join(self._pieces))
        if self._is_data(piece):
            room = max(0, self._max_event_bytes - self._event_bytes - self._pieces_bytes)
            values.feed(piece if len(piece) <= room else piece[: int(room)])
            if is_end and len(piece) <= room:
                values.end_line()
            self._check_values(values.values)

    def _is_data(self, piece: bytes) -> bool:
        """Return True if the current line, of which `piece` is the next piece, has the start of a line of data."""
        return b"".join([*self._pieces[: len(_DATA)], piece[: len(_DATA)]]).startswith(_DATA)

    def _take_line(self, line: bytes) -> None:
        """Read a line that is not empty. Fields with unknown names are ignored, as the standard requires."""
        event_bytes = self._event_bytes + len(line)
        if event_bytes > self._max_event_bytes:
            self._check_size(line, len(line))
        if line.startswith(b"data: "):  # in one copy: each copy of a line of 32 MB takes 10 ms
            self._event_bytes = event_bytes
            self._data.append(line[6:])
            return
        name, _, value = line.partition(b":")
        if not name:
            return  # a comment, which keeps a connection alive and takes no space
        # The name counts too: each of endless empty `data:` lines adds at least a byte to the event.
        self._event_bytes = event_bytes
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:  # the standard's rule: the id goes back in a header, which cannot contain NUL
                self._id = value
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            # bytes.isdigit() accepts only ASCII digits; int() alone would accept "+5", "1_000" and Arabic digits.
            self._retry = self.reconnection_time_ms = int(value)


@mypyc_attr(allow_interpreted_subclasses=True)
class SSEDecoder(EventStreamDecoder[ServerSentEvent]):
    """Turns chunks of a `text/event-stream` body, cut anywhere, into `ServerSentEvent`s.

    Args:
        max_event_bytes: Maximum size of an event.

    Raises:
        UsageError: `max_event_bytes` is not above 0.
    """

    def _dispatched(self, data: bytes) -> ServerSentEvent:
        # A field ends at a line end or a colon, which are never part of a longer UTF-8 sequence. Therefore decoding
        # field by field equals decoding the stream. The standard requires one U+FFFD per maximal invalid part.
        event = self._event.decode("utf-8", "replace") or "message"
        last_id = self._id.decode("utf-8", "replace") if self._id else ""
        return ServerSentEvent(event, data.decode("utf-8", "replace"), last_id, self._retry)
