"""`ACPTool`: the way in which an editor shows the calls of a tool. The known tools, and a guess for all others."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from eagerstream import JSON
from eagerstream._support.redaction import printable
from eagerstream._support.wording import clean

ToolKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]
"""The kinds of ACP. An editor chooses an icon by it. `switch_mode` is missing: a tool must not change a mode."""

Update: TypeAlias = dict[str, Any]
"""A session update of ACP in its JSON form: `{"sessionUpdate": "tool_call", "toolCallId": ...}`."""

PATH_FIELDS: Final = (
    *("path", "paths", "file_path", "file_paths", "filename", "filenames"),
    *("notebook_path", "old_path", "new_path"),
)
"""Fields that have a path, or a list of paths, unless an `ACPTool` says otherwise."""

MAX_LOCATIONS: Final = 32
"""Maximum number of files that one call opens in the editor."""

MAX_DIFFS: Final = 100
"""Maximum number of diffs of one call."""

_MAX_PATH_CHARS: Final = 4_096
_MAX_TITLE_CHARS: Final = 120
_NOT_IN_TITLES: Final = re.compile(r"[^\w .:/-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ACPTool:
    """The way in which an editor shows the calls of a tool. All fields of inputs are those at the top.

        ACPTool(kind="edit", paths=["filename"], new="body")                       # a tool that writes files
        ACPTool(kind="edit", paths=["file"], old="before", new="after")            # a tool that replaces text
        ACPTool(kind="edit", paths=["file"], each="edits", old="from", new="to")   # several replacements in one file

    Attributes:
        kind: The kind, by which the editor chooses an icon.
        paths: Fields with a path, or with a list of paths. The editor may open these files.
        line: Field with the number of a line in the file, from 1, or with a list that begins with it.
        title: Field whose text is shown after the tool's name. If None, the first path is shown.
        new: Field with the new text of a diff. If None, the call shows no diff. The file is the first path.
        old: Field with the replaced text. If None, the new text is shown as that of a new file.
        inserts: The new text comes between lines of the file, and replaces nothing.
        each: Field with a list of edits, if there may be several. `old` and `new` are fields of its items.
    """

    kind: ToolKind = "other"
    paths: Sequence[str] = PATH_FIELDS
    line: str | None = None
    title: str | None = None
    new: str | None = None
    old: str | None = None
    inserts: bool = False
    each: str | None = None


ToolOf: TypeAlias = Callable[[Mapping[str, JSON]], ACPTool]
"""Takes the finished fields of an input and returns the way to show it, for a tool with several commands."""


def kind_of(name: str) -> ToolKind:
    """Return the kind of an unknown tool, guessed from the words of its name: `read_file` reads."""
    words = re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[:_MAX_TITLE_CHARS]).lower())
    return next((_KINDS[word] for word in words if word in _KINDS), "other")


def tool_for(name: str, fields: Mapping[str, JSON], tools: Mapping[str, ACPTool | ToolOf]) -> ACPTool:
    """Return the way to show a call.

    Args:
        name: The name of the tool.
        fields: The finished fields of its input.
        tools: The tools of the program. They come before the known ones.
    """
    found = tools.get(name) or KNOWN.get(name)
    if isinstance(found, ACPTool):
        return found
    try:
        return found(fields) if found is not None else ACPTool(kind=kind_of(name))
    except Exception:  # a view of a run never ends it
        return ACPTool(kind=kind_of(name))


def title_of(name: str, text: str) -> str:
    """Return the title of a call. Editors read Markdown in it, and a model may have written both parts.

    Args:
        name: The tool.
        text: The text of a field, which becomes code in Markdown; may be empty.
    """
    name = _NOT_IN_TITLES.sub("?", clean(name, _MAX_TITLE_CHARS)) or "tool"
    text = clean(text[:_MAX_PATH_CHARS].strip(), _MAX_TITLE_CHARS).replace("`", "'")
    return f"{name} `{text}`" if text else name


class Places:
    """The folders of a session, and the paths in them. No I/O: symbolic links are not followed.

    Args:
        cwd: The folder to which paths are relative. Absolute.
        directories: Further folders in which files may be shown. Absolute.
        real_path: Returns the path on this machine of a path as the model writes it; None if there is none.
    """

    def __init__(
        self, cwd: str, directories: Sequence[str] = (), real_path: Callable[[str], str | None] | None = None
    ) -> None:
        self._cwd = cwd
        self._roots = [os.path.normcase(os.path.normpath(root)) for root in (cwd, *directories)]
        self._real_path = real_path

    def absolute(self, path: JSON) -> str | None:
        """Return the absolute path of a file in these folders.

        None for everything else: the model writes paths, and the editor opens what it is given without a question.
        """
        if isinstance(path, str) and self._real_path is not None:
            try:
                path = self._real_path(path)
            except Exception:
                return None
        if not isinstance(path, str) or not 0 < len(path) <= _MAX_PATH_CHARS:
            return None
        # No control characters, and none that show another name than the one that is opened.
        if printable(path) != path or "\n" in path or "\t" in path:
            return None
        found = os.path.normpath(os.path.join(self._cwd, path))  # noqa: PTH118 PurePath would keep `..`
        place = os.path.normcase(found)
        is_inside = any(place == root or place.startswith(root.rstrip(os.sep) + os.sep) for root in self._roots)
        return found if is_inside else None

    def locations(self, tool: ACPTool, fields: Mapping[str, JSON]) -> list[dict[str, Any]]:
        """Return the files of a call, from its finished fields."""
        found: dict[str, dict[str, Any]] = {}
        for name in tool.paths:
            value = fields.get(name)
            for path in value[:MAX_LOCATIONS] if isinstance(value, list) else [value]:
                if (place := self.absolute(path)) is not None and len(found) < MAX_LOCATIONS:
                    found[place] = {"path": place}
        line = fields.get(tool.line) if tool.line is not None else None
        if isinstance(line, list):
            line = line[0] if line else None
        if type(line) is int and 0 < line < 2**31 and found:
            next(iter(found.values()))["line"] = line
        return [*found.values()]

    def diffs(self, tool: ACPTool, fields: Mapping[str, JSON]) -> list[dict[str, Any]]:
        """Return the diffs of a call, from a valid input. No file is read: each shows the replaced piece only."""
        path = self.absolute(next((fields[name] for name in tool.paths if name in fields), None))
        if path is None or tool.new is None:
            return []
        edits = [fields] if tool.each is None else fields.get(tool.each)
        diffs = []
        for edit in edits[:MAX_DIFFS] if isinstance(edits, list) else ():
            new = edit.get(tool.new) if isinstance(edit, Mapping) else None
            old = edit.get(tool.old) if isinstance(edit, Mapping) and tool.old is not None else None
            if isinstance(new, str) and (tool.old is None or isinstance(old, str)):
                old_text = "" if tool.inserts else old
                diffs.append({"type": "diff", "path": path, "newText": new, "oldText": old_text})
        return diffs


def _editor(fields: Mapping[str, JSON]) -> ACPTool:
    """The tools of the API with commands, and those of `eagerstream_toolkit` with the same fields."""
    match fields.get("command"):
        case "view":
            return ACPTool(kind="read", paths=["path"], line="view_range")
        case "create":
            return ACPTool(kind="edit", paths=["path"], new="file_text")
        case "str_replace":
            return ACPTool(kind="edit", paths=["path"], old="old_str", new="new_str")
        case "insert":
            new = "insert_text" if "insert_text" in fields else "new_str"
            return ACPTool(kind="edit", paths=["path"], line="insert_line", new=new, inserts=True)
        case "undo_edit":
            return ACPTool(kind="edit", paths=["path"])
        case _:
            return ACPTool(paths=[])  # the command comes after the path: its kind is not known yet


def _memory(fields: Mapping[str, JSON]) -> ACPTool:
    """Its paths begin with `/memories`, which is no folder of the machine."""
    kinds: dict[JSON, ToolKind] = {"view": "read", "delete": "delete", "rename": "move"}
    command = fields.get("command")
    kind = kinds.get(command, "edit") if isinstance(command, str) else "other"
    return ACPTool(kind=kind, paths=[], title="path" if "path" in fields else "old_path")


KNOWN: Final[Mapping[str, ACPTool | ToolOf]] = {
    "Read": ACPTool(kind="read", paths=["path"]),
    "Write": ACPTool(kind="edit", paths=["path"], new="content"),
    "Edit": ACPTool(kind="edit", paths=["path"], old="old_string", new="new_string"),
    "MultiEdit": ACPTool(kind="edit", paths=["path"], each="edits", old="old_string", new="new_string"),
    "text_editor": _editor,
    "str_replace_based_edit_tool": _editor,
    "str_replace_editor": _editor,
    "memory": _memory,
    "bash": ACPTool(kind="execute", paths=[], title="command"),
    "run_code": ACPTool(kind="execute", paths=[]),
    "code_execution": ACPTool(kind="execute", paths=[]),
    "web_search": ACPTool(kind="search", paths=[], title="query"),
    "web_fetch": ACPTool(kind="fetch", paths=[], title="url"),
}
"""The tools of `eagerstream_toolkit`, and those with the API's schemas."""

_KINDS: Final[Mapping[str, ToolKind]] = {
    **dict.fromkeys(("read", "view", "open", "show", "cat", "list", "ls"), "read"),
    **dict.fromkeys(("write", "edit", "create", "make", "replace", "insert", "patch", "update"), "edit"),
    **dict.fromkeys(("delete", "remove"), "delete"),
    **dict.fromkeys(("move", "rename"), "move"),
    **dict.fromkeys(("search", "find", "grep", "glob"), "search"),
    **dict.fromkeys(("run", "execute", "bash", "shell", "exec"), "execute"),
    **dict.fromkeys(("fetch", "download"), "fetch"),
    **dict.fromkeys(("think",), "think"),
}
