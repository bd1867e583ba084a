"""`run.cancel()`: what had finished keeps its result, and what had not is answered as cancelled."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import RunningCall
from eagerstream._support.terms import CANCELLED_TEXT
from eagerstream.calls import RunStatus
from eagerstream.loop import Restarted
from eagerstream.tools import tool
from eagerstream_testing import reply, tool_use
from tests.loop.leaving import WAYS, Way, leave
from tests.loop.serial import (
    CUT,
    DONE,
    NOT_RUN,
    TOOLS,
    Endless,
    Remover,
    assistant,
    call,
    checked,
    error,
    finished,
    result,
    results,
    running,
)
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    block_start,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import Broken, Gate, LocalAPI, Piece, all_tasks_blocked, whole_call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("raw", ["", '{"ci', '{"city": "Os'], ids=["empty", "a key", "a string"])
async def test_cancel_in_mid_input(raw: str) -> None:
    """The cut call is echoed as what there is of it, and answered; the finished one has its result."""
    gate = Gate()
    cut: list[Piece] = [tool_start(1, "get_weather"), *([input_delta(1, raw)] if raw else []), gate]
    api = LocalAPI([message_start(), *whole_call(0, "now"), *cut])
    async with running(api.transport(), tools=TOOLS) as run:
        await gate.reached.wait()
        await run.result.calls[0].answered.wait()
        run.cancel()
        run.cancel()
        names = [type(event).__name__ async for event in run]
        await run.finish()
        assert run.result.status is RunStatus.CANCELLED
        assert api.exchanges[0].closed
    assert checked(run.result).status is RunStatus.CANCELLED
    echoed = {"INVALID_JSON": raw}
    assert run.result.messages[1:] == [
        assistant(call("toolu_0", "now", {}), call("toolu_1", "get_weather", echoed)),
        results(result("toolu_0", "noon"), error("toolu_1", f"{json.dumps(echoed)}\n{CUT}")),
    ]
    assert names.count("InputStop") == names.count("ToolStop") == 2
    assert names.count("ToolStart") == 1
    assert names[-1] == "TurnStop"
    run.cancel()  # does nothing
    # And on from there.
    later = await finished(LocalAPI([DONE]).transport(), messages=[*run.result.messages, USER])
    assert later.result.status is RunStatus.COMPLETED


async def test_cancel_in_text() -> None:
    """Without a call there is nothing that the history must keep."""
    gate = Gate()
    api = LocalAPI([message_start(), block_start(0, "text", text=""), text_delta(0, "So"), gate])
    async with running(api.transport()) as run:
        await gate.reached.wait()
        run.cancel()
        await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert run.result.messages == [USER]
    assert run.result.message is not None
    assert run.result.message["content"] == [{"type": "text", "text": "So"}]


@pytest.mark.parametrize("on_cancel", ["cancel", "finish"])
@pytest.mark.parametrize("ended", [True, False], ids=["whole reply", "open reply"])
@pytest.mark.parametrize("way", ["cancel()", *WAYS])
async def test_on_cancel(way: Way, on_cancel: Any, *, ended: bool) -> None:
    """A tool is cancelled, and its cleanup runs; or it finishes, and its result is kept. A waiting one never begins."""
    begun, left, goes_on = anyio.Event(), anyio.Event(), anyio.Event()
    cleaned: list[str] = []

    @tool(on_cancel=on_cancel)
    async def pay() -> str:
        begun.set()
        try:
            await goes_on.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            cleaned.append("pay")
        return "paid"

    end: list[Piece] = [message_delta("tool_use"), MESSAGE_STOP] if ended else [Gate()]
    api = LocalAPI([message_start(), *whole_call(0, "pay"), *whole_call(1, "pay"), *end], [DONE])
    run = eagerstream.run(api.transport(), **REQUEST, tools=[pay], max_concurrency=1)

    async def let_go() -> None:
        await left.wait()
        await all_tasks_blocked()
        goes_on.set()

    async def paying() -> None:
        await begun.wait()
        await all_tasks_blocked()
        left.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(let_go)
        await leave(run, way, after=paying)
    assert cleaned == ["pay"]
    first, second = checked(run.result).calls
    assert run.result.status is RunStatus.CANCELLED
    assert first.result == (result("toolu_0", "paid") if on_cancel == "finish" else error("toolu_0", CANCELLED_TEXT))
    assert second.result == error("toolu_1", NOT_RUN)
    assert len(api.exchanges) == 1


async def test_cancel_from_a_tool() -> None:
    """A tool may end its run; on_cancel="finish" lets it say so."""
    runs: list[Any] = []

    @tool(on_cancel="finish")
    async def stop() -> str:
        runs[0].cancel()
        return "stopped"

    api = LocalAPI([reply(tool_use("stop", {}, id="a"))], [DONE])
    async with running(api.transport(), tools=[stop]) as run:
        runs.append(run)
        await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert run.result.messages[2] == results(result("a", "stopped"))
    assert len(api.exchanges) == 1


async def test_cancel_before_it_begins() -> None:
    """Nothing is sent."""
    api = LocalAPI([DONE])
    run = eagerstream.run(api.transport(), **REQUEST)
    run.cancel()
    async with run:
        await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert not api.exchanges


async def test_cancel_while_it_waits_to_ask_again() -> None:
    """The pause before a restart ends at once."""
    api = LocalAPI([message_start(), Broken()])
    async with running(api.transport(), restart_delay_s=1000) as run:
        async for event in run:
            if isinstance(event, Restarted):
                assert event.delay_s >= 500
                run.cancel()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert len(api.exchanges) == 1


async def test_cancel_while_asked_for_approval() -> None:
    """Nobody need answer any more, and the call is told as not run."""
    asked = anyio.Event()

    async def ask(_: Any) -> bool:
        asked.set()
        await anyio.sleep_forever()
        return True

    @tool(approve=ask)
    async def pay() -> str:
        raise AssertionError

    api = LocalAPI([reply(tool_use("pay", {}, id="a"))], [DONE])
    async with running(api.transport(), tools=[pay]) as run:
        await asked.wait()
        run.cancel()
        await run.finish()
    assert checked(run.result).messages[2] == results(error("a", NOT_RUN))


@pytest.mark.parametrize("on_cancel", ["cancel", "finish"])
async def test_cancel_a_streaming_tool(on_cancel: Any) -> None:
    """Its input breaks off; what it says is kept where it may finish."""
    remover = Remover(on_cancel=on_cancel)
    api = LocalAPI([message_start(), tool_start(0, "write"), input_delta(0, '{"words": "one'), Gate()])
    async with running(api.transport(), tools=[remover.tool]) as run:
        await remover.begun.wait()
        await all_tasks_blocked()
        run.cancel()
        await run.finish()
    assert checked(run.result).messages[1] == assistant(call("toolu_0", "write", {"INVALID_JSON": '{"words": "one'}))
    (answer,) = run.result.messages[2]["content"]
    assert answer["is_error"] is True
    assert answer["content"].endswith("removed it again" if on_cancel == "finish" else CANCELLED_TEXT)


async def test_what_a_cancelled_tool_has_done() -> None:
    """It may say so while it is being cancelled, and the model gets that, too."""
    begun = anyio.Event()

    @tool
    async def sweep(call: RunningCall) -> None:
        """Sweep all rooms."""
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            call.done_so_far = "Swept 2 of 3 rooms."

    api = LocalAPI([reply(tool_use("sweep", {}, id="a"))])
    async with running(api.transport(), tools=[sweep]) as run:
        await begun.wait()
        run.cancel()
        await run.finish()
    assert checked(run.result).messages[2] == results(error("a", f"{CANCELLED_TEXT}\nSwept 2 of 3 rooms."))


async def test_a_tool_that_finishes_has_its_time_limit() -> None:
    """on_cancel="finish" holds nothing up for longer than the tool may run."""
    endless = Endless(on_cancel="finish", timeout_s=0.05)
    async with running(LocalAPI([reply(tool_use("endless", {}))], [DONE]).transport(), tools=[endless.tool]) as run:
        await endless.begun.wait()
    (answer,) = checked(run.result).messages[2]["content"]
    assert answer["content"].startswith("TimeoutError")


async def test_cancel_from_a_guard() -> None:
    """Nor do calls that come behind it in the same chunk."""
    runs: list[Any] = []

    @tool(guard=lambda _: runs[0].cancel())
    async def pay() -> None:
        raise AssertionError

    api = LocalAPI([reply(tool_use("pay", {}), tool_use("pay", {}))], [DONE])
    async with running(api.transport(), tools=[pay]) as run:
        runs.append(run)
        await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED


async def test_cancel_with_a_failure_ahead() -> None:
    """`cancel` raises nothing, not even what the run was about to raise."""
    endless = Endless()
    api = LocalAPI([message_start(), *whole_call(0, "endless"), message_delta("max_tokens"), MESSAGE_STOP])
    async with running(api.transport(), tools=[endless.tool], on_truncated="raise") as run:
        await endless.begun.wait()
        run.cancel()
        await run.finish()
    assert run.result.status is RunStatus.CANCELLED
