"""Calls whose inputs have ended, and executors that run them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import anyio
import anyio.to_thread

from eagerstream.inputs import GrowingInput
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import CallState, InProcessExecutor, RunningCall, Tool, ToolCall, tool
from eagerstream_wire import InputAccumulator
from tests.streams import block_stop, input_delta, message_delta, tool_start


def a_call(
    name: str = "tool",
    raw: str = "",
    *,
    index: int = 0,
    closed: bool = True,
    turn: int = 1,
    limits: Limits = DEFAULT_LIMITS,
    **fields: Any,
) -> ToolCall:
    """A call whose input has ended; `fields` are added to its block."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    accumulator.feed(tool_start(index, name, **fields))
    accumulator.feed(input_delta(index, raw))
    if closed:
        accumulator.feed(block_stop(index))
        accumulator.feed(message_delta("tool_use"))
    accumulator.close()
    return ToolCall(
        accumulator.inputs[index], turn=turn, limits=limits, failed_groups=FAILED_GROUPS.setdefault(turn, {})
    )


FAILED_GROUPS: dict[int, dict[str, ToolCall]] = {}
"""What the calls of a turn share, by its number."""


async def answer_to(used: Tool | None, raw: str = "", **options: Any) -> tuple[str | None, bool]:
    """Content and `is_error` of the answer to a call."""
    executor = InProcessExecutor([used] if used else {}, **options)
    call = a_call(used.name if used else "nope", raw)
    with anyio.fail_after(30):
        await executor.execute(call)
    assert call.state in (CallState.ANSWERED, CallState.REFUSED)
    assert call.answered.is_set()
    assert call.result is not None
    assert call.result["type"] == "tool_result"
    assert call.result["tool_use_id"] == "toolu_0"
    assert call.is_error is call.result.get("is_error", False)
    return call.result.get("content"), call.is_error


async def execute_all(executor: InProcessExecutor, calls: Sequence[ToolCall], *, reverse: bool = False) -> None:
    """Admit the calls in call order and run them beside one another, as a turn does."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for call in calls:
                executor.admit(call)
            for call in reversed(calls) if reverse else calls:
                tasks.start_soon(executor.execute, call)


def contents(calls: Sequence[ToolCall]) -> list[Any]:
    """What the model reads of each."""
    return [call.result.get("content") if call.result else None for call in calls]


WEATHER_ID = "toolu_01A09q90qw90lq917835lq9"


def answered(returned: Any = None, *, raised: Exception | None = None, id: str = WEATHER_ID) -> dict[str, Any]:
    """The whole way: what a tool returned or raised, in its call's `tool_result`, as JSON says it."""
    call = a_call(id=id)
    if raised is None:
        call.answer(returned)
    else:
        call.fail(raised)
    assert call.result is not None
    result: dict[str, Any] = json.loads(json.dumps(call.result, allow_nan=False))
    return result


@tool
async def double(n: int) -> int:
    """Double."""
    return 2 * n


def a_toolset(kind: str = "computer_toolset_20260801", **options: Any) -> Tool:
    """Runs the members of a toolset, and says which."""

    async def act(input: dict[str, Any], call: RunningCall) -> str:
        if input.get("fail"):
            raise ValueError("the screen is locked")
        return f"{kind} {call.name} {input}"

    return tool(act, definition={"type": kind}, **options)


async def cancelled(
    function: Callable[..., Coroutine[Any, Any, object]], *arguments: Any, when: Awaitable[object]
) -> None:
    """Call a function in a task, and cancel the task once `when` has come."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(function, *arguments)
            await when
            tasks.cancel_scope.cancel()
