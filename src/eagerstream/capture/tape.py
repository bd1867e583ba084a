"""`Tape`: one reply while it passes, with the times at which its chunks came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final, NamedTuple, Protocol

from ..recording import Chunk, media_type
from ..wire import AWSEventStreamDecoder
from .headers import HOP_BY_HOP

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
        chunks: With their times since the request was sent.
        cut: Why it is not whole; empty where it is.
        held_bytes: What was counted for it.
    """

    number: int
    status: int
    headers: dict[str, str]
    chunks: list[Chunk]
    cut: str
    held_bytes: int


class Keeper(Protocol):
    """What a tape needs of where it goes."""

    max_reply_bytes: int
    takes_frames: bool

    def hold(self, size_bytes: int) -> bool:
        """Count what is kept in memory (less of it: negative); False where that would be too much altogether."""
        ...

    def tell_once(self, what: str) -> None:
        """Say what is not recorded, and why."""
        ...


class Tape:
    """Takes down one reply; its clock runs from the moment it is made, which is when the request is sent.

    All of its methods return at once, and none raises: recording must not disturb what is recorded.

    Args:
        keeper: Bounds what is kept.
        number: Of the request, counted from 1.
        save: Takes the reply when it has ended; not called where none began, or none is to be kept.
    """

    def __init__(self, keeper: Keeper, number: int, save: Callable[[TapedReply], object]) -> None:
        self._keeper = keeper
        self._number = number
        self._save = save
        self._began_s = monotonic()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._chunks: list[Chunk] | None = None  # None before the reply begins, and where it is not kept
        self._held_bytes = 0

    @property
    def is_recording(self) -> bool:
        """A reply is under way, and kept."""
        return self._chunks is not None

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """The head of the response is here."""
        kept: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            if name not in _NOT_KEPT:
                value = _as_latin(value)
                kept[name] = f"{kept[name]}, {value}" if name in kept else value
        is_framed = media_type(kept.get("content-type", "")) == AWSEventStreamDecoder.media_type
        if is_framed and not self._keeper.takes_frames:
            self._keeper.tell_once("replies in binary frames are not recorded: their secrets cannot be masked")
            return
        self._status, self._headers, self._chunks = status, kept, []

    def take(self, data: bytes) -> None:
        """Bytes of the body have come."""
        if self._chunks is None or not data:
            return
        size_bytes = len(data) + _CHUNK_BYTES
        if self._held_bytes + size_bytes > self._keeper.max_reply_bytes:
            self._give_up(f"is over {self._keeper.max_reply_bytes} bytes")
        elif not self._keeper.hold(size_bytes):
            self._give_up("comes while too many others are kept in memory")
        else:
            self._held_bytes += size_bytes
            self._chunks.append(Chunk(round(monotonic() - self._began_s, 6), data))

    def end(self, cut: str = "") -> None:
        """Nothing more comes: because it is whole, or as `cut` says. Later calls do nothing."""
        chunks, self._chunks = self._chunks, None
        if chunks is not None:
            self._save(TapedReply(self._number, self._status, self._headers, chunks, cut, self._held_bytes))

    def _give_up(self, why: str) -> None:
        self._keeper.tell_once(f"a reply that {why} is not recorded")
        self._keeper.hold(-self._held_bytes)
        self._chunks = None


def _as_latin(value: str) -> str:
    """The value of a header with a character for each byte; clients read as UTF-8 what is not ASCII."""
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")
    return value
