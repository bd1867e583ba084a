"""Write files that are complete or missing, and that nobody else can read or redirect.

A file with recorded data is private: only its owner may read it. New files are created exclusively and never opened
through a link. In a folder that others can write to, a link under the expected name would otherwise lead to a file of
their choice.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Final

_log = logging.getLogger(__name__)

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


class NotOwnedError(OSError):
    """Another user can have written a file, or can put another one in its place."""


def check_owned(path: Path, *, may_miss: bool = False) -> None:
    """Check that a file is ours, and that nobody else may write it. Log a warning if others may read it.

    Windows has other rights, which are not checked.

    Raises:
        NotOwnedError: Somebody else owns it or may write it, or it is a link or no ordinary file.
        FileNotFoundError: It is not there, unless it `may_miss`.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        if may_miss:
            return
        raise
    if os.name == "nt":
        return
    if not stat.S_ISREG(found.st_mode):
        raise NotOwnedError(f"{path.name} is a link, or no ordinary file")
    if found.st_uid != os.geteuid():
        raise NotOwnedError(f"{path.name} belongs to another user (uid {found.st_uid})")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotOwnedError(f"other users may write {path.name}: mode {stat.S_IMODE(found.st_mode):o}")
    if found.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning("other users may read %s: mode %o", path.name, stat.S_IMODE(found.st_mode))


def check_link(path: Path) -> None:
    """Check that a path is no link of another user, other than the administrator.

    Raises:
        NotOwnedError: It is one.
    """
    with suppress(FileNotFoundError):
        found = path.lstat()
        if os.name != "nt" and stat.S_ISLNK(found.st_mode) and found.st_uid not in (os.geteuid(), 0):
            raise NotOwnedError(f"{path.name} is a link of another user (uid {found.st_uid})")


def check_folder(folder: Path) -> None:
    """Check that nobody else, other than the administrator, may rename or remove our files in a folder.

    In a folder with the sticky bit, such as `/tmp`, everybody may do that with his own files only.

    Raises:
        NotOwnedError: Somebody else may.
        OSError: The folder is not there.
    """
    found = folder.stat()
    if os.name == "nt":
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise NotOwnedError(f"its folder belongs to another user (uid {found.st_uid})")
    others = stat.S_IWOTH if _has_group_of_its_own(found.st_uid, found.st_gid) else stat.S_IWGRP | stat.S_IWOTH
    if found.st_mode & others and not found.st_mode & stat.S_ISVTX:
        raise NotOwnedError(f"other users may write to its folder: mode {stat.S_IMODE(found.st_mode):o}")


def _has_group_of_its_own(uid: int, gid: int) -> bool:
    """Return True if a group is that of one user: many systems make such groups, and new folders writable for them."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and user.pw_name == group.gr_name and not {*group.gr_mem} - {user.pw_name}
