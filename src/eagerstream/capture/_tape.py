"""`Tape`: one reply while it passes, with the times at which its chunks came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

from .._support.unpacking import Unpacker, UnpackingError
from ..recordings import Chunk, media_type
from ..wire import AWSEventStreamDecoder
from ._upstream import HOP_BY_HOP

if TYPE_CHECKING:
    from ._folder import RecordingFolder

_CHUNK_BYTES: Final = 200
"""What a chunk takes besides its data: a peer may send a million of one byte each."""

# About the connection that the reply came over, or no longer true of the chunks, which are decoded.
_NOT_KEPT: Final = frozenset({"content-encoding", "content-length", *(name.decode() for name in HOP_BY_HOP)})


@dataclass
class TapedReply:
    """A reply as far as it came.

    Attributes:
        number: Of its request, counted from 1.
        status: HTTP status.
        headers: Those of the response, names in lower case.
        content_encoding: Empty if there is none.
        chunks: With their times since the request was sent; compressed, if there is a content coding.
        held_bytes: Size that was counted for it.
        cut: Why it is not whole; empty if it is.
    """

    number: int
    status: int
    headers: dict[str, str]
    content_encoding: str
    chunks: list[Chunk] = field(default_factory=list)
    held_bytes: int = 0
    cut: str = ""


class Tape:
    """Takes down one reply; its clock runs from the moment it is made, which is when the request is sent.

    All of its methods return at once, and none raises: recording must not disturb what is recorded.

    Args:
        folder: Bounds what is kept.
        number: Of the request, counted from 1.
        save: Takes the reply when it has ended; not called where none began, or none is to be kept.
    """

    def __init__(self, folder: RecordingFolder, number: int, save: Callable[[TapedReply], object]) -> None:
        self._folder = folder
        self._number = number
        self._save = save
        self._began_s = monotonic()
        self._reply: TapedReply | None = None  # before it begins, and if it is not kept

    def begin(self, status: int, headers: Iterable[tuple[str, str]], *, content_encoding: str = "") -> None:
        """The head of the response is here.

        Args:
            status: HTTP status.
            headers: As they came.
            content_encoding: Of the bytes that are going to be taken; clients may have unpacked them already.
        """
        kept: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            if name not in _NOT_KEPT:
                value = _as_latin(value)
                kept[name] = f"{kept[name]}, {value}" if name in kept else value
        is_framed = media_type(kept.get("content-type", "")) == AWSEventStreamDecoder.media_type
        if is_framed and not self._folder.takes_frames:
            self._folder.tell_once("replies in binary frames are not recorded: their secrets cannot be masked")
            return
        try:
            Unpacker(content_encoding, max_bytes=self._folder.max_reply_bytes)
        except UnpackingError:
            self._folder.tell_once("replies in another compression than gzip are not recorded")
            return
        self._reply = TapedReply(self._number, status, kept, content_encoding)

    def take(self, data: bytes) -> None:
        """Bytes of the body have come."""
        reply = self._reply
        if reply is None or not data:
            return
        size_bytes = len(data) + _CHUNK_BYTES
        if reply.held_bytes + size_bytes > self._folder.max_reply_bytes:
            self._give_up(reply, too_large(self._folder.max_reply_bytes))
        elif not self._folder.hold(size_bytes):
            self._give_up(reply, "a reply that comes while too many others are kept in memory is not recorded")
        else:
            reply.held_bytes += size_bytes
            reply.chunks.append(Chunk(round(monotonic() - self._began_s, 6), data))

    def end(self, cut: str = "") -> None:
        """Nothing more comes: because it is whole, or as `cut` says. Later calls do nothing."""
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.cut = cut
            self._save(reply)

    def _give_up(self, reply: TapedReply, told: str) -> None:
        self._folder.tell_once(told)
        self._folder.hold(-reply.held_bytes)
        self._reply = None


def too_large(max_bytes: int) -> str:
    """The warning about a reply that is larger than this."""
    return f"a reply that is over {max_bytes} bytes is not recorded"


def _as_latin(value: str) -> str:
    """The value of a header with a character for each byte; clients read as UTF-8 what is not ASCII."""
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")
    return value
