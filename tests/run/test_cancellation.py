"""Leaving a run while its tools run: what had finished keeps its result, what had not is answered as such."""

from __future__ import annotations

import anyio
import pytest

import eagerstream
from eagerstream.replay import reply, tool_use
from eagerstream.run import RunStatus, ToolStop
from eagerstream.tools import tool
from eagerstream.tools.results import CANCELLED
from tests.run.serial import NOT_RUN, SLOWLY_S, assistant, call, checked, error, now, result, results
from tests.support import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    Broken,
    Gate,
    LocalAPI,
    Piece,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    tool_start,
)

WAYS = ["leave", "raise", "scope", "outer scope"]


def whole_call(index: int, name: str, raw: str = "{}") -> list[Piece]:
    """The events of a call."""
    return [tool_start(index, name), input_delta(index, raw), block_stop(index)]


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
                    await anyio.wait_all_tasks_blocked()
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
            error("toolu_1", CANCELLED),
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
        finally:
            return "done all the same"  # noqa: B012

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
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now]) as run:
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
    begun = anyio.Event()

    @tool
    async def endless() -> None:
        begun.set()
        await anyio.sleep_forever()

    gate = Gate()
    again = reply(tool_use("now", {}, id="b"))
    api = LocalAPI([message_start(), *whole_call(0, "endless"), gate, again], [reply()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now, endless]) as run:
            await begun.wait()
            gate.opened.set()
            await run.finish()
    checked(run.result)
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
            await anyio.wait_all_tasks_blocked()
            waits.set()
            names = [type(event).__name__ async for event in run]
    assert names.count("ToolStop") == 3
    assert names[-1] == "TurnStop"
