"""`Tape`: records one response while it passes, with the arrival times of its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol

from eagerstream import AWSEventStreamDecoder
from eagerstream._support.terms import media_type
from eagerstream._support.unpacking import Unpacker, UnpackingError
from eagerstream.recordings import Chunk

from ._upstream import HOP_BY_HOP

_CHUNK_BYTES: Final = 200
"""Memory of a chunk besides its data: a peer may send a million chunks of one byte."""

# Headers about the connection, or about an encoding that the decoded chunks no longer have.
_NOT_KEPT: Final = frozenset({"content-encoding", "content-length", *(name.decode() for name in HOP_BY_HOP)})


@dataclass
class TapedReply:
    """Response as far as it arrived.

    Attributes:
        number: Number of its request, from 1.
        headers_s: Seconds from the request to the headers.
        status: HTTP status.
        headers: Headers of the response, names in lower case.
        content_encoding: Content coding of the chunks; empty if there is none.
        chunks: Chunks with their times since the request was sent, still compressed if there is a content coding.
        held_bytes: Size that the folder counts for it.
        cut: Reason why it is incomplete; empty if it is complete.
    """

    number: int
    headers_s: float
    status: int
    headers: dict[str, str] = field(repr=False)  # as the peer wrote them
    content_encoding: str = field(repr=False)
    chunks: list[Chunk] = field(default_factory=list, repr=False)
    held_bytes: int = 0
    cut: str = ""


class TapeOwner(Protocol):
    """Owner of tapes. It bounds the memory that they take."""

    @property
    def max_reply_bytes(self) -> int:
        """Maximum size of a response; see `RecordingFolder`."""
        ...

    @property
    def takes_frames(self) -> bool:
        """True to record responses in binary frames."""
        ...

    def hold(self, size_bytes: int) -> bool:
        """Add to the bytes in memory (a negative size subtracts). Return False if the total would exceed the limit."""
        ...

    def tell_once(self, what: str) -> None:
        """Report that a response is not recorded, unless the same text was reported before."""
        ...


class Recorder(Protocol):
    """Receiver of the requests that a proxy passes on."""

    def begin(self, request: bytes, *, host: str, headers: Mapping[str, str]) -> Tape:
        """Return a tape that records the response to a request with this body and these headers, which is sent now."""
        ...


class Tape:
    """Recorder of one response. Create it when the request is sent: its clock starts then.

    All of its methods return at once, and none raises: recording must not disturb the recorded traffic.

    Args:
        owner: Sets the limits.
        number: Number of the request, from 1.
        save: Called with the response when it has ended. Not called if no response started, or if it is not recorded.
    """

    def __init__(self, owner: TapeOwner, number: int, save: Callable[[TapedReply], object]) -> None:
        self._owner = owner
        self._number = number
        self._save = save
        self._began_s = monotonic()
        self._reply: TapedReply | None = None  # before it starts, and if it is not recorded

    def begin(self, status: int, headers: Iterable[tuple[str, str]], *, content_encoding: str = "") -> None:
        """Start recording a response whose head has arrived.

        Args:
            status: HTTP status.
            headers: Headers as received.
            content_encoding: Content coding of the bytes for `take`. A client may have unpacked them already.
        """
        kept: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            if name not in _NOT_KEPT:
                try:
                    value.encode("latin-1")
                except UnicodeEncodeError:
                    # Clients decode values that are not ASCII as UTF-8. Here, a character is a byte.
                    value = value.encode(errors="surrogateescape").decode("latin-1")
                kept[name] = f"{kept[name]}, {value}" if name in kept else value
        is_framed = media_type(kept.get("content-type", "")) == AWSEventStreamDecoder.media_type
        if is_framed and not self._owner.takes_frames:
            self._owner.tell_once("responses in binary frames are not recorded: their secrets cannot be masked")
            return
        try:
            Unpacker(content_encoding, max_bytes=self._owner.max_reply_bytes)
        except UnpackingError:
            self._owner.tell_once("responses in another compression than gzip are not recorded")
            return
        self._reply = TapedReply(self._number, self._now_s(), status, kept, content_encoding)

    def take(self, data: bytes) -> None:
        """Record bytes of the body."""
        reply = self._reply
        if reply is None or not data:
            return
        size_bytes = len(data) + _CHUNK_BYTES
        if reply.held_bytes + size_bytes > self._owner.max_reply_bytes:
            self._give_up(reply, too_large(self._owner.max_reply_bytes))
        elif not self._owner.hold(size_bytes):
            self._give_up(reply, "a response is not recorded while too many others are in memory")
        else:
            reply.held_bytes += size_bytes
            reply.chunks.append(Chunk(self._now_s(), data))

    def end(self, cut: str = "") -> None:
        """End the recording: complete, or cut for the reason `cut`. Later calls do nothing."""
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.cut = cut
            self._save(reply)

    def _now_s(self) -> float:
        return round(monotonic() - self._began_s, 6)

    def _give_up(self, reply: TapedReply, told: str) -> None:
        self._owner.tell_once(told)
        self._owner.hold(-reply.held_bytes)
        self._reply = None


def too_large(max_bytes: int) -> str:
    """Return the warning about a response over the limit."""
    return f"a response over {max_bytes} bytes is not recorded"
