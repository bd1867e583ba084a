"""`Files`: tools to read, write and edit the text files of a folder. They detect changes by other programs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from eagerstream.tools import Tool

from .edit import Edit, MultiEdit
from .read import Read
from .shared import SharedFiles
from .write import Write


class Files(SharedFiles):
    """Four tools for the files of a folder: `Read`, `Write`, `Edit` and `MultiEdit`.

        files = Files("project")
        run(client, tools=[*files], ...)                                  # all four
        run(client, tools=[files.read], ...)                              # or only some
        run(client, tools=[files.read, Write(files, approve=ask)], ...)   # or with options of their own

    No path leads out of the folder: not by `..`, not by an absolute path, not by a symbolic link. The calls of a run
    execute one at a time, in call order. An edit sees the edits before it, and a read sees the writes.

    `Files` remembers the version of each file that the model knows. If another program has changed a file since, a call
    that would change it is refused (`CONFLICT`) and writes nothing. Changes by the tools themselves are known. One
    `Files` belongs to one conversation. Agents that share a folder have one each, and detect each other's changes.

    Args:
        root: The folder. It must exist. If it is moved later, the tools follow it.
        require_read: `Write` replaces an existing file only if it was read before, or if the model names the version to
            replace. The model cannot mean to delete text that it has never seen.
        backups: Keep replaced content as `.backups/{name}.{YYYYmmdd_HHMMSS}.bak` in the file's folder. Backups are
            never deleted.

    Raises:
        UsageError: The folder is missing or cannot be opened, or the platform cannot confine paths to a folder
            (Windows).

    Attributes:
        read, write, edit, multi_edit: The tools.
    """

    def __init__(self, root: str | os.PathLike[str], *, require_read: bool = True, backups: bool = False) -> None:
        super().__init__(root, require_read=require_read, backups=backups)
        self.read: Read = Read(self)
        self.write: Write = Write(self)
        self.edit: Edit = Edit(self)
        self.multi_edit: MultiEdit = MultiEdit(self)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    @property
    def tools(self) -> list[Tool]:
        """All four tools."""
        return [self.read, self.write, self.edit, self.multi_edit]

    # --- what the model knows -----------------------------------------------------------------------------------------

    def cache_read_metadata(self, path: str, metadata: Mapping[str, int]) -> None:
        """Remember that the model knows a version of a file: `{"file_mtime_ms": int, "file_size_bytes": int}`.

        Call this if a conversation continues in another process. The tools themselves remember each read and write.

        Raises:
            ToolError: The path is invalid or leads out of the folder.
            KeyError: A key of `metadata` is missing.
        """
        self.known.was_told(self.jail.parts(path), metadata)

    def get_read_metadata(self, path: str) -> dict[str, int] | None:
        """Return the version of a file that the model knows, as for `cache_read_metadata`, or `None`.

        Raises:
            ToolError: The path is invalid or leads out of the folder.
        """
        known = self.known.get(self.jail.parts(path))
        return (
            None if known is None else {"file_mtime_ms": known.version.mtime_ms, "file_size_bytes": known.version.size}
        )

    def clear_read_cache(self, path: str | None = None) -> None:
        """Forget the known version of a file, or of all files.

        Raises:
            ToolError: The path is invalid or leads out of the folder.
        """
        if path is None:
            self.known.forget_all()
        else:
            self.known.forget(self.jail.parts(path))
