"""`Change`: new content for a file, from a temporary file that replaces the old one if no other program was first."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from eagerstream.errors import ToolError

from .._growing_file import MAX_FILE_BYTES, TAKING_PLACE, Draft, GrowingFile
from .._paths import Parts
from .shared import SharedFiles
from .versions import Expected, Version, Written


class Change(Draft):
    """New content for a file. If it is missing, it is made, with missing folders on the way.

    All methods block, and may be called from several threads. `commit` or `discard` ends the change.
    """

    def __init__(self, files: SharedFiles, parts: Parts) -> None:
        super().__init__()
        self._files = files
        self._parts = parts
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._expected: Expected | None = None
        self._replaced: Version | None = None

    def begin(self) -> Version | None:
        """Start to write. Return the current version of the file, or `None` if it is missing.

        Raises:
            OSError, ToolError: The file cannot be written there.
        """
        with self._step():
            found = self._version_at(self._parts)
            # Missing folders are made at the end: a discarded change must leave nothing behind.
            if not self._parts or self._version_at(self._parts[:-1]) is not None:
                self._open()
            return found

    def write(self, content: bytes) -> None:
        """Append content.

        Raises:
            OSError, ToolError: The disk is full, the file would be larger than `MAX_FILE_BYTES`, or the change has
                ended.
        """
        with self._step():
            if self._file is not None:
                self._file.write(content)
                return
            self._held_bytes += len(content)
            if self._held_bytes > MAX_FILE_BYTES:
                shown = self._files.jail.shown(self._parts)
                raise ToolError(f"Error: {shown} would be larger than {MAX_FILE_BYTES:,} bytes")
            self._held.append(content)

    def commit(self, expected: Expected) -> Written:
        """Replace the expected version of the file with the complete content.

        Raises:
            Refused: The file has another version.
            OSError, ToolError: The file cannot be replaced. After any error, call `discard`.
        """
        with self._step(), TAKING_PLACE:
            self._expected = expected
            now = self._version_at(self._parts)
            self._files.require_unchanged(self._parts, expected, now)
            if self._file is None:
                self._open().write(b"".join(self._held))
            backup = self._back_up() if self._files.backups and now is not None else None
            try:
                assert self._file is not None
                found = self._file.commit()
            except BaseException:
                if backup is not None:
                    with suppress(OSError):  # the first error is reported
                        self._files.jail.remove(backup)
                raise
            return Written(
                Version.of(found), self._replaced, None if backup is None else self._files.jail.shown(backup)
            )

    def _open(self) -> GrowingFile:
        self._file = self._files.jail.replace(self._parts, check=lambda found: self._check(found and Version.of(found)))
        return self._file

    def _check(self, now: Version | None) -> None:
        assert self._expected is not None
        self._files.require_unchanged(self._parts, self._expected, now)
        self._replaced = now

    def _version_at(self, parts: Parts) -> Version | None:
        try:
            return Version.of(self._files.jail.stat(parts))
        except FileNotFoundError:
            return None

    def _back_up(self) -> Parts:
        """Copy the current content to `.backups` in the file's folder."""
        content, _ = self._files.jail.read(self._parts)
        *folder, name = self._parts
        now = datetime.now().astimezone()
        number = 0
        while True:
            ending = f".{number}.bak" if number else ".bak"
            place = (*folder, ".backups", f"{name}.{now:%Y%m%d_%H%M%S}{ending}")
            try:
                backup = self._files.jail.create(place)
            except FileExistsError:  # another backup of the same second
                number += 1
                continue
            try:
                backup.write(content)
                backup.commit()
            finally:
                backup.discard()
            return place
