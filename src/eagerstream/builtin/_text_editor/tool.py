"""`TextEditor`: Anthropic's text editor tool, on the files of one folder."""

from __future__ import annotations

import os
from typing import Any, Final, Literal, NamedTuple, Unpack

import anyio.to_thread

from ...errors import UsageError
from ...tools import Tool, ToolOptions, ToolResponse
from .._jail import Jail
from .._tool_options import group_of, with_defaults, with_definition
from .commands import EditorCommands

TextEditorVersion = Literal[
    "text_editor_20250728", "text_editor_20250429", "text_editor_20250124", "text_editor_20241022"
]
"""The `type` of the definition; the last one is taken by the beta API only."""


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
    """Lets the model view, create and edit the text files of a folder, and of no other.

        run(client, tools=[TextEditor("project", root_name="/repo")], ...)

    Line ends, a byte order mark and a missing final line end survive edits; files that are no text in UTF-8, or larger
    than 16 MiB, are refused in words. A file is replaced whole or not at all, by a new one: its permissions stay, its
    hard links and extended attributes do not. Symbolic links are not followed. Calls run one at a time, in call order,
    together with those of all tools on the same folder; the work is done in threads. A call that is cancelled finishes
    the change that it is in the middle of.

    Args:
        root: The folder; it must exist.
        version: The `type` of the definition; `undo_edit` is there up to `text_editor_20250124`, and takes back what
            this object did.
        max_characters: More of a file is not shown at once; part of the definition. Only with `text_editor_20250728`.
        root_name: What the model calls the folder, for example `"/repo"`; without, paths are relative, or begin with
            the folder's own path.
        options: See `ToolOptions`; what belongs into the definition is put there. `name` and `description` are the
            API's.

    Raises:
        UsageError: There is no such folder or version, or an option that does not go with it.
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
                raise UsageError(f"max_characters goes with text_editor_20250728 only, not with {version}")
            definition["max_characters"] = max_characters
        jail = Jail(root, name=root_name)
        self._commands = EditorCommands(jail, max_characters=max_characters, with_undo=found.with_undo)
        super().__init__(
            self._call, **with_defaults(with_definition(definition, options), group=group_of(jail.identity))
        )

    async def _call(self, input: dict[str, Any]) -> ToolResponse:
        return await anyio.to_thread.run_sync(self._commands.run, input)
