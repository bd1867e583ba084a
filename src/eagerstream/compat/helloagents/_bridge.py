"""A registry's tools as those that `eagerstream.run` takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from ... import tools
from ...builtin._tool_options import with_defaults
from ...tools import ToolCall, ToolOptions, ToolResponse
from .._answering import answered_call, answering
from ._places import Places
from ._tool import Tool


def bridged(
    name: str,
    tool: Tool,
    execute: Callable[[str, dict[str, Any]], Awaitable[ToolResponse]],
    places: Places | None,
    options: ToolOptions,
) -> tools.Tool:
    """A tool for the loop: its inputs stream eagerly, and are checked against its schema before `execute` gets them.

    Each call takes one of the `places`. A call that a tool makes while it answers another one takes none: the outer
    calls could hold all places, and would wait for it forever.

    Raises:
        UsageError: The API takes no such definition, or the options do not fit.
    """

    async def answer(parameters: dict[str, Any], call: ToolCall) -> ToolResponse:
        is_outermost = answered_call() is None
        async with places.taken() if places is not None and is_outermost else nullcontext():
            with answering(call):
                return await execute(name, parameters)

    settings = with_defaults(options, group=tool.group)
    settings["definition"] = {key: value for key, value in {**tool.to_anthropic(), "name": name}.items() if value}
    return tools.Tool(answer, **settings)
