"""`Files`: tools to read, write and edit the text files of a folder, which notice what others change meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ...tools import Tool
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
    are done one at a time in call order, so that an edit sees the edits in front of it, and a read the writes.

    It remembers which version of each file the model knows. Where somebody else has changed one since, a call that
    would change it is refused (`CONFLICT`), and nothing is written; what the tools themselves wrote is known. So one
    `Files` belongs to one conversation: agents that share a folder have one each, and notice each other's changes.

    Args:
        root: The folder. It must exist. What it is now stays the folder, also where it is moved.
        require_read: `Write` replaces a file that exists only where it was read before, or where the model names the
            version that it replaces: what the model has never seen it cannot mean to delete.
        backups: Keep what a change replaces as `.backups/{name}.{YYYYmmdd_HHMMSS}.bak` beside the file, for good.

    Raises:
        UsageError: There is no such folder, or this platform cannot keep paths inside a folder (Windows).

    Attributes:
        read, write, edit, multi_edit: The tools.
    """

    def __init__(self, root: str | os.PathLike[str], *, require_read: bool = True, backups: bool = False) -> None:
        super().__init__(root, require_read=require_read, backups=backups)
        self.read = Read(self)
        self.write = Write(self)
        self.edit = Edit(self)
        self.multi_edit = MultiEdit(self)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    @property
    def tools(self) -> list[Tool]:
        """All of them."""
        return [self.read, self.write, self.edit, self.multi_edit]

    # --- what the model knows -----------------------------------------------------------------------------------------

    def cache_read_metadata(self, path: str, metadata: Mapping[str, int]) -> None:
        """Remember that the model knows a version of a file: `{"file_mtime_ms": int, "file_size_bytes": int}`.

        For a conversation that goes on in another process; what `Read` reads is remembered by itself.

        Raises:
            ToolError: The path leads out of the folder.
            KeyError: One of the two is missing.
        """
        self.known.was_told(self.jail.parts(path), metadata)

    def get_read_metadata(self, path: str) -> dict[str, int] | None:
        """The version of a file that the model knows, as for `cache_read_metadata`; None where it knows none.

        Raises:
            ToolError: The path leads out of the folder.
        """
        known = self.known.get(self.jail.parts(path))
        return (
            None if known is None else {"file_mtime_ms": known.version.mtime_ms, "file_size_bytes": known.version.size}
        )

    def clear_read_cache(self, path: str | None = None) -> None:
        """Forget which version of a file, or of all files, the model knows.

        Raises:
            ToolError: The path leads out of the folder.
        """
        if path is None:
            self.known.forget_all()
        else:
            self.known.forget(self.jail.parts(path))
