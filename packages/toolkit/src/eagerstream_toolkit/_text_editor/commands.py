"""`EditorCommands`: the commands of the text editor tools."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from eagerstream import TextEdit
from eagerstream._support.checks import check_count
from eagerstream.errors import ToolError
from eagerstream.tools import ToolErrorCode, ToolResponse

from .._jail import Jail
from .._lines import listing, shortened, shown_lines
from .._paths import Parts
from .._text_files import Document, NoSingleMatch, TextFiles, in_words

EMPTY_OLD: Final = "Error: `old_str` must not be empty"
NO_MATCH: Final = "Error: No match found for replacement. Please check your text and try again."
MANY_MATCHES: Final = (
    "Error: Found {count} matches for replacement text. Please provide more context to make a unique match."
)
REPLACED: Final = "Successfully replaced text at exactly one location."


_T = TypeVar("_T")
_MAX_TOLD_CHARS: Final = 100
_KINDS: Final = {
    str: "text",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
}


class EditorCommands:
    """The commands `view`, `create`, `str_replace`, `insert`, and optionally `undo_edit`. All methods block.

    Raises:
        UsageError: `max_characters` is not a positive number.
    """

    def __init__(self, jail: Jail, *, max_characters: int | None = None, with_undo: bool = False) -> None:
        if max_characters is not None:
            check_count("max_characters", max_characters)
        self._jail = jail
        self._files = TextFiles(jail)
        self._max_characters = max_characters
        self._history = UndoHistory() if with_undo else None
        self._commands: dict[str, Callable[[Parts, Mapping[str, Any]], ToolResponse]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
        }
        if with_undo:
            self._commands["undo_edit"] = self._undo_edit

    def run(self, input: Mapping[str, Any]) -> ToolResponse:
        """Execute the command of an input, which may be any object.

        Raises:
            ToolError: The input is invalid, or the command failed. The text is for the model.
        """
        command = command_of(input, self._commands)
        return command(self._jail.parts(text_field(input, "path")), input)

    def edits(self, input: Mapping[str, Any]) -> TextEdit | None:
        """Return the edit of the finished part of an input, as the option `edits` of tools."""
        return text_edit_of(self._files, input, inserted="insert_text" if self._history is None else "new_str")

    def _view(self, parts: Parts, input: Mapping[str, Any]) -> ToolResponse:
        shown = self._jail.shown(parts)
        view_range = input.get("view_range")
        with in_words(shown, doing="read"):
            if stat.S_ISDIR(self._jail.stat(parts).st_mode):
                if view_range is not None:
                    said = "Error: The `view_range` parameter is not allowed when `path` points to a directory."
                    raise ToolError(said, code=ToolErrorCode.INVALID_PARAM)
                return listing(self._jail, parts)
            document = self._files.document(parts)
        text, first = shown_lines(document, view_range, shown=shown)
        if not text:
            return ToolResponse.success(f"The file {shown} is empty.")
        return shortened(text, first=first, max_characters=self._max_characters)

    def _create(self, parts: Parts, input: Mapping[str, Any]) -> ToolResponse:
        shown = self._jail.shown(parts)
        content = text_field(input, "file_text").encode()
        with in_words(shown, missing=f"Error: {shown} cannot be created: a file stands in its way"):
            before = self._files.put(parts, content)
        self._remember(parts, before, content)
        return ToolResponse.success(created(shown, replaced=before is not None))

    def _str_replace(self, parts: Parts, input: Mapping[str, Any]) -> ToolResponse:
        old = text_field(input, "old_str")
        new = text_field(input, "new_str", default="")
        if not old:
            raise ToolError(EMPTY_OLD, code=ToolErrorCode.INVALID_PARAM)

        def change(document: Document) -> Document:
            try:
                return document.replaced(*document.only_place_of(old), new)
            except NoSingleMatch as wrong:
                if wrong.count:
                    raise ToolError(MANY_MATCHES.format(count=wrong.count), code=ToolErrorCode.CONFLICT) from None
                raise ToolError(NO_MATCH, code=ToolErrorCode.NOT_FOUND) from None

        with in_words(self._jail.shown(parts)):
            edit = self._files.edit(parts, change)
        self._remember(parts, edit.before, edit.after)
        return ToolResponse.success(REPLACED)

    def _insert(self, parts: Parts, input: Mapping[str, Any]) -> ToolResponse:
        line = integer_field(input, "insert_line")
        new = text_field(input, "insert_text", "new_str")
        shown = self._jail.shown(parts)
        with in_words(shown):
            edit = self._files.edit(parts, lambda document: inserted(document, line, new))
        self._remember(parts, edit.before, edit.after)
        return ToolResponse.success(f"Successfully inserted text after line {line} of {shown}.")

    def _undo_edit(self, parts: Parts, _: Mapping[str, Any]) -> ToolResponse:
        shown = self._jail.shown(parts)
        edit = self._history.last(parts) if self._history else None
        if self._history is None or edit is None:
            raise ToolError(f"Error: No edit history found for {shown}.", code=ToolErrorCode.NOT_FOUND)
        with in_words(shown):
            if edit.before is None:
                self._files.remove(parts, is_fit=edit.left)
            else:
                self._files.put(parts, edit.before, is_fit=edit.left)
        self._history.forget(edit)
        return ToolResponse.success(f"Last edit to {shown} undone successfully.")

    def _remember(self, parts: Parts, before: bytes | None, after: bytes) -> None:
        if self._history is not None:
            self._history.remember(parts, before, after)


def text_edit_of(files: TextFiles, input: Mapping[str, Any], *, inserted: str = "insert_text") -> TextEdit | None:
    """Return the edit of a command, given the finished part of its input. None if it is another one, or not known yet.

    Args:
        files: The files.
        input: The finished parameters.
        inserted: The name of the parameter with an inserted text.
    """
    match input:
        case {"command": "create", "path": path}:
            return files.text_edit(path, new="file_text")
        case {"command": "str_replace", "path": path}:
            return files.text_edit(path, new="new_str", old="old_str")
        case {"command": "insert", "path": path, "insert_line": int(line)}:
            return files.text_edit(path, new=inserted, after_line=line)
        case _:
            return None


def created(shown: str, *, replaced: bool) -> str:
    """Return the text about a created or replaced file."""
    return f"File {'replaced' if replaced else 'created'} successfully at: {shown}"


def inserted(document: Document, line: int, new: str) -> Document:
    """Return a document with `new` inserted after a line.

    Raises:
        ToolError: The line number is outside the file.
    """
    if not 0 <= line <= document.line_count:
        raise ToolError(
            f"Error: Invalid `insert_line` parameter: {line}. "
            f"It should be within the range of lines of the file: [0, {document.line_count}]",
            code=ToolErrorCode.INVALID_PARAM,
        )
    return document.inserted(line, new)


_MAX_EDITS: Final = 100
_MAX_BYTES: Final = 64 * 1024 * 1024


class Remembered(NamedTuple):
    """An edit that can be undone. `before` is `None` if the file was missing. `digest` is of the content after it."""

    parts: Parts
    before: bytes | None
    digest: bytes

    def left(self, content: bytes | None) -> bool:
        """Return whether the content is still that of the edit."""
        return content is not None and _digest(content) == self.digest


class UndoHistory:
    """The latest edits: at most 100, with at most 64 MiB of replaced content. The oldest are dropped first."""

    def __init__(self) -> None:
        self._edits: list[Remembered] = []

    def remember(self, parts: Parts, before: bytes | None, after: bytes) -> None:
        """Remember that a file was changed from `before` (`None` if it was missing) to `after`."""
        self._edits.append(Remembered(parts, before, _digest(after)))
        while len(self._edits) > _MAX_EDITS or sum(len(edit.before or b"") for edit in self._edits) > _MAX_BYTES:
            del self._edits[0]

    def last(self, parts: Parts) -> Remembered | None:
        """Return the last remembered edit of a file, or `None`."""
        return next((edit for edit in reversed(self._edits) if edit.parts == parts), None)

    def forget(self, edit: Remembered) -> None:
        """Drop an undone edit. Equal edits before it stay."""
        self._edits = [each for each in self._edits if each is not edit]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


# --- fields of inputs, which the API does not check against its schemas -----------------------------------------------


def text_field(input: Mapping[str, Any], *names: str, default: str | None = None) -> str:
    """Return the text in the first of `names` that the input has. A null counts as missing.

    Raises:
        ToolError: The field is missing and there is no default, or it is not a text.
    """
    return str(_field(input, str, names, default))


def integer_field(input: Mapping[str, Any], name: str) -> int:
    """Return an integer field.

    Raises:
        ToolError: The field is missing or not an integer.
    """
    return int(_field(input, int, (name,)))


def _field(input: Mapping[str, Any], kind: type, names: tuple[str, ...], default: Any = None) -> Any:
    name = next((name for name in names if input.get(name) is not None), names[0])
    value = input.get(name)
    if value is None:
        if default is not None:
            return default
        raise ToolError(f"Error: `{name}` is missing", code=ToolErrorCode.INVALID_PARAM)
    if type(value) is not kind:
        given = _KINDS.get(type(value), "something else")
        raise ToolError(f"Error: `{name}` must be {_KINDS[kind]}, not {given}", code=ToolErrorCode.INVALID_PARAM)
    return value


def command_of(input: Mapping[str, Any], commands: Mapping[str, _T]) -> _T:
    """Return the entry of `commands` for the command that the input names.

    Raises:
        ToolError: The input has no `command`, it is not a text, or the tool does not have that command.
    """
    name = text_field(input, "command")
    if name not in commands:
        said = f"Error: Unknown command {name[:_MAX_TOLD_CHARS]!r}. There are: {', '.join(commands)}"
        raise ToolError(said, code=ToolErrorCode.INVALID_PARAM)
    return commands[name]
