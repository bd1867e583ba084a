"""Reports about the calls that a node starts, for LangGraph's custom stream and LangChain's callbacks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from copy import copy
from functools import partial
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from eagerstream import InputDelta, InputEvent, InputStart, InputStop, JSONObject, copy_json
from eagerstream.inputs import GrowingInput
from eagerstream.tools import Tool, ToolCall, ToolStatus, rendered, response_of

_SHARE: Final = 64
"""Divisor of the growth after which a partial input is reported again. All reports of an input together are then at
most about this many times as long as the input, even with short fragments."""


class Telling:
    """Writer of dicts to the running graph's stream writer. Outside of a graph, it writes nothing.

    ========================  ==========================================================================
    `type`                    fields besides `tool_call_id` and `name`
    ========================  ==========================================================================
    `tool_input`              `input`: the arguments so far; `outcome`: None while they are being
                              written, then `"valid"`, `"invalid"` or `"incomplete"`
    `tool_start`              none: the tool starts
    `tool_progress`           `progress`: the value that the tool reports
    `tool_stop`               `is_error`: whether the answer is an error
    ========================  ==========================================================================

    Args:
        left: Names of tools that others run. For these, only the inputs are reported.
    """

    def __init__(self, *, left: Collection[str] = ()) -> None:
        from langgraph.config import get_stream_writer

        self._left = left
        self._write: Callable[[Any], object]
        try:
            self._write = get_stream_writer()
        except (RuntimeError, KeyError):  # outside of a graph
            self._write = lambda _: None
        self._told_chars: dict[GrowingInput, int] = {}

    def inputs(self, events: Iterable[InputEvent[GrowingInput]]) -> None:
        """Report the growth of inputs."""
        for event in events:
            match event:
                case InputStart(input=input):
                    self._input(input)
                case InputDelta(input=input) if input.chars * _SHARE >= self._told_chars[input] * (_SHARE + 1):
                    self._input(input)
                case InputStop(input=input):
                    self._input(input)
                case _:
                    pass

    def start(self, call: ToolCall) -> None:
        """Report the start of a tool."""
        if call.name not in self._left:
            self._tell("tool_start", call)

    def progress(self, call: ToolCall, value: Any) -> None:
        """Report the progress of a tool."""
        self._tell("tool_progress", call, progress=value)

    def stop(self, call: ToolCall) -> None:
        """Report the answer to a call."""
        if call.name not in self._left:
            self._tell("tool_stop", call, is_error=call.is_error)

    def _input(self, input: GrowingInput) -> None:
        self._told_chars[input] = input.chars
        outcome = input.outcome and input.outcome.value
        self._tell("tool_input", input, input=copy_json(input.partial), outcome=outcome)

    def _tell(self, kind: str, call: ToolCall | GrowingInput, **more: Any) -> None:
        self._write({"type": kind, "tool_call_id": call.id, "name": call.name, **more})


def traced(tool: Tool) -> Tool:
    """Return a tool that reports its start and end to the callbacks of the running graph.

    The start of a streaming tool reports the part of its input that has arrived.
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
    # Each call has its own task, and so its own value of this variable: LangChain objects that the tool runs are its
    # children.
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
