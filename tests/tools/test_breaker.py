"""`CircuitBreaker`: which failures count, and what a call of a broken tool is answered with."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from eagerstream import CircuitBreaker, Group, ToolError, ToolErrorCode, ToolResponse, UsageError, run, tool
from eagerstream.loop import Conversation
from eagerstream.tools import InProcessExecutor, TextStream, Tool
from eagerstream_testing import reply, text, tool_use
from tests.tables import rows
from tests.tools.calls import a_call
from tests.virtual_time import Playing

pytestmark = pytest.mark.anyio

FAILED = ToolResponse.error(ToolErrorCode.EXECUTION_ERROR, "no")
DONE = ToolResponse.success("yes")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def a_breaker(**settings: Any) -> tuple[CircuitBreaker, Clock]:
    """A breaker, and its clock."""
    clock = Clock()
    return CircuitBreaker(**settings, clock=clock), clock


def test_it_opens_after_failures_in_a_row() -> None:
    """Three of them by default; anything that is no error begins the count anew."""
    breaker, _ = a_breaker()
    counts = []
    for response in (FAILED, FAILED, ToolResponse.partial("half"), FAILED, FAILED, DONE, FAILED, FAILED):
        breaker.record("tool", response)
        counts.append(breaker.status("tool")["failure_count"])
    assert counts == [1, 2, 0, 1, 2, 0, 1, 2]
    assert not breaker.is_open("tool")
    breaker.record("tool", FAILED)
    assert breaker.is_open("tool")
    assert not breaker.is_open("other")


def test_it_closes_by_itself() -> None:
    """After more than the time that it is open for, to the dot; and counts from 0 then."""
    breaker, clock = a_breaker()
    for _ in range(3):
        breaker.record("tool", FAILED)
    clock.now_s += 300
    assert breaker.is_open("tool")
    assert breaker.status("tool")["recover_in_seconds"] == 0
    clock.now_s += 0.001
    assert breaker.status("tool") == {"state": "closed", "failure_count": 0}
    breaker.record("tool", FAILED)
    assert breaker.status("tool") == {"state": "closed", "failure_count": 1}


def test_status() -> None:
    """Of tools that have been called; asking is no call."""
    breaker, clock = a_breaker(failure_threshold=1, recovery_timeout_s=10)
    assert breaker.status("tool") == {"state": "closed", "failure_count": 0}
    assert breaker.statuses() == {}
    breaker.record("tool", FAILED)
    clock.now_s += 3.5
    status = breaker.statuses()["tool"]
    assert status["open_since"] > 1_700_000_000
    assert status == {**status, "state": "open", "failure_count": 1, "recover_in_seconds": 7}
    assert repr(breaker) == "<CircuitBreaker, open: tool>"


def test_calls_under_way_when_it_opens() -> None:
    """What they come to neither closes it nor keeps it open for longer."""
    breaker, clock = a_breaker(failure_threshold=1, recovery_timeout_s=10)
    breaker.record("tool", FAILED)
    clock.now_s += 5
    breaker.record("tool", DONE)
    breaker.record("tool", FAILED)
    status = breaker.status("tool")
    assert (status["failure_count"], status["recover_in_seconds"]) == (1, 5)


def test_by_hand() -> None:
    """It can be opened and closed."""
    breaker, _ = a_breaker()
    breaker.open("tool")
    refusal = breaker.refusal("tool")
    assert refusal is not None
    assert refusal.text == "The tool tool has been switched off. It can be used again in 300 seconds."
    breaker.close("tool")
    assert breaker.refusal("tool") is None


def test_not_enabled() -> None:
    """Nothing is counted, nothing opens, and what was open is called again."""
    breaker, _ = a_breaker(enabled=False, failure_threshold=1)
    breaker.record("tool", FAILED)
    breaker.open("tool")
    assert breaker.statuses() == {}
    assert not breaker.is_open("tool")
    breaker, _ = a_breaker()
    breaker.open("tool")
    breaker.enabled = False
    assert not breaker.is_open("tool")
    assert breaker.refusal("tool") is None


@rows("code", ["INVALID_PARAM", "INVALID_FORMAT", "NOT_FOUND", "PERMISSION_DENIED", "CONFLICT"])
def test_mistakes_of_the_model(code: str) -> None:
    """They say nothing of the tool; unless all errors are to count."""
    breaker, _ = a_breaker(failure_threshold=1)
    breaker.record("tool", ToolResponse.error(code, "no"))
    assert breaker.status("tool")["failure_count"] == 0
    strict, _ = a_breaker(failure_threshold=1, ignored_codes=())
    strict.record("tool", ToolResponse.error(code, "no"))
    assert strict.is_open("tool")


@rows(
    "settings",
    [
        {"failure_threshold": 0},
        {"failure_threshold": True},
        {"failure_threshold": 1.5},
        {"recovery_timeout_s": -1},
        {"recovery_timeout_s": float("nan")},
        {"recovery_timeout_s": float("inf")},
        {"recovery_timeout_s": "5"},
        {"ignored_codes": "TIMEOUT"},
    ],
)
def test_settings_out_of_range(settings: dict[str, Any]) -> None:
    """They are told of."""
    with pytest.raises(UsageError, match=next(iter(settings))):
        CircuitBreaker(**settings)


def test_threads() -> None:
    """No failure is lost where several threads count."""
    breaker = CircuitBreaker(failure_threshold=10**6)

    def fail() -> None:
        for _ in range(1000):
            breaker.record("tool", FAILED)

    threads = [threading.Thread(target=fail) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert breaker.status("tool")["failure_count"] == 4000


# --- in the executor --------------------------------------------------------------------------------------------------


async def answers(used: Tool, *inputs: str, breaker: CircuitBreaker, **options: Any) -> list[Any]:
    """What calls of a tool are answered with, one after the other."""
    executor = InProcessExecutor([used], circuit_breaker=breaker, **options)
    contents = []
    for raw in inputs:
        call = a_call(used.name, raw)
        executor.admit(call)
        await executor.execute(call)
        assert call.result is not None
        contents.append(call.result["content"])
    return contents


async def test_a_broken_tool_is_not_called() -> None:
    """The model is told so at once; after a while it is called again."""
    breaker, clock = a_breaker(failure_threshold=2, recovery_timeout_s=60)
    called = []

    @tool
    async def flaky(n: int) -> str:
        """Fail twice, then do."""
        called.append(n)
        if len(called) <= 2:
            raise RuntimeError("no connection")
        return "done"

    failed = "RuntimeError: no connection"
    assert await answers(flaky, '{"n": 1}', '{"n": 2}', breaker=breaker) == [failed, failed]
    (refused,) = await answers(flaky, '{"n": 3}', breaker=breaker)
    assert refused == (
        "[CIRCUIT_OPEN] The tool flaky is out of order: it failed 2 times in a row. It can be used again in 60 seconds."
    )
    assert called == [1, 2]
    clock.now_s += 61
    assert await answers(flaky, '{"n": 4}', breaker=breaker) == ["done"]
    assert called == [1, 2, 4]


async def test_what_is_not_the_tools_own_failure() -> None:
    """Inputs that are not JSON or do not fit, unknown tools, refusals."""
    breaker, _ = a_breaker(failure_threshold=1)

    @tool(approve=lambda call: "No." if call.input.value == {"n": 1} else True)
    async def healthy(n: int) -> str:
        """Do."""
        if n == 2:
            raise ToolError("there is no such thing", code=ToolErrorCode.NOT_FOUND)
        return "done"

    inputs = ('{"n": Dave}', "{}", '{"n": "x"}', '{"n": 1}', '{"n": 2}')
    await answers(healthy, *inputs, breaker=breaker)
    executor = InProcessExecutor([healthy], circuit_breaker=breaker)
    unknown = a_call("nope")
    await executor.execute(unknown)
    assert unknown.is_error
    assert breaker.statuses() == {"healthy": {"state": "closed", "failure_count": 0}}


async def test_time_outs_count() -> None:
    """A tool that does not end is broken, too."""
    breaker, _ = a_breaker(failure_threshold=1)

    @tool(timeout_s=0.01)
    async def slow() -> None:
        """Wait."""
        await anyio.sleep_forever()

    await answers(slow, "{}", breaker=breaker)
    assert breaker.is_open("slow")


async def test_cancelled_calls_do_not_count() -> None:
    """They had no time to show anything."""
    breaker, _ = a_breaker(failure_threshold=1)

    @tool
    async def slow() -> None:
        """Wait."""
        await anyio.sleep_forever()

    executor = InProcessExecutor([slow], circuit_breaker=breaker)
    with anyio.move_on_after(0.01):
        await executor.execute(a_call("slow", "{}"))
    assert breaker.statuses() == {}


async def test_calls_that_wait_meanwhile() -> None:
    """Those that are still waiting for their turn when the circuit opens are not run any more."""
    breaker, _ = a_breaker(failure_threshold=1)
    called = []

    @tool(group=Group("one at a time"))
    async def broken(n: int) -> str:
        """Fail."""
        called.append(n)
        raise RuntimeError("broken")

    executor = InProcessExecutor([broken], circuit_breaker=breaker)
    calls = [a_call("broken", f'{{"n": {n}}}', index=n) for n in range(3)]
    for call in calls:
        executor.admit(call)
    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(executor.execute, call)
    assert called == [0]
    assert [call.response.code for call in calls if call.response] == ["EXECUTION_ERROR", *["CIRCUIT_OPEN"] * 2]


async def test_streaming_tools() -> None:
    """Their failures count where the input was whole, and while open they are not begun."""
    breaker, _ = a_breaker(failure_threshold=1)

    @tool
    async def write(text: TextStream) -> str:
        """Write."""
        await text
        raise RuntimeError("disk full")

    assert await answers(write, '{"text": "a"}', breaker=breaker) == ["RuntimeError: disk full"]
    (refused,) = await answers(write, '{"text": "a"}', breaker=breaker)
    assert refused.startswith("[CIRCUIT_OPEN]")


async def test_over_a_run_and_the_next() -> None:
    """One breaker for two runs: the second finds the tool out of order, and the history is sound."""

    @tool
    async def broken() -> str:
        """Fail."""
        raise RuntimeError("broken")

    breaker = CircuitBreaker(failure_threshold=2)
    request: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Go."}]}
    codes = []
    for _ in range(2):
        calls = [reply(tool_use("broken", {}, id=f"toolu_{number}")) for number in range(2)]
        replies = (*calls, reply(text("It is broken.")))
        async with run(Playing(*replies), tools=[broken], circuit_breaker=breaker, **request) as running:
            await running.finish()
        codes += [call.response.code for call in running.result.calls if call.response]
    assert codes == ["EXECUTION_ERROR"] * 2 + ["CIRCUIT_OPEN"] * 2
    assert breaker.status("broken")["state"] == "open"


def test_an_executor_of_ones_own() -> None:
    """It would not know of the breaker."""
    with pytest.raises(UsageError, match="circuit_breaker"):
        Conversation(
            model="m",
            max_tokens=9,
            messages=[{"role": "user", "content": "Go."}],
            executor=InProcessExecutor(),
            circuit_breaker=CircuitBreaker(),
        )
