"""`InProcessExecutor`: one call in, one result out, whatever happens in between."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from eagerstream import RunningCall, TextStream
from eagerstream.errors import ToolError, UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import CallState, InProcessExecutor, ToolCall, tool
from eagerstream.tools._call import CallHost
from eagerstream_wire import InputAccumulator
from tests.streams import block_stop, input_delta, message_delta, tool_start
from tests.support import Heard, Unlucky, all_tasks_blocked
from tests.tools.calls import a_call, answer_to, contents, double, execute_all

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent


async def test_success() -> None:
    """The ordinary life of a call: waiting, running, answered; `on_start` is called in between."""
    call = a_call("double", '{"n": 21}')
    states: list[CallState] = [call.state]
    call.listeners = (Heard(on_start=lambda started: states.append(started.state)),)
    await InProcessExecutor([double]).execute(call)
    assert states == [CallState.WAITING, CallState.RUNNING]
    assert (call.state, call.ran, call.is_error) == (CallState.ANSWERED, True, False)
    assert (call.id, call.name) == ("toolu_0", "double")
    assert call.result == {"type": "tool_result", "tool_use_id": "toolu_0", "content": "42"}
    assert "42" not in repr(call)


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
    call.listeners = (Heard(on_start=lambda _: pytest.fail("it started")),)
    await InProcessExecutor([double]).execute(call)
    assert not call.ran
    assert call.is_error
    assert call.result is not None
    assert told in call.result["content"]


async def _raise(error: BaseException) -> Any:
    @tool
    async def failing() -> None:
        raise error

    return await answer_to(failing)


async def test_exceptions() -> None:
    """Whatever a tool raises is told to the model, and stops nothing."""
    text = "the weather service API is not available (HTTP 500)"
    assert await _raise(ConnectionError(text)) == (f"ConnectionError: {text}", True)
    assert await _raise(ValueError()) == ("ValueError", True)
    assert await _raise(UsageError("not so")) == ("UsageError: not so", True)
    assert await _raise(RecursionError()) == ("RecursionError", True)
    assert await _raise(StopAsyncIteration()) == ("StopAsyncIteration", True)


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


async def test_a_block_with_what_json_does_not_have() -> None:
    """NaN inside a content block would spoil the next request: it is answered as a mistake, or not sent."""

    @tool
    async def odd() -> list[Any]:
        return [{"type": "text", "text": "a", "score": float("nan")}]

    content, is_error = await answer_to(odd)
    assert is_error or "nan" not in repr(content).lower()


async def test_what_a_tool_has_done_that_takes_too_long() -> None:
    """The model gets it with the reason."""

    @tool(timeout_s=0.01)
    async def sweep(call: RunningCall) -> None:
        """Sweep all rooms."""
        call.done_so_far = "Swept 2 of 3 rooms."
        await anyio.sleep_forever()

    reason = "TimeoutError: the tool did not finish within 0.01 seconds"
    assert await answer_to(sweep) == (f"{reason}\nSwept 2 of 3 rooms.", True)


async def test_a_time_out_of_the_tool_s_own() -> None:
    """A tool that gives up on something by itself has not overrun its own time."""
    assert await _raise(TimeoutError("the database is slow")) == ("TimeoutError: the database is slow", True)
    text, is_error = await _raise(TimeoutError())
    assert is_error
    assert "600" not in text


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


async def test_a_validator_that_fails() -> None:
    """A parameter whose type raises anything while it is checked: an answer, not the end of everything."""

    async def f(value: Unlucky) -> None: ...

    text, is_error = await answer_to(tool(f), '{"value": {"n": 1}}')
    assert is_error
    assert text is not None
    assert "KeyError" in text


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "general", "told"), [(0.01, 60, "0.01"), (None, 0.02, "0.02")])
async def test_whose_time_counts(own: float | None, general: float, told: str) -> None:
    """A tool's own time limit counts, the general one where it has none. The tool is cancelled, and may clean up."""
    cleaned_up = []

    @tool(timeout_s=own)
    async def slow() -> None:
        """Slow."""
        try:
            await anyio.sleep_forever()
        finally:
            cleaned_up.append(True)

    content, is_error = await answer_to(slow, limits=Limits(tool_timeout_s=general))
    assert (content, is_error) == (f"TimeoutError: the tool did not finish within {told} seconds", True)
    assert cleaned_up


async def test_more_time_than_the_others() -> None:
    """A longer time of its own is not cut short by the general limit."""
    threads_done = threading.Event()

    @tool(timeout_s=60)
    async def long() -> str:
        """Long."""
        await anyio.sleep(0.01)  # ten times the general limit
        return "done"

    @tool(timeout_s=60)
    def long_in_thread() -> str:
        """Long."""
        threads_done.wait(0.01)
        return "done"

    for used in (long, long_in_thread):
        assert await answer_to(used, limits=Limits(tool_timeout_s=0.001)) == ("done", False)


async def test_a_def_that_times_out() -> None:
    """Its call is answered in time, although its thread goes on; what it returns then is dropped."""
    started, released, ended = threading.Event(), threading.Event(), threading.Event()

    @tool(timeout_s=0.01)
    def slow() -> str:
        """Slow."""
        started.set()
        assert released.wait(10)
        ended.set()
        return "too late"

    call = a_call("slow", "{}")
    await execute_all(InProcessExecutor([slow]), [call])
    before = call.result
    assert contents([call]) == ["TimeoutError: the tool did not finish within 0.01 seconds"]
    assert call.response is not None
    assert call.response.code == "TIMEOUT"
    released.set()
    if started.is_set():  # on a busy machine the time may be over before the thread gets to it
        assert await anyio.to_thread.run_sync(ended.wait, 10)
    assert call.result is before


# --- answered without waiting -----------------------------------------------------------------------------------------


async def test_what_need_not_run_does_not_wait() -> None:
    """Unknown tools, invalid inputs and arguments that do not fit are answered while all slots are taken."""
    release = anyio.Event()

    @tool
    async def slow(n: int = 0) -> None:
        """Slow."""
        await release.wait()

    executor = InProcessExecutor([slow], max_concurrency=1)
    first = a_call("slow", "{}")
    others = [a_call("nope", "{}", index=1), a_call("slow", "[1", index=2), a_call("slow", '{"n": "x"}', index=3)]
    last = a_call("slow", "{}", index=4)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for call in (first, *others, last):
                executor.admit(call)
                tasks.start_soon(executor.execute, call)
            await all_tasks_blocked()
            assert [call.state for call in others] == [CallState.REFUSED] * 3
            assert (first.state, last.state) == (CallState.RUNNING, CallState.WAITING)
            release.set()
    assert [call.response.code for call in others if call.response] == ["NOT_FOUND", "INVALID_FORMAT", "INVALID_PARAM"]


@pytest.mark.parametrize("group", [None, "g"])
async def test_a_call_that_is_answered_while_it_waits(group: str | None) -> None:
    """It is not run, and those behind it are."""
    release = anyio.Event()
    ran: list[int] = []

    @tool(group=group)
    async def work(n: int) -> int:
        """Work."""
        ran.append(n)
        await release.wait()
        return n

    executor = InProcessExecutor([work], max_concurrency=1)
    calls = [a_call("work", f'{{"n": {n}}}', index=n) for n in range(3)]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for call in calls:
                executor.admit(call)
                tasks.start_soon(executor.execute, call)
            await all_tasks_blocked()
            calls[1].refuse("Not executed: the run is over.")
            release.set()
    assert ran == [0, 2]
    assert contents(calls) == ["0", "Not executed: the run is over.", "2"]
    assert not calls[1].ran


# --- what reaches the tool --------------------------------------------------------------------------------------------


async def test_accepts_invalid_input() -> None:
    """The tool itself gets the text that is no JSON; one that was cut off is still answered without it."""

    @tool(accepts_invalid_input=True)
    async def lenient(n: int = 0, INVALID_JSON: str | None = None) -> str:
        """Take anything."""
        return f"{n} {INVALID_JSON}"

    async def take(input: dict[str, Any]) -> dict[str, Any]:
        return input

    definition = {"name": "take", "description": "T.", "input_schema": {"type": "object", "required": ["a"]}}
    raw = tool(take, definition=definition, accepts_invalid_input=True)
    for used, valid, expected in ((lenient, '{"n": 1}', "1 None"), (raw, '{"a": 1}', '{"a": 1}')):
        assert await answer_to(used, valid) == (expected, False)
    assert await answer_to(lenient, '{"n": Dave}') == ('0 {"n": Dave}', False)
    assert await answer_to(raw, "[1]") == ('{"INVALID_JSON": "[1]"}', False)
    assert (await answer_to(raw, "{}"))[0] == "Error: Missing required 'a' parameter"
    assert (await answer_to(lenient, '{"INVALID_JSON": "x"}'))[0] == "Error: Unknown parameter 'INVALID_JSON'"
    cut = a_call("lenient", '{"n": 1', closed=False)
    await InProcessExecutor([lenient]).execute(cut)
    assert not cut.ran
    assert cut.is_error


# --- what watchers see ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError("a"), "NOT_FOUND"),
        (TimeoutError("a"), "TIMEOUT"),
        (ConnectionRefusedError("a"), "NETWORK_ERROR"),
        (ToolError("a", code="CONFLICT"), "CONFLICT"),
        (ValueError("a"), "EXECUTION_ERROR"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_codes_of_failures(error: Exception, code: str) -> None:
    """An exception is a response with its code, from an async tool and from a thread; the model reads the text."""

    @tool
    async def f() -> None:
        """F."""
        raise error

    @tool
    def g() -> None:
        """G."""
        raise error

    for used in (f, g):
        call = a_call(used.name, "{}")
        await InProcessExecutor([used]).execute(call)
        assert call.response is not None
        assert (call.response.status, call.response.code) == ("error", code)
        assert call.is_error
        assert f"[{code}]" not in contents([call])[0]


async def test_a_tool_s_own_task_group_fails() -> None:
    """A group of errors is a failure like others, and so is one with a cancellation of its own inside."""

    async def fail() -> None:
        raise ConnectionError("no route")

    @tool
    async def f() -> None:
        """F."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            tasks.start_soon(anyio.sleep_forever)

    assert await answer_to(f, "{}") == ("ConnectionError: no route", True)


@pytest.mark.slow
def test_a_thread_that_outlives_its_event_loop() -> None:
    """It tells nobody any more, and holds up nothing: the process ends when the thread does."""
    program = """
import anyio, sys, threading
from eagerstream.tools import InProcessExecutor, tool
from tests.tools.calls import a_call
release = threading.Event()

@tool(timeout_s=0.05)
def work():
    yield 1
    release.wait(10)
    yield 2

async def main():
    await InProcessExecutor([work]).execute(a_call("work"))

anyio.run(main, backend=sys.argv[1])
release.set()
"""
    for backend in ("asyncio", "trio"):
        subprocess.run([sys.executable, "-c", program, backend], check=True, timeout=50, cwd=ROOT)


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_that_is_answered_while_its_start_is_written(streams: bool) -> None:
    """Its tool is not called any more, whether its input was still being written or not."""
    begun = []

    @tool
    async def write(body: TextStream) -> str:
        """Write."""
        begun.append([piece async for piece in body])
        return "written"

    async def refuse(call: ToolCall) -> None:
        call.refuse("too late")

    accumulator = InputAccumulator(input_type=GrowingInput)
    accumulator.feed(tool_start(0, "write"))
    accumulator.feed(input_delta(0, '{"body": "x"}'))
    call = ToolCall(accumulator.inputs[0], 1, DEFAULT_LIMITS, failed_groups={})
    call.streams, call.tool = streams, write
    if not streams:
        accumulator.feed(block_stop(0))
        accumulator.feed(message_delta("tool_use"))
    call.host = CallHost()
    call.host.gate = refuse
    executor = InProcessExecutor([write])
    executor.admit(call)
    with anyio.fail_after(30):
        await executor.execute(call)
    assert (begun, call.text, call.is_error) == ([], "too late", True)
