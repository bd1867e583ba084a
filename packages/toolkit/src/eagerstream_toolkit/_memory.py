"""`Memory`: Anthropic's memory tool, on one folder of this machine."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Unpack
from weakref import WeakValueDictionary

import anyio.to_thread

from eagerstream._support.checks import check_count
from eagerstream._support.options import with_defaults
from eagerstream.errors import ToolError
from eagerstream.tools import Tool, ToolErrorCode, ToolOptions, ToolResponse

from ._jail import Jail
from ._lines import listing, shown_lines, snippet
from ._paths import Parts
from ._text_editor.commands import EMPTY_OLD, command_of, inserted, integer_field, text_edit_of, text_field
from ._text_files import Document, NoSingleMatch, TextFiles, in_words
from ._tool_options import group_of, with_definition

_ROOT: Final = "/memories"
_MAX_MATCHES: Final = 100
"""Maximum number of line numbers to report for a text that occurs several times."""

_LOCKS: Final[WeakValueDictionary[str, threading.Lock]] = WeakValueDictionary()
"""Locks by the identity of the folder. Several runs may share a memory, and must check its bounds one at a time."""


class Memory(Tool):
    """A tool that lets the model keep files across conversations, in a folder that it calls `/memories`.

        run(client, tools=[Memory("memories")], ...)

    No path can leave the folder. `TextEditor` documents the rules for files, links, order and cancellation.

    Args:
        folder: The folder. It is made if it is missing.
        max_file_bytes: Maximum size of one file.
        max_total_bytes: Maximum size of all files together.
        max_files: Maximum number of files and folders, including hidden ones.
        options: See `ToolOptions`. Those that belong in the definition are put there. The API sets `name` and
            `description`.

    Raises:
        UsageError: The folder cannot be made or opened, a bound is not a positive number, or an option is wrong.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_file_bytes: int = 1024 * 1024,
        max_total_bytes: int = 64 * 1024 * 1024,
        max_files: int = 10_000,
        **options: Unpack[ToolOptions],
    ) -> None:
        bounds = {"max_file_bytes": max_file_bytes, "max_total_bytes": max_total_bytes, "max_files": max_files}
        for name, bound in bounds.items():
            check_count(name, bound)
        self._max_file_bytes = max_file_bytes
        self._max_total_bytes = max_total_bytes
        self._max_files = max_files
        self._jail = Jail(folder, name=_ROOT, create=True)
        self._files = TextFiles(self._jail)
        self._lock = _LOCKS.setdefault(self._jail.identity, threading.Lock())
        self._commands: dict[str, Callable[[Mapping[str, Any]], ToolResponse]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }
        definition = {"type": "memory_20250818", "name": "memory"}
        edits = partial(text_edit_of, self._files)
        options = with_defaults(options, group=group_of(self._jail.identity), edits=edits)
        super().__init__(self._call, **with_definition(definition, options))

    async def _call(self, input: dict[str, Any]) -> ToolResponse:
        return await anyio.to_thread.run_sync(self._run, input)

    def _run(self, input: Mapping[str, Any]) -> ToolResponse:
        command = command_of(input, self._commands)
        with self._lock:
            return command(input)

    # --- the commands -------------------------------------------------------------------------------------------------

    def _view(self, input: Mapping[str, Any]) -> ToolResponse:
        parts = self._parts(input, "path")
        shown = self._jail.shown(parts)
        missing = f"The path {shown} does not exist. Please provide a valid path."
        with in_words(shown, doing="read", missing=missing):
            if stat.S_ISDIR(self._jail.stat(parts).st_mode):
                return listing(self._jail, parts)
            document = self._files.document(parts)
        text, _ = shown_lines(document, input.get("view_range"), shown=shown)
        return ToolResponse.success(f"Here's the content of {shown} with line numbers:\n{text}")

    def _create(self, input: Mapping[str, Any]) -> ToolResponse:
        parts = self._parts(input, "path")
        content = text_field(input, "file_text").encode()
        shown = self._jail.shown(parts)
        with in_words(
            shown,
            missing=f"Error: {shown} cannot be created: a file stands in its way",
            exists=f"Error: File {shown} already exists",
        ):
            file = self._jail.create(parts)  # first: an existing file is reported even if there is no room
            try:
                self._require_room(parts, file_bytes=len(content), added_bytes=len(content))
                file.write(content)
                file.commit()
            finally:
                file.discard()
        return ToolResponse.success(f"File created successfully at: {shown}")

    def _str_replace(self, input: Mapping[str, Any]) -> ToolResponse:
        parts = self._parts(input, "path")
        old = text_field(input, "old_str")
        new = text_field(input, "new_str", default="")
        shown = self._jail.shown(parts)
        if not old:
            raise ToolError(EMPTY_OLD, code=ToolErrorCode.INVALID_PARAM)
        line = 0

        def change(document: Document) -> Document:
            nonlocal line
            try:
                start, end = document.only_place_of(old)
            except NoSingleMatch as wrong:
                if not wrong.count:
                    said = f"No replacement was performed, old_str `{old}` did not appear verbatim in {shown}."
                    raise ToolError(said, code=ToolErrorCode.NOT_FOUND) from None
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                    f"{_lines_of(document.plain(old), document.text)}. Please ensure it is unique",
                    code=ToolErrorCode.CONFLICT,
                ) from None
            line = document.text.count("\n", 0, start)
            return self._within_bounds(parts, document, document.replaced(start, end, new))

        with in_words(shown, missing=f"Error: The path {shown} does not exist. Please provide a valid path."):
            edit = self._files.edit(parts, change)
        return ToolResponse.success(
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + snippet(edit.document.lines(), line)
        )

    def _insert(self, input: Mapping[str, Any]) -> ToolResponse:
        parts = self._parts(input, "path")
        line = integer_field(input, "insert_line")
        new = text_field(input, "insert_text")
        shown = self._jail.shown(parts)

        def change(document: Document) -> Document:
            return self._within_bounds(parts, document, inserted(document, line, new))

        with in_words(shown, missing=f"Error: The path {shown} does not exist. Please provide a valid path."):
            self._files.edit(parts, change)
        return ToolResponse.success(f"The file {shown} has been edited.")

    def _delete(self, input: Mapping[str, Any]) -> ToolResponse:
        parts = self._changeable(input, "path", "delete")
        shown = self._jail.shown(parts)
        with in_words(shown, doing="delete", missing=f"Error: The path {shown} does not exist"):
            self._jail.remove(parts)
        return ToolResponse.success(f"Successfully deleted {shown}")

    def _rename(self, input: Mapping[str, Any]) -> ToolResponse:
        old = self._changeable(input, "old_path", "rename")
        new = self._changeable(input, "new_path", "replace")
        old_shown, new_shown = self._jail.shown(old), self._jail.shown(new)
        with in_words(old_shown, doing="rename", missing=f"Error: The path {old_shown} does not exist"):
            self._jail.stat(old)
        with in_words(
            old_shown,
            doing="rename",
            missing=f"Error: {new_shown} cannot be created: a file stands in its way",
            exists=f"Error: The destination {new_shown} already exists",
        ):
            made = 0
            for depth in range(1, len(new)):
                try:
                    self._jail.stat(new[:depth])
                except FileNotFoundError:
                    made = len(new) - depth  # missing folders on the way
                    break
            if made:
                self._require_room(new, added_entries=made)
            self._jail.rename(old, new)
        return ToolResponse.success(f"Successfully renamed {old_shown} to {new_shown}")

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _parts(self, input: Mapping[str, Any], name: str) -> Parts:
        """Return the place that an input field names.

        Raises:
            ToolError: The field is missing or not a text, or its path is invalid or outside the memory.
        """
        path = text_field(input, name)
        if not path.startswith(_ROOT):
            raise ToolError(f"Error: `{name}` must start with {_ROOT}", code=ToolErrorCode.PERMISSION_DENIED)
        return self._jail.parts(path)

    def _changeable(self, input: Mapping[str, Any], name: str, doing: str) -> Parts:
        """Return the place as `_parts` does. The memory's own folder is a `ToolError`."""
        parts = self._parts(input, name)
        if not parts:
            said = f"Error: Cannot {doing} the {_ROOT} directory itself"
            raise ToolError(said, code=ToolErrorCode.PERMISSION_DENIED)
        return parts

    def _within_bounds(self, parts: Parts, before: Document, after: Document) -> Document:
        size = len(after.encode())
        self._require_room(parts, file_bytes=size, added_bytes=size - len(before.encode()))
        return after

    def _require_room(self, parts: Parts, *, file_bytes: int = 0, added_bytes: int = 0, added_entries: int = 0) -> None:
        """Check that the bounds allow a change.

        Raises:
            ToolError: The file would be too large, or the memory would have too many files or bytes.
        """
        if file_bytes > self._max_file_bytes:
            shown = self._jail.shown(parts)
            raise _over(f"{shown} would have {file_bytes:,} bytes, and a file may have {self._max_file_bytes:,}")
        entries = list(self._jail.walk((), max_entries=self._max_files + 1))
        if len(entries) + added_entries > self._max_files:
            raise _over(f"the memory may have {self._max_files:,} files and folders. Delete some first")
        total = sum(entry.size for entry in entries if not entry.is_folder)
        if added_bytes > 0 and total + added_bytes > self._max_total_bytes:
            raise _over(
                f"the memory has {total:,} bytes and may have {self._max_total_bytes:,}. Delete something first"
            )


def _over(reason: str) -> ToolError:
    return ToolError(f"Error: {reason}", code=ToolErrorCode.INVALID_PARAM)


def _lines_of(sought: str, text: str) -> str:
    """Return the numbers of the lines on which a text starts, from 1. At most 100 are listed."""
    found: list[str] = []
    line, before, at = 1, 0, text.find(sought)
    while at != -1 and len(found) < _MAX_MATCHES:
        line += text.count("\n", before, at)
        found.append(str(line))
        before, at = at, text.find(sought, at + 1)  # matches may overlap
    return ", ".join(found) + (", ..." if at != -1 else "")
