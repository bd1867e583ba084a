"""`MessageAssembler`: the message as it must be echoed, and the events on the way to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from anthropic import types
from hypothesis import given, strategies as st
from packages.wire.tests.inputs import fed
from packages.wire.tests.summaries import any_streams, input_summary, plausible_streams
from tests.sampling import at_length
from tests.streams import (
    MESSAGE_STOP,
    block_delta,
    block_start,
    block_stop,
    blocks_of,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
    written,
)
from tests.tables import rows

from eagerstream_wire import (
    BlockStart,
    BlockStop,
    CitationDelta,
    InputAccumulator,
    InputDelta,
    InputFragment,
    InputStart,
    InputStop,
    LimitError,
    MessageAssembler,
    MessageEvent,
    MessageStart,
    MessageState,
    MessageStop,
    Outcome,
    ParsingLimits,
    TextDelta,
    TextFragment,
    ThinkingDelta,
    ToolInput,
    UnknownEvent,
    UsageError,
    WireEvent,
)


def names(events: list[MessageEvent[ToolInput]]) -> list[str]:
    return [type(event).__name__ for event in events]


def content_of(*events: WireEvent) -> list[dict[str, Any]]:
    """The content of a message whose middle is `events`."""
    assembler, _ = fed(message_start(), *events)
    return blocks_of(assembler.message)


# --- one message ------------------------------------------------------------------------------------------------------


def test_a_whole_message() -> None:
    """The plain case, event by event, and the message at its end."""
    assembler = MessageAssembler()
    states = [assembler.state]
    stream = [
        message_start(),
        {"type": "ping"},
        block_start(0, "text", text=""),
        text_delta(0, "Hel"),
        text_delta(0, ""),
        text_delta(0, "lo"),
        block_stop(0),
        tool_start(1, "search"),
        input_delta(1, '{"q":'),
        input_delta(1, "1}"),
        block_stop(1),
        message_delta("tool_use"),
        MESSAGE_STOP,
    ]
    events: list[MessageEvent[ToolInput]] = []
    for event in stream:
        events += assembler.feed(event)
        states.append(assembler.state)
    text = ["BlockStart", "TextDelta", "TextDelta", "BlockStop"]
    call = ["InputStart", "InputDelta", "InputDelta", "InputStop"]
    assert names(events) == ["MessageStart", *text, *call, "MessageStop"]
    assert assembler.stop_reason == "tool_use"
    last = events[-1]
    assert isinstance(last, MessageStop)
    assert last.stop_reason == "tool_use"
    assert last.message == assembler.message
    assert last.message == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-made-1",
        "content": [
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "output_tokens": 9},
        "stop_sequence": None,
    }
    assert assembler.close() == []
    states.append(assembler.state)
    opened = [MessageState.OPEN] * (len(stream) - 1)
    assert states == [MessageState.WAITING, *opened, MessageState.STOPPED, MessageState.STOPPED]


def test_the_message_can_be_looked_at_any_time() -> None:
    """What is there so far shows, without disturbing what comes."""
    assembler, _ = fed(message_start(), block_start(0, "text", text="A"), text_delta(0, "b"))
    assert assembler.message["content"] == [{"type": "text", "text": "Ab"}]
    assembler.feed(text_delta(0, "c"))
    assert assembler.message["content"] == [{"type": "text", "text": "Abc"}]
    assembler.feed(tool_start(1))
    assembler.feed(input_delta(1, '{"a":1'))
    assert blocks_of(assembler.message)[1]["input"] == {}
    assert assembler.message is not assembler.message


def test_what_was_told_at_the_start_stays_as_it_was() -> None:
    """`BlockStart.block` is the block before any delta, also for those who look at it later."""
    assembler, events = fed(message_start(), block_start(0, "text", text=""), text_delta(0, "x"))
    _ = assembler.message
    assembler.feed(block_stop(0))
    start = events[1]
    assert isinstance(start, BlockStart)
    assert start.block == {"type": "text", "text": ""}


def test_the_wire_events_are_left_as_they_came() -> None:
    """Whoever keeps the raw events beside ours must not find them changed."""
    stream = [
        message_start(content=[{"type": "text", "text": "x"}]),
        block_start(1, "text", text="", citations=[]),
        text_delta(1, "x"),
        block_delta(1, "citations_delta", citation={"n": 1}),
        block_stop(1),
        tool_start(2),
        input_delta(2, '{"a":1}'),
        block_stop(2),
        message_delta("tool_use"),
        MESSAGE_STOP,
    ]
    before = json.dumps(stream)
    assembler, _ = fed(*stream)
    _ = assembler.message
    assert json.dumps(stream) == before


def test_thinking_is_joined_and_its_signature_assigned() -> None:
    """It is watched like text. A signature covers the whole: it replaces, where text appends."""
    assembler, events = fed(
        message_start(),
        block_start(0, "thinking", thinking="", signature=""),
        block_delta(0, "thinking_delta", thinking="Let "),
        block_delta(0, "thinking_delta", thinking="me"),
        block_delta(0, "signature_delta", signature="old"),
        block_delta(0, "signature_delta", signature="new"),
        block_stop(0),
        block_start(1, "redacted_thinking", data="xyz"),
        block_stop(1),
    )
    thought = {"type": "thinking", "thinking": "Let me", "signature": "new"}
    assert assembler.message["content"] == [thought, {"type": "redacted_thinking", "data": "xyz"}]
    assert events[2:5] == [ThinkingDelta(0, "Let "), ThinkingDelta(0, "me"), BlockStop(0, thought)]


@rows("start", [{}, {"citations": None}, {"citations": []}])
def test_citations_are_appended(start: dict[str, Any]) -> None:
    """One delta, one citation, whatever the block had at its start."""
    content = content_of(
        block_start(0, "text", text="", **start),
        block_delta(0, "citations_delta", citation={"n": 1}),
        text_delta(0, "x"),
        block_delta(0, "citations_delta", citation={"n": 2}),
        block_stop(0),
    )
    assert content == [{"type": "text", "text": "x", "citations": [{"n": 1}, {"n": 2}]}]


def test_compaction_is_assigned() -> None:
    """A compaction arrives whole, in one delta; fields it does not bring stay."""
    content = content_of(
        block_start(0, "compaction", content=None),
        block_delta(0, "compaction_delta", content="what was said", encrypted_content="xyz"),
        block_stop(0),
        block_start(1, "compaction", content=None, encrypted_content="old"),
        block_delta(1, "compaction_delta", content="short"),
        block_stop(1),
    )
    assert content == [
        {"type": "compaction", "content": "what was said", "encrypted_content": "xyz"},
        {"type": "compaction", "content": "short", "encrypted_content": "old"},
    ]


def test_unknown_blocks_and_deltas_pass_through() -> None:
    """What the API adds tomorrow is kept as received, and told as unknown."""
    later = {"type": "later", "n": 1}
    shimmer = block_delta(0, "shimmer_delta", amount=1)
    assembler, events = fed(message_start(), later, block_start(0, "hologram", depth=3), shimmer, block_stop(0))
    assert [event.data for event in events if isinstance(event, UnknownEvent)] == [later, shimmer]
    assert assembler.message["content"] == [{"type": "hologram", "depth": 3}]


def test_content_is_in_the_order_of_the_indexes() -> None:
    """Gaps do not matter, nor the order in which blocks open."""
    content = content_of(
        tool_start(5), input_delta(5, "{}"), block_start(2, "text", text="x"), block_stop(2), block_stop(5)
    )
    assert [block["type"] for block in content] == ["text", "tool_use"]


@rows(
    "text, outcome",
    [
        ('{"keywords": Dave}', Outcome.INVALID),
        ("[1]", Outcome.INVALID),
        ('{"a":1', Outcome.INCOMPLETE),
        ("", Outcome.INCOMPLETE),
    ],
)
def test_an_input_that_is_not_usable_is_wrapped(text: str, outcome: Outcome) -> None:
    """The API refuses a history whose input is no object, so the model gets its own words back under one key."""
    assembler, events = fed(
        message_start(), tool_start(0), input_delta(0, text), block_stop(0), message_delta("max_tokens"), MESSAGE_STOP
    )
    (stop,) = [event for event in events if isinstance(event, InputStop)]
    assert stop.input.outcome is outcome
    assert blocks_of(assembler.message)[0]["input"] == {"INVALID_JSON": text}
    assert events[-1] == MessageStop(assembler.message, "max_tokens")


def test_a_call_with_its_input_in_the_start() -> None:
    """The input is echoed as it came, the caller beside it."""
    content = content_of(tool_start(0, input={"a": 1}, caller={"type": "code"}), block_stop(0))
    assert content[0]["input"] == {"a": 1}
    assert content[0]["caller"] == {"type": "code"}


def test_content_inside_message_start() -> None:
    """Blocks that the start already brings are part of the message, their calls are told."""
    given_content = [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}]
    assembler, events = fed(message_start(content=given_content), block_start(2, "text", text="y"), block_stop(2))
    text = ["BlockStart", "TextDelta", "BlockStop"]
    assert names(events) == ["MessageStart", "InputStart", "InputStop", *text, *text]
    assert [block.get("text") for block in assembler.message["content"]] == ["x", None, "y"]
    assert blocks_of(assembler.message)[1]["input"] == {"a": 1}


# --- the message's own fields -----------------------------------------------------------------------------------------


def test_usage_is_overwritten_where_it_is_not_null() -> None:
    """Counts are cumulative: the last one holds, and what is left out or null keeps the one before."""
    start = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 7, "service_tier": "standard"}
    assembler, _ = fed(
        message_start(usage=start),
        message_delta(None, output_tokens=5, cache_read_input_tokens=None),
        message_delta("end_turn", output_tokens=9, input_tokens=12, server_tool_use={"web_search_requests": 1}),
    )
    assert assembler.message["usage"] == {
        "input_tokens": 12,
        "output_tokens": 9,
        "cache_read_input_tokens": 7,
        "service_tier": "standard",
        "server_tool_use": {"web_search_requests": 1},
    }


def test_what_is_no_count_replaces_none() -> None:
    """An integral float is a count. Some gateways have the counts inside the delta."""
    odd = {
        "input_tokens": 5.0,
        "output_tokens": "7",
        "cache_read_input_tokens": True,
        "server_tool_use": {"a": 2.0},
        "c": 0,
    }
    assembler, _ = fed(
        message_start(
            usage={"input_tokens": 3, "output_tokens": 1, "server_tool_use": {"a": 1, "b": 4}, "c": {"d": 1}}
        ),
        message_delta("end_turn") | {"usage": odd},
    )
    assert assembler.message["usage"] == {
        "input_tokens": 5,
        "output_tokens": 1,
        "cache_read_input_tokens": True,
        "server_tool_use": {"a": 2, "b": 4},
        "c": {"d": 1},
    }
    inside = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "usage": {"output_tokens": 9}}}
    assembler, _ = fed(message_start(usage={"output_tokens": 1}), inside)
    assert assembler.message["usage"] == {"output_tokens": 9}


def test_the_usage_of_a_cut_message_is_a_lower_bound() -> None:
    """The counts of `message_start` are a placeholder; an estimate is beside them, once the message has ended."""
    said = [message_start(usage={"output_tokens": 4}), block_start(0, "text", text=""), text_delta(0, "x" * 4_000)]
    called = [block_stop(0), tool_start(1), input_delta(1, '{"a": "' + "y" * 393)]
    assembler, _ = fed(*said, *called)
    assert assembler.message["usage"] == {"output_tokens": 4}
    assembler.close(cleanly=False)
    assert 1_096 <= assembler.message["usage"]["uncounted_output_tokens"] <= 1_110
    assembler, _ = fed(*said, message_start(id="msg_2", usage={"output_tokens": 1}))
    assert assembler.voided is not None
    assert assembler.voided["usage"]["uncounted_output_tokens"] == 996
    assert "uncounted_output_tokens" not in assembler.message["usage"]
    assembler, _ = fed(*said, block_stop(0), message_delta("end_turn"), MESSAGE_STOP)
    assert assembler.message["usage"] == {"output_tokens": 9}
    for running in (message_delta(None), message_delta("end_turn", output_tokens="n/a")):
        assembler, _ = fed(*said, running)
        assembler.close(cleanly=False)
        assert assembler.message["usage"]["uncounted_output_tokens"] > 900
    assembler, _ = fed(message_start(usage={}), *said[1:])
    assembler.close(cleanly=False)
    assert assembler.message["usage"] == {"uncounted_output_tokens": 1_000}
    assembler, _ = fed()
    assembler.close(cleanly=False)
    assert "usage" not in assembler.message


def test_message_delta_fills_in_the_message() -> None:
    """Whatever the end of a reply brings belongs to the message, known to us or not; null takes nothing away."""
    assembler, _ = fed(
        message_start(container={"id": "c1"}),
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": "stop_sequence",
                "stop_sequence": "END",
                "container": None,
                "stop_details": {"a": 1},
            },
            "context_management": {"applied_edits": []},
        },
        message_delta(None),
    )
    message = assembler.message
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "END")
    assert message["container"] == {"id": "c1"}
    assert message["stop_details"] == {"a": 1}
    assert message["context_management"] == {"applied_edits": []}
    assert (message["type"], message["usage"]["input_tokens"]) == ("message", 10)
    assert "delta" not in message
    assert assembler.stop_reason == "stop_sequence"


def test_an_error_event_is_left_to_the_transport() -> None:
    """It ends the reply from outside; the message keeps what it has."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assembler, events = fed(message_start(), block_start(0, "text", text=""), text_delta(0, "x"), error)
    assert names(events) == ["MessageStart", "BlockStart", "TextDelta"]
    assert names(assembler.close()) == ["BlockStop"]
    assert assembler.state is MessageState.INTERRUPTED


# --- beginnings and ends ----------------------------------------------------------------------------------------------


def test_a_clean_end_without_message_stop_is_an_end() -> None:
    """Some gateways leave it out: a stop reason and every block closed say as much. Others close no block, either."""
    call = [message_start(), tool_start(0), input_delta(0, "{}")]
    assembler, _ = fed(*call, block_stop(0), message_delta("max_tokens"))
    assert assembler.close() == [MessageStop(assembler.message, "max_tokens")]
    assert assembler.state is MessageState.STOPPED
    assembler, events = fed(*call, message_delta("tool_use"))
    assert names(events)[-1] == "InputStop"
    assert assembler.close() == [MessageStop(assembler.message, "tool_use")]
    assembler, _ = fed(message_start(), block_start(0, "text", text=""), text_delta(0, "x"), message_delta("end_turn"))
    assert names(assembler.close()) == ["BlockStop", "MessageStop"]
    assert assembler.violations == ["block 0 was never closed"]


@rows(
    "events, left",
    [
        ([], []),
        ([message_start()], []),
        ([message_start(), message_delta(None)], []),
        ([message_start(), block_start(0, "text", text=""), text_delta(0, "x")], ["BlockStop"]),
        ([message_start(), block_start(0, "text", text=""), message_delta("max_tokens")], ["BlockStop"]),
        ([message_start(), tool_start(0), input_delta(0, "{"), message_delta("tool_use")], ["InputStop"]),
        ([message_start(), tool_start(0), input_delta(0, '{"a":1}')], ["InputStop"]),
        ([message_start(), tool_start(0), input_delta(0, "{"), message_delta("max_tokens")], ["InputStop"]),
        ([message_start(), tool_start(0), block_stop(0)], ["InputStop"]),
        ([message_start(), tool_start(0), input_delta(0, "{}"), block_stop(0)], []),
    ],
)
def test_anything_else_is_an_interruption(events: list[WireEvent], left: list[str]) -> None:
    """A body that just ends is not a short reply; what was open is settled so that nobody waits for ever."""
    assembler, _ = fed(*events)
    closing = assembler.close()
    assert names(closing) == left
    assert assembler.state is MessageState.INTERRUPTED
    assert all(event.input.outcome is Outcome.INCOMPLETE for event in closing if isinstance(event, InputStop))
    assert assembler.close() == []


def test_a_cut_off_call_before_message_stop() -> None:
    """Cut at max_tokens without `content_block_stop`: the message is whole, its last call is not."""
    assembler, events = fed(
        message_start(), tool_start(0), input_delta(0, '{"a":"x'), message_delta("max_tokens"), MESSAGE_STOP
    )
    assert names(events)[-2:] == ["InputStop", "MessageStop"]
    assert assembler.state is MessageState.STOPPED
    assert blocks_of(assembler.message)[0]["input"] == {"INVALID_JSON": '{"a":"x'}


def test_a_restart_in_the_middle() -> None:
    """A gateway that tries again begins anew: what came before is settled, forgotten, and said to be."""
    assembler, _ = fed(message_start(), block_start(0, "text", text="x"), tool_start(1), input_delta(1, '{"a":'))
    events = assembler.feed(message_start(id="msg_2"))
    assert sorted(names(events)) == ["BlockStop", "InputStop", "MessageStart"]
    restart = events[-1]
    assert isinstance(restart, MessageStart)
    assert restart.restarted
    assert restart.message["id"] == "msg_2"
    assert assembler.message["content"] == []
    assert assembler.inputs == {}


def test_two_messages_in_a_row() -> None:
    """After its end a message makes room for the next, which is no restart."""
    assembler, _ = fed(
        message_start(), tool_start(0), block_stop(0), message_delta("tool_use", output_tokens=5), MESSAGE_STOP
    )
    first = assembler.message
    (start,) = assembler.feed(message_start(id="msg_2"))
    assert isinstance(start, MessageStart)
    assert not start.restarted
    assert assembler.stop_reason is None
    assert assembler.state is MessageState.OPEN
    assembler.feed(block_start(0, "text", text="y"))
    assert first["content"][0]["type"] == "tool_use"
    assert (assembler.message["id"], assembler.message["usage"]["output_tokens"]) == ("msg_2", 1)
    assert assembler.message["content"] == [{"type": "text", "text": "y"}]


@rows(
    "event",
    [block_start(0, "text", text=""), tool_start(0), message_delta("end_turn")],
)
def test_content_without_a_message_start(event: WireEvent) -> None:
    """A body whose beginning was lost is still a message, and says that it starts."""
    assembler, events = fed(event)
    assert isinstance(events[0], MessageStart)
    assert not events[0].restarted
    assert assembler.state is MessageState.OPEN
    assert assembler.message["role"] == "assistant"


def test_a_message_stops_once() -> None:
    """Whoever acts on the end of a message must not act twice because a gateway says it twice."""
    assembler, events = fed(message_start(), message_delta("end_turn"), MESSAGE_STOP, MESSAGE_STOP)
    assert names(events) == ["MessageStart", "MessageStop"]
    assert names(assembler.close()) == []
    _, events = fed(MESSAGE_STOP)
    assert "MessageStop" not in names(events), "there is nothing to echo, and nothing was whole"


# --- what the peer does wrong -----------------------------------------------------------------------------------------


@rows(
    "event",
    [
        text_delta(4, "x"),
        text_delta(0, "x") | {"index": None},
        text_delta(0, "x") | {"index": False},
        text_delta(0, "x") | {"delta": None},
        block_delta(0, "text_delta"),
        block_delta(0, "text_delta", text=5),
        block_delta(0, "thinking_delta", text="x"),
        {"type": "content_block_delta"},
    ],
)
def test_a_broken_delta_is_unknown(event: WireEvent) -> None:
    """It neither raises nor ends up in a block."""
    assembler, events = fed(message_start(), block_start(0, "text", text="a"), event, text_delta(0, "b"))
    assert events[2:4] == [TextDelta(0, "a"), UnknownEvent(event)]
    assert assembler.message["content"] == [{"type": "text", "text": "ab"}]


@rows("odd", [[], {}, [["text"]], 5, None, True])
def test_a_word_that_is_no_word_is_unknown(odd: object) -> None:
    """Where the API has a string a broken gateway may have anything, also what cannot be looked up in a table."""
    assembler, _ = fed(message_start(), block_start(0, "text", text="a", citations=odd), tool_start(1), block_stop(1))
    assert assembler.feed(block_delta(0, "x") | {"delta": {"type": odd}})
    assembler.feed(block_delta(0, "citations_delta", citation={}))
    assembler.feed(block_start(2, "text") | {"content_block": {"type": odd}})
    assembler.feed({"type": "message_delta", "delta": {"stop_reason": odd}})
    assert assembler.stop_reason is None
    assembler.feed(block_start(0, "text") | {"type": odd})
    assembler.feed(message_start(content=[{"type": odd}]))


def test_text_for_a_tool_call_does_not_get_into_it() -> None:
    """A tool call with a `text` would be refused when it is sent back."""
    event = text_delta(0, "x")
    assembler, events = fed(message_start(), tool_start(0), event, input_delta(0, "{}"), block_stop(0))
    assert "text" not in assembler.message["content"][0]
    assert UnknownEvent(event) in events


@rows("kind", ["text", "tool_use", "hologram"])
def test_too_many_blocks(kind: str) -> None:
    """The number of blocks of one message is bounded, whatever they are."""
    blocks = [block_start(index, kind) for index in range(3)]
    assembler, _ = fed(message_start(), *blocks, limits=ParsingLimits(max_blocks=3))
    with pytest.raises(LimitError) as caught:
        assembler.feed(block_start(3, kind))
    assert (caught.value.limit, caught.value.bound) == ("max_blocks", 3)
    assert len(assembler.message["content"]) == 3
    with pytest.raises(LimitError):
        MessageAssembler(limits=ParsingLimits(max_blocks=2)).feed(message_start(content=[{"type": kind}] * 3))


def test_an_index_used_again_makes_another_block() -> None:
    """Both blocks were sent, so both are kept; later deltas belong to the later one."""
    content = content_of(
        block_start(0, "text", text=""),
        text_delta(0, "a"),
        block_stop(0),
        block_start(0, "text", text=""),
        text_delta(0, "b"),
        block_stop(0),
    )
    assert [block["text"] for block in content] == ["a", "b"]


def test_what_is_no_event_is_the_callers_error() -> None:
    """Bytes and strings are not events."""
    with pytest.raises(UsageError):
        MessageAssembler().feed(b"data: {}")


def test_very_many_deltas_make_one_text() -> None:
    """A long text in small pieces is joined once, also where the message is looked at in between."""
    assembler, _ = fed(message_start(), block_start(0, "text", text=""))
    for number in range(20_000):
        assembler.feed(text_delta(0, "ab"))
        if number % 1_000 == 0:
            assert blocks_of(assembler.message)[0]["text"] == "ab" * (number + 1)
    (stop,) = assembler.feed(block_stop(0))
    assert isinstance(stop, BlockStop)
    assert stop.block["text"] == "ab" * 20_000


# --- anything at all --------------------------------------------------------------------------------------------------


def check_any_stream(stream: list[dict[str, Any]]) -> None:
    assembler = MessageAssembler(limits=ParsingLimits(max_blocks=8))
    events: list[MessageEvent[ToolInput]] = []
    try:
        for event in stream:
            events += assembler.feed(event)
            assert isinstance(assembler.message["content"], list)
    except LimitError:
        pass
    events += assembler.close()
    assert assembler.state in (MessageState.STOPPED, MessageState.INTERRUPTED)
    open_inputs: Counter[int] = Counter()
    open_blocks: Counter[int] = Counter()
    kept = []  # so that no id is used twice
    for out in events:
        kept.append(out)
        match out:
            case InputStart(input=tool_input):
                open_inputs[id(tool_input)] += 1
            case InputDelta(input=tool_input):
                assert open_inputs[id(tool_input)] == 1
            case InputStop(input=tool_input):
                assert open_inputs[id(tool_input)] == 1
                open_inputs[id(tool_input)] -= 1
            case BlockStart(index=index):
                open_blocks[index] += 1
            case TextDelta(index=index) | ThinkingDelta(index=index):
                assert open_blocks[index] >= 1
            case BlockStop(index=index):
                open_blocks[index] -= 1
            case _:
                pass
    assert not +open_inputs, "every input that started has stopped"
    assert not +open_blocks, "every block that started has stopped"


@given(any_streams)
def test_no_stream_raises_and_what_starts_stops(stream: list[dict[str, Any]]) -> None:
    """Whatever a gateway makes of a stream, nothing that was announced stays open, and only limits raise."""
    check_any_stream(stream)


@given(plausible_streams)
def test_every_well_formed_stream_can_be_sent_back(stream: list[dict[str, Any]]) -> None:
    """In any order of well-formed events: inputs are objects, and the message is JSON by the strict standard."""
    check_any_stream(stream)
    assembler = MessageAssembler()
    for event in stream:
        assembler.feed(event)
    assembler.close()
    message = assembler.message
    assert "Infinity" not in written(message)
    for block in message["content"]:
        if block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use"):
            assert isinstance(block["input"], dict)


@pytest.mark.slow
@pytest.mark.timeout(600)
@at_length(5_000)
@given(st.one_of(any_streams, plausible_streams))
def test_no_stream_raises_and_what_starts_stops_at_length(stream: list[dict[str, Any]]) -> None:
    """Rare orders of events take more examples than a quick run can afford."""
    check_any_stream(stream)


# --- feed_deltas ------------------------------------------------------------------------------------------------------


def outline(assembler: MessageAssembler[ToolInput], events: list[Any]) -> list[Any]:
    """What came of a stream: the events as far as all of them can be told, the inputs, and what was wrong."""
    texts = [getattr(event, "fragment", "") or getattr(event, "text", "") for event in events]
    lines = [(type(event).__name__, text, id_of(event)) for event, text in zip(events, texts, strict=True)]
    inputs = [input_summary(event.input) for event in events if isinstance(event, InputStop)]
    return [*lines, *inputs, assembler.violations, assembler.lost_fragments, assembler.message]


def id_of(event: Any) -> str:
    return event.input.id if hasattr(event, "input") else ""


def by_batches(batches: Iterable[Iterable[WireEvent]], *, short: bool) -> list[Any]:
    """A stream that is fed in batches, with fragments in their short form or not."""
    assembler: MessageAssembler[ToolInput] = MessageAssembler()
    events: list[Any] = []
    for batch in batches:
        rest = iter([shortened(event) if short else event for event in batch])
        while (event := assembler.feed_deltas(rest, events)) is not None:
            events += assembler.feed(event)
    events += assembler.close()
    return outline(assembler, events)


def shortened(event: WireEvent) -> WireEvent | InputFragment:
    """A fragment of an input or a text in its short form; any other event as it is."""
    delta = event.get("delta")
    if event.get("type") == "content_block_delta" and isinstance(delta, dict) and type(event.get("index")) is int:
        text = delta.get("partial_json")
        if delta.get("type") == "input_json_delta" and isinstance(text, str):
            return event["index"], text
        if delta.get("type") == "text_delta" and isinstance(text := delta.get("text"), str):
            return TextFragment((event["index"], text))
    return event


@given(any_streams, st.integers(1, 5), st.booleans())
def test_deltas_in_batches_are_deltas_one_by_one(stream: list[WireEvent], size: int, short: bool) -> None:
    """Whatever the stream, however it is cut into batches, and in whichever form fragments come."""
    assembler: MessageAssembler[ToolInput] = MessageAssembler()
    events: list[Any] = [event for wire_event in stream for event in assembler.feed(wire_event)]
    events += assembler.close()
    batches = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert by_batches(batches, short=short) == outline(assembler, events)


@rows("index", [True, 1.0, "1", None, [1]])
def test_a_delta_of_no_block_is_of_no_block_in_a_batch_either(index: Any) -> None:
    """True equals 1, and is no index all the same."""
    assembler: MessageAssembler[ToolInput] = MessageAssembler()
    assembler.feed(tool_start(1))
    delta = block_delta(index, "input_json_delta", partial_json="{}")
    assert assembler.feed_deltas(iter([delta]), []) is delta
    assert assembler.feed(delta) == []
    assert assembler.inputs[1].raw == ""


def test_deltas_that_nobody_wants_are_not_made() -> None:
    assembler: MessageAssembler[ToolInput] = MessageAssembler()
    assembler.feed(tool_start(0))
    batch = iter([input_delta(0, '{"a": '), (0, "1}"), block_stop(0)])
    events: list[Any] = []
    assert assembler.feed_deltas(batch, events, input_deltas=False) == block_stop(0)
    assert events == []
    assert assembler.inputs[0].raw == '{"a": 1}'


@rows("odd", [(1, "x", 2), (1,), TextDelta(1, "x"), [1, "x"]])
def test_what_is_no_fragment(odd: Any) -> None:
    """Only the decoder's own types are fragments: not every tuple, and not what the assembler returns."""
    for assembler in (MessageAssembler(), InputAccumulator()):
        assembler.feed(block_start(1, "text", text=""))
        with pytest.raises(UsageError):
            assembler.feed(odd)


def test_feed_deltas_leaves_objects_to_feed() -> None:
    """Events of the anthropic package come back to be fed, and so does anything else that is no dict."""
    event = types.RawContentBlockDeltaEvent(
        type="content_block_delta",
        index=0,
        delta=types.InputJSONDelta(type="input_json_delta", partial_json='{"a":1}'),
    )
    assembler = MessageAssembler()
    for odd in (event, None, 5, "x", ["x"], {"type": "content_block_delta"}):
        assembler.feed(message_start())
        assembler.feed(tool_start(0))
        events: list[Any] = []
        assert assembler.feed_deltas(iter([input_delta(0, " "), odd]), events) is odd
        assert len(events) == 1
    assert len(assembler.feed(event)) == 1, "the object is taken by feed"


# --- what reaches the user --------------------------------------------------------------------------------------------


def test_tokens_of_thinking_that_is_left_out() -> None:
    """With `display: "omitted"` only a count comes, for a progress bar."""
    start = block_start(0, "thinking", thinking="", signature="")
    counts = [block_delta(0, "thinking_delta", thinking="", estimated_tokens=count) for count in (50, 100, None, "x")]
    assembler, events = fed(message_start(), start, *counts, block_stop(0))
    assert events[2:4] == [ThinkingDelta(0, "", 50), ThinkingDelta(0, "", 100)]
    assert [type(event).__name__ for event in events] == [
        "MessageStart",
        "BlockStart",
        "ThinkingDelta",
        "ThinkingDelta",
        "BlockStop",
    ]
    assert assembler.message["content"] == [{"type": "thinking", "thinking": "", "signature": ""}]


def test_citations_come_as_events() -> None:
    """As each one comes; the block has all of them. One that is no object is not kept."""
    citation = {"type": "char_location", "cited_text": "x"}
    deltas = [block_delta(0, "citations_delta", citation=odd) for odd in (citation, None, "x")]
    assembler, events = fed(message_start(), block_start(0, "text", text="A."), *deltas, block_stop(0))
    assert [event for event in events if isinstance(event, CitationDelta)] == [CitationDelta(0, citation)]
    assert blocks_of(assembler.message)[0]["citations"] == [citation]


@rows("to", [{"model": "claude-b"}, {"model": 5}, None, "claude-b"])
def test_the_model_after_a_fallback(to: object) -> None:
    """The message is by the model that wrote its end."""
    fallback = block_start(0, "fallback", **{"from": {"model": "claude-made-1"}, "to": to})
    assembler, _ = fed(message_start(), fallback, block_stop(0))
    assert assembler.message["model"] == ("claude-b" if to == {"model": "claude-b"} else "claude-made-1")


def test_a_stop_reason_in_the_start() -> None:
    """One fact, one source: the message's own. An empty input before a later one is whole, and so is the message."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
    assembler, _ = fed(message_start(content=[call], stop_reason="tool_use"))
    assert assembler.stop_reason == assembler.message["stop_reason"] == "tool_use"
    assert assembler.inputs[0].outcome is Outcome.VALID
    assembler.close()
    assert assembler.state is MessageState.STOPPED
    cut, _ = fed(message_start(content=[call], stop_reason="max_tokens"))
    assert cut.inputs[0].outcome is Outcome.INCOMPLETE
    unknown, _ = fed(message_start(content=[call]))
    assert unknown.inputs[0].outcome is None


@rows(
    "event",
    [
        text_delta(7, "x"),  # a text without its start
        block_stop(7),  # an end without its start
        block_start(7, "text", text=""),  # no end
    ],
)
def test_text_that_goes_missing_is_a_violation(event: WireEvent) -> None:
    """Nothing else shows that a part of the message was lost."""
    assembler, _ = fed(message_start(), event, message_delta("end_turn"), MESSAGE_STOP)
    assert len(assembler.violations) == assembler.violation_count == 1
    cut, _ = fed(message_start(), block_start(7, "text", text=""))
    cut.close(cleanly=False)
    assert cut.violations == [], "the end of the message did not come"
