"""`EarlyCalls`: the calls of replies that somebody else's loop reads begin as early as those of a run, and end as they do."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import (
    EarlyCalls,
    InputDelta,
    InputInterrupted,
    ItemStream,
    Outcome,
    ProtocolError,
    Reject,
    RunStatus,
    UsageError,
    tool,
)
from eagerstream.tools import CallState, ToolCall
from eagerstream_wire import WireEvent
from tests.loop.serial import only_new_garbage
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_start,
    block_stop,
    blocks_of,
    each_recording,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
    wire_events,
)
from tests.support import LocalAPI, all_tasks_blocked

pytestmark = pytest.mark.anyio

SLOWLY_S = 20


def called(index: int, name: str, raw: str = "{}") -> list[WireEvent]:
    return [tool_start(index, name), input_delta(index, raw), block_stop(index)]


def over(reason: str = "tool_use") -> list[WireEvent]:
    return [message_delta(reason), MESSAGE_STOP]


@asynccontextmanager
async def entered(*tools: Any, **options: Any) -> AsyncIterator[EarlyCalls]:
    """Calls of these tools, within a time."""
    with anyio.fail_after(SLOWLY_S):
        async with EarlyCalls(tools, **options) as calls:
            yield calls


def feed(calls: EarlyCalls, *events: WireEvent) -> None:
    for event in events:
        calls.feed(event)


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def now() -> str:
    """Tell the time."""
    return "noon"


async def test_a_call_begins_at_the_end_of_its_input() -> None:
    """While the next one is being written, and each has its result in the order of the blocks."""
    async with entered(add) as calls:
        feed(calls, message_start(), *called(0, "add", '{"a": 1, "b": 2}'), tool_start(1, "add"))
        first = calls.get("toolu_0")
        assert first is not None
        await first.answered.wait()
        assert calls.get("toolu_1") is None
        feed(calls, input_delta(1, '{"a": 2, "b": 2}'), block_stop(1), *over())
        done = await calls.finish()
    assert done == calls.calls
    assert [call.result for call in done] == [
        {"type": "tool_result", "tool_use_id": "toolu_0", "content": "3"},
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "4"},
    ]


async def test_a_call_is_cancelled() -> None:
    """One that runs, one that is held to the end of its reply, and none; what has ended keeps its result."""
    ran: list[str] = []

    @tool
    async def sleep() -> str:
        ran.append("sleep")
        await anyio.sleep_forever()
        return "never"

    @tool(start="message")
    async def hold() -> str:
        ran.append("hold")
        return "held"

    async with entered(sleep, hold, add) as calls:
        feed(calls, message_start(), *called(0, "sleep"), *called(1, "hold"), *called(2, "add", '{"a": 1, "b": 2}'))
        added = calls.get("toolu_2")
        assert added is not None
        await added.answered.wait()
        for id in ("toolu_0", "toolu_1", "toolu_2", "toolu_3"):
            calls.cancel(id)
        feed(calls, *over())
        done = await calls.finish()
    assert ran == ["sleep"]
    assert [call.is_error for call in done] == [True, True, False]


async def test_what_is_told() -> None:
    """The start of a tool, how far it is, and its end; events of the inputs are given back."""
    told: list[tuple[Any, ...]] = []

    @tool
    async def count() -> AsyncIterator[int]:
        """Count."""
        yield 1
        yield 2

    async with entered(
        count,
        on_start=lambda call: told.append(("start", call.id)),
        on_progress=lambda call, value: told.append(("progress", call.id, value)),
        on_stop=lambda call: told.append(("stop", call.state)),
    ) as calls:
        calls.feed(message_start())
        calls.feed(tool_start(0, "count"))
        (delta,) = calls.feed((0, "{"))
        assert isinstance(delta, InputDelta)
        feed(calls, input_delta(0, "}"), block_stop(0), *over())
        await calls.finish()
    assert told == [
        ("start", "toolu_0"),
        ("progress", "toolu_0", 1),
        ("progress", "toolu_0", 2),
        ("stop", CallState.ANSWERED),
    ]


async def test_a_tool_that_waits_for_the_message() -> None:
    """It begins at its end, and not at all where the reply was refused, or broke off."""
    ran: list[str] = []

    @tool(start="message")
    async def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "gone"

    told: list[ToolCall] = []
    async with entered(delete, on_stop=told.append) as calls:
        feed(calls, message_start(), *called(0, "delete", '{"path": "a"}'))
        await all_tasks_blocked()
        assert ran == []
        feed(calls, *over())
        await calls.finish()
        assert ran == ["a"]
        feed(calls, message_start(), *called(0, "delete", '{"path": "b"}'), *over("refusal"))
        (refused,) = await calls.finish()
        feed(calls, message_start(), *called(0, "delete", '{"path": "c"}'))
        (broken,) = await calls.finish()
    assert ran == ["a"]
    assert refused.state is CallState.WITHDRAWN
    assert broken.state is CallState.WITHDRAWN
    assert told[1:] == [refused, broken]


async def test_a_guard_rejects_a_call_while_it_is_written() -> None:
    """It is answered with the reason at once."""

    @tool(guard=lambda partial: Reject("not there") if partial.get("path", "").startswith("/") else None)
    async def read(path: str) -> str:
        """Read."""
        return path

    async with entered(read) as calls:
        feed(calls, message_start(), tool_start(0, "read"), input_delta(0, '{"path": "/etc'))
        (call,) = calls.calls
        assert call.input.interrupted == "not there"
        feed(calls, input_delta(0, '/passwd"}'), block_stop(0), *over())
        assert await calls.finish() == [call]
    assert not call.ran


async def test_a_reply_that_begins_anew() -> None:
    """What came of it before is void: its tools are cancelled, and the same ids may come again."""
    waiting = anyio.Event()
    ended: list[str] = []

    @tool
    async def wait(name: str) -> str:
        """Wait."""
        try:
            if name == "first":
                waiting.set()
                await anyio.sleep_forever()
            return name
        finally:
            ended.append(name)

    async with entered(wait) as calls:
        feed(calls, message_start(), *called(0, "wait", '{"name": "first"}'), tool_start(1, "wait"))
        await waiting.wait()
        (void,) = calls.calls
        feed(calls, message_start(), *called(0, "wait", '{"name": "second"}'), *over())
        (call,) = await calls.finish()
        await void.answered.wait()
    assert sorted(ended) == ["first", "second"]  # in this order on asyncio; trio's is one of chance
    assert call.turn == void.turn + 1
    assert (call.is_error, void.is_error) == (False, True)
    assert calls.get("toolu_0") is call


async def test_replies_one_after_the_other() -> None:
    """A peer that tells no beginning begins with a block; a call of an earlier reply is there while it runs."""
    release = anyio.Event()

    @tool
    async def slow() -> str:
        """Wait."""
        await release.wait()
        return "done"

    async with entered(slow, add) as calls:
        feed(calls, tool_start(0, "slow", id="old"), block_stop(0), *over())
        await all_tasks_blocked()
        feed(calls, block_start(0, "text", text=""), text_delta(0, "Hm."), block_stop(0))
        feed(calls, *called(1, "add", '{"a": 1, "b": 1}'), *over())
        (call,) = await calls.finish()
        old = calls.get("old")
        assert old is not None
        assert old.result is None
        release.set()
        await old.answered.wait()
    assert (old.turn, call.turn) == (1, 2)


async def test_leaving_the_block_cancels() -> None:
    """A tool that still runs is cancelled, its call is answered; what reads an input that is not whole is interrupted."""
    seen: list[str] = []

    @tool
    async def read(items: ItemStream[int]) -> str:
        """Read."""
        try:
            async for _ in items:
                pass
        except InputInterrupted:
            seen.append("interrupted")
            raise
        except anyio.get_cancelled_exc_class():
            seen.append("cancelled")
            raise
        return "read"

    async with entered(read) as calls:
        feed(calls, message_start(), tool_start(0, "read"), input_delta(0, '{"items": [1'))
        await all_tasks_blocked()
    (call,) = calls.calls
    assert len(seen) == 1
    assert (call.is_error, call.input.outcome) == (True, Outcome.INCOMPLETE)
    with pytest.raises(UsageError, match="entered before"):
        async with calls:
            pass


async def test_an_error_of_the_reader_goes_on() -> None:
    """As it is, and not in a group."""
    with pytest.raises(ZeroDivisionError):
        async with entered(add) as calls:
            feed(calls, message_start(), tool_start(0, "add"))
            raise ZeroDivisionError
    (call,) = calls.calls
    assert (call.turn, call.ran, call.is_error) == (1, False, True)


async def test_finish_can_be_cancelled_and_called_again() -> None:
    """The tools go on."""
    release = anyio.Event()

    @tool
    async def slow() -> str:
        """Wait."""
        await release.wait()
        return "done"

    async with entered(slow) as calls:
        feed(calls, message_start(), *called(0, "slow"), *over())
        with anyio.move_on_after(0) as scope:
            await calls.finish()
        assert scope.cancelled_caught
        release.set()
        (call,) = await calls.finish()
    assert call.result == {"type": "tool_result", "tool_use_id": "toolu_0", "content": "done"}


async def test_what_a_peer_does_wrong() -> None:
    """Two calls with one id could not be told apart; a call without one could not be answered."""
    async with entered(add) as calls:
        feed(calls, message_start(), *called(0, "add"))
        with pytest.raises(ProtocolError, match="two calls have the id"):
            feed(calls, tool_start(1, "add", id="toolu_0"), input_delta(1, "{}"), block_stop(1))
    async with entered(add) as calls:
        feed(calls, message_start(), tool_start(0, "add", id=""), input_delta(0, "{}"), block_stop(0), *over())
        assert await calls.finish() == []


async def test_an_id_twice_while_tools_run() -> None:
    """The second one is told of once, whatever comes of it afterwards; leaving ends the tools that run."""
    begun, ended = anyio.Event(), anyio.Event()

    @tool
    async def reads(lines: ItemStream[str]) -> str:
        """Read."""
        try:
            begun.set()
            return str([line async for line in lines])
        finally:
            ended.set()

    with pytest.raises(ProtocolError, match="two calls have the id"):
        async with EarlyCalls([reads]) as calls:
            feed(calls, message_start(), tool_start(0, "reads"), input_delta(0, '{"lines": ["a"'))
            await begun.wait()
            feed(calls, tool_start(1, "reads", id="toolu_0"), input_delta(1, '{"lines": ["b"'))
    assert ended.is_set()


@tool(start="message")
async def held() -> str:
    """Wait for the end of the message."""
    return "held"


async def test_finish_before_the_first_event() -> None:
    """A request that fails at once has no events; the next one begins a response all the same."""
    async with entered(held) as calls:
        assert await calls.finish() == []
        feed(calls, message_start(), *called(0, "held"), *over())
        assert [call.ran for call in await calls.finish()] == [True]


async def test_responses_without_a_beginning() -> None:
    """Nothing of one response counts in the next: neither its stop reason nor its ids."""
    async with entered(now) as calls:
        for _ in range(2):
            feed(calls, *called(0, "now"), *over())
            assert [call.ran for call in await calls.finish()] == [True]
        feed(calls, tool_start(0, "now"), block_stop(0))
        assert [call.ran for call in await calls.finish()] == [False], "its empty input may have been cut off"


async def test_a_call_behind_a_repeated_id() -> None:
    """It is not lost with the one that cannot be told apart."""
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": id, "name": "now", "input": {}} for id in ("x", "x", "y")
    ]
    async with entered(now) as calls:
        with pytest.raises(ProtocolError, match="two calls have the id"):
            feed(calls, message_start(content=content, stop_reason="tool_use"))
        feed(calls, MESSAGE_STOP)
        assert [(call.id, call.ran) for call in await calls.finish()] == [("x", True), ("y", True)]
    assert calls.violations == ["the tool call of block 1 has the id of an earlier one"]


async def test_an_id_that_the_api_would_refuse() -> None:
    """The history is the framework's: it echoes the id that came, and the result must have the same."""
    async with entered(now) as calls:
        feed(calls, message_start(), tool_start(0, "now", id="call:0"), input_delta(0, "{}"), block_stop(0), *over())
        (call,) = await calls.finish()
    assert call.result == {"type": "tool_result", "tool_use_id": "call:0", "content": "noon"}


async def test_an_end_that_is_told_to_who_raises() -> None:
    """What a callback raises when the calls are left comes out, and no tool is left behind."""
    begun, ended = anyio.Event(), anyio.Event()

    @tool
    async def waits() -> str:
        """Wait."""
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    @tool(start="message")
    async def later() -> str:
        """Never begin."""
        return "never"

    def raises(call: ToolCall) -> None:
        if not call.ran:
            raise ValueError("by the callback")

    with pytest.raises(ValueError, match="by the callback"):
        async with EarlyCalls([waits, later], on_stop=raises) as calls:
            feed(calls, message_start(), *called(0, "waits"), *called(1, "later"))
            await begun.wait()
    assert ended.is_set()


async def test_what_the_caller_does_wrong() -> None:
    """It is told at once."""
    with pytest.raises(UsageError, match="enter the calls first"):
        EarlyCalls([add]).feed(message_start())
    with pytest.raises(UsageError, match="more than one tool"):
        EarlyCalls([add, add])
    with pytest.raises(UsageError, match="must be a list"):
        EarlyCalls(cast("Any", "add"))


async def test_nothing_is_kept() -> None:
    """A call that is kept keeps neither the calls' object nor what was told of it."""
    with only_new_garbage():
        async with entered(add) as calls:
            feed(calls, message_start(), *called(0, "add", '{"a": 1, "b": 2}'), *over())
            (call,) = await calls.finish()
        kept = weakref.ref(calls)
        del calls
        gc.collect()
    assert kept() is None
    assert isinstance(call, ToolCall)


class _AnyTool:
    """Takes whatever a recording calls."""

    def __init__(self, name: str) -> None:
        self.name = name

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "description": "Any.", "input_schema": {"type": "object"}}

    async def call(self, input: Any) -> str:
        await anyio.lowlevel.checkpoint()
        return f"{self.name} {sorted(input)}"


@each_recording
async def test_the_results_are_those_of_a_run(recording: Path) -> None:
    """Of each recorded reply that stays in a history, read by both."""
    body = await anyio.Path(recording).read_bytes()
    events = wire_events(body)
    if MESSAGE_STOP in events:
        del events[events.index(MESSAGE_STOP) + 1 :]  # some hold the next reply, too
    starts = [event["content_block"] for event in events if event.get("type") == "content_block_start"]
    names = sorted({str(block["name"]) for block in starts if block["type"] == "tool_use" and block.get("name")})
    tools = [_AnyTool(name) for name in names]
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(
            LocalAPI([body]).transport(), **{**REQUEST, "tools": tools, "max_turns": 1, "on_interrupt": "raise"}
        ) as run:
            try:
                await run.finish()
            except eagerstream.EagerStreamError:
                assert run.result.status is RunStatus.ERROR
        async with EarlyCalls(tools) as calls:
            for event in events:
                calls.feed(event)
                await anyio.lowlevel.checkpoint()
            early = {call.id: call.result for call in await calls.finish()}
    if run.result.status is RunStatus.ERROR:
        assert set(early) >= {call.id for call in run.result.calls if call.in_history}
    else:
        assert early == {call.id: call.result for call in run.result.calls if call.in_history}


@tool
async def endless() -> None:
    """Wait."""
    await anyio.sleep_forever()


@pytest.mark.parametrize("fails", [False, True])
async def test_cancelled_from_outside(*, fails: bool) -> None:
    """Every call is answered then, and its end is reported, even if a listener fails."""
    ended: list[ToolCall] = []

    def on_stop(call: ToolCall) -> None:
        ended.append(call)
        if fails:
            raise LookupError

    made: list[ToolCall] = []
    with suppress(LookupError), anyio.CancelScope() as scope:
        async with entered(endless, on_stop=on_stop) as calls:
            feed(calls, message_start(), *called(0, "endless"), *called(1, "endless"), *over())
            made = calls.calls
            await all_tasks_blocked()
            scope.cancel()
            await calls.finish()
    assert [call.is_error for call in made] == [True, True]
    assert ended == made


async def test_a_guard_cannot_cut_what_others_read() -> None:
    """The reader goes on, and so do the calls behind the one that was rejected."""

    @tool(guard=lambda _: Reject("no", cut=True))
    async def never() -> None:
        raise AssertionError

    async with entered(never, now) as calls:
        feed(calls, message_start(), *called(0, "never"), *called(1, "now"), *over())
        done = await calls.finish()
    assert [(call.ran, call.is_error) for call in done] == [(False, True), (True, False)]


async def test_a_call_is_known_before_its_task_has_started() -> None:
    """Also after the next response has begun, without any `await` in between; it can be cancelled then."""
    async with entered(endless) as calls:
        feed(calls, message_start(), *called(0, "endless"), *over(), message_start())
        call = calls.get("toolu_0")
        assert call is not None
        await all_tasks_blocked()
        assert calls.get("toolu_0") is call
        calls.cancel("toolu_0")
        await call.answered.wait()
    assert call.is_error


async def test_calls_of_earlier_responses_are_not_kept() -> None:
    """However many responses one object serves."""
    with only_new_garbage():
        async with entered(now) as calls:
            inputs = []
            for _ in range(3):
                feed(calls, message_start(), *called(0, "now"), *over())
                inputs += [weakref.ref(call.input) for call in await calls.finish()]
            gc.collect()
            assert [input() is None for input in inputs] == [True, True, False]


async def test_the_message() -> None:
    """A framework that keeps its own history need not assemble it again. Its ids are those that came."""
    async with entered(now) as calls:
        assert calls.message["content"] == []
        feed(calls, message_start(), *called(0, "now"), *over())
        (block,) = blocks_of(calls.message)
        assert (block["type"], block["name"], block["input"]) == ("tool_use", "now", {})
        assert calls.message["stop_reason"] == "tool_use"
        assert not calls.violations
        await calls.finish()


async def test_events_that_are_none() -> None:
    """A chunk of another API, a forgotten `data`, an event of the framework: said at once, and nothing is lost."""
    async with entered(now) as calls:
        for wrong in (3, "message_start", None, {"choices": []}, {"type": 3}, object()):
            with pytest.raises(UsageError, match="a wire event"):
                calls.feed(wrong)
        feed(calls, message_start(), *called(0, "now"), *over())
        assert len(await calls.finish()) == 1


async def test_no_message_start() -> None:
    """The calls run, and the missing event is reported: ids of two responses could not be told apart otherwise."""
    async with entered(now) as calls:
        feed(calls, *called(0, "now"), *over())
        assert len(await calls.finish()) == 1
        assert calls.violations == ["no message_start was fed before the content"]
