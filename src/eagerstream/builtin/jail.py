"""`Jail`: a folder that no path leads out of, for tools whose paths a model chooses.

Every access starts from a handle of the folder and opens the folders on the way one by one, each relative to the handle
of the one before, and follows no symbolic link. So what was checked is what is used, whoever moves things about
meanwhile: no path is ever looked up a second time.

All of it blocks, and belongs into a thread.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn
from urllib.parse import unquote

from ..errors import ToolError, UsageError
from ..tools import ToolErrorCode
from .growing_file import MAX_FILE_BYTES, GrowingFile, found_at

_MAX_PATH_CHARS: Final = 4096
_MAX_DECODED: Final = 8
_SEPARATORS: Final = re.compile(r"[/\\]")
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

Parts = tuple[str, ...]
"""A place in a jail: the names on the way to it; empty for the jail's own folder."""


class Entry(NamedTuple):
    """Something in a folder.

    Attributes:
        parts: Where it is.
        size: Bytes.
        is_folder: It is a folder; a symbolic link never is.
        is_link: It is a symbolic link, which nothing here follows.
    """

    parts: Parts
    size: int
    is_folder: bool
    is_link: bool


class Jail:
    """A folder that no path leads out of.

    Args:
        folder: It must exist, unless `create` is set. What it is now stays the jail, also where it is moved.
        name: What the model calls the folder, for example `"/memories"`; paths are relative to it or begin with
            it. With None they are relative, or begin with the folder's own path.
        create: Make the folder where there is none.

    Raises:
        UsageError: There is no such folder, or this platform cannot open files relative to a handle (Windows cannot).
    """

    def __init__(self, folder: str | os.PathLike[str], *, name: str | None = None, create: bool = False) -> None:
        if os.open not in os.supports_dir_fd or os.mkdir not in os.supports_dir_fd:
            raise UsageError("files cannot be kept inside a folder here: this platform opens none relative to a handle")
        if name is not None and (not name.startswith("/") or name.endswith("/")):
            raise UsageError(f"the name of a folder begins with a slash and does not end with one, not {name!r}")
        self._name = name
        path = Path(folder)
        try:
            if create:
                path.mkdir(parents=True, exist_ok=True)
            real = path.resolve(strict=True)
            self._handle = os.open(real, _FOLDER)
        except OSError as error:
            raise UsageError(f"{path} is no folder that can be opened: {error.strerror or error}") from error
        self._roots = (str(real), str(path.absolute())) if name is None else (name,)
        self.close = weakref.finalize(self, os.close, self._handle)

    def __repr__(self) -> str:
        return f"<Jail {self._roots[0]}>"

    # --- paths --------------------------------------------------------------------------------------------------------

    def parts(self, path: object) -> Parts:
        """The place that a path of the model's names, inside the jail.

        Raises:
            ToolError: It is no path, or leads out: a `..` anywhere, also one that is percent-encoded, a backslash, an
                absolute path to somewhere else.
        """
        if not isinstance(path, str) or not path:
            raise ToolError("Error: a path must be a text that is not empty", code=ToolErrorCode.INVALID_PARAM)
        if len(path) > _MAX_PATH_CHARS:
            raise ToolError(
                f"Error: a path has at most {_MAX_PATH_CHARS} characters, not {len(path)}",
                code=ToolErrorCode.INVALID_PARAM,
            )
        if _is_suspicious(path):
            _refuse(path)
        relative = path
        if path.startswith("/"):
            found = next((root for root in self._roots if f"{path}/".startswith(f"{root.rstrip('/')}/")), None)
            if found is None:
                _refuse(path)
            relative = path[len(found) :]
        return tuple(part for part in relative.split("/") if part not in ("", "."))

    def shown(self, parts: Parts) -> str:
        """What a place is called towards the model."""
        if self._name is not None:
            return "/".join((self._name, *parts))
        return "/".join(parts) or "."

    # --- looking ------------------------------------------------------------------------------------------------------

    def stat(self, parts: Parts) -> os.stat_result:
        """What is there.

        Raises:
            FileNotFoundError, NotADirectoryError: Nothing is.
            ToolError: It is a symbolic link, or one is on the way.
        """
        if not parts:
            return os.fstat(self._handle)
        with self._folder(parts[:-1]) as folder:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            _refuse_link(self.shown(parts))
        return found

    def read(self, parts: Parts, *, max_bytes: int = MAX_FILE_BYTES) -> tuple[bytes, os.stat_result]:
        """A whole file, and what it is like: size, times.

        Raises:
            FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError: As the system says.
            ToolError: It is larger, or a link, a pipe, a device.
        """
        if not parts:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.shown(parts))
        with self._folder(parts[:-1]) as folder:
            handle = self._open(parts, _READ, folder)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            self._require_file(parts, found)
            content = file.read(max_bytes + 1) if found.st_size <= max_bytes else b""
        if found.st_size > max_bytes or len(content) > max_bytes:
            raise ToolError(f"Error: {self.shown(parts)} is larger than {max_bytes:,} bytes")
        return content, found

    def walk(self, parts: Parts, *, depth: int, max_entries: int) -> Iterator[Entry]:
        """What is in a folder, by name, the contents of a folder behind it; links are told and not followed.

        Args:
            parts: The folder.
            depth: 1 for what is in it, 2 for what is in its folders, too.
            max_entries: The walk ends after so many.
        """
        left = max_entries
        with self._folder(parts) as folder:
            for entry in self._entries(folder, parts, depth):
                if left == 0:
                    return
                left -= 1
                yield entry

    def _entries(self, folder: int, parts: Parts, depth: int) -> Iterator[Entry]:
        with os.scandir(folder) as listing:
            names = sorted(entry.name for entry in listing)
        for name in names:
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue  # was there a moment ago
            place = (*parts, name)
            is_folder = stat.S_ISDIR(found.st_mode)
            yield Entry(place, found.st_size, is_folder, stat.S_ISLNK(found.st_mode))
            if is_folder and depth > 1:
                try:
                    inner = self._open(place, _FOLDER, folder)
                except (OSError, ToolError):
                    continue  # became something else, or may not be looked into
                try:
                    yield from self._entries(inner, place, depth - 1)
                finally:
                    os.close(inner)

    # --- changing -----------------------------------------------------------------------------------------------------

    def create(self, parts: Parts) -> GrowingFile:
        """A new file, there at once, to be written piece by piece; folders on the way are made.

        Raises:
            FileExistsError: Something is there.
        """
        self._require_name(parts)
        with self._folder(parts[:-1], create=True) as folder:
            return GrowingFile(folder, parts[-1], shown=self.shown(parts))

    def replace(self, parts: Parts, *, check: Callable[[os.stat_result | None], object] | None = None) -> GrowingFile:
        """What will be in the place of a file, or where there is none, once it is committed: all of it or nothing.

        Args:
            parts: The file; folders on the way are made. Its permissions stay.
            check: Told what the file is like just before it is replaced (None where there is none); may raise.

        Raises:
            IsADirectoryError, PermissionError: As the system says.
            ToolError: A link, a pipe, a device is there.
        """
        self._require_name(parts)
        with self._folder(parts[:-1], create=True) as folder:
            self._require_replaceable(parts, found_at(parts[-1], folder))

            def still(found: os.stat_result | None) -> None:
                self._require_replaceable(parts, found)
                if check is not None:
                    check(found)

            return GrowingFile(folder, parts[-1], shown=self.shown(parts), check=still)

    def write(
        self, parts: Parts, content: bytes, *, check: Callable[[os.stat_result | None], object] | None = None
    ) -> os.stat_result:
        """Replace a file, or make it: `replace` with a content that is there already. Gives what it is like then."""
        file = self.replace(parts, check=check)
        try:
            file.write(content)
            return file.commit()
        finally:
            file.discard()

    def remove(self, parts: Parts) -> None:
        """Remove a file, a folder with everything in it, or a symbolic link, never what it points to.

        Raises:
            FileNotFoundError: Nothing is there.
            ToolError: It is the jail's own folder.
        """
        self._require_name(parts)
        with self._folder(parts[:-1]) as folder:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                shutil.rmtree(parts[-1], dir_fd=folder)
            else:
                os.unlink(parts[-1], dir_fd=folder)

    def rename(self, old: Parts, new: Parts) -> None:
        """Move a file or a folder; folders on the way to its new place are made.

        Raises:
            FileExistsError: Something is at the new place.
            FileNotFoundError: Nothing is at the old one.
            ToolError: One of them is the jail's own folder, or the new one is inside the old one.
        """
        self._require_name(old)
        self._require_name(new)
        if new[: len(old)] == old and new != old:
            raise ToolError(f"Error: {self.shown(new)} is inside {self.shown(old)}", code=ToolErrorCode.INVALID_PARAM)
        self.stat(old)
        with self._folder(old[:-1]) as source, self._folder(new[:-1], create=True) as target:
            if found_at(new[-1], target) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.shown(new))
            os.rename(old[-1], new[-1], src_dir_fd=source, dst_dir_fd=target)

    # --- handles ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _folder(self, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
        """A handle of a folder, reached step by step."""
        handle = os.dup(self._handle)
        try:
            for number, part in enumerate(parts):
                place = (*parts[: number + 1],)
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                inner = self._open(place, _FOLDER, handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def _open(self, parts: Parts, flags: int, folder: int) -> int:
        """A handle of what stands in an open folder; never of what a link points to."""
        try:
            return os.open(parts[-1], flags, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                found = found_at(parts[-1], folder)
                if found is not None and stat.S_ISLNK(found.st_mode):
                    _refuse_link(self.shown(parts))
            raise

    def _require_name(self, parts: Parts) -> None:
        if not parts:
            raise ToolError(
                f"Error: {self.shown(parts)} itself cannot be changed", code=ToolErrorCode.PERMISSION_DENIED
            )

    def _require_file(self, parts: Parts, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.shown(parts))
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"Error: {self.shown(parts)} is no regular file", code=ToolErrorCode.PERMISSION_DENIED)

    def _require_replaceable(self, parts: Parts, found: os.stat_result | None) -> None:
        if found is None:
            return
        if stat.S_ISLNK(found.st_mode):
            _refuse_link(self.shown(parts))
        self._require_file(parts, found)
        if not found.st_mode & 0o222:  # the folder would let it be replaced all the same
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.shown(parts))


def _is_suspicious(path: str) -> bool:
    """It holds a step upwards, or would once somebody decodes it; no file needs such a name."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return True
    decoded = path
    for _ in range(_MAX_DECODED):
        further = unquote(decoded)
        if further == decoded:
            break
        decoded = further
    else:
        return True
    if decoded.count("/") != path.count("/"):
        return True
    return any(char in decoded for char in "\0\\") or ".." in _SEPARATORS.split(decoded)


def _refuse(path: str) -> NoReturn:
    raise ToolError(
        f"Error: the path {path[:200]!r} is not allowed: it leads out", code=ToolErrorCode.PERMISSION_DENIED
    )


def _refuse_link(shown: str) -> NoReturn:
    raise ToolError(f"Error: {shown} is a symbolic link, which is not followed", code=ToolErrorCode.PERMISSION_DENIED)
