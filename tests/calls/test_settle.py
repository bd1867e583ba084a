"""`settle`: what of a turn stays in the history, whatever the turn looks like."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings, strategies as st
from packages.wire.tests.test_history import assistant, server_call, told

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.calls._policy import BROKEN_OFF, Keeps, ending_of
from eagerstream.calls._settle import settle
from eagerstream.errors import EagerStreamError
from eagerstream.inputs import GrowingInput
from eagerstream.loop import ToolStart, TurnStop
from eagerstream.recordings import Recording
from eagerstream.tools import CallState, ToolCall, tool
from eagerstream_testing import block, reply, server_tool_use, text, thinking, tool_use
from eagerstream_wire import InputStop, MessageAssembler, MessageState, Outcome, SSEDecoder, WireEvent, decode_event
from tests.loop.serial import (
    DONE,
    END,
    SLOWLY_S,
    TOOLS,
    Listed,
    by_hand,
    checked,
    events_of,
    finished,
    results_in,
)
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    block_delta,
    block_start,
    block_stop,
    blocks_of,
    each_recording,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import LocalAPI, check_history

pytestmark = pytest.mark.anyio


def a_turn(events: list[WireEvent], *, whole: bool = True) -> tuple[Any, list[ToolCall]]:
    """The message of a turn, and its calls, none of them answered."""
    assembler = MessageAssembler(input_type=GrowingInput)
    calls = []
    for event in events:
        calls += [out.input for out in assembler.feed(event) if isinstance(out, InputStop)]
    if not whole:
        calls += [out.input for out in assembler.close() if isinstance(out, InputStop)]
    wanted = sorted((input for input in calls if input.kind == "tool_use"), key=lambda input: input.index)
    return assembler.message, [ToolCall(input, 1) for input in wanted]


def tool_block(index: int, *fragments: str) -> list[WireEvent]:
    return [tool_start(index), *(input_delta(index, fragment) for fragment in fragments), block_stop(index)]


def test_calls_that_were_not_answered() -> None:
    """Each call gets a result that says why it has none of its own."""
    message, calls = a_turn(
        [message_start(), *tool_block(0, "{}"), *tool_block(1, "[1]"), *tool_block(2, '{"a'), *tool_block(3), *END]
    )
    assert [call.input.outcome for call in calls] == [
        Outcome.VALID,
        Outcome.INVALID,
        Outcome.INCOMPLETE,
        Outcome.VALID,
    ]
    calls[3].answer("real")
    assistant, user = settle(message, calls)
    check_history([USER, assistant, user])
    contents = [result["content"] for result in user["content"]]
    assert contents[0] == "Not executed: the response ended before this call was run."
    assert contents[1] == '{"INVALID_JSON": "[1]"}'
    cut, told = contents[2].split("\n")
    assert json.loads(cut) == {"INVALID_JSON": '{"a'}
    assert told == "Not executed: the input of this call was cut off before its JSON was complete."
    assert contents[3] == "real"
    assert [result.get("is_error", False) for result in user["content"]] == [True, True, True, False]


def test_the_content_is_echoed_as_received() -> None:
    """Thinking with its signature, citations, unknown blocks and fields: nothing is added, dropped or reordered."""
    blocks = [
        block_start(0, "thinking", thinking="", signature=""),
        block_delta(0, "thinking_delta", thinking="So."),
        block_delta(0, "signature_delta", signature="c2ln"),
        block_stop(0),
        block_start(1, "redacted_thinking", data="x"),
        block_stop(1),
        block_start(2, "text", text="", new_field=1),
        text_delta(2, "Hi"),
        block_stop(2),
        block_start(3, "from_the_future", anything={"a": [1]}),
        block_stop(3),
    ]
    message, calls = a_turn([message_start(), *blocks, message_delta("end_turn"), MESSAGE_STOP])
    (assistant,) = settle(message, calls)
    assert assistant == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "So.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "Hi", "new_field": 1},
            {"type": "from_the_future", "anything": {"a": [1]}},
        ],
    }


def test_nothing_to_keep() -> None:
    """No content, only empty text, a refusal: the history stays as it was."""
    empty = [block_start(0, "text", text=""), block_stop(0)]
    assert settle(*a_turn([message_start(), *END])) == []
    assert settle(*a_turn([message_start(), *empty, *END])) == []
    refused = a_turn([message_start(), *tool_block(0, "{}"), message_delta("refusal"), MESSAGE_STOP])
    assert settle(*refused, Keeps.NOTHING) == []


_BLOCKS = st.sampled_from(
    ["text", "empty text", "thinking", "valid", "invalid", "incomplete", "empty", "server", "open"]
)


@st.composite
def _turns(draw: st.DrawFn) -> tuple[list[WireEvent], bool]:
    events = [message_start()]
    for index, kind in enumerate(draw(st.lists(_BLOCKS, max_size=6))):
        match kind:
            case "text":
                events += [block_start(index, "text", text=""), text_delta(index, "Hi"), block_stop(index)]
            case "empty text":
                events += [block_start(index, "text", text=""), block_stop(index)]
            case "thinking":
                signed = block_delta(index, "signature_delta", signature="c2ln")
                events += [block_start(index, "thinking", thinking="", signature=""), signed, block_stop(index)]
            case "server":
                start = tool_start(index, kind="server_tool_use")
                events += [start, input_delta(index, "{}"), block_stop(index)]
            case "open":
                events += [tool_start(index), input_delta(index, '{"a')]
            case _:
                text = {"valid": '{"a": 1}', "invalid": '{"a": b}', "incomplete": '{"a": 1', "empty": ""}[kind]
                events += tool_block(index, text)
    reason = draw(st.sampled_from(["tool_use", "end_turn", "max_tokens", "refusal", None]))
    if draw(st.booleans()):
        return [*events, message_delta(reason), MESSAGE_STOP], True
    return events[: draw(st.integers(1, len(events)))], False


@settings(max_examples=150)
@given(turn=_turns(), answered=st.lists(st.booleans(), min_size=6, max_size=6), keeps=st.sampled_from(Keeps))
def test_every_history_can_be_sent(turn: tuple[list[WireEvent], bool], answered: list[bool], keeps: Keeps) -> None:
    """Whatever a reply looks like, wherever it ends, and whichever of its calls have run."""
    events, whole = turn
    message, calls = a_turn(events, whole=whole)
    real = 0
    for call, has_run in zip(calls, answered, strict=False):
        if has_run and call.input.outcome is Outcome.VALID:
            call.start()
            call.answer("real")
            real += 1
    history = settle(message, calls, keeps)
    check_history([USER, *history])
    if history:
        results = history[1]["content"] if len(history) > 1 else []
        assert sum(result.get("content") == "real" for result in results) == real


def test_code_that_waits_for_a_call_stays() -> None:
    """In a turn that was cut: a program that called a tool has no result yet, and is no server call without one."""
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    program = [
        tool_start(0, "code_execution", kind="server_tool_use", id="srvtoolu_1"),
        input_delta(0, '{"code": "now()"}'),
        block_stop(0),
    ]
    called = [tool_start(1, "now", caller=caller), input_delta(1, "{}"), block_stop(1)]
    message, calls = a_turn([message_start(), *program, *called, message_delta("max_tokens"), MESSAGE_STOP])
    calls[0].answer("noon")
    assistant, _ = settle(message, calls)
    assert [block["type"] for block in assistant["content"]] == ["server_tool_use", "tool_use"]


def test_a_saved_call_without_an_answer() -> None:
    """A call that was saved before it was answered is not answered when it is read again."""
    _, (call,) = a_turn([message_start(), *tool_block(0, "{}"), *END])
    again = ToolCall.from_dict(call.to_dict())
    assert again.result is None
    assert not again.answered.is_set()
    assert again.state is not CallState.ANSWERED


# --- in a run ---------------------------------------------------------------------------------------------------------


async def test_max_tokens_inside_a_call() -> None:
    """The cut call does not start, and each call of the turn has its result at its end, also the one that is cut."""
    cut = reply(
        tool_use("now", "{}", id="toolu_1"),
        tool_use("get_weather", '{"city": "Os', id="toolu_2", closed=False),
        stop_reason="max_tokens",
    )
    events, run = await events_of(Listed(cut).transport())
    stops = [event.input.outcome for event in events if isinstance(event, InputStop)]
    assert stops == [Outcome.VALID, Outcome.INCOMPLETE]
    assert [event.call.id for event in events if isinstance(event, ToolStart)] == ["toolu_1"]
    turn = next(event for event in events if isinstance(event, TurnStop))
    assert [call.result for call in turn.calls] == results_in(run.result.messages, 2)
    assert len(turn.calls) == 2


@pytest.mark.parametrize("closed", [True, False])
async def test_max_tokens_before_the_first_character_of_an_input(*, closed: bool) -> None:
    """An empty input at the end of a cut reply is not a call without arguments: it does not run."""
    api = Listed(reply(tool_use("now", "", closed=closed), stop_reason="max_tokens"))
    run = await finished(api.transport())
    assert run.result.status is RunStatus.TRUNCATED
    assert not run.result.calls[0].ran
    assert run.result.calls[0].input.outcome is Outcome.INCOMPLETE


_PARTS = st.sampled_from(
    ["text", "empty text", "thinking", "now", "fail", "bad JSON", "no JSON object", "nope", "server"]
)


def _part(kind: str, id: str) -> Any:
    match kind:
        case "text":
            return text("Let me look.")
        case "empty text":
            return text("")
        case "thinking":
            return thinking("Hm.")
        case "now":
            return tool_use("now", "", id=id)
        case "bad JSON":
            return tool_use("now", '{"a": b}', id=id)
        case "no JSON object":
            return tool_use("now", "[1]", id=id)
        case "server":
            return server_tool_use("web_search", {"query": "a"}, id=f"srvtoolu_{id}")
        case _:
            return tool_use(kind, {}, id=id)


async def test_only_calls_before_a_fallback() -> None:
    """Where no call is left, there is nothing to answer, and nothing more to send."""
    first = reply(tool_use("now", {}, id="toolu_1"), block({"type": "fallback"}), text("So."), stop_reason="tool_use")
    api = Listed(first, DONE)
    run = await finished(api.transport())
    assert len(api.bodies) == 1
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.messages[-1]["role"] == "assistant"


@st.composite
def _replies(draw: st.DrawFn) -> list[bytes]:
    """Replies of a conversation, one after the other; each may end anywhere."""
    bodies = []
    for turn in range(draw(st.integers(1, 3))):
        parts = [_part(kind, f"toolu_{turn}_{at}") for at, kind in enumerate(draw(st.lists(_PARTS, max_size=5)))]
        reason = draw(
            st.sampled_from([None, None, "tool_use", "max_tokens", "refusal", "end_turn", "pause_turn", "odd"])
        )
        body = reply(*parts, stop_reason=reason, message_id=f"msg_{turn}").body
        bodies.append(body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 3)) == 0 else body)
    return bodies


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@settings(max_examples=40)
@given(bodies=_replies(), max_turns=st.sampled_from([None, 1, 2]))
def test_however_a_run_ends_its_history_can_be_sent(backend: str, bodies: list[bytes], max_turns: int | None) -> None:
    """Any replies, cut anywhere: the history is lawful, begins with what was given, and has the results of all it keeps."""

    async def converse() -> None:
        api = LocalAPI(*([body] for body in bodies), [DONE])
        options = {**REQUEST, "tools": TOOLS, "max_turns": max_turns, "restart_delay_s": 0}
        run = eagerstream.run(api.transport(), **options)
        with anyio.fail_after(SLOWLY_S):
            async with run:
                try:
                    await run.finish()
                except eagerstream.EagerStreamError:
                    assert run.result.status is RunStatus.ERROR
                else:
                    assert run.result.status not in (RunStatus.ERROR, RunStatus.CANCELLED)
        checked(run.result)
        assert run.result.messages[0] == USER
        for earlier, later in pairwise([exchange.body["messages"] for exchange in api.exchanges]):
            check_history(later)
            assert later[: len(earlier)] == earlier
        last = api.exchanges[-1].body["messages"]
        assert run.result.messages[: len(last)] == last

    anyio.run(converse, backend=backend)


async def test_calls_before_a_fallback_step_by_step() -> None:
    """They must not run there either: the stream has no event that says that another model took over."""
    ran: list[str] = []

    @tool
    async def book(city: str) -> str:
        """Book."""
        ran.append(city)
        return "booked"

    first = reply(tool_use("book", {"city": "Oslo"}), block({"type": "fallback"}), tool_use("book", {"city": "Bergen"}))
    conversation = await by_hand(Listed(first, DONE).transport(), tools=[book])
    assert ran == ["Bergen"]
    assert [call.state for call in conversation.result.calls] == [CallState.WITHDRAWN, CallState.ANSWERED]


@each_recording
def test_histories_of_recordings(recording: Path) -> None:
    """What is kept of a real reply, with all its calls answered, can be sent."""
    assembler = MessageAssembler(input_type=GrowingInput)
    calls = []
    decoder = SSEDecoder()
    outs: list[Any] = []
    try:
        for event in decoder.feed(Recording.load(recording).body):
            outs += assembler.feed(decode_event(event.data))
    except EagerStreamError:
        pass  # an error event, or a body that is none: what came before it counts
    if assembler.state is not MessageState.STOPPED:
        outs += assembler.close()
    inputs = {id(out.input): out.input for out in outs if isinstance(out, InputStop) and out.input.kind == "tool_use"}
    for input in sorted(inputs.values(), key=lambda input: input.index):
        calls.append(ToolCall(input, 1))
        if input.outcome is Outcome.VALID:
            calls[-1].start()
            calls[-1].answer("done")
    message = assembler.message
    ending = BROKEN_OFF
    if assembler.state is MessageState.STOPPED:
        ending = ending_of(message.get("stop_reason"), on_truncated="stop", forbids_retry=bool(calls))
    # A result whose call is in the reply before this one needs that reply.
    content = blocks_of(message)
    known = {block.get("id") for block in content}
    late = [block["tool_use_id"] for block in content if block.get("tool_use_id", "") not in {"", *known}]
    before = [assistant(*map(server_call, late))] if late else []
    assert told([USER, *settle(message, calls, ending.keeps)]) == [], "an orphan is left out"
    history = settle(message, calls, ending.keeps, server_calls=late)
    assert [index for index, _ in told([USER, *history])] == [1] * len(late)
    assert told([USER, *before, *history]) == []
