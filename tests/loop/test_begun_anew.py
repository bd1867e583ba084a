"""Responses that the peer begins anew, or that another model takes over: what ran counts, and the rest is void."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import RunStatus, tool
from eagerstream.errors import StreamInterrupted
from eagerstream.loop import Run, TurnStop
from eagerstream.recordings import Recording
from eagerstream.tools import ToolCall
from eagerstream_testing import block, encode_event, reply, text, tool_use
from eagerstream_wire import MessageStart
from tests.loop.cases import FALLBACK
from tests.loop.serial import (
    DONE,
    NO_ROUTE,
    QUICK,
    Listed,
    assistant,
    call,
    checked,
    ended,
    error,
    events_of,
    finished,
    opened,
    result,
    results,
    results_in,
    running,
)
from tests.streams import REQUEST, block_start, block_stop, input_delta, message_start, tool_start
from tests.support import Gate, LocalAPI, Piece, check_history

pytestmark = pytest.mark.anyio


async def test_a_restarted_reply() -> None:
    """A gateway that begins again: calls of the dropped beginning are not in the history, and are told."""
    begun: list[Piece] = [message_start(), tool_start(0, "now"), input_delta(0, "[]"), block_stop(0)]
    again = reply(tool_use("get_weather", {"city": "Oslo"}, id="toolu_new"))
    api = LocalAPI([*begun, tool_start(1, "now"), input_delta(1, '{"a'), again], [DONE])
    events, run = await events_of(api.anthropic())
    assert [event.restarted for event in events if isinstance(event, MessageStart)] == [False, True, False]
    assert [result["tool_use_id"] for result in results_in(run.result.messages, 2)] == ["toolu_new"]
    assert [call.id for call in run.result.calls] == ["toolu_0", "toolu_1", "toolu_new"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_restarted_reply_after_a_call_has_run(*, at_once: bool) -> None:
    """The call is not repeated under another name: the run goes on with its result, and the new beginning is not read."""
    begun = [message_start(), tool_start(0, "now"), input_delta(0, "{}"), block_stop(0), tool_start(1, "now")]
    again = reply(tool_use("now", {}, id="toolu_new"))
    pieces: list[Piece] = [*begun, again]
    if at_once:
        pieces = [b"".join(map(encode_event, begun)) + again.body]
    api = LocalAPI(pieces, [DONE])
    events, run = await events_of(api.anthropic(), restart_delay_s=0)
    assert not any(event.restarted for event in events if isinstance(event, MessageStart))  # nothing is to be forgotten
    (first, second) = [event for event in events if isinstance(event, TurnStop)]
    assert isinstance(first.error, StreamInterrupted)
    assert second.error is None
    assert run.result.messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_0", "content": "noon"}]
    assert [call.id for call in run.result.calls if call.ran] == ["toolu_0"]


async def test_a_restarted_reply_voids_the_calls_that_wait() -> None:
    """A call that waits for its turn when the peer begins its reply anew never runs: the new reply counts."""
    ran: list[str] = []

    async def ask(_call: ToolCall) -> None:
        await anyio.sleep_forever()

    @tool(approve=ask)
    async def pay(id: str) -> None:
        ran.append(id)

    waiting = [message_start(), tool_start(0, "pay", id="old"), input_delta(0, '{"id": "old"}'), block_stop(0)]
    api = LocalAPI([*waiting, reply(text("Never mind."))])
    async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
        await run.finish()
    assert ran == []
    assert run.result.status is RunStatus.COMPLETED
    assert [message["role"] for message in run.result.messages] == ["user", "assistant"]
    check_history(run.result.messages)


async def test_a_fallback_before_the_message_ends() -> None:
    """Another model takes over: a held call of the first is neither run nor answered."""

    @tool(start="message")
    async def pay() -> str:
        """Pay."""
        raise AssertionError("must not run")

    body = [
        message_start(),
        *opened("pay", "{}"),
        block_stop(0),
        block_start(1, "fallback", **{"from": "a", "to": "b"}),
        block_stop(1),
        block_start(2, "text", text="So."),
        *ended("end_turn", index=2),
    ]
    run = await finished(LocalAPI(body).transport(), tools=[pay])
    assert [block["type"] for block in run.result.messages[1]["content"]] == ["fallback", "text"]
    assert len(run.result.messages) == 2


_WROTE = result("c", "wrote x")


_CUT = reply(
    tool_use("write_file", '{"path": }', id="a"),
    tool_use("write_file", '{"pa', id="b", closed=False),
    stop_reason="max_tokens",
)
_FALLS_BACK = [tool_use("write_file", {"path": path}, id=path) for path in "ab"]


@pytest.mark.parametrize(
    "replies",
    [
        [_CUT, reply(tool_use("write_file", {"path": "x"}, id="c"))],
        [reply(*_FALLS_BACK, block(FALLBACK), tool_use("write_file", {"path": "x"}, id="c"))],
    ],
    ids=["retry", "fallback"],
)
async def test_a_group_begins_anew(replies: list[Recording]) -> None:
    """Calls of a reply that was discarded, or of a model that gave up, do not keep those behind it from running."""
    run = await finished(Listed(*replies, DONE).transport(), on_truncated="retry")
    assert run.result.messages[2] == results(_WROTE)


@asynccontextmanager
async def begun_anew(begun: Sequence[Piece], again: Recording) -> AsyncIterator[Run]:
    """A run whose peer begins its response anew once the first call is answered."""
    gate = Gate()
    async with running(LocalAPI([*begun, gate, again], [DONE]).transport(), **QUICK) as run:
        await gate.reached.wait()
        await run.result.calls[0].answered.wait()
        gate.opened.set()
        yield run


async def test_a_group_begins_anew_with_a_restarted_reply() -> None:
    """The same where the peer itself begins again."""
    begun = [message_start(), tool_start(0, "write_file"), input_delta(0, '{"path": }'), block_stop(0)]
    async with begun_anew(begun, reply(tool_use("write_file", {"path": "x"}, id="c"))) as run:
        await run.finish()
    assert checked(run.result).messages[2] == results(_WROTE)


async def test_a_repeated_call_of_another_tool() -> None:
    """A reply that is begun anew with the same id and input for another tool is not answered with the first one's work."""
    begun = [message_start(), tool_start(0, "now", id="a"), input_delta(0, "{}"), block_stop(0)]
    async with begun_anew(begun, reply(tool_use("fail", {}, id="a"))) as run:
        try:
            await run.finish()
        except eagerstream.ProtocolError:
            pass
    assert (
        assistant(call("a", "fail", {})) not in run.result.messages
        or results(error("a", NO_ROUTE)) in run.result.messages
    )
