"""`CallRunner`: the tasks of calls, and what is left of them when a run is left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import InputStop, TextStream, ToolStop
from eagerstream._support.terms import CANCELLED_TEXT
from eagerstream.calls import RunStatus
from eagerstream.tools import InProcessExecutor, tool
from eagerstream.transports import Reply, Transport
from eagerstream_testing import reply, tool_use
from tests.loop.leaving import WAYS, Way, leave
from tests.loop.serial import (
    DONE,
    END,
    NOT_RUN,
    QUICK,
    SLOWLY_S,
    Endless,
    assistant,
    call,
    checked,
    error,
    now,
    result,
    results,
    running,
)
from tests.streams import MESSAGE_STOP, REQUEST, USER, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Broken, Gate, LocalAPI, Piece, all_tasks_blocked, whole_call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ended", [True, False], ids=["whole reply", "open reply"])
async def test_leaving_while_tools_run(way: Way, *, ended: bool) -> None:
    """The finished call has its result, the running one is told as cancelled, the waiting one as not run."""
    endless = Endless()
    calls = [*whole_call(0, "now"), *whole_call(1, "endless"), *whole_call(2, "now"), *whole_call(3, "now", "[1]")]
    end: list[Piece] = [message_delta("tool_use"), MESSAGE_STOP] if ended else [Gate()]
    api = LocalAPI([message_start(), *calls, *end])
    run = eagerstream.run(api.transport(), **REQUEST, tools=[now, endless.tool], max_concurrency=1)

    async def stopped() -> None:
        async for event in run:
            if isinstance(event, ToolStop):
                await endless.begun.wait()
                await all_tasks_blocked()
                return

    await leave(run, way, after=stopped)
    assert endless.cancelled
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


async def test_an_open_call_is_dropped() -> None:
    """A reply that was left in the middle of an input ends with its last whole call."""
    gate = Gate()
    half: list[Piece] = [tool_start(1, "now"), input_delta(1, "{"), gate]
    api = LocalAPI([message_start(), *whole_call(0, "now"), *half])
    async with running(api.transport(), tools=[now]) as run:
        await gate.reached.wait()
        await run.result.calls[0].answered.wait()
    assert checked(run.result).messages == [
        USER,
        assistant(call("toolu_0", "now", {})),
        results(result("toolu_0", "noon")),
    ]


async def test_nothing_ran() -> None:
    """A reply that was left before anything ran adds nothing."""
    gate = Gate()
    api = LocalAPI([message_start(), tool_start(0, "now"), input_delta(0, "{"), gate])
    async with running(api.transport(), tools=[now]) as run:
        await gate.reached.wait()
    assert checked(run.result).messages == [USER]


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
    async with running(api.transport(), tools=[stubborn]) as run:
        await begun.wait()
    (made,) = checked(run.result).calls
    assert made.result == result("toolu_0", "done all the same")


async def test_a_lost_connection_keeps_what_finished() -> None:
    """The error comes out, and the call that had finished by then is in the history with its result."""
    gate = Gate()
    api = LocalAPI([message_start(), *whole_call(0, "now"), gate, Broken()])
    async with running(api.transport(), tools=[now], on_interrupt="raise") as run:
        await gate.reached.wait()
        await run.result.calls[0].answered.wait()
        gate.opened.set()
        with pytest.raises(eagerstream.EagerStreamError):
            await run.finish()
    assert checked(run.result).status is RunStatus.ERROR
    assert run.result.messages[1:] == [assistant(call("toolu_0", "now", {})), results(result("toolu_0", "noon"))]


async def test_every_call_has_a_result() -> None:
    """Also one that still runs, of a reply that the peer began anew: `call.result` is there after the run."""
    endless = Endless()
    again = reply(tool_use("now", {}, id="b"))
    api = LocalAPI([message_start(), *whole_call(0, "endless"), endless.gate, again], [reply()])
    run = await endless.finish(api, **REQUEST, tools=[now, endless.tool])
    assert all(made.result is not None for made in run.result.calls)


class _Cancelling:
    """An observer that cancels the run at the end of an input."""

    def __init__(self, run: eagerstream.Run) -> None:
        self._run = run

    def take(self, events: Sequence[object]) -> None:
        if any(isinstance(event, InputStop) for event in events):
            self._run.cancel()

    def end(self, end: object) -> None:
        pass


@pytest.mark.parametrize("ends", [True, False])
async def test_nothing_begins_after_cancel(*, ends: bool) -> None:
    """A call that was admitted in the same moment does not begin, though its task had been started."""
    log: list[str] = []

    @tool(on_cancel="finish" if ends else "cancel")
    async def pay() -> None:
        log.append("paid")

    api = LocalAPI([message_start(), *whole_call(0, "pay"), Gate()], [DONE])
    async with running(api.transport(), tools=[pay]) as run:
        run.observe(_Cancelling(run))
        await run.finish()
    assert not log
    assert checked(run.result).status is RunStatus.CANCELLED
    assert not run.result.calls[0].ran


async def test_leaving_gives_back_the_place_of_a_call_about_to_begin() -> None:
    """An executor may be shared: what it admitted in the last moment keeps no place from the calls of other runs."""
    log: list[str] = []
    ended = anyio.Event()

    async def pay() -> None:
        log.append("paid")

    # The guard looks at the input before the task of the call is woken: who waits for it has his turn first.
    guarded = tool(pay, guard=lambda _: ended.set())
    executor = InProcessExecutor([guarded], max_concurrency=1)
    api = LocalAPI([message_start(), *whole_call(0, "pay"), Gate()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[guarded], executor=executor):
            await ended.wait()
        log.clear()  # on trio, it may have begun
        api = LocalAPI([reply(tool_use("pay", {}))], [DONE])
        async with eagerstream.run(api.transport(), **REQUEST, tools=[guarded], executor=executor) as run:
            await run.finish()
    assert log == ["paid"]


class _Source(Transport):
    """A reply whose reading awaits nothing after its last chunk, so that no tool can begin within it."""

    request_id: str | None = None

    def __init__(self, *chunks: list[Any]) -> None:
        self.log: list[str] = []
        self._chunks = iter(chunks)

    @asynccontextmanager
    async def open(self, request: Any, limits: Any) -> AsyncIterator[Reply]:
        yield self

    async def receive(self) -> list[Any]:
        self.log.append("read")
        for chunk in self._chunks:
            if len(self.log) > 1:
                await all_tasks_blocked()  # the consumer waits for events
            return chunk
        await anyio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio takes the tasks of a turn in an order of chance
async def test_a_tool_begins_before_the_next_read() -> None:
    """Reading takes as long as much of the way from an input to its tool, and a consumer may take any time."""
    begun, *rest, stop = whole_call(0, "look")
    # In one chunk, the consumer has been woken by the start of the turn before there is a call.
    for chunks, order in (
        ([[message_start(), begun, *rest, stop]], ["read", "seen", "tool"]),
        ([[message_start(), begun, *rest], [stop]], ["read", "read", "tool", "seen"]),
    ):
        source = _Source(*chunks)

        @tool
        async def look() -> None:
            source.log.append("tool")  # noqa: B023 - runs at once

        async with running(source, tools=[look]) as run:
            async for event in run:
                if isinstance(event, InputStop):
                    source.log.append("seen")
                if isinstance(event, ToolStop):
                    break
        assert source.log[: len(order)] == order, chunks


@pytest.mark.parametrize("way", ["cancel()", "leave"])
async def test_a_large_input_of_a_tool_that_finishes(way: str) -> None:
    """What a streaming tool has done is kept also where its input is so large that it is checked in a thread."""
    begun, goes_on, gate = anyio.Event(), anyio.Event(), Gate()

    @tool(on_cancel="finish")
    async def write(words: TextStream) -> str:
        begun.set()
        await words
        await goes_on.wait()
        return "written"

    raw = json.dumps({"words": "x" * 20_000})
    pieces: list[Piece] = [input_delta(0, raw[:100]), gate, input_delta(0, raw[100:])]
    api = LocalAPI([message_start(), tool_start(0, "write"), *pieces, block_stop(0), *END], [DONE])

    async def let_go() -> None:
        await all_tasks_blocked()
        goes_on.set()

    with anyio.fail_after(SLOWLY_S):
        async with anyio.create_task_group() as tasks:
            async with eagerstream.run(api.transport(), **REQUEST, tools=[write]) as run:
                await begun.wait()
                gate.opened.set()
                await all_tasks_blocked()
                tasks.start_soon(let_go)
                if way == "cancel()":
                    run.cancel()
                    await run.finish()
    assert checked(run.result).messages[2] == results(result("toolu_0", "written"))


async def test_forgotten_calls_give_their_place_back() -> None:
    """An idempotent call of a reply that was forgotten is cancelled: with one place, the next could never begin."""
    both: list[list[Piece]] = [[Broken()], [message_start(), *whole_call(0, "now"), *END]]
    for ends in both:
        endless = Endless()
        begins = [message_start(), *whole_call(0, "endless"), endless.gate]
        api = LocalAPI([*begins, *ends], [reply(tool_use("now", {}, id="b"))], [DONE])
        run = await endless.finish(api, **{**QUICK, "tools": [endless.tool, now], "max_concurrency": 1})
        assert run.result.status is RunStatus.COMPLETED


async def test_leaving_while_last_words_are_said() -> None:
    """The error is known to the result although nobody waited for it."""
    begun = anyio.Event()

    @tool
    async def write(words: TextStream) -> str:
        begun.set()
        try:
            return await words
        finally:
            await anyio.sleep_forever()

    gate = Gate()
    api = LocalAPI([message_start(), tool_start(0, "write"), input_delta(0, '{"words": "x'), gate, Broken()])
    async with running(api.transport(), tools=[write], on_interrupt="raise") as run:
        await begun.wait()
        gate.opened.set()
        while run.result.error is None:
            await anyio.lowlevel.checkpoint()
    assert checked(run.result).error is not None
    assert run.result.error["type"] == "StreamInterrupted"
