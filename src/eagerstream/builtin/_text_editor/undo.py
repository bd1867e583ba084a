"""`UndoHistory`: what an editor can take back."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Final, NamedTuple

from .._paths import Parts

_MAX_EDITS: Final = 100
_MAX_BYTES: Final = 64 * 1024 * 1024


class Remembered(NamedTuple):
    """An edit that can be taken back.

    Attributes:
        parts: The file.
        before: What was in it; None where there was none.
        digest: Of what the edit left in it.
    """

    parts: Parts
    before: bytes | None
    digest: bytes

    def left(self, content: bytes | None) -> bool:
        """The file still holds what the edit left in it."""
        return content is not None and _digest(content) == self.digest


class UndoHistory:
    """The latest edits, at most 100 and 64 MiB of what was there before them; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._edits: list[Remembered] = []

    def remember(self, parts: Parts, before: bytes | None, after: bytes) -> None:
        """A file was changed: from `before`, None where there was none, to `after`."""
        self._edits.append(Remembered(parts, before, _digest(after)))
        while len(self._edits) > _MAX_EDITS or sum(len(edit.before or b"") for edit in self._edits) > _MAX_BYTES:
            del self._edits[0]

    def last(self, parts: Parts) -> Remembered | None:
        """The last edit of a file; None where none is remembered."""
        return next((edit for edit in reversed(self._edits) if edit.parts == parts), None)

    def forget(self, edit: Remembered) -> None:
        """It has been taken back; of equal ones, the last: those between them are still to come."""
        with suppress(ValueError):  # so many came meanwhile that it was forgotten already
            del self._edits[len(self._edits) - 1 - self._edits[::-1].index(edit)]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
