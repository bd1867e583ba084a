"""Tools made elsewhere, taken as they are: anything with `to_dict()` and `call()`.

The anthropic package's `beta_async_tool` and `beta_tool`, its builtin tools and its helpers for MCP servers are such.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from ..errors import UsageError
from ..tool_kind import EAGER_FIELD, USER_DEFINED, tool_kind
from .definition import Tool


@runtime_checkable
class ForeignTool(Protocol):
    """A tool of another library."""

    def to_dict(self) -> Mapping[str, Any]:
        """The definition as the API takes it."""
        ...

    @property
    def call(self) -> Callable[[Any], Any]:
        """Run it on an input, an object; it may be a plain function or an async one."""
        ...


def as_tool(tool: object) -> Tool | None:
    """What runs `tool`; None for a definition of a tool that the API itself runs.

    The definition of a foreign tool is sent as it is, `eager_input_streaming` included or not; its inputs are checked
    against its schema before it is called, so that the model is told what is wrong.

    Raises:
        UsageError: Nothing could run it.
    """
    if isinstance(tool, Tool):
        if tool.is_unbound:
            raise UsageError(f"{tool.name} is a method: take the tool from an object of its class")
        return tool
    if inspect.isclass(tool):
        raise UsageError(f"{tool.__name__} is a class: make an object of it")
    if isinstance(tool, Mapping):
        if tool_kind(tool) == USER_DEFINED:
            name = tool.get("name")
            raise UsageError(f"nothing runs the tool {name!r}: give it a function, tool(function, definition=...)")
        return None
    if isinstance(tool, ForeignTool):
        definition = dict(tool.to_dict())
        # None where the definition says nothing of eager streaming: it stays unsaid.
        return Tool(tool.call, definition=definition, eager=definition.get(EAGER_FIELD))
    name = getattr(tool, "__name__", type(tool).__name__)
    raise UsageError(f"{name} cannot be run: decorate a function with @eagerstream.tool")
