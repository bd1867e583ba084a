"""`GrowingFile`: a file that is written piece by piece inside an open folder, and ends whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ..errors import ToolError
from ..tools import ToolErrorCode

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""A file that is read or written whole; more is refused."""

TAKING_PLACE: Final = threading.RLock()
"""In this process one change at a time looks at what is there, and replaces it. Of all, since folders nest. Between two
processes the moment from look to exchange stays: no system call does both."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)

Check = Callable[[os.stat_result | None], object]
"""Told what is in a file's place just before it is taken, None where nothing is; raises where that must not be."""


class GrowingFile:
    """A file that is being written; made by `Jail.create` and `Jail.replace`. All of it blocks.

    It ends with `commit`, or with `discard`, after which nothing of it is left; once it ended, neither does anything.

    Args:
        folder: A handle of the folder that it is in; the file keeps one of its own.
        name: Its name there.
        shown: What it is called towards the model.
        on_discard: Called once nothing is left of a file that was discarded.
        check: With it, the file is written beside its place, under a name that nobody knows, and takes its place when
            it is committed; without, it stands in its place from the beginning, where nothing may be yet.

    Raises:
        FileExistsError: Something is in its place.
    """

    def __init__(
        self, folder: int, name: str, *, shown: str, on_discard: Callable[[], object], check: Check | None = None
    ) -> None:
        self._name = name
        self._shown = shown
        self._on_discard = on_discard
        self._check = check
        self._grows_as = name if check is None else f".{secrets.token_hex(12)}.part"
        self._size = 0
        before = None if check is None else found_at(name, folder)
        # Whoever may not read the old content may not read the new one, also while it is written.
        mode = 0o666 if before is None else stat.S_IMODE(before.st_mode) & 0o777
        self._folder = os.dup(folder)
        self._handle: int | None = None
        try:
            self._handle = os.open(self._grows_as, _CREATE, mode, dir_fd=folder)
        finally:
            if self._handle is None:
                os.close(self._folder)

    def write(self, content: bytes) -> None:
        """Append.

        Raises:
            ToolError: The file would be larger than `MAX_FILE_BYTES`.
            OSError: It cannot be written: the disk is full, say.
        """
        assert self._handle is not None, "the file has ended"
        self._size += len(content)
        if self._size > MAX_FILE_BYTES:
            raise ToolError(f"Error: {self._shown} would be larger than {MAX_FILE_BYTES:,} bytes")
        left = memoryview(content)
        while left:
            left = left[os.write(self._handle, left) :]

    def commit(self) -> os.stat_result:
        """The file is whole, and takes its place. Gives what it is like there.

        What was there leaves its permissions to it, and its owner where the system allows that. It is another file:
        hard links of the old one keep the old content.

        Raises:
            OSError, ToolError: It cannot, or it was taken away while it was written; `discard` it.
        """
        assert self._handle is not None, "the file has ended"
        if self._check is not None:
            os.fsync(self._handle)  # takes long, and must not come between the look and the exchange
            with TAKING_PLACE:
                before = found_at(self._name, self._folder)
                self._check(before)
                if before is not None:
                    with suppress(PermissionError):
                        os.fchown(self._handle, before.st_uid, before.st_gid)
                    os.fchmod(self._handle, stat.S_IMODE(before.st_mode) & 0o777)
                os.replace(self._grows_as, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        elif not self._is_there():
            raise ToolError(
                f"Error: {self._shown} was taken away while it was being written", code=ToolErrorCode.CONFLICT
            )
        written = os.fstat(self._handle)
        self._close()
        return written

    def discard(self) -> None:
        """Nothing of it is to stay."""
        if self._handle is None:
            return
        try:
            if self._is_there():
                os.unlink(self._grows_as, dir_fd=self._folder)
        finally:
            self._close()
            self._on_discard()

    def _is_there(self) -> bool:
        """Nobody removed it, or put another in its place."""
        assert self._handle is not None
        found = found_at(self._grows_as, self._folder)
        return found is not None and os.path.samestat(found, os.fstat(self._handle))

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            os.close(self._folder)
            self._handle = None


class Draft:
    """A file that is written in steps, each in a thread. No step begins once it is over.

    A task that asyncio itself cancels leaves its thread behind, and discards what is still being done.
    """

    def __init__(self) -> None:
        self._file: GrowingFile | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def discard(self) -> None:
        """Nothing of it is to stay, unless it was committed."""
        with self._lock:
            self._is_over = True
            if self._file is not None:
                self._file.discard()

    @contextmanager
    def _step(self) -> Iterator[None]:
        with self._lock:
            if self._is_over:
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            yield


def found_at(name: str, folder: int) -> os.stat_result | None:
    """What stands in an open folder under a name, a symbolic link as itself; None where nothing does."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
