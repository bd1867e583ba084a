"""`InProcessExecutor`: one call in, one result out, whatever happens in between."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from eagerstream.errors import ToolError, UsageError
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.loop import EarlyCalls, Turn
from eagerstream.loop._policy import ending_of
from eagerstream.streaming import GrowingInput
from eagerstream.tools import CallState, Group, InProcessExecutor, Tool, ToolCall, ToolResponse, tool
from eagerstream.wire import InputAccumulator
from tests.support import Heard, Unlucky, all_tasks_blocked, block_stop, input_delta, message_delta, tool_start

ROOT = Path(__file__).parent.parent.parent


def a_call(name: str, raw: str = "", *, index: int = 0, closed: bool = True, turn: int = 1, **fields: Any) -> ToolCall:
    """A call whose input has ended; `fields` are added to its block."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    accumulator.feed(tool_start(index, name, **fields))
    accumulator.feed(input_delta(index, raw))
    if closed:
        accumulator.feed(block_stop(index))
        accumulator.feed(message_delta("tool_use"))
    accumulator.close()
    return ToolCall(accumulator.inputs[index], turn=turn, failed_groups=_FAILED.setdefault(turn, {}))


_FAILED: dict[int, dict[str, ToolCall]] = {}
"""What the calls of a turn share, by its number."""


@pytest.fixture(autouse=True)
def _no_turns_before() -> None:
    _FAILED.clear()


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
    call.listener = Heard(on_start=lambda started: states.append(started.state))
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
    call.listener = Heard(on_start=lambda _: pytest.fail("it started"))
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

    async def f(value: Unlucky) -> None: ...

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
                await all_tasks_blocked()
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
        await all_tasks_blocked()
        tasks.start_soon(executor.execute, second)
        await all_tasks_blocked()
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
            await all_tasks_blocked()
            tasks.start_soon(given_up)
            await all_tasks_blocked()
            tasks.start_soon(executor.execute, calls[2])
            await all_tasks_blocked()
            scope.cancel()
            await all_tasks_blocked()
            release.set()
    assert [call.state for call in calls] == [CallState.ANSWERED, CallState.WAITING, CallState.ANSWERED]


# --- groups -----------------------------------------------------------------------------------------------------------


async def execute_all(executor: InProcessExecutor, calls: Sequence[ToolCall], *, reverse: bool = False) -> None:
    """Admit the calls in call order and run them beside one another, as a turn does."""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for call in calls:
                executor.admit(call)
            for call in reversed(calls) if reverse else calls:
                tasks.start_soon(executor.execute, call)


def contents(calls: Sequence[ToolCall]) -> list[Any]:
    """What the model reads of each."""
    return [call.result.get("content") if call.result else None for call in calls]


class Files:
    """Tools with a state: each write notes when it begins and ends."""

    def __init__(self, *failing: int) -> None:
        self.log: list[str] = []
        self.failing = failing

    @tool(group=Group("files", stop_on_error=True))
    async def write_file(self, n: int) -> str:
        """Write."""
        self.log.append(f"begin {n}")
        await anyio.lowlevel.checkpoint()
        self.log.append(f"end {n}")
        if n in self.failing:
            raise OSError("the disk is full")
        return f"wrote {n}"

    @tool(group=Group("files", stop_on_error=True))
    async def read_file(self, n: int) -> str:
        """Read."""
        self.log.append(f"read {n}")
        return f"read {n}"


def writes(*numbers: int, turn: int = 1) -> list[ToolCall]:
    """Calls of `write_file`."""
    return [a_call("write_file", f'{{"n": {n}}}', index=n, turn=turn) for n in numbers]


@pytest.mark.anyio
@pytest.mark.parametrize("reverse", [False, True])
async def test_a_group_runs_one_at_a_time(reverse: bool) -> None:
    """In call order, whichever task starts first; a group across several tools."""
    files = Files()
    executor = InProcessExecutor([files.write_file, files.read_file])
    calls = [*writes(0, 1), a_call("read_file", '{"n": 2}', index=2), *writes(3)]
    await execute_all(executor, calls, reverse=reverse)
    assert files.log == ["begin 0", "end 0", "begin 1", "end 1", "read 2", "begin 3", "end 3"]
    assert contents(calls) == ["wrote 0", "wrote 1", "read 2", "wrote 3"]


@pytest.mark.anyio
async def test_a_group_holds_up_no_others() -> None:
    """Calls that wait for their group take no slot; another group runs beside it."""
    release = anyio.Event()
    ran: list[str] = []

    @tool(group="a")
    async def slow() -> None:
        """Slow."""
        await release.wait()

    @tool
    async def quick() -> None:
        """Quick."""
        ran.append("quick")

    @tool(group="b")
    async def other() -> None:
        """Other."""
        ran.append("other")
        release.set()

    executor = InProcessExecutor([slow, quick, other], max_concurrency=2)
    calls = [a_call(name, "{}", index=n) for n, name in enumerate(["slow", "slow", "slow", "quick", "other"])]
    await execute_all(executor, calls)
    assert ran == ["quick", "other"]
    assert all(call.ran for call in calls)


@pytest.mark.anyio
@pytest.mark.parametrize("reverse", [False, True])
async def test_a_group_that_stops_on_error(reverse: bool) -> None:
    """Golden: the rest is answered in the API's words, without running; a later turn starts afresh."""
    files = Files(1)
    executor = InProcessExecutor([files.write_file, files.read_file])
    calls = [*writes(0, 1, 2), a_call("read_file", '{"n": 3}', index=3)]
    await execute_all(executor, calls, reverse=reverse)
    assert [call.result for call in calls[2:]] == [
        {
            "type": "tool_result",
            "tool_use_id": f"toolu_{n}",
            "content": "Not executed: the preceding write_file call failed.",
            "is_error": True,
        }
        for n in (2, 3)
    ]
    assert [call.ran for call in calls] == [True, True, False, False]
    assert contents(calls[:2]) == ["wrote 0", "OSError: the disk is full"]
    later = writes(5, turn=2)
    await execute_all(executor, later)
    assert contents(later) == ["wrote 5"]


@pytest.mark.anyio
@pytest.mark.parametrize("raw", ["{}", "[1", '{"n": "x"}'])
async def test_a_call_that_could_not_run_stops_its_group_too(raw: str) -> None:
    """What comes behind it may build on it."""
    files = Files()
    calls = [a_call("write_file", raw), *writes(1)]
    await execute_all(InProcessExecutor([files.write_file]), calls)
    assert contents(calls)[1] == "Not executed: the preceding write_file call failed."
    assert files.log == []


@pytest.mark.anyio
async def test_a_group_goes_on_after_errors() -> None:
    """Unless it says otherwise; and what it says can be put in other words."""

    @tool(group="g")
    async def f(n: int) -> int:
        """F."""
        return 10 // n

    calls = [a_call("f", f'{{"n": {n}}}', index=n) for n in (0, 1)]
    await execute_all(InProcessExecutor([f]), calls)
    failed, done = contents(calls)
    assert failed.startswith("ZeroDivisionError: ")
    assert done == "10"

    @tool(group=Group("g", stop_on_error=True, skipped="Not done after {name} {failed}."))
    async def g(n: int) -> int:
        """G."""
        return 10 // n

    calls = [a_call("g", f'{{"n": {n}}}', index=n, turn=2) for n in (0, 1)]
    await execute_all(InProcessExecutor([g]), calls)
    assert contents(calls)[1] == "Not done after g {failed}."


@pytest.mark.anyio
async def test_a_cancelled_call_makes_room_in_its_group() -> None:
    """Whoever gives up waiting holds up nobody, and is not a failure."""
    files = Files()
    executor = InProcessExecutor([files.write_file])
    first, second, third = writes(0, 1, 2)
    for call in (first, second, third):
        executor.admit(call)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await executor.execute(second)
    with anyio.fail_after(10):
        await executor.execute(first)
        await executor.execute(third)
    assert contents([first, second, third]) == ["wrote 0", None, "wrote 2"]


def a_turn(executor: InProcessExecutor, *calls: ToolCall) -> tuple[Turn, list[ToolCall]]:
    """A turn of a run whose reply has ended, as the loop makes it, and its calls for these inputs."""
    turn = Turn(1, EarlyCalls(), executor=executor, limits=DEFAULT_LIMITS)
    made = [turn.add(call.input) for call in calls]
    ending = ending_of("tool_use", on_truncated="stop", forbids_retry=False)
    turn.end({"role": "assistant", "content": []}, ending)
    return turn, made


@pytest.mark.anyio
async def test_a_turn_that_is_sent_again_starts_afresh() -> None:
    """A reply broke off after a call that could not run: its turn is discarded and requested once more."""
    files = Files()
    executor = InProcessExecutor([files.write_file])
    broken, (call,) = a_turn(executor, a_call("write_file", "[1"))
    executor.admit(call)
    await executor.execute(call)
    assert not broken.forbids_retry  # so the loop may send the request again, under the same number
    broken.discard()
    again, calls = a_turn(executor, *writes(0))
    await again.execute()
    assert contents(calls) == ["wrote 0"]


@pytest.mark.anyio
async def test_an_executor_that_several_runs_share() -> None:
    """What failed in one conversation does not stop another, whose turns have the same numbers."""
    files = Files(1)
    executor = InProcessExecutor([files.write_file])
    for numbers in ((1,), (2,)):
        turn, _ = a_turn(executor, *writes(*numbers))
        await turn.execute()
    assert files.log == ["begin 1", "end 1", "begin 2", "end 2"]


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(("own", "general", "told"), [(0.01, 60, "0.01"), (None, 0.02, "0.02")])
async def test_whose_time_counts(own: float | None, general: float, told: str) -> None:
    """A tool's own time limit counts, the general one where it has none."""

    @tool(timeout_s=own)
    async def slow() -> None:
        """Slow."""
        await anyio.sleep_forever()

    content, is_error = await answer_to(slow, limits=Limits(tool_timeout_s=general))
    assert (content, is_error) == (f"TimeoutError: the tool did not finish within {told} seconds", True)


@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_a_hundred_calls_at_once() -> None:
    """Never more than the limit run at once, nearly always as many, and all are answered in order."""
    running = most = 0
    order: list[int] = []
    full = anyio.Event()

    @tool
    async def work(n: int) -> int:
        """Work."""
        nonlocal running, most
        order.append(n)
        running += 1
        most = max(most, running)
        if running == 16:
            full.set()
        await full.wait()
        await anyio.lowlevel.checkpoint()
        running -= 1
        return n

    calls = [a_call("work", f'{{"n": {n}}}', index=n) for n in range(100)]
    await execute_all(InProcessExecutor([work], max_concurrency=16), calls, reverse=True)
    assert most == 16
    assert set(order[:16]) == set(range(16)), "whoever was admitted first runs first, whichever task starts first"
    assert contents(calls) == [str(n) for n in range(100)]


@pytest.mark.anyio
async def test_places_are_given_back() -> None:
    """However a call ends, another takes its place."""

    @tool(timeout_s=0.001)
    async def f(how: str) -> Any:
        """F."""
        if how == "raise":
            raise ValueError(how)
        if how == "slow":
            await anyio.sleep_forever()
        return object() if how == "odd" else how

    executor = InProcessExecutor([f], max_concurrency=1)
    endings = ["raise", "slow", "odd", "fine", "raise", "fine"]
    raws = [f'{{"how": "{how}"}}' for how in endings]
    raws[2:2] = ["{}", "[", '{"how": 1}']
    calls = [a_call("f", raw, index=n) for n, raw in enumerate(raws)]
    calls.append(a_call("nope", "{}", index=len(raws)))
    await execute_all(executor, calls)
    assert all(call.result for call in calls)
    last = a_call("f", '{"how": "fine"}')
    executor.admit(last)
    assert last.state is CallState.ADMITTED
    await executor.execute(last)


# --- answered without waiting -----------------------------------------------------------------------------------------


@pytest.mark.anyio
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
            assert [call.state for call in others] == [CallState.ANSWERED] * 3
            assert (first.state, last.state) == (CallState.RUNNING, CallState.WAITING)
            release.set()
    assert [call.response.code for call in others if call.response] == ["NOT_FOUND", "INVALID_FORMAT", "INVALID_PARAM"]


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_an_answer_while_the_tool_runs() -> None:
    """The first answer counts, the tool's own comes too late."""
    started, release = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> str:
        """Slow."""
        started.set()
        await release.wait()
        return "late"

    call = a_call("slow", "{}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(InProcessExecutor([slow]).execute, call)
        await started.wait()
        call.answer("first")
        release.set()
    assert contents([call]) == ["first"]
    assert call.response is not None
    assert call.response.text == "first"


# --- what reaches the tool --------------------------------------------------------------------------------------------


@pytest.mark.anyio
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


def a_toolset(kind: str = "computer_toolset_20260801", **options: Any) -> Tool:
    """Runs the members of a toolset, and says which."""

    async def act(input: dict[str, Any], call: ToolCall) -> str:
        if input.get("fail"):
            raise ValueError("the screen is locked")
        return f"{kind} {call.name} {input}"

    return tool(act, definition={"type": kind}, **options)


@pytest.mark.anyio
async def test_members_of_a_toolset() -> None:
    """By the name of their toolset, not by their own; a tool of the same name is another one."""

    @tool
    async def screenshot() -> str:
        """Shoot."""
        return "my own"

    executor = InProcessExecutor([a_toolset(), a_toolset("browser_toolset_20260801"), screenshot])
    calls = [
        a_call("screenshot", "{}", index=0, toolset_name="computer"),
        a_call("screenshot", "{}", index=1, toolset_name="browser"),
        a_call("screenshot", "{}", index=2),
        a_call("screenshot", "{}", index=3, toolset_name="phone"),
    ]
    await execute_all(executor, calls)
    assert contents(calls)[:3] == [
        "computer_toolset_20260801 screenshot {}",
        "browser_toolset_20260801 screenshot {}",
        "my own",
    ]
    assert contents(calls)[3].startswith("Error: Tool 'screenshot' not found.")
    assert [call.result.get("toolset_name") for call in calls if call.result] == ["computer", "browser", None, "phone"]
    with pytest.raises(UsageError, match="computer"):
        InProcessExecutor([a_toolset(), a_toolset()])


_COMPUTER_SKIPPED = "Not executed: an earlier computer action in this turn failed."


@pytest.mark.anyio
async def test_actions_of_a_group_in_a_toolset() -> None:
    """Golden: the rest of a batch is answered in the API's own words."""
    group = Group("computer", stop_on_error=True, skipped=_COMPUTER_SKIPPED)
    raws = ["{}", '{"fail": true}', "{}"]
    calls = [a_call("left_click", raw, index=n, toolset_name="computer") for n, raw in enumerate(raws)]
    await execute_all(InProcessExecutor([a_toolset(group=group)]), calls)
    assert contents(calls)[1:] == ["ValueError: the screen is locked", _COMPUTER_SKIPPED]


@pytest.mark.anyio
async def test_actions_of_a_toolset_run_in_order() -> None:
    """Clicks at the same time make no sense: one after the other, until one fails."""
    raws = ["{}", '{"fail": true}', "{}"]
    calls = [a_call("left_click", raw, index=n, toolset_name="computer") for n, raw in enumerate(raws)]
    await execute_all(InProcessExecutor([a_toolset()]), calls)
    assert contents(calls)[2] == _COMPUTER_SKIPPED


@pytest.mark.anyio
async def test_a_toolset_name_that_is_no_text() -> None:
    """What a peer sends never ends a run with an exception from inside."""
    call = a_call("f", "{}", toolset_name=["computer"])
    await execute_all(InProcessExecutor([double]), [call])
    assert call.is_error


# --- what watchers see ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a call took; a tool's own figure stays, and ours stands beside it. What did not run took no time."""
    import eagerstream.tools._call as call_module

    ticks = itertools.count(step=0.25)
    monkeypatch.setattr(call_module, "monotonic", lambda: next(ticks))

    @tool
    async def f(own: bool = False) -> Any:
        """F."""
        return ToolResponse.success("x", stats={"time_ms": 1, "count": 3}) if own else "x"

    calls = [a_call("f", raw, index=n) for n, raw in enumerate(["{}", '{"own": true}', "[", '{"own": 1}'])]
    for call in calls:
        await InProcessExecutor([f]).execute(call)
    assert [call.response.stats for call in calls if call.response] == [
        {"time_ms": 250},
        {"time_ms": 1, "count": 3, "wall_ms": 250},
        None,
        None,
    ]


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_include_data() -> None:
    """The tool's option reaches its answers."""

    @tool(include_data=True)
    async def f() -> ToolResponse:
        """F."""
        return ToolResponse.success("2 rows", {"rows": [1, 2]})

    assert await answer_to(f, "{}") == ('2 rows\n{"rows": [1, 2]}', False)


@pytest.mark.anyio
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


def test_executors_that_cannot_be() -> None:
    """Two tools of a name, or no slot at all, are mistakes of whoever makes one."""
    with pytest.raises(UsageError, match="'double'"):
        InProcessExecutor([double, double])
    with pytest.raises(UsageError, match="max_concurrency"):
        InProcessExecutor([double], max_concurrency=0)


@pytest.mark.anyio
async def test_a_thread_that_is_given_up_keeps_its_group() -> None:
    """A plain function cannot be stopped: the next of its group waits until it really has ended."""
    release = threading.Event()
    log: list[str] = []

    @tool(group="g", timeout_s=0.05)
    def work(n: int) -> int:
        """Work."""
        log.append(f"begin {n}")
        if n == 1:
            release.wait(10)
        log.append(f"end {n}")
        return n

    executor = InProcessExecutor([work])
    first, second = (a_call("work", f'{{"n": {n}}}', index=n) for n in (1, 2))
    with anyio.fail_after(10):
        executor.admit(first)
        executor.admit(second)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.execute, first)
            tasks.start_soon(executor.execute, second)
            await first.answered.wait()
            await all_tasks_blocked()
            assert log == ["begin 1"]
            release.set()
    assert log == ["begin 1", "end 1", "begin 2", "end 2"]
    assert contents([first, second])[0].startswith("TimeoutError")


@pytest.mark.slow
def test_a_thread_that_outlives_its_event_loop() -> None:
    """It tells nobody any more, and holds up nothing: the process ends when the thread does."""
    program = """
import anyio, sys, threading
from eagerstream.tools import InProcessExecutor, tool
from tests.tools.test_executor import a_call
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
        subprocess.run([sys.executable, "-c", program, backend], check=True, timeout=15, cwd=ROOT)
