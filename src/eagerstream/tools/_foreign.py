"""Tools made elsewhere, taken as they are: anything with `to_dict()` and `call()`.

The anthropic package's `beta_async_tool` and `beta_tool`, its builtin tools and its helpers for MCP servers are such.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from ..errors import UsageError
from ..wire._tool_kind import EAGER_FIELD, classify, tool_kind
from ._definition import Tool

_log = logging.getLogger(__name__)


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


def as_tool(tool: object, *, runs_elsewhere: bool = False) -> Tool | None:
    """What runs `tool`; None for a definition of a tool that nothing here is to run.

    That is one that the API itself runs, and one of a kind that is not known: it is sent, never run, and warned of in
    the log, once. The definition of a foreign tool is sent as it is, `eager_input_streaming` included or not; its
    inputs are checked against its schema before it is called, so that the model is told what is wrong.

    Args:
        tool: What was given to `run`.
        runs_elsewhere: An executor of the user's own may know how to run a tool whose schema the API brings.

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
        _check_definition(tool, runs_elsewhere=runs_elsewhere)
        return None
    if isinstance(tool, ForeignTool):
        definition = dict(tool.to_dict())
        # None where the definition says nothing of eager streaming: it stays unsaid.
        return Tool(tool.call, definition=definition, eager=definition.get(EAGER_FIELD))
    name = getattr(tool, "__name__", type(tool).__name__)
    if isinstance(tool, Iterable) and not isinstance(tool, str):
        raise UsageError(f"{name} is not one tool: give what is in it, tools=[*...]")
    raise UsageError(f"{name} cannot be run: decorate a function with @eagerstream.tool")


def _check_definition(definition: Mapping[str, Any], *, runs_elsewhere: bool) -> None:
    """A definition without anything that runs it is right for some kinds only."""
    kind = tool_kind(definition)
    match classify(definition):
        case "user":
            name = definition.get("name")
            raise UsageError(f"nothing runs the tool {name!r}: give it a function, tool(function, definition=...)")
        case "anthropic_client" if not runs_elsewhere:
            raise UsageError(
                f"nothing runs {kind}: the API brings only its schema. Instead of the definition, give the tool "
                "of eagerstream.builtin or a function, tool(function, definition=...), or give run an executor for it"
            )
        case "opaque":
            _warn_of_unknown(kind)
        case _:
            pass


@lru_cache(maxsize=64)
def _warn_of_unknown(kind: str) -> None:
    """Once for each kind."""
    _log.warning("%.80r is no kind of tool that is known here: it is sent, and calls of it are not run", kind)
