"""`Jail`: a folder that no path leads out of, for tools whose paths a model chooses.

Every access starts from a handle of the folder and opens the folders on the way one by one, each relative to the handle
of the one before, and follows no symbolic link. So what was checked is what is used, whoever moves things about
meanwhile: no path is ever looked up a second time.

All of it blocks, and belongs into a thread.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from heapq import nsmallest
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from ..errors import ToolError, UsageError
from ..tools import ToolErrorCode
from ._growing_file import MAX_FILE_BYTES, TAKING_PLACE, Check, GrowingFile, found_at
from ._paths import MAX_DEPTH, Parts, parts_of

_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


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
        if not os.fspath(folder) or "\0" in os.fspath(folder):
            raise UsageError(f"{folder!r} is no folder")
        path = Path(folder)
        try:
            if create:
                path.mkdir(parents=True, exist_ok=True)
            real = path.resolve(strict=True)
            self._handle = os.open(real, _FOLDER)
        except OSError as error:
            raise UsageError(f"{path} is no folder that can be opened: {error.strerror or error}") from error
        self._roots = (str(real), str(path.absolute())) if name is None else (name,)
        # Nobody closes it by hand: the number could by then be that of another folder.
        weakref.finalize(self, os.close, self._handle)

    def __repr__(self) -> str:
        return f"<Jail {self._roots[0]}>"

    # --- paths --------------------------------------------------------------------------------------------------------

    def parts(self, path: object) -> Parts:
        """The place that a path of the model's names, inside the jail.

        Raises:
            ToolError: It is no path, or leads out; see `parts_of`.
        """
        return parts_of(path, self._roots)

    def shown(self, parts: Parts) -> str:
        """What a place is called towards the model."""
        if self._name is not None:
            return "/".join((self._name, *parts))
        return "/".join(parts) or "."

    @property
    def identity(self) -> str:
        """The same for all jails of one folder, and different for those of others."""
        found = os.fstat(self._handle)
        return f"{found.st_dev}:{found.st_ino}"

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
            self._require_file(parts, os.stat(parts[-1], dir_fd=folder, follow_symlinks=False))  # opening may do things
            handle = self._open(parts, _READ, folder)
        try:
            found = os.fstat(handle)
            self._require_file(parts, found)
            with open(handle, "rb", closefd=False) as file:
                content = file.read(max_bytes + 1) if found.st_size <= max_bytes else b""
        finally:
            os.close(handle)
        if found.st_size > max_bytes or len(content) > max_bytes:
            raise ToolError(f"Error: {self.shown(parts)} is larger than {max_bytes:,} bytes")
        return content, found

    def walk(
        self, parts: Parts, *, depth: int = MAX_DEPTH, max_entries: int, skip: Callable[[str], bool] = lambda _: False
    ) -> Iterator[Entry]:
        """What is in a folder, by name, the contents of a folder behind it; links are told and not followed.

        Args:
            parts: The folder.
            depth: 1 for what is in it, 2 for what is in its folders, too.
            max_entries: The walk ends after so many.
            skip: Names that are left out, with all that is in them.
        """
        left = max_entries
        with self._folder(parts) as folder:
            for entry in self._entries(folder, parts, depth, max_entries, skip):
                if left == 0:
                    return
                left -= 1
                yield entry

    def _entries(
        self, folder: int, parts: Parts, depth: int, max_entries: int, skip: Callable[[str], bool]
    ) -> Iterator[Entry]:
        with os.scandir(folder) as listing:
            names = nsmallest(max_entries, (entry.name for entry in listing if not skip(entry.name)))
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
                    yield from self._entries(inner, place, depth - 1, max_entries, skip)
                finally:
                    os.close(inner)

    # --- changing -----------------------------------------------------------------------------------------------------

    def create(self, parts: Parts) -> GrowingFile:
        """A new file, there at once, to be written piece by piece; folders on the way are made.

        Raises:
            FileExistsError: Something is there.
        """
        self._require_name(parts)
        with self._made_folder(parts[:-1]) as (folder, unmake):
            return GrowingFile(folder, parts[-1], shown=self.shown(parts), on_discard=unmake)

    def replace(self, parts: Parts, *, check: Check | None = None) -> GrowingFile:
        """What will be in the place of a file, or where there is none, once it is committed: all of it or nothing.

        Args:
            parts: The file; folders on the way are made. Its permissions stay.
            check: Told what the file is like just before it is replaced (None where there is none); may raise.

        Raises:
            IsADirectoryError, PermissionError: As the system says.
            ToolError: A link, a pipe, a device is there.
        """
        self._require_name(parts)
        with self._made_folder(parts[:-1]) as (folder, unmake):
            self._require_replaceable(parts, folder, found_at(parts[-1], folder))

            def still(found: os.stat_result | None) -> None:
                self._require_file(parts, found)
                if check is not None:
                    check(found)

            return GrowingFile(folder, parts[-1], shown=self.shown(parts), on_discard=unmake, check=still)

    def write(self, parts: Parts, content: bytes, *, check: Check | None = None) -> os.stat_result:
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
            ToolError: One of them is the jail's own folder, the new one is inside the old one, or it would be deeper
                than `MAX_DEPTH`.
        """
        self._require_name(old)
        self._require_name(new)
        if new[: len(old)] == old and new != old:
            raise ToolError(f"Error: {self.shown(new)} is inside {self.shown(old)}", code=ToolErrorCode.INVALID_PARAM)
        if stat.S_ISDIR(self.stat(old).st_mode):
            inside = self.walk(old, max_entries=sys.maxsize)
            if len(new) + max((len(entry.parts) - len(old) for entry in inside), default=0) > MAX_DEPTH:
                raise ToolError(f"Error: {self.shown(new)} would be too deep", code=ToolErrorCode.INVALID_PARAM)
        with TAKING_PLACE, self._folder(old[:-1]) as source, self._made_folder(new[:-1]) as (target, _):
            if found_at(new[-1], target) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.shown(new))
            os.rename(old[-1], new[-1], src_dir_fd=source, dst_dir_fd=target)

    # --- handles ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _folder(self, parts: Sequence[str], *, made: list[Parts] | None = None) -> Iterator[int]:
        """A handle of a folder, reached step by step; with `made`, it is made where it is not there, and told there."""
        handle = os.dup(self._handle)
        try:
            for number, part in enumerate(parts):
                place = (*parts[: number + 1],)
                if made is not None:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                        made.append(place)
                inner = self._open(place, _FOLDER, handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _made_folder(self, parts: Parts) -> Iterator[tuple[int, Callable[[], None]]]:
        """A handle of a folder, made where it is not there, and a function that takes back the making.

        It is taken back where the block raises, too; what is no longer empty by then stays.
        """
        made: list[Parts] = []
        unmake = partial(self._unmake, made)
        try:
            with self._folder(parts, made=made) as folder:
                yield folder, unmake
        except BaseException:
            unmake()
            raise

    def _unmake(self, made: list[Parts]) -> None:
        try:
            while made:
                place = made.pop()
                with self._folder(place[:-1]) as folder:
                    os.rmdir(place[-1], dir_fd=folder)
        except (OSError, ToolError):
            pass  # something is in it, or it is no longer there

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

    def _require_file(self, parts: Parts, found: os.stat_result | None) -> None:
        """What is there is a regular file, if anything is."""
        if found is None or stat.S_ISREG(found.st_mode):
            return
        if stat.S_ISLNK(found.st_mode):
            _refuse_link(self.shown(parts))
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.shown(parts))
        raise ToolError(f"Error: {self.shown(parts)} is no regular file", code=ToolErrorCode.PERMISSION_DENIED)

    def _require_replaceable(self, parts: Parts, folder: int, found: os.stat_result | None) -> None:
        self._require_file(parts, found)
        if found is None:
            return
        # The folder would let it be replaced all the same, and root is let do anything.
        if not found.st_mode & 0o222 or not os.access(parts[-1], os.W_OK, dir_fd=folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.shown(parts))


def _refuse_link(shown: str) -> NoReturn:
    raise ToolError(f"Error: {shown} is a symbolic link, which is not followed", code=ToolErrorCode.PERMISSION_DENIED)
