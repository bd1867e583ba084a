"""What others see of the calls that a node starts: LangGraph's custom stream, and LangChain's callbacks."""

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

from ...streaming import GrowingInput
from ...tools import Tool, ToolCall, ToolStatus, rendered, response_of
from ...wire import InputDelta, InputEvent, InputStart, InputStop, JSONObject, copy_json

_SHARE: Final = 64
"""A partial input is told again when it has grown by so small a share: all that is told of an input is then at most so
many times as long as the input itself, however short its fragments are."""


class Telling:
    """Writes dicts to the stream writer of the graph under way; where there is none, nothing.

    ========================  ==========================================================================
    `type`                    besides `tool_call_id` and `name`
    ========================  ==========================================================================
    `tool_input`              `input`: what has come of the arguments; `outcome`: None as long as they are
                              written, then `"valid"`, `"invalid"` or `"incomplete"`
    `tool_start`              the tool is called
    `tool_progress`           `progress`: what the tool tells
    `tool_stop`               `is_error`: how it was answered
    ========================  ==========================================================================

    Args:
        left: Tools of which nothing is told but their inputs: others run them.
    """

    def __init__(self, *, left: Collection[str] = ()) -> None:
        self._left = left
        self._write = _stream_writer()
        self._told_chars: dict[GrowingInput, int] = {}

    def inputs(self, events: Iterable[InputEvent[GrowingInput]]) -> None:
        """Tell what has come of inputs."""
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
        """A tool is called."""
        if call.name not in self._left:
            self._tell("tool_start", call)

    def progress(self, call: ToolCall, value: Any) -> None:
        """A tool tells how far it is."""
        self._tell("tool_progress", call, progress=value)

    def stop(self, call: ToolCall) -> None:
        """A call has been answered."""
        if call.name not in self._left:
            self._tell("tool_stop", call, is_error=call.is_error)

    def _input(self, input: GrowingInput) -> None:
        self._told_chars[input] = input.chars
        outcome = input.outcome and input.outcome.value
        self._tell("tool_input", input, input=copy_json(input.partial), outcome=outcome)

    def _tell(self, kind: str, call: ToolCall | GrowingInput, **more: Any) -> None:
        self._write({"type": kind, "tool_call_id": call.id, "name": call.name, **more})


def _stream_writer() -> Callable[[Any], object]:
    from langgraph.config import get_stream_writer

    try:
        return get_stream_writer()
    except (RuntimeError, KeyError):  # outside of a graph
        return lambda _: None


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
