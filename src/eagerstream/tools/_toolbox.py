"""`Toolbox`: finds the tool of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import UsageError
from ._definition import Tool


class Toolbox:
    """Tools by name, and toolsets by theirs. The model calls the members of a toolset by names of their own.

    Raises:
        UsageError: Two tools share a name.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._toolsets: dict[str, Tool] = {}
        for tool in tools:
            known, name = (self._toolsets, tool.toolset) if tool.toolset else (self._tools, tool.name)
            if name in known:
                raise UsageError(f"more than one tool is named {name!r}")
            known[name] = tool

    def __iter__(self) -> Iterator[Tool]:
        yield from self._tools.values()
        yield from self._toolsets.values()

    def replace(self, other: Toolbox) -> None:
        """Use the tools of `other` from now on. An executor that was given this toolbox runs them."""
        self._tools, self._toolsets = other._tools, other._toolsets

    @property
    def names(self) -> list[str]:
        """The names that a call can have, sorted, without those of toolsets' members, which are unknown here."""
        return sorted(self._tools)

    @property
    def has_guards(self) -> bool:
        """True if a tool has a guard, which reads inputs while they grow."""
        return any(tool.guard is not None for tool in self)

    def asking_approval(self) -> list[str]:
        """Return the names of the tools that require approval."""
        return [tool.name for tool in self if tool.approve is not None]

    def find(self, block: Mapping[str, Any]) -> Tool | None:
        """Return the tool that a `tool_use` block calls; None if there is none."""
        toolset = block.get("toolset_name")
        return self._tools.get(str(block.get("name"))) if toolset is None else self._toolsets.get(str(toolset))
