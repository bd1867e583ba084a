"""Leaving a run while its tools run: what had finished keeps its result, what had not is answered as such."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import InputInterrupted, TextStream
from eagerstream.loop import Restarted, RunStatus, ToolStop
from eagerstream.testing import reply, tool_use
from eagerstream.tools import CANCELLED_TEXT, tool
from tests.loop.serial import (
    CUT,
    DONE,
    NOT_RUN,
    SLOWLY_S,
    TOOLS,
    Endless,
    assistant,
    call,
    checked,
    error,
    finished,
    now,
    result,
    results,
)
from tests.support import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    Broken,
    Gate,
    LocalAPI,
    Piece,
    all_tasks_blocked,
    block_start,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
    whole_call,
)

WAYS = ["leave", "raise", "scope", "outer scope"]


class _Enough(Exception):
    """The consumer's own."""


@pytest.mark.anyio
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ended", [True, False], ids=["whole reply", "open reply"])
async def test_leaving_while_tools_run(way: str, *, ended: bool) -> None:
    """The finished call has its result, the running one is told as cancelled, the waiting one as not run."""
    begun = anyio.Event()
    cancelled = anyio.Event()

    @tool
    async def endless() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    calls = [*whole_call(0, "now"), *whole_call(1, "endless"), *whole_call(2, "now"), *whole_call(3, "now", "[1]")]
    end: list[Piece] = [message_delta("tool_use"), MESSAGE_STOP] if ended else [Gate()]
    api = LocalAPI([message_start(), *calls, *end])
    run = eagerstream.run(api.transport(), **REQUEST, tools=[now, endless], max_concurrency=1)

    async def consume(scope: anyio.CancelScope) -> None:
        async with run:
            async for event in run:
                if isinstance(event, ToolStop):
                    await begun.wait()
                    await all_tasks_blocked()
                    if way == "raise":
                        raise _Enough
                    if way == "leave":
                        return
                    scope.cancel()
                    await anyio.sleep_forever()

    with anyio.fail_after(SLOWLY_S):
        try:
            if way == "outer scope":
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consume, tasks.cancel_scope)
            else:
                with anyio.CancelScope() as scope:
                    await consume(scope)
        except _Enough:
            assert way == "raise"
    assert cancelled.is_set()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert run.result.messages == [
        USER,
        assistant(
            call("toolu_0", "now", {}),
            call("toolu_1", "endless", {}),
            call("toolu_2", "now", {}),
            call("toolu_3", "now", {"INVALID_JSON": "[1]"}),
        ),
        results(
            result("toolu_0", "noon"),
            error("toolu_1", CANCELLED_TEXT),
            error("toolu_2", NOT_RUN),
            error("toolu_3", '{"INVALID_JSON": "[1]"}'),
        ),
    ]
    assert [made.ran for made in run.result.calls] == [True, True, False, False]


@pytest.mark.anyio
async def test_an_open_call_is_dropped() -> None:
    """A reply that was left in the middle of an input ends with its last whole call."""
    gate = Gate()
    half: list[Piece] = [tool_start(1, "now"), input_delta(1, "{"), gate]
    api = LocalAPI([message_start(), *whole_call(0, "now"), *half])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now]) as run:
            await gate.reached.wait()
            await run.result.calls[0].answered.wait()
    assert checked(run.result).messages == [
        USER,
        assistant(call("toolu_0", "now", {})),
        results(result("toolu_0", "noon")),
    ]


@pytest.mark.anyio
async def test_nothing_ran() -> None:
    """A reply that was left before anything ran adds nothing."""
    gate = Gate()
    api = LocalAPI([message_start(), tool_start(0, "now"), input_delta(0, "{"), gate])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now]) as run:
            await gate.reached.wait()
    assert checked(run.result).messages == [USER]


@pytest.mark.anyio
async def test_a_tool_that_finishes_while_it_is_cancelled() -> None:
    """A tool that will not be cancelled has its result in the history."""
    begun = anyio.Event()

    @tool
    async def stubborn() -> str:
        begun.set()
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            pass
        return "done all the same"

    api = LocalAPI([message_start(), *whole_call(0, "stubborn"), Gate()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[stubborn]) as run:
            await begun.wait()
    (made,) = checked(run.result).calls
    assert made.result == result("toolu_0", "done all the same")


@pytest.mark.anyio
async def test_a_lost_connection_keeps_what_finished() -> None:
    """The error comes out, and the call that had finished by then is in the history with its result."""
    gate = Gate()
    api = LocalAPI([message_start(), *whole_call(0, "now"), gate, Broken()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now], on_interrupt="raise") as run:
            await gate.reached.wait()
            await run.result.calls[0].answered.wait()
            gate.opened.set()
            with pytest.raises(eagerstream.EagerStreamError):
                await run.finish()
    assert checked(run.result).status is RunStatus.ERROR
    assert run.result.messages[1:] == [assistant(call("toolu_0", "now", {})), results(result("toolu_0", "noon"))]


@pytest.mark.anyio
async def test_every_call_has_a_result() -> None:
    """Also one that still runs, of a reply that the peer began anew: `call.result` is there after the run."""
    endless = Endless()
    again = reply(tool_use("now", {}, id="b"))
    api = LocalAPI([message_start(), *whole_call(0, "endless"), endless.gate, again], [reply()])
    run = await endless.finish(api, **REQUEST, tools=[now, endless.tool])
    assert all(made.result is not None for made in run.result.calls)


@pytest.mark.anyio
async def test_a_turn_stops_after_its_calls() -> None:
    """Each call's `ToolStop` comes before its `TurnStop`, also of one that was kept from running."""
    begun, waits = anyio.Event(), anyio.Event()

    @tool
    async def hold() -> str:
        begun.set()
        await waits.wait()
        return "held"

    gate = Gate()
    end: list[Piece] = [gate, message_delta("max_tokens"), MESSAGE_STOP]
    api = LocalAPI([message_start(), *whole_call(0, "hold"), *whole_call(1, "now"), *whole_call(2, "now"), *end])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now, hold], max_concurrency=1) as run:
            await begun.wait()
            gate.opened.set()
            await all_tasks_blocked()
            waits.set()
            names = [type(event).__name__ async for event in run]
    assert names.count("ToolStop") == 3
    assert names[-1] == "TurnStop"


# --- from within: run.cancel() ----------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("raw", ["", '{"ci', '{"city": "Os'], ids=["empty", "a key", "a string"])
async def test_cancel_in_mid_input(raw: str) -> None:
    """The cut call is echoed as what there is of it, and answered; the finished one has its result."""
    gate = Gate()
    cut: list[Piece] = [tool_start(1, "get_weather"), *([input_delta(1, raw)] if raw else []), gate]
    api = LocalAPI([message_start(), *whole_call(0, "now"), *cut])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=TOOLS) as run:
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


@pytest.mark.anyio
async def test_cancel_in_text() -> None:
    """Without a call there is nothing that the history must keep."""
    gate = Gate()
    api = LocalAPI([message_start(), block_start(0, "text", text=""), text_delta(0, "So"), gate])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST) as run:
            await gate.reached.wait()
            run.cancel()
            await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert run.result.messages == [USER]
    assert run.result.message is not None
    assert run.result.message["content"] == [{"type": "text", "text": "So"}]


@pytest.mark.anyio
@pytest.mark.parametrize("on_cancel", ["cancel", "finish"])
@pytest.mark.parametrize("ended", [True, False], ids=["whole reply", "open reply"])
@pytest.mark.parametrize("way", ["cancel()", *WAYS])
async def test_on_cancel(way: str, on_cancel: Any, *, ended: bool) -> None:
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

    async def consume(scope: anyio.CancelScope) -> None:
        async with run:
            await begun.wait()
            await all_tasks_blocked()
            left.set()
            match way:
                case "cancel()":
                    run.cancel()
                    await run.finish()
                case "leave":
                    return
                case "raise":
                    raise _Enough
                case _:
                    scope.cancel()
                    await anyio.sleep_forever()

    with anyio.fail_after(SLOWLY_S):
        async with anyio.create_task_group() as outer:
            with anyio.CancelScope() as scope:
                outer.start_soon(let_go)
                try:
                    if way == "outer scope":
                        async with anyio.create_task_group() as tasks:
                            tasks.start_soon(consume, tasks.cancel_scope)
                    else:
                        await consume(scope)
                except _Enough:
                    assert way == "raise"
    assert cleaned == ["pay"]
    first, second = checked(run.result).calls
    assert run.result.status is RunStatus.CANCELLED
    assert first.result == (result("toolu_0", "paid") if on_cancel == "finish" else error("toolu_0", CANCELLED_TEXT))
    assert second.result == error("toolu_1", NOT_RUN)
    assert len(api.exchanges) == 1


@pytest.mark.anyio
async def test_cancel_from_a_tool() -> None:
    """A tool may end its run; on_cancel="finish" lets it say so."""
    runs: list[Any] = []

    @tool(on_cancel="finish")
    async def stop() -> str:
        runs[0].cancel()
        return "stopped"

    api = LocalAPI([reply(tool_use("stop", {}, id="a"))], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[stop]) as run:
            runs.append(run)
            await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert run.result.messages[2] == results(result("a", "stopped"))
    assert len(api.exchanges) == 1


@pytest.mark.anyio
async def test_cancel_before_it_begins() -> None:
    """Nothing is sent."""
    api = LocalAPI([DONE])
    run = eagerstream.run(api.transport(), **REQUEST)
    run.cancel()
    async with run:
        await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert not api.exchanges


@pytest.mark.anyio
async def test_cancel_while_it_waits_to_ask_again() -> None:
    """The pause before a restart ends at once."""
    api = LocalAPI([message_start(), Broken()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, restart_delay_s=1000) as run:
            async for event in run:
                if isinstance(event, Restarted):
                    assert event.delay_s >= 500
                    run.cancel()
    assert checked(run.result).status is RunStatus.CANCELLED
    assert len(api.exchanges) == 1


@pytest.mark.anyio
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
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
            await asked.wait()
            run.cancel()
            await run.finish()
    assert checked(run.result).messages[2] == results(error("a", NOT_RUN))


@pytest.mark.anyio
@pytest.mark.parametrize("on_cancel", ["cancel", "finish"])
async def test_cancel_a_streaming_tool(on_cancel: Any) -> None:
    """Its input breaks off; what it says is kept where it may finish."""
    begun = anyio.Event()

    @tool(on_cancel=on_cancel)
    async def write(words: TextStream) -> str:
        begun.set()
        try:
            return await words
        except InputInterrupted:
            return "removed it again"

    api = LocalAPI([message_start(), tool_start(0, "write"), input_delta(0, '{"words": "one'), Gate()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[write]) as run:
            await begun.wait()
            await all_tasks_blocked()
            run.cancel()
            await run.finish()
    assert checked(run.result).messages[1] == assistant(call("toolu_0", "write", {"INVALID_JSON": '{"words": "one'}))
    (answer,) = run.result.messages[2]["content"]
    assert answer["is_error"] is True
    assert answer["content"].endswith("removed it again" if on_cancel == "finish" else CANCELLED_TEXT)


@pytest.mark.anyio
async def test_a_tool_that_finishes_has_its_time_limit() -> None:
    """on_cancel="finish" holds nothing up for longer than the tool may run."""
    begun = anyio.Event()

    @tool(on_cancel="finish", timeout_s=0.05)
    async def endless() -> None:
        begun.set()
        await anyio.sleep_forever()

    api = LocalAPI([reply(tool_use("endless", {}, id="a"))], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[endless]) as run:
            await begun.wait()
    (answer,) = checked(run.result).messages[2]["content"]
    assert answer["content"].startswith("TimeoutError")


@pytest.mark.anyio
async def test_cancel_after_the_end() -> None:
    """A run that has ended stays as it ended."""
    async with eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST) as run:
        await run.finish()
        run.cancel()
        assert run.result.status is RunStatus.COMPLETED
        await run.finish()
    assert run.result.status is RunStatus.COMPLETED
