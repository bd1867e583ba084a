"""`as_eager_tool`: a tool of pydantic-ai's in a run of eagerstream."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai import ModelRetry, RunContext, Tool as PydanticAITool
from pydantic_ai.exceptions import ToolFailed

from ...errors import ToolError, UsageError
from ...tools import Tool, ToolCall, ToolResponse
from ._content import response_of


def as_eager_tool(
    tool: PydanticAITool[Any], *, context: RunContext[Any] | None = None, approve: Any = None, eager: bool | None = True
) -> Tool:
    """A tool of pydantic-ai's as one of eagerstream's, for `eagerstream.run` and everything else that takes tools.

    Its arguments are validated by its own types, its own validator included; its `timeout` and `sequential` are kept.
    A `ModelRetry` is an error that the model is told: there is no count of retries here. `prepare` is not asked.

    Args:
        tool: Made by `pydantic_ai.Tool(function)`.
        context: What a tool that takes a `RunContext` is given, with the call's name and id in it.
        approve: As for `eagerstream.tool`.
        eager: Its `eager_input_streaming`.

    Raises:
        UsageError: It takes a `RunContext` and there is none, or it requires approval and nobody is asked.
    """
    if context is None and (tool.takes_ctx or tool.args_validator is not None):
        raise UsageError(f"{tool.name} takes a RunContext: give as_eager_tool a context")
    if tool.requires_approval and approve is None:
        raise UsageError(f"{tool.name} requires approval: give as_eager_tool somebody to ask, approve=...")

    async def run(input: dict[str, Any], call: ToolCall) -> ToolResponse:
        # The context is looked at only by a tool that takes one.
        called: Any = context and replace(context, tool_name=call.name, tool_call_id=call.id)
        arguments = tool.function_schema.validator.validate_json(json.dumps(input))
        try:
            if tool.args_validator is not None:
                checked: Any = tool.args_validator(called, **arguments)
                if inspect.isawaitable(checked):
                    await checked
            return response_of(await tool.function_schema.call(arguments, called))
        except (ModelRetry, ToolFailed) as error:
            raise ToolError(error.message) from error

    definition: Mapping[str, Any] = {
        "name": tool.name,
        "description": tool.description or "",
        "input_schema": tool.function_schema.json_schema,
        **({"strict": True} if tool.strict else {}),
    }
    options: dict[str, Any] = {"timeout_s": tool.timeout} if tool.timeout is not None else {}
    if tool.sequential:
        options["group"] = "sequential"
    return Tool(run, definition=definition, approve=approve, eager=eager, **options)
