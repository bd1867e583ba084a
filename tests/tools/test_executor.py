"""`InProcessExecutor`: one call in, one result out, whatever happens in between."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, field_validator

from eagerstream.errors import ToolError, UsageError
from eagerstream.growing import GrowingInput
from eagerstream.limits import Limits
from eagerstream.tools import Tool, tool
from eagerstream.tools.call import CallState, ToolCall
from eagerstream.tools.executor import InProcessExecutor
from eagerstream.wire import InputAccumulator
from tests.support import block_stop, input_delta, message_delta, tool_start


def a_call(name: str, raw: str = "", *, index: int = 0, closed: bool = True) -> ToolCall:
    """A call whose input has ended."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    accumulator.feed(tool_start(index, name))
    accumulator.feed(input_delta(index, raw))
    if closed:
        accumulator.feed(block_stop(index))
        accumulator.feed(message_delta("tool_use"))
    accumulator.close()
    return ToolCall(accumulator.inputs[index], turn=1)


async def answer_to(used: Tool | None, raw: str = "", **options: Any) -> tuple[str | None, bool]:
    """Content and `is_error` of the answer to a call."""
    executor = InProcessExecutor([used] if used else {}, **options)
    call = a_call(used.name if used else "nope", raw)
    with anyio.fail_after(10):
        await executor.execute(call)
    assert call.state is CallState.ANSWERED
    assert call.answered.is_set()
    assert call.result is not None
    assert call.result["type"] == "tool_result"
    assert call.result["tool_use_id"] == "toolu_0"
    assert call.is_error is call.result.get("is_error", False)
    return call.result.get("content"), call.is_error


@tool
async def double(n: int) -> int:
    """Double."""
    return 2 * n


@pytest.mark.anyio
async def test_success() -> None:
    """The ordinary life of a call: waiting, running, answered; `on_start` is called in between."""
    call = a_call("double", '{"n": 21}')
    states: list[CallState] = [call.state]
    call.on_start = lambda started: states.append(started.state)
    await InProcessExecutor([double]).execute(call)
    assert states == [CallState.WAITING, CallState.RUNNING]
    assert (call.state, call.ran, call.is_error) == (CallState.ANSWERED, True, False)
    assert (call.id, call.name) == ("toolu_0", "double")
    assert call.result == {"type": "tool_result", "tool_use_id": "toolu_0", "content": "42"}
    assert "42" not in repr(call)


@pytest.mark.anyio
async def test_no_arguments() -> None:
    """A call without any text is a call without arguments, and runs."""

    @tool
    async def now() -> str:
        return "noon"

    assert await answer_to(now) == ("noon", False)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ('{"n": Dave}', "INVALID_JSON"),
        ("[1]", "INVALID_JSON"),
        ('{"n": 1', "INVALID_JSON"),
        ("{}", "Error: Missing required 'n' parameter"),
        ('{"n": "1"}', "Error: Invalid parameter 'n'"),
    ],
)
async def test_inputs_that_do_not_fit(raw: str, told: str) -> None:
    """The tool does not run, `on_start` is not called, and the model is told what is wrong."""
    call = a_call("double", raw)
    call.on_start = lambda _: pytest.fail("it started")
    await InProcessExecutor([double]).execute(call)
    assert not call.ran
    assert call.is_error
    assert call.result is not None
    assert told in call.result["content"]


@pytest.mark.anyio
async def test_unknown_tool() -> None:
    """The model is told which there are."""
    executor = InProcessExecutor([double, tool(name="a")(double.__wrapped__)])
    call = a_call("nope", "{}")
    await executor.execute(call)
    assert call.result is not None
    assert call.result["content"] == "Error: Tool 'nope' not found. Available tools: a, double"
    assert call.is_error
    assert await answer_to(None) == ("Error: Tool 'nope' not found. Available tools: none", True)


async def _raise(error: BaseException) -> Any:
    @tool
    async def failing() -> None:
        raise error

    return await answer_to(failing)


@pytest.mark.anyio
async def test_exceptions() -> None:
    """Whatever a tool raises is told to the model, and stops nothing."""
    text = "the weather service API is not available (HTTP 500)"
    assert await _raise(ConnectionError(text)) == (f"ConnectionError: {text}", True)
    assert await _raise(ValueError()) == ("ValueError", True)
    assert await _raise(UsageError("not so")) == ("UsageError: not so", True)
    assert await _raise(RecursionError()) == ("RecursionError", True)
    assert await _raise(StopAsyncIteration()) == ("StopAsyncIteration", True)


@pytest.mark.anyio
async def test_tool_error() -> None:
    """A tool's own words, with its hint, and nothing around them."""
    assert await _raise(ToolError("Rate limit exceeded.")) == ("Rate limit exceeded.", True)
    hinted = ToolError("Rate limit exceeded.", hint="Retry after 60 seconds.")
    assert await _raise(hinted) == ("Rate limit exceeded. Retry after 60 seconds.", True)


@pytest.mark.anyio
async def test_a_result_that_cannot_be_sent() -> None:
    """A value without a JSON form is a mistake of the tool: the call is answered all the same."""

    @tool
    async def odd() -> object:
        return object()

    @tool
    async def bytes_in_a_block() -> list[Any]:
        return [{"type": "text", "text": b"\xff"}]

    text, is_error = await answer_to(odd)
    assert is_error
    assert text == "TypeError: a tool returned object, which has no JSON form"
    text, is_error = await answer_to(bytes_in_a_block)
    assert is_error
    assert text is not None
    assert text.startswith("TypeError: ")


@pytest.mark.anyio
async def test_a_block_with_what_json_does_not_have() -> None:
    """NaN inside a content block would spoil the next request: it is answered as a mistake, or not sent."""

    @tool
    async def odd() -> list[Any]:
        return [{"type": "text", "text": "a", "score": float("nan")}]

    content, is_error = await answer_to(odd)
    assert is_error or "nan" not in repr(content).lower()


@pytest.mark.anyio
async def test_time_out() -> None:
    """A tool that takes too long is cancelled, may clean up, and its call says so."""
    cleaned_up = False

    @tool
    async def slow() -> None:
        nonlocal cleaned_up
        try:
            await anyio.sleep_forever()
        finally:
            cleaned_up = True

    answer = await answer_to(slow, limits=Limits(tool_timeout_s=0.02))
    assert answer == ("TimeoutError: the tool did not finish within 0.02 seconds", True)
    assert cleaned_up


@pytest.mark.anyio
async def test_a_time_out_of_the_tool_s_own() -> None:
    """A tool that gives up on something by itself has not overrun its own time."""
    assert await _raise(TimeoutError("the database is slow")) == ("TimeoutError: the database is slow", True)
    text, is_error = await _raise(TimeoutError())
    assert is_error
    assert "600" not in text


@pytest.mark.anyio
async def test_a_tool_that_finishes_in_spite_of_its_time_out() -> None:
    """A result that comes although the tool was told to stop is a result."""

    @tool
    async def stubborn() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "half of it"
        return "all of it"

    text, _ = await answer_to(stubborn, limits=Limits(tool_timeout_s=0.02))
    assert text is not None


@pytest.mark.anyio
async def test_cancellation_passes() -> None:
    """Cancelled from outside, a call stays unanswered: whoever cancelled decides what becomes of it."""
    started = anyio.Event()

    @tool
    async def endless() -> None:
        started.set()
        await anyio.sleep_forever()

    call = a_call("endless", "{}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(InProcessExecutor([endless]).execute, call)
        await started.wait()
        assert call.state is CallState.RUNNING
        tasks.cancel_scope.cancel()
    assert call.result is None
    assert not call.answered.is_set()
    assert call.ran


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_cancels_itself() -> None:
    """On asyncio a tool may raise CancelledError without being cancelled: its call must be answered all the same."""

    @tool
    async def careless() -> None:
        task = asyncio.ensure_future(asyncio.sleep(3600))
        task.cancel()
        await task

    text, is_error = await answer_to(careless)
    assert is_error
    assert text is not None
    assert "CancelledError" in text


@pytest.mark.anyio
async def test_a_validator_that_fails() -> None:
    """A parameter whose type raises anything while it is checked: an answer, not the end of everything."""

    class Unlucky(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            raise KeyError(n)

    async def f(value: Unlucky) -> None: ...

    f.__annotations__["value"] = Unlucky
    text, is_error = await answer_to(tool(f), '{"value": {"n": 1}}')
    assert is_error
    assert text is not None
    assert "KeyError" in text


@pytest.mark.anyio
async def test_side_by_side() -> None:
    """Calls run beside one another, no more than the limit at once, and start in call order."""
    running: list[int] = []
    most = 0
    order: list[int] = []
    gate = anyio.Event()

    @tool
    async def work(n: int) -> int:
        nonlocal most
        order.append(n)
        running.append(n)
        most = max(most, len(running))
        if len(running) == 3:
            gate.set()
        await gate.wait()
        running.remove(n)
        return n

    executor = InProcessExecutor([work], max_concurrency=3)
    calls = [a_call("work", f'{{"n": {n}}}', index=n) for n in range(7)]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(executor.execute, call)
                await anyio.wait_all_tasks_blocked()
    assert most == 3
    assert order == sorted(order)
    assert [call.result["content"] for call in calls if call.result] == [str(n) for n in range(7)]


@pytest.mark.anyio
async def test_waiting_for_a_turn_is_not_running() -> None:
    """The time limit counts from the start of the tool, not from the start of waiting."""
    release = anyio.Event()

    @tool
    async def work(n: int) -> int:
        if n == 0:
            await release.wait()
        return n

    executor = InProcessExecutor([work], max_concurrency=1, limits=Limits(tool_timeout_s=30))
    first, second = a_call("work", '{"n": 0}'), a_call("work", '{"n": 1}', index=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(executor.execute, first)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(executor.execute, second)
        await anyio.wait_all_tasks_blocked()
        assert (first.state, second.state) == (CallState.RUNNING, CallState.WAITING)
        assert not second.ran
        release.set()
    assert second.state is CallState.ANSWERED


@pytest.mark.anyio
async def test_a_tool_has_its_own_copy() -> None:
    """What a tool does to its arguments is not seen in the input, which is echoed."""

    @tool
    async def greedy(items: list[int]) -> int:
        items.clear()
        return 0

    call = a_call("greedy", '{"items": [1, 2]}')
    await InProcessExecutor([greedy]).execute(call)
    assert call.input.value == {"items": [1, 2]}


def test_the_first_answer_counts() -> None:
    """A call has one result: a later one is dropped."""
    call = a_call("double", '{"n": 1}')
    call.answer("first")
    call.answer("second")
    call.fail(ValueError("third"))
    call.refuse("fourth")
    assert call.result is not None
    assert call.result["content"] == "first"


@pytest.mark.anyio
async def test_cancelling_a_call_that_waits_for_its_turn() -> None:
    """It gives up its place in the queue: those behind it are not held up."""
    release = anyio.Event()

    @tool
    async def work(n: int) -> int:
        if n == 0:
            await release.wait()
        return n

    executor = InProcessExecutor([work], max_concurrency=1)
    calls = [a_call("work", f'{{"n": {n}}}', index=n) for n in range(3)]
    scope = anyio.CancelScope()

    async def given_up() -> None:
        with scope:
            await executor.execute(calls[1])

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.execute, calls[0])
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(given_up)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(executor.execute, calls[2])
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            release.set()
    assert [call.state for call in calls] == [CallState.ANSWERED, CallState.WAITING, CallState.ANSWERED]
