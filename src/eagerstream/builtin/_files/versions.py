"""Which version of a file is known, and which one a change expects: the optimistic lock of the file tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from .._paths import Parts

_MAX_FILES: Final = 10_000
_MAX_OWN: Final = 100


class Version(NamedTuple):
    """What a file is like at a time.

    Attributes:
        size: Bytes.
        mtime_ns: When its content was changed, as it says of itself.
        ctime_ns: When the system last saw it changed, or put there: it tells also where somebody put the mtime back.
    """

    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """The version that a file has now."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def mtime_ms(self) -> int:
        """As models are told it."""
        return self.mtime_ns // 1_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a file.

    Attributes:
        mtime_ms, size: Of the version that was read, or that we wrote.
        version: All of it; None where somebody else told us of it.
        own_ms: The mtimes that it had before our own changes: whoever still names one knows what came between, for it
            was made by calls of the same conversation.
    """

    mtime_ms: int
    size: int
    version: Version | None = None
    own_ms: tuple[int, ...] = ()

    def is_still(self, now: Version | None) -> bool:
        """The file is what it was."""
        if now is None:
            return False
        if self.version is not None:
            return now == self.version
        return (now.mtime_ms, now.size) == (self.mtime_ms, self.size)


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to stand in the place of a file when a change takes it.

    Attributes:
        found: What stood there when the change began; None for nothing.
        known: What was remembered of it then.
        told_ms: The mtime that the model named; it counts more.
    """

    found: Version | None
    known: Known | None = None
    told_ms: int | None = None

    def is_met_by(self, now: Version | None) -> bool:
        """Nobody else has changed the file."""
        if self.told_ms is not None:
            if now is None:
                return False
            if self.known is not None and self.told_ms == self.known.mtime_ms:  # of which more is known than its mtime
                return self.known.is_still(now)
            is_our_own = self.known is not None and self.known.is_still(now) and self.told_ms in self.known.own_ms
            return (now.mtime_ms == self.told_ms and now == self.found) or is_our_own
        return now == self.found if self.known is None else self.known.is_still(now)

    @property
    def mtime_ms(self) -> int | None:
        """Of the version that is expected; None where it is that nothing is there."""
        if self.told_ms is not None:
            return self.told_ms
        if self.known is not None:
            return self.known.mtime_ms
        return self.found.mtime_ms if self.found is not None else None


class KnownFiles:
    """What is remembered, by place; of 10,000 files, then the first are forgotten."""

    def __init__(self) -> None:
        self._known: dict[Parts, Known] = {}

    def get(self, parts: Parts) -> Known | None:
        """What is remembered of a file."""
        return self._known.get(parts)

    def was_read(self, parts: Parts, version: Version) -> None:
        """The model has seen this version."""
        known = self._known.get(parts)
        own_ms = known.own_ms if known is not None and known.is_still(version) else ()
        self._remember(parts, Known(version.mtime_ms, version.size, version, own_ms))

    def was_written(self, parts: Parts, version: Version, *, replaced: Version | None) -> None:
        """We made this version of that one."""
        known = self._known.get(parts)
        own_ms = known.own_ms if known is not None and known.is_still(replaced) else ()
        if replaced is not None:
            own_ms = (*own_ms, replaced.mtime_ms)[-_MAX_OWN:]
        self._remember(parts, Known(version.mtime_ms, version.size, version, own_ms))

    def was_told(self, parts: Parts, metadata: Mapping[str, int]) -> None:
        """Somebody else knows of it; `{"file_mtime_ms": int, "file_size_bytes": int}`."""
        self._remember(parts, Known(metadata["file_mtime_ms"], metadata["file_size_bytes"]))

    def forget(self, parts: Parts) -> None:
        """Nothing is known of a file any more."""
        self._known.pop(parts, None)

    def forget_all(self) -> None:
        """Nothing is known of any file."""
        self._known.clear()

    def _remember(self, parts: Parts, known: Known) -> None:
        self._known.pop(parts, None)
        self._known[parts] = known
        if len(self._known) > _MAX_FILES:
            del self._known[next(iter(self._known))]
