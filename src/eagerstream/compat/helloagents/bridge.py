"""A registry's tools as those that `eagerstream.run` takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ... import tools
from ...builtin.tool_options import with_defaults
from ...tools import ToolCall, ToolOptions, ToolResponse
from ..answering import answering
from .tool import Tool


def bridged(
    name: str, tool: Tool, execute: Callable[[str, dict[str, Any]], Awaitable[ToolResponse]], options: ToolOptions
) -> tools.Tool:
    """A tool for the loop: its inputs stream eagerly, and are checked against its schema before `execute` gets them.

    Raises:
        UsageError: The API takes no such definition, or the options do not fit.
    """

    async def answer(parameters: dict[str, Any], call: ToolCall) -> ToolResponse:
        with answering(call):
            return await execute(name, parameters)

    settings = with_defaults(options, group=tool.group)
    settings["definition"] = {key: value for key, value in {**tool.to_anthropic(), "name": name}.items() if value}
    return tools.Tool(answer, **settings)
