"""Guards: functions that look at the input of a call while it grows, and may reject the call or cut the response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
import eagerstream_testing
from eagerstream import (
    InputInterrupted,
    InputStop,
    ItemStream,
    Later,
    Outcome,
    Reject,
    RunningCall,
    RunStatus,
    TextStream,
    ToolResponse,
    ToolStart,
    ToolStop,
    tool,
)
from eagerstream_testing import encode_event, reply
from tests.loop.serial import DONE, Scribe, ended, finished, next_turn, only_result, opened, running
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Gate, LocalAPI, Piece, all_tasks_blocked

pytestmark = pytest.mark.anyio


def in_root(partial: Mapping[str, Any]) -> str | None:
    """A guard: no absolute paths."""
    return "Only paths inside the root." if str(partial.get("filename", "")).startswith("/") else None


async def test_a_guard_rejects_a_call_while_it_is_written() -> None:
    """The call never runs and is answered with the reason; the rest of the reply goes on."""
    scribe = Scribe()

    @tool(guard=in_root)
    async def remove(filename: str) -> str:
        """Remove a file."""
        raise AssertionError("must not run")

    rejected = anyio.Event()
    gate = Gate()
    body = [
        message_start(),
        *opened("remove", '{"filename": "/et'),
        gate,
        input_delta(0, 'c"}'),
        block_stop(0),
        *opened("make_file", '{"filename": "a", "lines": []}', index=1),
        *ended(index=1),
    ]
    api = LocalAPI(body, [DONE])
    async with running(api.transport(), tools=[remove, scribe.make_file]) as run:
        await gate.reached.wait()
        (call,) = run.result.calls
        assert call.is_error
        rejected.set()
        gate.opened.set()
        await run.finish()
    refused, written = run.result.messages[2]["content"]
    assert refused["content"] == "Only paths inside the root."
    assert refused["is_error"] is True
    assert written["content"] == "wrote 0 lines to a"
    assert run.result.messages[1]["content"][0]["input"] == {"filename": "/etc"}
    assert run.result.status is RunStatus.COMPLETED


async def test_a_guard_is_asked_where_nobody_wants_events() -> None:
    """About the first fragments, too, that come in one chunk with the beginning of the call, and then nothing for long."""
    asked = anyio.Event()

    def guard(partial: Mapping[str, Any]) -> str | None:
        if "x" in partial:
            asked.set()
            return "No."
        return None

    @tool(guard=guard)
    async def remove(x: int) -> None:
        """Remove."""

    gate = Gate()
    events = (message_start(), tool_start(0, "remove"), input_delta(0, '{"x": 1,'))
    api = LocalAPI([b"".join(map(encode_event, events)), gate, input_delta(0, ' "y": 2}'), *ended()], [DONE])
    async with running(api.transport(), tools=[remove]) as run:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            await asked.wait()
            gate.opened.set()
    assert run.result.calls[0].is_error


async def test_a_guard_has_the_reply_cut() -> None:
    """The connection is closed there; what was whole before is kept and answered, and the run goes on."""

    @tool(guard=lambda partial: Reject("No.", cut=True) if "bad" in partial.get("text", "") else None)
    async def post(text: str) -> str:
        """Post."""
        return f"posted {text}"

    unreachable = Gate()
    body = [
        message_start(),
        *opened("post", '{"text": "good"}'),
        block_stop(0),
        *opened("post", '{"text": "bad w', index=1),
        unreachable,
    ]
    api = LocalAPI(body, [DONE])
    stopped: list[Outcome | None] = []
    async with running(api.transport(), tools=[post]) as run:
        async for event in run:
            if isinstance(event, InputStop):
                stopped.append(event.input.outcome)
    assert stopped == [Outcome.VALID, Outcome.INCOMPLETE]
    assert run.result.status is RunStatus.COMPLETED
    assert api.exchanges[0].closed
    assert len(api.exchanges) == 2
    whole, cut = run.result.messages[1]["content"]
    assert whole["input"] == {"text": "good"}
    assert cut["input"] == {"INVALID_JSON": '{"text": "bad w'}
    assert [result["content"] for result in run.result.messages[2]["content"]] == ["posted good", "No."]
    assert [call.ran for call in run.result.calls] == [True, False]


async def test_a_guard_interrupts_a_tool_that_has_begun() -> None:
    """A streaming tool gets `InputInterrupted`, may clean up, and the model is told both."""
    told: list[str] = []

    @tool(guard=lambda partial: "No swearing." if "damn" in partial.get("words", "") else None)
    async def say(words: TextStream) -> str:
        """Say."""
        try:
            async for piece in words:
                told.append(piece)
        except InputInterrupted as error:
            return f"stopped: {error.reason}"
        return "said"

    gate = Gate()
    body = [message_start(), *opened("say", '{"words": "Well, '), gate, input_delta(0, 'damn"}'), *ended()]
    api = LocalAPI(body, [DONE])
    async with running(api.transport(), tools=[say]) as run:
        async for event in run:
            if isinstance(event, ToolStart):
                await all_tasks_blocked()
                gate.opened.set()
            if isinstance(event, ToolStop):
                assert event.call.is_error
    content = only_result(run)["content"]
    assert content.startswith("No swearing.")
    assert content.endswith("stopped: No swearing.")
    assert told == ["Well, "]


@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_may_run_twice(idempotent: bool) -> None:
    """A call that has begun keeps a cut reply from being sent for again, unless running it twice does no harm."""
    ran: list[str] = []

    @tool(idempotent=idempotent)
    async def look(call: RunningCall) -> str:
        """Look."""
        ran.append(call.id)
        return "seen"

    def body(*rest: Piece) -> list[Piece]:
        return [message_start(), *opened("look", "{}"), block_stop(0), *rest]

    gate = Gate()
    cut = body(gate, *opened("look", "{", index=1), message_delta("max_tokens"), MESSAGE_STOP)
    api = LocalAPI(cut, body(message_delta("tool_use"), MESSAGE_STOP) if idempotent else [DONE], [DONE])
    async with running(api.transport(), tools=[look], on_truncated="retry") as run:
        async for event in run:
            if isinstance(event, ToolStop):
                gate.opened.set()
    assert run.result.status is RunStatus.COMPLETED
    assert ran == (["toolu_0", "toolu_0"] if idempotent else ["toolu_0"])
    assert api.exchanges[1].body["max_tokens"] == REQUEST["max_tokens"] * (2 if idempotent else 1)
    assert [call.in_history for call in run.result.calls if call.ran] == ([False, True] if idempotent else [True])


@pytest.mark.parametrize("kind", ["text", "later"])
async def test_a_guard_keeps_the_value_from_the_tool(kind: str) -> None:
    """What finishes with the fragment that the guard rejects is not handed out either, however it is awaited."""
    got: list[str] = []

    def guard(partial: Mapping[str, Any]) -> str | None:
        return "No." if "bad" in partial.get("value", "") else None

    @tool(guard=guard)
    async def text_tool(value: TextStream) -> None:
        """Act."""
        got.append(await value)

    @tool(guard=guard)
    async def later_tool(lines: ItemStream[str], value: Later[str]) -> None:
        """Act."""
        got.append(await value)

    used = text_tool if kind == "text" else later_tool
    gate = Gate()
    body = [message_start(), *opened(used.name, '{"lines": ["a"], "value": "b'), gate, input_delta(0, 'ad"}'), *ended()]
    if kind == "text":
        body[1:3] = opened(used.name, '{"value": "b')
    api = LocalAPI(body, [DONE])
    async with running(api.transport(), tools=[used]) as run:
        async for event in run:
            if isinstance(event, ToolStart):
                await all_tasks_blocked()
                gate.opened.set()
    assert got == []
    assert only_result(run)["content"].startswith("No.")


async def test_a_guard_step_by_step() -> None:
    """Whoever drives the conversation by hand is guarded all the same."""

    @tool(guard=in_root)
    async def remove(filename: str) -> str:
        """Remove."""
        raise AssertionError("must not run")

    call = eagerstream_testing.tool_use("remove", {"filename": "/etc"}, id="toolu_0")
    conversation = eagerstream.Conversation(**REQUEST, tools=[remove])
    turn = await next_turn(LocalAPI([reply(call)]).transport(), conversation)
    await conversation.execute(turn)
    assert turn.results()[0]["content"] == "Only paths inside the root."


def _fail(partial: Mapping[str, Any]) -> str | None:
    raise LookupError(len(partial))


@pytest.mark.parametrize(
    ("guard", "told"),
    [
        pytest.param(_fail, "the guard of this tool failed: LookupError", id="fails"),
        *(
            pytest.param(lambda _, verdict=verdict: verdict, "neither None nor a reason", id=repr(verdict))
            for verdict in (False, True, 0, "", ["x"])
        ),
    ],
)
async def test_a_guard_that_gives_no_verdict(guard: Any, told: str) -> None:
    """It was to keep something out: only None lets a call go on."""

    @tool(guard=guard)
    async def pay() -> ToolResponse:
        """Pay."""
        raise AssertionError("must not run")

    call = eagerstream_testing.tool_use("pay", {}, id="toolu_0")
    run = await finished(LocalAPI([reply(call)], [DONE]).transport(), tools=[pay])
    assert told in only_result(run)["content"]


async def test_a_held_call_of_a_reply_that_a_guard_cut() -> None:
    """The reply never ended, so what waits for its end does not run; what is rejected at its end is cut there too."""

    @tool(start="message")
    async def pay() -> str:
        """Pay."""
        raise AssertionError("must not run")

    @tool(guard=lambda partial: Reject("No.", cut=True) if partial else None)
    async def post(text: str) -> str:
        """Post."""
        return text

    body = [message_start(), *opened("pay", "{}"), block_stop(0), *opened("post", '{"text": "x"}', index=1)]
    run = await finished(LocalAPI([*body, *ended(index=1)], [DONE]).transport(), tools=[pay, post])
    contents = [result["content"] for result in run.result.messages[2]["content"]]
    assert contents == ["Not executed: the response ended before this call was run.", "No."]
