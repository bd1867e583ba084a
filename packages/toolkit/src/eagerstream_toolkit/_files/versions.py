"""Known and expected versions of files: the optimistic lock of the file tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from .._paths import Parts

_MAX_FILES: Final = 10_000
_MAX_OWN: Final = 100


class Version(NamedTuple):
    """The state of a file at one time.

    Attributes:
        size: Size in bytes.
        mtime_ns: The file's modification time. Programs can set it.
        ctime_ns: The system's time of the last change. It also reveals that a program reset the mtime. `None` for a
            version from `cache_read_metadata`, which is precise to the millisecond only.
    """

    size: int
    mtime_ns: int
    ctime_ns: int | None

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Return a file's current version."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def mtime_ms(self) -> int:
        """The modification time in the unit that models see."""
        return self.mtime_ns // 1_000_000

    def is_still(self, now: Version | None) -> bool:
        """Return whether the file still has this version. `None` is a missing file."""
        if now is None:
            return False
        return now == self if self.ctime_ns is not None else (now.mtime_ms, now.size) == (self.mtime_ms, self.size)


class Written(NamedTuple):
    """The result of a change.

    Attributes:
        version: The file's new version.
        replaced: The replaced version. `None` if the file was missing.
        backup: The model's path of the backup. `None` if there is none.
    """

    version: Version
    replaced: Version | None
    backup: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """The remembered state of a file.

    Attributes:
        version: The version that was last read or written by the tools.
        own_ms: The mtimes before each of our own changes. If the model names one of them, it knows the later content:
            its own calls wrote it.
    """

    version: Version
    own_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """The version of a file that a change may replace.

    Attributes:
        found: The version when the change started. `None` if the file was missing.
        known: The remembered state at that time.
        told_ms: The mtime that the model named. It takes precedence.
    """

    found: Version | None
    known: Known | None = None
    told_ms: int | None = None

    def is_met_by(self, now: Version | None) -> bool:
        """Return whether the file has no changes by other programs."""
        if self.told_ms is not None:
            if now is None:
                return False
            known = self.known
            if known is not None and self.told_ms == known.version.mtime_ms:  # more than the mtime is known
                return known.version.is_still(now)
            is_our_own = known is not None and known.version.is_still(now) and self.told_ms in known.own_ms
            return (now.mtime_ms == self.told_ms and now == self.found) or is_our_own
        return now == self.found if self.known is None else self.known.version.is_still(now)

    @property
    def mtime_ms(self) -> int | None:
        """The mtime of the expected version. `None` if the file should be missing."""
        if self.told_ms is not None:
            return self.told_ms
        version = self.found if self.known is None else self.known.version
        return None if version is None else version.mtime_ms


class KnownFiles:
    """The remembered state of at most 10,000 files, by place. The oldest entries are dropped first."""

    def __init__(self) -> None:
        self._known: dict[Parts, Known] = {}

    def get(self, parts: Parts) -> Known | None:
        """Return the remembered state of a file."""
        return self._known.get(parts)

    def was_read(self, parts: Parts, version: Version) -> None:
        """Remember that the model has seen this version."""
        self._remember(parts, Known(version, self._own_ms(parts, version)))

    def was_written(self, parts: Parts, version: Version, *, replaced: Version | None) -> None:
        """Remember that we replaced one version with another."""
        own_ms = () if replaced is None else (*self._own_ms(parts, replaced), replaced.mtime_ms)[-_MAX_OWN:]
        self._remember(parts, Known(version, own_ms))

    def was_told(self, parts: Parts, metadata: Mapping[str, int]) -> None:
        """Remember a version from outside: `{"file_mtime_ms": int, "file_size_bytes": int}`."""
        mtime_ns = metadata["file_mtime_ms"] * 1_000_000
        self._remember(parts, Known(Version(metadata["file_size_bytes"], mtime_ns, None)))

    def forget(self, parts: Parts) -> None:
        """Forget a file."""
        self._known.pop(parts, None)

    def forget_all(self) -> None:
        """Forget all files."""
        self._known.clear()

    def _own_ms(self, parts: Parts, now: Version) -> tuple[int, ...]:
        known = self._known.get(parts)
        return known.own_ms if known is not None and known.version.is_still(now) else ()

    def _remember(self, parts: Parts, known: Known) -> None:
        self._known.pop(parts, None)
        self._known[parts] = known
        if len(self._known) > _MAX_FILES:
            del self._known[next(iter(self._known))]
