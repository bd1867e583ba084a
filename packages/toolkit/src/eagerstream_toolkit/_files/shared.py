"""`SharedFiles`: the common state of the file tools on one folder, and their result texts."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Unpack

from eagerstream import TextEdit
from eagerstream._support.options import with_defaults
from eagerstream.errors import ToolError
from eagerstream.tools import Tool, ToolErrorCode, ToolOptions, ToolResponse

from .._jail import Jail
from .._paths import Parts
from .._text_files import Document, TextFiles
from .._tool_options import group_of
from .versions import Expected, KnownFiles, Version, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWords:
    """Result texts, with placeholders in braces. A subclass of `Files` may replace them."""

    read: str = (
        "Read {lines} of {total} lines of '{path}', from line {offset} on (the first is 0);"
        " {size} bytes, file_mtime_ms={mtime}"
    )
    listed: str = "'{path}' is a folder; {count} entries, from entry {offset} on (the first is 0)"
    more: str = "There is more: continue with offset={next}"
    long_line: str = "The end of line {line} is left out: the line has more than {max} bytes"
    past_end: str = "offset={offset} is behind the end of '{path}'"
    not_found: str = "'{path}' does not exist"
    not_a_folder: str = "'{path}' cannot exist: a part of the path is a file, not a folder"
    is_folder: str = "'{path}' is a folder"
    denied: str = "No permission for '{path}'"
    not_text: str = "'{path}' is not UTF-8 text"
    failed: str = "'{path}' could not be used: {why}"
    wrote: str = "Wrote {size} bytes to '{path}'"
    edited: str = "Edited '{path}' ({change:+d} bytes)"
    edited_often: str = "Made {count} edits to '{path}' ({change:+d} bytes)"
    no_single_match: str = "old_string must match exactly one place in the file. It matches {count}."
    which_edit: str = "edits[{index}]: {what} No edit was made."
    changed: str = (
        "'{path}' was changed since it was read: its file_mtime_ms is {current}, not {known}."
        " Nothing was written. Read it again."
    )
    changed_alike: str = (
        "'{path}' was changed since it was read, although its file_mtime_ms is the same."
        " Nothing was written. Read it again."
    )
    deleted: str = "'{path}' was deleted since it was read. Nothing was written. Read it again."
    unread: str = "'{path}' exists, and was not read. Nothing was written. Read it first, then replace or edit it."
    not_whole: str = "Nothing was written to '{path}'."


class Refused(Exception):
    """A refused call. `args` has the response."""

    @property
    def response(self) -> ToolResponse:
        """The response for the model."""
        response: ToolResponse = self.args[0]
        return response


class SharedFiles:
    """A folder, the known versions of its files, and the refusal of changes to other versions.

    `Files` documents the arguments.

    Attributes:
        words: The result texts. A subclass may replace them.
    """

    words: ClassVar[FileWords] = FileWords()

    def __init__(self, root: str | os.PathLike[str], *, require_read: bool = True, backups: bool = False) -> None:
        self.jail: Final = Jail(root)
        self.known: Final = KnownFiles()
        self.require_read: Final = require_read
        self.backups: Final = backups
        self.group: Final = group_of(self.jail.identity)

    def refused(
        self, code: str, text: str, parts: Parts, context: Mapping[str, Any] | None = None, **fields: object
    ) -> Refused:
        """Make an error about a file. `text` is one of the words, with placeholders for the path and `fields`."""
        path = self.jail.shown(parts)
        text = text.format(path=path, **fields)
        return Refused(ToolResponse.error(code, text, context={"path": path, **(context or {})}))

    def was_written(self, parts: Parts, written: Written) -> dict[str, Any]:
        """Remember a change, and return its data for a response."""
        version = written.version
        self.known.was_written(parts, version, replaced=written.replaced)
        return {"size_bytes": version.size, "file_mtime_ms": version.mtime_ms, "backup_path": written.backup}

    def document(self, parts: Parts, content: bytes) -> Document:
        """Parse a file's content. If only some lines end with CRLF, the carriage returns stay in the text.

        Raises:
            Refused: The content is not UTF-8 text, or contains NUL.
        """
        try:
            document = Document.of(content, shown=self.jail.shown(parts))
        except ToolError:
            raise self.refused(ToolErrorCode.BINARY_FILE, self.words.not_text, parts) from None
        has_others = not all(document.carriages) or "\r" in document.text
        return document.verbatim() if any(document.carriages) and has_others else document

    def require_unchanged(self, parts: Parts, expected: Expected, now: Version | None) -> None:
        """Check that the file has the version that a change expects.

        Raises:
            Refused: It has another version, or is missing.
        """
        if expected.is_met_by(now):
            return
        current = None if now is None else now.mtime_ms
        if now is None:
            said = self.words.deleted
        else:
            said = self.words.changed if current != expected.mtime_ms else self.words.changed_alike
        known = expected.mtime_ms
        context = {"current_mtime_ms": current, "cached_mtime_ms": known}
        raise self.refused(ToolErrorCode.CONFLICT, said, parts, context, current=current, known=known)

    def answer_to(self, error: Refused | OSError, parts: Parts) -> ToolResponse:
        """Return the response to a failure. It never contains a path of the host."""
        if isinstance(error, Refused):
            return error.response
        words = self.words
        answers: dict[type[OSError], tuple[str, str]] = {
            FileNotFoundError: (ToolErrorCode.NOT_FOUND, words.not_found),
            NotADirectoryError: (ToolErrorCode.NOT_FOUND, words.not_a_folder),
            IsADirectoryError: (ToolErrorCode.IS_DIRECTORY, words.is_folder),
            PermissionError: (ToolErrorCode.PERMISSION_DENIED, words.denied),
            OSError: (ToolErrorCode.INTERNAL_ERROR, words.failed),
        }
        code, text = next(answers[kind] for kind in answers if isinstance(error, kind))
        why = error.strerror or type(error).__name__
        return self.refused(code, text, parts, why=why).response


class FileTool(Tool, ABC):
    """Base class of the tools on a folder.

    Args:
        files: The folder, shared with the other tools: `Files(root)`.
        options: See `ToolOptions`, for example another `name`, or `approve`.
    """

    _name: ClassVar[str]
    _read_only: ClassVar[bool] = False
    _fields: ClassVar[Mapping[str, Any] | None] = None
    """The parameters with the texts, as fields of a `TextEdit`. None if the tool changes no file."""

    def __init__(self, files: SharedFiles, **options: Unpack[ToolOptions]) -> None:
        self._files = files
        options = with_defaults(options, name=self._name, group=files.group, read_only=self._read_only)
        if self._fields is not None:
            options = with_defaults(options, edits=self._edits_of)
        super().__init__(self._call, **options)

    def _edits_of(self, input: Mapping[str, Any]) -> TextEdit | None:
        assert self._fields is not None
        return TextFiles(self._files.jail).text_edit(input["path"], **self._fields) if "path" in input else None

    @abstractmethod
    async def _call(self, *args: Any, **kwargs: Any) -> ToolResponse: ...
