"""`ReadTool`, `WriteTool`, `EditTool`, `MultiEditTool`: the text files of a folder, changed only where they are known.

Which version of a file the model knows is kept by the registry, where there is one: what `ReadTool` has read is what
the other tools then expect to find. Where somebody else has changed the file since, nothing is written (`CONFLICT`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Protocol

from ....builtin import Files
from ....errors import ToolError
from ....tools import ToolResponse, error_response
from .._tool import openai_form
from .adapted import AdaptedTool
from .words import FILES

_NO_LIMIT: Final = 1_000_000_000


class ReadCache(Protocol):
    """What these tools need of a registry. A file's metadata is `{"file_mtime_ms": int, "file_size_bytes": int}`."""

    def cache_read_metadata(self, file_path: str, metadata: dict[str, Any], /) -> object:
        """Remember which version of a file is known."""
        ...

    def get_read_metadata(self, file_path: str, /) -> Mapping[str, Any] | None:
        """The version of a file that is known."""
        ...

    def clear_read_cache(self, file_path: str, /) -> object:
        """No version of a file is known any more."""
        ...


class _Files(Files):
    words = FILES


class FileTool(AdaptedTool):
    """One of the tools for the files of a folder, see `eagerstream.builtin.Files`.

    No path leads out of the folder. What a change replaces is kept as `.backups/{name}.{YYYYmmdd_HHMMSS}.bak` beside
    the file, for good.

    Args:
        project_root: The folder. It must exist.
        working_dir: The folder in its place, if given.
        registry: Keeps which version of each file is known. Without it a change expects only what its `file_mtime_ms`
            says, if that is given.

    Raises:
        UsageError: There is no such folder, or this platform cannot keep paths inside a folder (Windows).

    Attributes:
        group: The tools of one folder have the same, as an option of `eagerstream.tool`: calls of one turn are then
            made one after the other, so that an edit sees the edits in front of it.
    """

    _core_name: ClassVar[str]

    def __init__(
        self,
        project_root: str | os.PathLike[str] = ".",
        working_dir: str | os.PathLike[str] | None = None,
        registry: ReadCache | None = None,
    ) -> None:
        self._files = _Files(working_dir or project_root, require_read=False, backups=True)
        super().__init__(next(tool for tool in self._files if tool.name == self._core_name))
        self.registry = registry
        self.group = self._files.group

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """What the tool answers; every failure is an `ERROR`.

        A call that is cancelled leaves no half of a change behind.
        """
        path = parameters.get("path")
        if not isinstance(path, str) or not path:
            return await super().arun({**parameters, "path": path or None})
        path = path.replace("\\", "/")
        try:
            place = self._files.jail.shown(self._files.jail.parts(path))
        except ToolError as error:
            return error_response(error)
        # As the program would ask for it, and as another path to the same file finds it.
        names = tuple(dict.fromkeys((place, parameters["path"])))
        known = self._recall(place, names)
        response = await super().arun({**parameters, "path": path})
        self._remember(self._files.get_read_metadata(place), names, before=known)
        return response

    def to_anthropic(self) -> dict[str, Any]:
        """The definition as the Messages API takes it, with all of the schema: `get_parameters` says less of it."""
        definition = self._tool.to_dict()
        return {name: definition[name] for name in ("name", "description", "input_schema")}

    def to_openai_schema(self) -> dict[str, Any]:
        """The definition for OpenAI's function calling, with all of the schema."""
        return openai_form(self.to_anthropic())

    def _recall(self, place: str, names: tuple[str, ...]) -> Mapping[str, Any] | None:
        """Know what the registry knows of a file, and nothing else: other tools may have changed it meanwhile."""
        found = map(self.registry.get_read_metadata, names) if self.registry is not None else ()
        known = next(filter(None, found), None)
        if known is None:
            self._files.clear_read_cache(place)
        else:
            self._files.cache_read_metadata(place, known)
        return known

    def _remember(
        self, known: dict[str, Any] | None, names: tuple[str, ...], *, before: Mapping[str, Any] | None
    ) -> None:
        """Tell the registry what is known of a file now."""
        if self.registry is None or (known is None and before is None):
            return
        for name in names:
            if known is None:
                self.registry.clear_read_cache(name)
            elif known != before or self.registry.get_read_metadata(name) is None:
                self.registry.cache_read_metadata(name, known)


class ReadTool(FileTool):
    """Reads a file, or lists a folder: `{"path": str, "offset": int = 0, "limit": int = 2000}`, both in lines.

    Of a file, the text says only that it was read; its lines are `data["content"]`, and a content block for the model.
    A result has at most 51,200 bytes of it, and is `PARTIAL` where there is more. Of a folder, the list is in the text,
    and its data `{"path", "is_directory": True, "entries": [{"name", "type", "size"}], "total_files", "total_dirs"}`.
    """

    _core_name = "Read"

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """The lines, or the list. A `limit` that is not more than 0 is none, an `offset` that is less is 0.

        Cancelling it abandons it: the registry is told nothing.
        """
        given = dict(parameters)
        if type(given.get("offset")) is int:
            given["offset"] = max(given["offset"], 0)
        if type(given.get("limit")) is int and given["limit"] <= 0:
            given["limit"] = _NO_LIMIT
        response = await super().arun(given)
        return _listed(response) if response.data.get("is_directory") else response


class WriteTool(FileTool):
    """Writes a whole file: `{"path": str, "content": str, "file_mtime_ms": int | None}`.

    Its data is `{"written": True, "size_bytes": int, "file_mtime_ms": int, "backup_path": str | None}`.
    """

    _core_name = "Write"


class EditTool(FileTool):
    """Replaces a piece of a file: `{"path": str, "old_string": str, "new_string": str, "file_mtime_ms": int | None}`.

    `old_string` must be in the file exactly once. The data is `{"modified": True, "changed_bytes": int, "size_bytes":
    int, "file_mtime_ms": int, "backup_path": str}`.
    """

    _core_name = "Edit"


class MultiEditTool(FileTool):
    """Replaces several pieces of a file, all or none: `{"path": str, "edits": list, "file_mtime_ms": int | None}`.

    Each of the edits is `{"old_string": str, "new_string": str}`, and sees what those before it left. The data is that
    of `EditTool`, and `num_edits`.
    """

    _core_name = "MultiEdit"


def _listed(response: ToolResponse) -> ToolResponse:
    """With the list in the text, where programs of HelloAgents read it, and the numbers of what is in it."""
    kinds = Counter(entry["type"] for entry in response.data["entries"])
    counts = {"total_files": kinds.total() - kinds["directory"], "total_dirs": kinds["directory"]}
    lines = [response.text, *(block["text"] for block in response.content)]
    return replace(response, text="\n".join(lines), data={**response.data, **counts}, content=[])
