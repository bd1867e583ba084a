"""`TextEditor`: Anthropic's text editor tool, on the files of one folder."""

from __future__ import annotations

import os
from typing import Any, Final, Literal, NamedTuple, Unpack

import anyio.to_thread

from eagerstream._support.options import with_defaults
from eagerstream.errors import UsageError
from eagerstream.tools import Tool, ToolOptions, ToolResponse

from .._jail import Jail
from .._tool_options import group_of, with_definition
from .commands import EditorCommands

TextEditorVersion = Literal[
    "text_editor_20250728", "text_editor_20250429", "text_editor_20250124", "text_editor_20241022"
]
"""The `type` of the definition. Only the beta API accepts the last one."""


class _Version(NamedTuple):
    name: str
    with_undo: bool
    with_max_characters: bool


_VERSIONS: Final = {
    "text_editor_20250728": _Version("str_replace_based_edit_tool", with_undo=False, with_max_characters=True),
    "text_editor_20250429": _Version("str_replace_based_edit_tool", with_undo=False, with_max_characters=False),
    "text_editor_20250124": _Version("str_replace_editor", with_undo=True, with_max_characters=False),
    "text_editor_20241022": _Version("str_replace_editor", with_undo=True, with_max_characters=False),
}


class TextEditor(Tool):
    """A tool that lets the model view, create and edit the text files of one folder.

        run(client, tools=[TextEditor("project", root_name="/repo")], ...)

    Line ends, a byte order mark and a missing final line end survive edits. Files that are not UTF-8 text, or larger
    than 16 MiB, are refused. A new file replaces the old one in one step. It keeps the old one's permissions, but not
    its hard links and extended attributes. Symbolic links are not followed. Calls run one at a time, in call order,
    together with those of all tools on the same folder. The work runs in threads. If a call is cancelled during a
    change, it finishes the change.

    Args:
        root: The folder. It must exist.
        version: The `type` of the definition. Versions up to `text_editor_20250124` have `undo_edit`, which undoes
            edits of this object.
        max_characters: Maximum number of characters of a file to show at once. It is part of the definition, and needs
            `text_editor_20250728`.
        root_name: The model's name for the folder, for example `"/repo"`. Without it, paths are relative, or start with
            the folder's own path.
        options: See `ToolOptions`. Those that belong in the definition are put there. The API sets `name` and
            `description`.

    Raises:
        UsageError: The folder is missing or cannot be opened, the version is unknown, `max_characters` is not a
            positive number or needs another version, or an option is wrong.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        version: TextEditorVersion = "text_editor_20250728",
        max_characters: int | None = None,
        root_name: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        found = _VERSIONS.get(version)
        if found is None:
            raise UsageError(f"there is no version {version!r} of the text editor; there are {', '.join(_VERSIONS)}")
        definition: dict[str, Any] = {"type": version, "name": found.name}
        if max_characters is not None:
            if not found.with_max_characters:
                raise UsageError(f"max_characters needs text_editor_20250728, not {version}")
            definition["max_characters"] = max_characters
        jail = Jail(root, name=root_name)
        self._commands = EditorCommands(jail, max_characters=max_characters, with_undo=found.with_undo)
        options = with_defaults(options, group=group_of(jail.identity), edits=self._commands.edits)
        super().__init__(self._call, **with_definition(definition, options))

    async def _call(self, input: dict[str, Any]) -> ToolResponse:
        return await anyio.to_thread.run_sync(self._commands.run, input)
