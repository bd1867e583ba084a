"""Tools of other libraries, used without changes: anything with `to_dict()` and `call()`.

Examples are the anthropic package's `beta_async_tool` and `beta_tool`, its builtin tools and its helpers for MCP
servers.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar  # with a default, which the one of Python has from 3.13 on

from eagerstream_wire._tool_kind import EAGER_FIELD, classify, tool_kind

from ..errors import UsageError
from ._definition import ForeignDefinition, Tool

_log = logging.getLogger(__name__)

ContextT = TypeVar("ContextT", default=Any)
NO_CONTEXT: Final[Any] = None
"""The default of parameters that are a `ContextT`."""


@runtime_checkable
class ForeignTool(Protocol):
    """A tool of another library."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return the definition in the API's form."""
        ...

    @property
    def call(self) -> Callable[[Any], Any]:
        """A function that runs the tool with an input (an object). It may be plain or async."""
        ...


GivenTool: TypeAlias = Tool[..., Any, ContextT] | ForeignTool | Mapping[str, Any]
"""A tool that the user passes to a run with this context. One that takes no `Context` fits every run.

`ForeignTool` alone is no place for one that does: it cannot be called without the context.
"""


def as_tool(tool: object, *, runs_elsewhere: bool = False) -> Tool | None:
    """Return the tool that runs `tool`; None for a definition whose calls are not run here.

    A definition of a tool that the API itself runs gives None. So does one of an unknown kind: it is sent, its calls
    are never run, and a warning is logged once. The definition of a foreign tool is sent unchanged, with or without
    `eager_input_streaming`. Its inputs are checked against its schema before the call, so that the model learns of
    faults.

    Args:
        tool: A tool that the user passed to `run`.
        runs_elsewhere: True if the user's own executor may run a tool whose schema the API brings.

    Raises:
        UsageError: Nothing could run `tool`.
    """
    if isinstance(tool, Tool):
        if tool.is_unbound:
            raise UsageError(f"{tool.name} is a method: take the tool from an object of its class")
        return tool
    if inspect.isclass(tool):
        raise UsageError(f"{tool.__name__} is a class: make an object of it")
    if isinstance(tool, Mapping):
        kind = tool_kind(tool)
        match classify(tool):
            case "user":
                given = tool.get("name")
                raise UsageError(f"nothing runs the tool {given!r}: give it a function, tool(function, definition=...)")
            case "anthropic_client" if not runs_elsewhere:
                raise UsageError(
                    f"nothing runs {kind}: the API brings only its schema. Instead of the definition, give the tool of "
                    "eagerstream_toolkit or a function, tool(function, definition=...), or give run an executor for it"
                )
            case "opaque":
                _warn_of_unknown(kind)
            case _:
                pass
        return None
    if isinstance(tool, ForeignTool):
        definition = ForeignDefinition(tool.to_dict())
        # None if the definition has no field for eager streaming: none is added.
        return Tool(tool.call, definition=definition, eager=definition.get(EAGER_FIELD))
    name = getattr(tool, "__name__", type(tool).__name__)
    if isinstance(tool, Iterable) and not isinstance(tool, str):
        raise UsageError(f"{name} is not a single tool: pass its items, tools=[*...]")
    raise UsageError(f"{name} cannot be run: decorate a function with @eagerstream.tool")


@lru_cache(maxsize=64)
def _warn_of_unknown(kind: str) -> None:
    """Log the warning once for each kind."""
    _log.warning("%.80r is an unknown kind of tool: it is sent, and its calls are not run", kind)
