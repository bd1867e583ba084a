"""`Slots`: how many calls run at once, and in which order."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from eagerstream.calls import Turn
from eagerstream.calls._early_calls import _FrameworkCalls
from eagerstream.calls._policy import ending_of
from eagerstream.calls._runner import execute
from eagerstream.limits import DEFAULT_LIMITS
from eagerstream.tools import CallState, Group, InProcessExecutor, Toolbox, ToolCall, tool
from eagerstream.tools._call import CallHost
from eagerstream_wire import MessageAssembler
from eagerstream_wire._assistant_message import empty_message
from tests.support import all_tasks_blocked, until
from tests.tools.calls import a_call, a_toolset, contents, execute_all

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize("reverse", [False, True])
async def test_a_group_runs_one_at_a_time(reverse: bool) -> None:
    """In call order, whichever task starts first; a group across several tools."""
    files = Files()
    executor = InProcessExecutor([files.write_file, files.read_file])
    calls = [*writes(0, 1), a_call("read_file", '{"n": 2}', index=2), *writes(3)]
    await execute_all(executor, calls, reverse=reverse)
    assert files.log == ["begin 0", "end 0", "begin 1", "end 1", "read 2", "begin 3", "end 3"]
    assert contents(calls) == ["wrote 0", "wrote 1", "read 2", "wrote 3"]


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


@pytest.mark.parametrize("raw", ["{}", "[1", '{"n": "x"}'])
async def test_a_call_that_could_not_run_stops_its_group_too(raw: str) -> None:
    """What comes behind it may build on it."""
    files = Files()
    calls = [a_call("write_file", raw), *writes(1)]
    await execute_all(InProcessExecutor([files.write_file]), calls)
    assert contents(calls)[1] == "Not executed: the preceding write_file call failed."
    assert files.log == []


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
    turn = Turn(
        1, _FrameworkCalls(Toolbox(), MessageAssembler()), executor=executor, limits=DEFAULT_LIMITS, host=CallHost()
    )
    made = [turn.add(call.input) for call in calls]
    ending = ending_of("tool_use", on_truncated="stop", forbids_retry=False)
    turn.end(empty_message(), ending)
    return turn, made


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
    await execute(again)
    assert contents(calls) == ["wrote 0"]


async def test_an_executor_of_two_runs() -> None:
    """What failed in one conversation does not stop another, whose turns have the same numbers."""
    files = Files(1)
    executor = InProcessExecutor([files.write_file])
    for numbers in ((1,), (2,)):
        turn, _ = a_turn(executor, *writes(*numbers))
        await execute(turn)
    assert files.log == ["begin 1", "end 1", "begin 2", "end 2"]


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


_COMPUTER_SKIPPED = "Not executed: an earlier computer action in this turn failed."


@pytest.mark.parametrize("group", [Group("computer", stop_on_error=True, skipped=_COMPUTER_SKIPPED), None])
async def test_actions_of_a_toolset_run_in_order(group: Group | None) -> None:
    """Clicks at the same time make no sense. The rest of a batch is answered in the API's own words."""
    raws = ["{}", '{"fail": true}', "{}"]
    calls = [a_call("left_click", raw, index=n, toolset_name="computer") for n, raw in enumerate(raws)]
    await execute_all(InProcessExecutor([a_toolset(group=group) if group else a_toolset()]), calls)
    assert contents(calls)[1:] == ["ValueError: the screen is locked", _COMPUTER_SKIPPED]


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
            await until(lambda: log)  # the thread may have begun after the time was up
            await all_tasks_blocked()
            assert log == ["begin 1"]
            release.set()
    assert log == ["begin 1", "end 1", "begin 2", "end 2"]
    assert contents([first, second])[0].startswith("TimeoutError")
