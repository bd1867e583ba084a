"""Odd peers, transports, tools and moments: what is left can be sent and saved, and nothing begins too late."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import (
    InputStop,
    Limits,
    RunResult,
    StreamInterrupted,
    TextStream,
    ToolResponse,
    ToolStart,
    ToolStop,
    TurnStop,
    UsageError,
)
from eagerstream.loop import RunStatus
from eagerstream.recordings import Recording
from eagerstream.testing import http_error, reply, tool_use
from eagerstream.tools import InProcessExecutor, Reject, tool
from eagerstream.transports import Reply, Transport
from eagerstream.wire import WireEvent
from tests.loop.serial import DONE, SLOWLY_S, TOOLS, Endless, Serial, checked, finished, now, result, results
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
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
    whole_call,
)

QUICK: dict[str, Any] = {**REQUEST, "tools": TOOLS, "restart_delay_s": 0}
END: list[Piece] = [message_delta("tool_use"), MESSAGE_STOP]


# --- moments ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("ends", [True, False])
async def test_nothing_begins_after_cancel(*, ends: bool) -> None:
    """A call that was admitted in the same moment does not begin, though its task had been started."""
    log: list[str] = []

    @tool(on_cancel="finish" if ends else "cancel")
    async def pay() -> None:
        log.append("paid")
        await anyio.sleep_forever()

    api = LocalAPI([message_start(), *whole_call(0, "pay"), Gate()], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
            async for event in run:
                if isinstance(event, InputStop):
                    run.cancel()
                    log.append("cancelled")
    assert log == ["cancelled"]
    assert checked(run.result).status is RunStatus.CANCELLED
    assert not run.result.calls[0].ran


@pytest.mark.anyio
async def test_leaving_gives_back_the_place_of_a_call_about_to_begin() -> None:
    """An executor may be shared: what it admitted in the last moment keeps no place from the calls of other runs."""
    log: list[str] = []

    @tool
    async def pay() -> None:
        log.append("paid")

    executor = InProcessExecutor([pay], max_concurrency=1)
    api = LocalAPI([message_start(), *whole_call(0, "pay"), Gate()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay], executor=executor) as run:
            async for event in run:
                if isinstance(event, InputStop):
                    break
        assert not log
        api = LocalAPI([reply(tool_use("pay", {}))], [DONE])
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay], executor=executor) as run:
            await run.finish()
    assert log == ["paid"]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio takes the tasks of a turn in an order of chance
async def test_a_tool_begins_before_the_next_read() -> None:
    """Reading takes as long as much of the way from an input to its tool."""
    gate = Gate()
    log: list[bool] = []

    @tool
    async def look() -> None:
        log.append(gate.reached.is_set())

    api = LocalAPI([message_start(), *whole_call(0, "look"), gate])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[look]) as run:
            async for event in run:
                if isinstance(event, ToolStart):
                    break
            await gate.reached.wait()
    assert log == [False]


@pytest.mark.anyio
async def test_cancel_from_a_guard() -> None:
    """Nor do calls that come behind it in the same chunk."""
    runs: list[Any] = []

    @tool(guard=lambda _: runs[0].cancel())
    async def pay() -> None:
        raise AssertionError

    api = LocalAPI([reply(tool_use("pay", {}), tool_use("pay", {}))], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
            runs.append(run)
            await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED


@pytest.mark.anyio
async def test_cancel_with_a_failure_ahead() -> None:
    """`cancel` raises nothing, not even what the run was about to raise."""
    begun = anyio.Event()

    @tool
    async def endless() -> None:
        begun.set()
        await anyio.sleep_forever()

    api = LocalAPI([message_start(), *whole_call(0, "endless"), message_delta("max_tokens"), MESSAGE_STOP])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[endless], on_truncated="raise") as run:
            await begun.wait()
            run.cancel()
            await run.finish()
    assert checked(run.result).status is RunStatus.CANCELLED


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_forgotten_calls_give_their_place_back() -> None:
    """An idempotent call of a reply that was forgotten is cancelled: with one place, the next could never begin."""
    both: list[list[Piece]] = [[Broken()], [message_start(), *whole_call(0, "now"), *END]]
    for ends in both:
        endless = Endless()
        begins = [message_start(), *whole_call(0, "endless"), endless.gate]
        api = LocalAPI([*begins, *ends], [reply(tool_use("now", {}, id="b"))], [DONE])
        run = await endless.finish(api, **{**QUICK, "tools": [endless.tool, now], "max_concurrency": 1})
        assert run.result.status is RunStatus.COMPLETED


async def _never(_: object) -> bool:
    await anyio.sleep_forever()
    return True


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["held", "waits for approval", "rejected"])
async def test_each_call_of_a_turn_stops(kind: str) -> None:
    """Before its turn does, also where it never began."""
    kinds: dict[str, dict[str, Any]] = {
        "held": {"start": "message"},
        "waits for approval": {"approve": _never},
        "rejected": {"guard": lambda _: Reject("No.", cut=True)},
    }
    options = kinds[kind]

    @tool(**options)
    async def pay() -> None:
        raise AssertionError

    api = LocalAPI([message_start(), *whole_call(0, "pay"), message_delta("max_tokens"), MESSAGE_STOP], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
            names = [type(event) async for event in run if isinstance(event, ToolStart | ToolStop | TurnStop)]
    assert names[:2] == [ToolStop, TurnStop]


@pytest.mark.anyio
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

    api = LocalAPI([message_start(), tool_start(0, "write"), input_delta(0, '{"words": "x'), 0.02, Broken()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[write], on_interrupt="raise") as run:
            await begun.wait()
            while run.result.error is None:
                await anyio.lowlevel.checkpoint()
    assert checked(run.result).error is not None
    assert run.result.error["type"] == "StreamInterrupted"


# --- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_what_failed_was_paid_for_too() -> None:
    """Three requests that each cost ten tokens cost thirty, and where code ran is known."""
    start = message_start(container={"id": "container_1"}, usage={"input_tokens": 10, "output_tokens": 0})
    run = eagerstream.run(LocalAPI([start, Broken()]).transport(), **QUICK)
    with pytest.raises(StreamInterrupted):
        async with run:
            await run.finish()
    assert checked(run.result).usage["input_tokens"] == 30
    assert run.result.container == {"id": "container_1"}


@pytest.mark.anyio
async def test_code_goes_on_after_an_interruption() -> None:
    """The container of a reply that broke off is named in the next request."""
    start = message_start(container={"id": "container_1"})
    api = LocalAPI([start, *whole_call(0, "now"), 0.02, Broken()], [DONE])
    await finished(api.transport(), restart_delay_s=0)
    assert api.exchanges[1].body["container"] == "container_1"


@pytest.mark.anyio
async def test_each_turn_has_its_retry() -> None:
    """After a retried reply that was interrupted, the next turn asks for what the user said, and may be retried."""
    text = [block_start(0, "text", text=""), text_delta(0, "So"), block_stop(0)]
    cut: list[Piece] = [message_start(), *text, message_delta("max_tokens"), MESSAGE_STOP]
    api = LocalAPI(cut, [message_start(), *whole_call(0, "now"), 0.02, Broken()], cut, [DONE])
    run = await finished(api.transport(), restart_delay_s=0, on_truncated="retry")
    assert [exchange.body["max_tokens"] for exchange in api.exchanges] == [1024, 2048, 1024, 2048]
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_thousand_restarts() -> None:
    """A night without a network is an error at its end, and no overflow."""
    run = eagerstream.run(LocalAPI([Broken()]).transport(), **QUICK, max_restarts=1_100)
    with pytest.raises(StreamInterrupted):
        async with run:
            await run.finish()


@pytest.mark.anyio
async def test_an_id_comes_again_where_nothing_of_it_stayed() -> None:
    """A call that was about to run, and then did not fit, leaves its id free for the reply that is sent for again."""

    @tool
    async def big(a: int, s: str) -> str:
        raise AssertionError

    call = whole_call(0, "big", json.dumps({"a": "no", "s": "x" * 20_000}))
    api = LocalAPI([message_start(), *call, Broken()], [message_start(), *call, *END], [DONE])
    run = await finished(api.transport(), tools=[big], restart_delay_s=0)
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.anyio
async def test_a_client_s_own_pause_is_no_silence() -> None:
    """The client waits as long as the peer asks it to before it tries again, although that is longer than a silence."""
    refusal = http_error(429, "rate_limit_error", "Slow down")
    refusal = Recording(refusal.chunks, status=429, headers={**refusal.headers, "retry-after": "0.5"})
    serial = Serial()
    async with serial.server, serial.conversing(refusal, DONE) as client:
        run = await finished(client.with_options(max_retries=1), limits=Limits(idle_timeout_s=0.2))
    assert len(serial.bodies) == 2
    assert run.result.turns == 1


# --- peers ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_id_that_utf8_cannot_carry() -> None:
    """The call and its result have the same legal id in the history."""
    start = '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a\\ud83d","name":"now"}}'
    body: list[Piece] = [message_start(), f"data: {start}\n\n".encode(), input_delta(0, "{}"), block_stop(0), *END]
    run = await finished(LocalAPI(body, [DONE]).transport())
    (call,) = run.result.messages[1]["content"]
    assert re.fullmatch("toolu_[a-z0-9]+", call["id"])
    assert run.result.messages[2] == results(result(call["id"], "noon"))


_ODD_BLOCKS = [
    '{"type": "tomorrow", "n": 1e999}',
    '{"type": "tool_result", "tool_use_id": "x", "content": "y"}',
    '{"type": "thinking"}',
    '{"type": "text", "text": "So.", "cache_control": {"type": "ephemeral"}}',
]


@pytest.mark.anyio
@pytest.mark.parametrize("odd", _ODD_BLOCKS)
async def test_blocks_that_cannot_be_sent_back(odd: str) -> None:
    """They are left out, or mended; the call beside them is answered."""
    pieces: list[Piece] = [message_start()]
    for index in range(5):
        started = f'data: {{"type": "content_block_start", "index": {index}, "content_block": {odd}}}\n\n'
        pieces += [started.encode(), block_stop(index)]
    run = await finished(LocalAPI([*pieces, *whole_call(5, "now"), *END], [DONE]).transport())
    assert run.result.messages[2] == results(result("toolu_5", "noon"))
    RunResult.from_json(run.result.to_json())


@pytest.mark.anyio
@pytest.mark.parametrize("count", ["1e999", "9" * 4_300, "[1]", "null"], ids=["infinite", "long", "list", "null"])
async def test_usage_that_is_no_count(count: str) -> None:
    """It is not added up."""
    start = '{"type": "message_start", "message": {"usage": {"input_tokens": N, "output_tokens": 5}}}'.replace(
        "N", count
    )
    body: list[Piece] = [f"data: {start}\n\n".encode(), *whole_call(0, "now"), *END]
    run = await finished(LocalAPI(body, [DONE]).transport())
    assert "input_tokens" not in run.result.usage or run.result.usage["input_tokens"] < 1_000
    assert RunResult.from_json(run.result.to_json()).usage == run.result.usage


@pytest.mark.anyio
async def test_a_call_that_lost_its_beginning() -> None:
    """A reply in which the start of a block is missing is not taken for one without that call."""
    lost: list[Piece] = [message_start(), input_delta(0, '{"city": "Oslo"}'), block_stop(0), *END]
    api = LocalAPI(lost, [reply(tool_use("now", {}, id="a"))], [DONE])
    run = await finished(api.transport(), restart_delay_s=0)
    assert len(api.exchanges) == 3
    assert run.result.messages[2] == results(result("a", "noon"))


# --- transports -------------------------------------------------------------------------------------------------------

WHOLE: list[WireEvent] = [
    message_start(),
    block_start(0, "text", text=""),
    text_delta(0, "So."),
    block_stop(0),
    message_delta("end_turn"),
    MESSAGE_STOP,
]


class OddTransport(Transport):
    """Gives some events of a reply, and raises."""

    def __init__(
        self, count: int, error: BaseException | None = None, *, at_close: BaseException | None = None
    ) -> None:
        self.request_id: str | None = None
        self._events = iter(WHOLE[:count])
        self._error = error
        self._at_close = at_close

    @asynccontextmanager
    async def open(self, request: Mapping[str, Any], limits: Limits) -> AsyncIterator[Reply]:
        """See `Transport.open`."""
        yield self
        if self._at_close is not None:
            raise self._at_close

    async def receive(self) -> list[WireEvent] | None:
        """See `Reply.receive`."""
        await anyio.lowlevel.checkpoint()
        for event in self._events:
            return [event]
        if self._error is not None:
            raise self._error
        return None


@pytest.mark.parametrize("how", ["run", "stream"])
def test_a_foreign_cancellation(how: str) -> None:
    """Whoever awaits a cancelled task lets its `CancelledError` out: that is a lost connection, and no quiet end."""

    async def main() -> None:
        transport = OddTransport(3, asyncio.CancelledError())
        with pytest.raises(StreamInterrupted):
            if how == "run":
                async with eagerstream.run(transport, **REQUEST, max_restarts=0) as run:
                    await run.finish()
            else:
                async with eagerstream.stream(transport, **REQUEST) as stream:
                    await stream.finish()

    asyncio.run(main())


@pytest.mark.anyio
@pytest.mark.parametrize("at_close", [True, False])
async def test_an_error_behind_the_message(*, at_close: bool) -> None:
    """The reply is whole: what happens to its connection then loses nothing."""
    error = OSError("gone")
    transport = OddTransport(6, at_close=error) if at_close else OddTransport(6, error)
    run = await finished(transport)
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.anyio
async def test_a_stop_iteration_of_the_transport_s() -> None:
    """It is an error that comes out, and not the end of the events."""
    with pytest.raises(RuntimeError):
        async with eagerstream.run(OddTransport(3, StopAsyncIteration()), **REQUEST) as run:
            async for _ in run:
                pass


# --- saving -----------------------------------------------------------------------------------------------------------


class _NoWords:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def _cycle() -> dict[str, Any]:
    data: dict[str, Any] = {}
    data["again"] = data
    return data


_DATA: dict[str, dict[Any, Any]] = {
    "bytes": {"b": b"\xff"},
    "surrogates": {"\ud83d": "\ud83d"},
    "a long integer": {"n": 10**5_000},
    "a cycle": _cycle(),
    "no words": {"x": _NoWords()},
    "keys": {("a", 1): 2, 3: 4},
}


@pytest.mark.anyio
@pytest.mark.parametrize("data", _DATA.values(), ids=_DATA)
async def test_data_that_has_no_json_form(data: dict[Any, Any]) -> None:
    """Whatever a tool puts beside its answer, the run can be saved."""

    @tool
    async def odd() -> ToolResponse:
        return ToolResponse.success("odd", data=data)

    run = await finished(LocalAPI([reply(tool_use("odd", {}, id="a"))], [DONE]).transport(), tools=[odd])
    saved = RunResult.from_json(run.result.to_json())
    assert saved.to_dict() == run.result.to_dict()
    assert saved.messages[2] == results(result("a", "odd"))


@pytest.mark.anyio
async def test_an_image_is_saved() -> None:
    """The bytes that a tool returns are content, and data."""

    @tool
    async def draw() -> bytes:
        return b"\x89PNG\r\n\x1a\n" + b"\0\xff" * 10

    run = await finished(LocalAPI([reply(tool_use("draw", {}, id="a"))], [DONE]).transport(), tools=[draw])
    saved = RunResult.from_json(run.result.to_json())
    assert saved.messages == run.result.messages


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", ["hi", ["hi"], [5], None, 5, USER], ids=repr)
def test_messages_that_are_none(messages: Any) -> None:
    """Said in our own words, before anything is sent."""
    for start in (eagerstream.run, eagerstream.stream):
        with pytest.raises(UsageError, match="message"):
            start(LocalAPI([DONE]).transport(), **{**REQUEST, "messages": messages})


@pytest.mark.parametrize("name", ["restart_delay_s", "min_interval_s", "min_chars"])
@pytest.mark.parametrize("value", ["1", None, float("nan"), -1], ids=repr)
def test_numbers_that_are_none(name: str, value: Any) -> None:
    """The same of settings that are numbers."""
    with pytest.raises(UsageError, match=name):
        eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST, **{name: value})


@pytest.mark.parametrize("value", ["5", None, True], ids=repr)
def test_limits_that_are_none(value: Any) -> None:
    """The same of limits."""
    with pytest.raises(UsageError, match="idle_timeout_s"):
        Limits(idle_timeout_s=value)


@pytest.mark.anyio
async def test_two_consumers() -> None:
    """One of them would never be woken: it is told."""
    api = LocalAPI([message_start(), Gate()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST) as run:
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    await anext(run)
                tasks.start_soon(anext, run)
                await all_tasks_blocked()
                with pytest.raises(UsageError, match="another task"):
                    await anext(run)
                tasks.cancel_scope.cancel()
            run.cancel()
            await run.finish()
