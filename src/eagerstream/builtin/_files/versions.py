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
        ctime_ns: When the system last saw it changed, or put there: it tells also if somebody put the mtime back. None
            if somebody else told us of the version: it is then known to the millisecond.
    """

    size: int
    mtime_ns: int
    ctime_ns: int | None

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """The version that a file has now."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def mtime_ms(self) -> int:
        """As models are told it."""
        return self.mtime_ns // 1_000_000

    def is_still(self, now: Version | None) -> bool:
        """The file is what it was."""
        if now is None:
            return False
        return now == self if self.ctime_ns is not None else (now.mtime_ms, now.size) == (self.mtime_ms, self.size)


class Written(NamedTuple):
    """What a change did.

    Attributes:
        version: The file's, now.
        replaced: What was there before; None where nothing was.
        backup: Where that is kept, as the model calls it; None where it is not.
    """

    version: Version
    replaced: Version | None
    backup: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a file.

    Attributes:
        version: The one that was read, or that we wrote.
        own_ms: The mtimes that it had before our own changes: whoever still names one knows what came between, for it
            was made by calls of the same conversation.
    """

    version: Version
    own_ms: tuple[int, ...] = ()


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
            known = self.known
            if known is not None and self.told_ms == known.version.mtime_ms:  # of which more is known than its mtime
                return known.version.is_still(now)
            is_our_own = known is not None and known.version.is_still(now) and self.told_ms in known.own_ms
            return (now.mtime_ms == self.told_ms and now == self.found) or is_our_own
        return now == self.found if self.known is None else self.known.version.is_still(now)

    @property
    def mtime_ms(self) -> int | None:
        """Of the version that is expected; None where it is that nothing is there."""
        if self.told_ms is not None:
            return self.told_ms
        version = self.found if self.known is None else self.known.version
        return None if version is None else version.mtime_ms


class KnownFiles:
    """What is remembered, by place; of 10,000 files, then the first are forgotten."""

    def __init__(self) -> None:
        self._known: dict[Parts, Known] = {}

    def get(self, parts: Parts) -> Known | None:
        """What is remembered of a file."""
        return self._known.get(parts)

    def was_read(self, parts: Parts, version: Version) -> None:
        """The model has seen this version."""
        self._remember(parts, Known(version, self._own_ms(parts, version)))

    def was_written(self, parts: Parts, version: Version, *, replaced: Version | None) -> None:
        """We made this version of that one."""
        own_ms = () if replaced is None else (*self._own_ms(parts, replaced), replaced.mtime_ms)[-_MAX_OWN:]
        self._remember(parts, Known(version, own_ms))

    def was_told(self, parts: Parts, metadata: Mapping[str, int]) -> None:
        """Somebody else knows of it; `{"file_mtime_ms": int, "file_size_bytes": int}`."""
        mtime_ns = metadata["file_mtime_ms"] * 1_000_000
        self._remember(parts, Known(Version(metadata["file_size_bytes"], mtime_ns, None)))

    def forget(self, parts: Parts) -> None:
        """Nothing is known of a file any more."""
        self._known.pop(parts, None)

    def forget_all(self) -> None:
        """Nothing is known of any file."""
        self._known.clear()

    def _own_ms(self, parts: Parts, now: Version) -> tuple[int, ...]:
        known = self._known.get(parts)
        return known.own_ms if known is not None and known.version.is_still(now) else ()

    def _remember(self, parts: Parts, known: Known) -> None:
        self._known.pop(parts, None)
        self._known[parts] = known
        if len(self._known) > _MAX_FILES:
            del self._known[next(iter(self._known))]
