"""`Jail`: a folder that no path can leave, for tools whose paths a model chooses.

Every access starts from a handle of the jail's folder. It opens each folder on the way relative to the handle before
it, and follows no symbolic link. No path is looked up twice. If another process moves files between check and use, the
jail still uses the files that it checked.

All methods block: call them in a thread.
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
from heapq import nsmallest
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import ToolErrorCode

from ._growing_file import MAX_FILE_BYTES, TAKING_PLACE, Check, GrowingFile, found_at
from ._paths import MAX_DEPTH, Parts, parts_of

_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Entry(NamedTuple):
    """An entry of a folder.

    Attributes:
        parts: Its place.
        size: Size in bytes.
        is_folder: True for a folder. A symbolic link is never a folder.
        is_link: True for a symbolic link. Links are not followed.
    """

    parts: Parts
    size: int
    is_folder: bool
    is_link: bool


class Jail:
    """A folder that no path can leave.

    Args:
        folder: The folder. It must exist, unless `create` is set. The jail holds a handle: if the folder is moved, the
            jail moves with it.
        name: The model's name for the folder, for example `"/memories"`. Paths are relative to the folder or start with
            this name. With `None`, they are relative or start with the folder's own path.
        create: Make the folder if it is missing.

    Raises:
        UsageError: The folder is missing or cannot be opened, `name` does not start with a slash or ends with one, or
            the platform cannot open files relative to a handle (Windows).
    """

    def __init__(self, folder: str | os.PathLike[str], *, name: str | None = None, create: bool = False) -> None:
        if os.open not in os.supports_dir_fd or os.mkdir not in os.supports_dir_fd:
            raise UsageError("this platform cannot open files relative to a handle, which a jail needs")
        if name is not None and (not name.startswith("/") or name.endswith("/")):
            raise UsageError(f"the name of a folder must start with a slash and not end with one, not {name!r}")
        self._name = name
        if not os.fspath(folder) or "\0" in os.fspath(folder):
            raise UsageError(f"{folder!r} is not a folder")
        path = Path(folder)
        try:
            if create:
                path.mkdir(parents=True, exist_ok=True)
            real = path.resolve(strict=True)
            self._handle = os.open(real, _FOLDER)
        except OSError as error:
            raise UsageError(f"{path} is not a folder that can be opened: {error.strerror or error}") from error
        self._roots = (str(real), str(path.absolute())) if name is None else (name,)
        # Only the finalizer closes it: after an explicit close, the number could belong to another folder.
        weakref.finalize(self, os.close, self._handle)

    def __repr__(self) -> str:
        return f"<Jail {self._roots[0]}>"

    # --- paths --------------------------------------------------------------------------------------------------------

    def parts(self, path: object) -> Parts:
        """Return the place that a model's path names.

        Raises:
            ToolError: The path is invalid or leads out of the jail; see `parts_of`.
        """
        return parts_of(path, self._roots)

    def shown(self, parts: Parts) -> str:
        """Return a place as a path in texts for the model."""
        if self._name is not None:
            return "/".join((self._name, *parts))
        return "/".join(parts) or "."

    @property
    def identity(self) -> str:
        """An id of the folder. All jails of one folder share it, and no others."""
        found = os.fstat(self._handle)
        return f"{found.st_dev}:{found.st_ino}"

    # --- looking ------------------------------------------------------------------------------------------------------

    def stat(self, parts: Parts) -> os.stat_result:
        """Return the status of a file or folder.

        Raises:
            FileNotFoundError, NotADirectoryError, PermissionError: As the system raises them.
            ToolError: The file, or a folder on the way, is a symbolic link.
        """
        if not parts:
            return os.fstat(self._handle)
        with self._folder(parts[:-1]) as folder:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            _refuse_link(self.shown(parts))
        return found

    def read(self, parts: Parts, *, max_bytes: int = MAX_FILE_BYTES) -> tuple[bytes, os.stat_result]:
        """Return the complete content of a file, and its status.

        Raises:
            FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError: As the system raises them.
            ToolError: The file is larger than `max_bytes`, or is a symbolic link, a pipe or a device.
        """
        if not parts:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.shown(parts))
        with self._folder(parts[:-1]) as folder:
            # Also checked before opening, because opening a device can have effects.
            self._require_file(parts, os.stat(parts[-1], dir_fd=folder, follow_symlinks=False))
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
        """Yield the entries of a folder by name. The contents of a folder follow its own entry. Links are not followed.

        Args:
            parts: The folder.
            depth: Number of levels to list. 1 lists only the folder's own entries.
            max_entries: Maximum number of entries to yield.
            skip: Returns True for a name to omit, with its contents.

        Raises:
            FileNotFoundError, NotADirectoryError, PermissionError: As the system raises them for the folder itself.
                Folders inside it that cannot be opened are not listed.
            ToolError: The folder, or one on the way, is a symbolic link.
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
                continue  # removed since the listing
            place = (*parts, name)
            is_folder = stat.S_ISDIR(found.st_mode)
            yield Entry(place, found.st_size, is_folder, stat.S_ISLNK(found.st_mode))
            if is_folder and depth > 1:
                try:
                    inner = self._open(place, _FOLDER, folder)
                except (OSError, ToolError):
                    continue  # replaced since the listing, or not readable
                try:
                    yield from self._entries(inner, place, depth - 1, max_entries, skip)
                finally:
                    os.close(inner)

    # --- changing -----------------------------------------------------------------------------------------------------

    def create(self, parts: Parts) -> GrowingFile:
        """Create a file under its name, to write piece by piece. Missing folders on the way are made.

        Raises:
            FileExistsError: The place is taken.
            NotADirectoryError, PermissionError: As the system raises them.
            ToolError: The place is the jail's own folder, or a folder on the way is a symbolic link.
        """
        self._require_name(parts)
        with self._made_folder(parts[:-1]) as (folder, unmake):
            return GrowingFile(folder, parts[-1], shown=self.shown(parts), on_discard=unmake)

    def replace(self, parts: Parts, *, check: Check | None = None) -> GrowingFile:
        """Start to replace or make a file. `commit` of the result puts the complete content in its place.

        Args:
            parts: The file. Missing folders on the way are made. Its permissions stay.
            check: Called with the file's status just before the exchange (`None` if it is missing). It may raise.

        Raises:
            IsADirectoryError, NotADirectoryError, PermissionError: As the system raises them, or the file is read-only.
            ToolError: The place is the jail's own folder, or has a symbolic link, a pipe or a device; or a folder on
                the way is a symbolic link.
        """
        self._require_name(parts)
        with self._made_folder(parts[:-1]) as (folder, unmake):
            found = found_at(parts[-1], folder)
            self._require_file(parts, found)
            # Renaming needs only write access to the folder, and root may do anything: check the file itself.
            if found and not (found.st_mode & 0o222 and os.access(parts[-1], os.W_OK, dir_fd=folder)):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.shown(parts))

            def still(found: os.stat_result | None) -> None:
                self._require_file(parts, found)
                if check is not None:
                    check(found)

            return GrowingFile(folder, parts[-1], shown=self.shown(parts), on_discard=unmake, check=still)

    def write(self, parts: Parts, content: bytes, *, check: Check | None = None) -> os.stat_result:
        """Replace or make a file with this content. Return its status. Raises as `replace` and `GrowingFile` do."""
        file = self.replace(parts, check=check)
        try:
            file.write(content)
            return file.commit()
        finally:
            file.discard()

    def remove(self, parts: Parts) -> None:
        """Remove a file, a folder with all its contents, or a symbolic link (not its target).

        Raises:
            FileNotFoundError, NotADirectoryError, PermissionError: As the system raises them.
            ToolError: The place is the jail's own folder, or a folder on the way is a symbolic link.
        """
        self._require_name(parts)
        with self._folder(parts[:-1]) as folder:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                shutil.rmtree(parts[-1], dir_fd=folder)
            else:
                os.unlink(parts[-1], dir_fd=folder)

    def rename(self, old: Parts, new: Parts) -> None:
        """Move a file or a folder. Missing folders on the way to the new place are made.

        Raises:
            FileExistsError: The new place is taken.
            FileNotFoundError: The old place is empty.
            NotADirectoryError, PermissionError: As the system raises them.
            ToolError: One place is the jail's own folder, or the new one is inside the old one. The old place, or a
                folder on the way, is a symbolic link. The contents of a folder would be deeper than `MAX_DEPTH`.
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
        """Open a folder step by step. With `made`, make missing folders and append their places to it."""
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
        """Open a folder, making missing ones. Yield its handle, and a function that removes the made folders again.

        They are also removed if the block raises. Folders that are no longer empty stay.
        """
        made: list[Parts] = []

        def unmake() -> None:
            with suppress(OSError, ToolError):  # it is not empty, or no longer there
                while made:
                    place = made.pop()
                    with self._folder(place[:-1]) as folder:
                        os.rmdir(place[-1], dir_fd=folder)

        try:
            with self._folder(parts, made=made) as folder:
                yield folder, unmake
        except BaseException:
            unmake()
            raise

    def _open(self, parts: Parts, flags: int, folder: int) -> int:
        """Open a name in an open folder. A link is refused with a `ToolError`."""
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
        """Raise unless the place is empty or has a regular file."""
        if found is None or stat.S_ISREG(found.st_mode):
            return
        if stat.S_ISLNK(found.st_mode):
            _refuse_link(self.shown(parts))
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.shown(parts))
        raise ToolError(f"Error: {self.shown(parts)} is no regular file", code=ToolErrorCode.PERMISSION_DENIED)


def _refuse_link(shown: str) -> NoReturn:
    raise ToolError(f"Error: {shown} is a symbolic link, which is not followed", code=ToolErrorCode.PERMISSION_DENIED)
