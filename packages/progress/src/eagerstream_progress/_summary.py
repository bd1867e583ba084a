"""`Summaries`: one line about each call, without what the model wrote into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from eagerstream import ToolInput
from eagerstream._support.redaction import printable
from eagerstream.tools import ToolCall

_WORD_CHARS: Final = 80
"""Maximum length of a value in a line. Of a longer one, for example a path, the end is shown."""


_Counts: TypeAlias = dict[tuple[str | int, ...], tuple[int, int]]
"""Path to characters or items that were looked at, and line ends or lines in them."""


class Summary(NamedTuple):
    """The words about a call.

    Attributes:
        doing: Said while the call goes on, for example `"Creating src/app.py"`.
        done: Said once it has succeeded, for example `"Created src/app.py"`.
        amount: How much has been written, for example `"42 lines"`. Empty: nothing is said about it.
    """

    doing: str
    done: str
    amount: str = ""


class CallFields:
    """The fields of a call so far, for a formatter."""

    # Line ends are counted once. So the cost of a look is what is new since the last one, not the whole text.

    def __init__(self, input: ToolInput, counts: _Counts | None = None) -> None:
        self._input = input
        self._counts: _Counts = {} if counts is None else counts

    @property
    def name(self) -> str:
        """The tool's name, safe to show."""
        return _shown(self._input.name) or "tool"

    @property
    def chars(self) -> int:
        """The length of the input's text so far."""
        return self._input.chars

    def value(self, *path: str | int) -> Any:
        """Return the value at a path as far as it has come; None if it has not begun."""
        value: Any = self._input.partial
        for step in path:
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(step, int):
                value = value[step] if -len(value) <= step < len(value) else None
            else:
                return None
        return value

    def text(self, *path: str | int) -> str:
        """Return the text at a path on one line and safe to show, or its last 80 characters. Empty if there is none."""
        value = self.value(*path)
        return _shown(value) if isinstance(value, str) else ""

    def lines(self, *path: str | int) -> int:
        """Return the number of lines of the text at a path, or of the items of a list; 0 if there is none.

        A last line without a line end counts, as in an editor.
        """
        value = self.value(*path)
        if isinstance(value, list):
            return len(value)
        if not isinstance(value, str) or not value:
            return 0
        chars, ends = self._counts.get(path, (0, 0))
        if self._input.outcome is not None or chars > len(value):
            chars = ends = 0  # counted anew: a key that came twice has replaced the text
        ends += value.count("\n", chars)
        self._counts[path] = len(value), ends
        return ends + (not value.endswith("\n"))

    def lines_of_each(self, items: str, field: str) -> int:
        """Return the number of lines of the text `field` in all objects of the list `items`."""
        number = self.lines(items) if isinstance(self.value(items), list) else 0
        counted, total = self._counts.get((items, field), (0, 0))
        if self._input.outcome is not None or counted >= number:
            counted = total = 0
        for place in range(counted, number - 1):
            total += self.lines(items, place, field)
            self._counts.pop((items, place, field), None)
        self._counts[items, field] = max(0, number - 1), total
        return total + (self.lines(items, number - 1, field) if number else 0)


Formatter: TypeAlias = Callable[[CallFields], Summary | str]
"""Makes the line of a call. A plain text is shown as it is while the call goes on, and after it."""


class Summaries:
    """Makes a line for each call that says what it does, and shows nothing that the model wrote except for paths.

        summaries = Summaries()
        async for event in run:
            match event:
                case InputDelta(input=input): print(summaries.of(input))       # Creating src/app.py, 42 lines
                case ToolStop(call=call): print(summaries.of_call(call))       # Created src/app.py, 42 lines

    The tools for files of `eagerstream_toolkit` and those with the API's schemas are known. Of any other tool, the line
    has its name and the length of its input, unless you say more. Nothing of a line acts on a terminal.

    Args:
        formatters: Tool name to formatter, for your own tools, or instead of a known one. If it raises an exception,
            the line of an unknown tool is shown.
    """

    def __init__(self, formatters: Mapping[str, Formatter] | None = None) -> None:
        self._formatters = {**KNOWN, **(formatters or {})}
        self._counts: WeakKeyDictionary[ToolInput, _Counts] = WeakKeyDictionary()
        self._last: tuple[ToolInput, _Counts] | None = None

    def of(self, input: ToolInput) -> str:
        """Return the line of a call whose input is being written, or whose tool runs. O(new text)."""
        summary = self._summary(input)
        return ", ".join(filter(None, (summary.doing, summary.amount)))

    def of_call(self, call: ToolCall) -> str:
        """Return the line of a call: as `of` until it is answered, then with its end."""
        if call.result is None:
            return self.of(call.input)
        if not call.is_error:
            summary = self._summary(call.input)
            return ", ".join(filter(None, (summary.done, summary.amount)))
        return f"{self.of(call.input)}: {'failed' if call.ran else 'not executed'}"

    def _summary(self, input: ToolInput) -> Summary:
        try:
            counts = self._counts.setdefault(input, {})
        except TypeError:  # an input of the wire core takes no weak references: only the last one is kept
            if self._last is None or self._last[0] is not input:
                self._last = input, {}
            counts = self._last[1]
        fields = CallFields(input, counts)
        try:
            made = self._formatters.get(input.name, _unknown)(fields)
        except Exception:
            made = _unknown(fields)
        return made if isinstance(made, Summary) else Summary(made, made)


def creates(path: str = "path", content: str = "content") -> Callable[[CallFields], Summary]:
    """Return a formatter for a tool that writes whole files: "Creating src/app.py, 42 lines".

    Args:
        path: The field with the path.
        content: The field with the text, or with the list of lines.
    """

    def summary(fields: CallFields) -> Summary:
        return _about("Creating", "Created", fields.text(path), _count(fields.lines(content)))

    return summary


def edits(
    path: str = "path", old: str = "old_string", new: str = "new_string", each: str | None = None
) -> Callable[[CallFields], Summary]:
    """Return a formatter for a tool that replaces text in files: "Editing src/app.py, +12 -3".

    Args:
        path: The field with the path.
        old, new: The fields with the replaced text and the new one.
        each: The field with a list of edits, if there may be several. `old` and `new` are fields of its items.
    """

    def summary(fields: CallFields) -> Summary:
        added, removed = (fields.lines_of_each(each, name) if each else fields.lines(name) for name in (new, old))
        return _about("Editing", "Edited", fields.text(path), f"+{added} -{removed}")

    return summary


def _editor(fields: CallFields) -> Summary:
    path = fields.text("path")
    match fields.value("command"):
        case "create":
            return creates("path", "file_text")(fields)
        case "str_replace":
            return edits("path", "old_str", "new_str")(fields)
        case "insert":
            field = "insert_text" if fields.value("insert_text") is not None else "new_str"
            return _about("Editing", "Edited", path, f"+{fields.lines(field)} -0")
        case "view":
            return _about("Reading", "Read", path)
        case "delete":
            return _about("Deleting", "Deleted", path)
        case "rename":
            return _about("Renaming", "Renamed", fields.text("old_path"))
        case "undo_edit":
            return _about("Undoing an edit of", "Undid an edit of", path)
        case _:
            return Summary("Working on a file", "Worked on a file")


def _unknown(fields: CallFields) -> Summary:
    chars = f"{fields.chars:,} character{'' if fields.chars == 1 else 's'}"
    return Summary(fields.name, f"{fields.name}: done", chars)


def _about(doing: str, done: str, path: str, amount: str = "") -> Summary:
    path = path or "a file"
    return Summary(f"{doing} {path}", f"{done} {path}", amount)


def _says(doing: str, done: str) -> Formatter:
    return lambda _: Summary(doing, done)


def _count(lines: int) -> str:
    return f"{lines:,} line{'' if lines == 1 else 's'}"


def _shown(text: str) -> str:
    text = " ".join(printable(text[-4 * _WORD_CHARS :]).split())
    return text if len(text) <= _WORD_CHARS else f"…{text[1 - _WORD_CHARS :]}"


KNOWN: Final[Mapping[str, Formatter]] = {
    "Write": creates(),
    "Edit": edits(),
    "MultiEdit": edits(each="edits"),
    "Read": lambda fields: _about("Reading", "Read", fields.text("path")),
    "text_editor": _editor,
    "str_replace_based_edit_tool": _editor,
    "str_replace_editor": _editor,
    "memory": _editor,
    "bash": _says("Running a command", "Ran a command"),
    "run_code": lambda fields: Summary("Running code", "Ran code", _count(fields.lines("code"))),
    "code_execution": _says("Running code", "Ran code"),
    "web_search": _says("Searching the web", "Searched the web"),
    "web_fetch": _says("Reading a page of the web", "Read a page of the web"),
}
"""Formatters of the tools of `eagerstream_toolkit`, and of those with the API's schemas."""
