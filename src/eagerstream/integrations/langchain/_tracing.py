"""Calls that a node starts itself, seen by LangChain's callbacks like those of its own tools."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from ...tools import Tool, ToolCall, ToolStatus, rendered, response_of
from ...wire import JSONObject, copy_json


def traced(tool: Tool) -> Tool:
    """The tool, telling the callbacks of the graph under way when it begins and how it ends.

    What a streaming tool is told to have begun with is what had come of its input by then.
    """
    changed = copy(tool)
    changed.__dict__.update(invoke=partial(_invoke, tool))
    return changed


async def _invoke(tool: Tool, arguments: JSONObject, call: ToolCall) -> Any:
    config = ensure_config()
    manager = get_async_callback_manager_for_config(config)
    inputs: Any = copy_json(call.input.partial)
    run = await manager.on_tool_start(
        {"name": tool.name, "description": tool.description},
        str(inputs),
        name=tool.name,
        inputs=inputs,
        tool_call_id=call.id,
    )
    # A call has a task of its own, and so has this variable: what the tool runs of LangChain's is its child.
    var_child_runnable_config.set(patch_config(config, callbacks=run.get_child()))
    try:
        returned = await tool.invoke(arguments, call)
        response = response_of(returned)
    except Exception as error:
        await run.on_tool_error(error, tool_call_id=call.id)
        raise
    status = "error" if response.status is ToolStatus.ERROR else "success"
    content: Any = rendered(response)
    await run.on_tool_end(ToolMessage(content, tool_call_id=call.id, name=call.name, status=status), name=tool.name)
    return returned
