"""Write files that are complete or missing, and that nobody else can read or redirect.

A file with recorded data is private: only its owner may read it. New files are created exclusively and never opened
through a link. In a folder that others can write to, a link under the expected name would otherwise lead to a file of
their choice.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Final

_NEW_ONLY: Final = os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def open_private(path: str, flags: int) -> int:
    """Open a new file that only its owner may read. Pass it as `opener` to `open`.

    Raises:
        FileExistsError: Something is there, even a link that leads nowhere.
    """
    return os.open(path, flags | _NEW_ONLY, 0o600)


def _open_shared(path: str, flags: int) -> int:
    return os.open(path, flags | _NEW_ONLY, 0o666)


@contextmanager
def replacing(path: Path, *, private: bool = True) -> Iterator[BinaryIO]:
    """Write a new file that takes the place of `path` when the block ends.

    It is written in the same folder under a random name, and is on the disk before it takes its place. A link at `path`
    is replaced, not followed. If the block raises or is cancelled, the new file is removed, and `path` stays as it was.

    Args:
        path: The file. It gets the permissions of a new file, whatever they were before.
        private: Only the owner may read the file. If false, the umask decides, as for any file of a program.

    Raises:
        OSError: The file cannot be written; `FileExistsError` if a folder, a device or a pipe is at `path`.
    """
    _check_replaceable(path)
    beside = path.with_name(f".{os.urandom(12).hex()}.part")
    try:
        with open(beside, "xb", opener=open_private if private else _open_shared) as file:
            yield file
            sync(file)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):  # it may not be there; the first error is the one to report
            beside.unlink()
        raise
    sync_folder(path.parent)


def open_instead(path: Path) -> BinaryIO:
    """Open a new private file in the place of `path`, for a file that is read while it grows.

    A link at `path` is removed, not followed.

    Raises:
        OSError: The file cannot be made; `FileExistsError` as for `replacing`, or if another process created it first.
    """
    _check_replaceable(path)
    path.unlink(missing_ok=True)
    return open(path, "xb", opener=open_private)


def _check_replaceable(path: Path) -> None:
    """Check that no folder, device or pipe would be replaced: root may replace even `/dev/null`.

    Raises:
        FileExistsError: One of them is at `path`, or at the end of a link there.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "not an ordinary file", str(path))


def sync(file: IO[bytes]) -> None:
    """Write the file to the disk, and return when it is there.

    Raises:
        OSError: It cannot be written.
    """
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Write the names in the folder to the disk, if the system supports that. Windows and some others do not."""
    if os.name == "nt":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
