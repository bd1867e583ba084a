"""`Tape`: one reply while it passes, with the times at which its chunks came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

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


class TapedReply(NamedTuple):
    """A reply as far as it came.

    Attributes:
        number: Of its request, counted from 1.
        status: HTTP status.
        headers: Those of the response, names in lower case.
        chunks: With their times since the request was sent; compressed, if there is a content coding.
        content_encoding: Empty if there is none.
        cut: Why it is not whole; empty where it is.
        held_bytes: What was counted for it.
    """

    number: int
    status: int
    headers: dict[str, str]
    chunks: list[Chunk]
    content_encoding: str
    cut: str
    held_bytes: int


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
        self._status = 0
        self._headers: dict[str, str] = {}
        self._content_encoding = ""
        self._chunks: list[Chunk] | None = None  # None before the reply begins, and where it is not kept
        self._held_bytes = 0

    @property
    def is_recording(self) -> bool:
        """A reply is under way, and kept."""
        return self._chunks is not None

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
        self._status, self._headers, self._content_encoding, self._chunks = status, kept, content_encoding, []

    def take(self, data: bytes) -> None:
        """Bytes of the body have come."""
        if self._chunks is None or not data:
            return
        size_bytes = len(data) + _CHUNK_BYTES
        if self._held_bytes + size_bytes > self._folder.max_reply_bytes:
            self._give_up(too_large(self._folder.max_reply_bytes))
        elif not self._folder.hold(size_bytes):
            self._give_up("a reply that comes while too many others are kept in memory is not recorded")
        else:
            self._held_bytes += size_bytes
            self._chunks.append(Chunk(round(monotonic() - self._began_s, 6), data))

    def end(self, cut: str = "") -> None:
        """Nothing more comes: because it is whole, or as `cut` says. Later calls do nothing."""
        chunks, self._chunks = self._chunks, None
        if chunks is not None:
            about = (self._number, self._status, self._headers)
            self._save(TapedReply(*about, chunks, self._content_encoding, cut, self._held_bytes))

    def _give_up(self, told: str) -> None:
        self._folder.tell_once(told)
        self._folder.hold(-self._held_bytes)
        self._chunks = None


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
