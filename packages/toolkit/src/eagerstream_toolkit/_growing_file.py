"""`GrowingFile`: a file written piece by piece inside an open folder. It ends complete or is removed."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from anyio.to_thread import run_sync

from eagerstream import Outcome
from eagerstream.errors import InputInterrupted, ToolError
from eagerstream.tools import RunningCall, Tool, ToolErrorCode

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a file to read or write. Larger files are refused."""

TAKING_PLACE: Final = threading.RLock()
"""Lock for checking and replacing a file: one change at a time in this process.

One lock covers all folders, because folders nest. Between two processes, a race between check and exchange remains: no
system call does both.
"""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)

Check = Callable[[os.stat_result | None], object]
"""A check just before a file is replaced. It gets the file's status, or `None` if there is no file, and may raise."""


class GrowingFile:
    """A file that is being written. `Jail.create` and `Jail.replace` make it. All methods block.

    `commit` or `discard` ends it. `discard` removes it. After the end, `discard` does nothing.

    Args:
        folder: A handle of the file's folder. The file duplicates it.
        name: The file's name in that folder.
        shown: The file's name in texts for the model.
        on_discard: Called after the file is discarded.
        check: With it, the content goes to a hidden file with a random name in the same folder, and `commit` moves it
            into place. Without it, the file is created under its own name at once, and must not exist yet.

    Raises:
        FileExistsError: There is no `check`, and the file exists.
        OSError: The file cannot be created.
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
        # Users who may not read the old content must not read the new content either, not even while it is written.
        mode = 0o666 if before is None else stat.S_IMODE(before.st_mode) & 0o777
        self._folder = os.dup(folder)
        self._handle: int | None = None
        try:
            self._handle = os.open(self._grows_as, _CREATE, mode, dir_fd=folder)
        finally:
            if self._handle is None:
                os.close(self._folder)

    def write(self, content: bytes) -> None:
        """Append content.

        Raises:
            ToolError: The file would be larger than `MAX_FILE_BYTES`.
            OSError: The system cannot write, for example because the disk is full.
        """
        assert self._handle is not None, "the file has ended"
        self._size += len(content)
        if self._size > MAX_FILE_BYTES:
            raise ToolError(f"Error: {self._shown} would be larger than {MAX_FILE_BYTES:,} bytes")
        left = memoryview(content)
        while left:
            left = left[os.write(self._handle, left) :]

    def commit(self) -> os.stat_result:
        """Put the complete file into its place. Return its status there.

        A replaced file passes on its permissions, and its owner if the system allows that. The result is a new file:
        hard links of the old one keep the old content.

        Raises:
            ToolError: The file was removed or replaced while it was written, or the check raised it.
            OSError: The system refused the exchange. After either error, call `discard`.
        """
        assert self._handle is not None, "the file has ended"
        if self._check is not None:
            os.fsync(self._handle)  # slow, and must not come between check and exchange
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
        """Remove the unfinished file."""
        if self._handle is None:
            return
        try:
            if self._is_there():
                os.unlink(self._grows_as, dir_fd=self._folder)
        finally:
            self._close()
            self._on_discard()

    def _is_there(self) -> bool:
        """Return whether the file still exists, and is the one that was opened."""
        assert self._handle is not None
        found = found_at(self._grows_as, self._folder)
        return found is not None and os.path.samestat(found, os.fstat(self._handle))

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            os.close(self._folder)
            self._handle = None


class Draft:
    """A file that is written in steps, each in a thread. After the end, no further step starts.

    If asyncio itself cancels the task (not anyio), the thread of its step continues. `discard` then waits for that step
    and removes the file.
    """

    def __init__(self) -> None:
        self._file: GrowingFile | None = None
        self._lock = threading.Lock()
        self._is_over = False

    def discard(self) -> None:
        """Remove the file, unless it was committed."""
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


async def require_whole(tool: Tool, call: RunningCall) -> str | None:
    """Wait for the complete input. Files must not depend on an input that is cut, invalid or rejected.

    Returns:
        The fault of an input that does not fit the schema: fields behind a text can still make it invalid.

    Raises:
        InputInterrupted: The input is cut or no JSON, or the call was rejected.
    """
    await call.input.ended()
    if call.input.outcome is not Outcome.VALID or call.input.interrupted is not None:
        raise InputInterrupted((), call.input.interrupted or str(call.input.error or "the input was cut off"))
    return await run_sync(tool.fault_of, call.input)


def found_at(name: str, folder: int) -> os.stat_result | None:
    """Return the status of a name in an open folder, or `None` if it is missing. Symbolic links are not followed."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
