"""`settle`: what of a turn stays in the history, whatever the turn looks like."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings, strategies as st

from eagerstream.loop._policy import Keeps
from eagerstream.loop._settle import settle
from eagerstream.streaming import GrowingInput
from eagerstream.tools import CallState, ToolCall
from eagerstream.wire import InputStop, MessageAssembler, Outcome, WireEvent
from tests.support import (
    MESSAGE_STOP,
    USER,
    block_delta,
    block_start,
    block_stop,
    check_history,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)


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


END = [message_delta("tool_use"), MESSAGE_STOP]


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
    assert contents[0] == "Not executed: the reply ended before this call was run."
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


@settings(max_examples=300)
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
