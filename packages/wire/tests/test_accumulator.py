"""`InputAccumulator`: which fragment belongs to which input, and when each input starts and stops."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest
from anthropic import types
from anthropic.types import beta
from hypothesis import given
from packages.wire.tests.inputs import closed, heard, told
from packages.wire.tests.summaries import any_streams, event_summary, random_stream
from tests.sampling import at_length
from tests.streams import (
    MESSAGE_STOP,
    block_delta,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.tables import rows

from eagerstream_wire import (
    InputAccumulator,
    InputStart,
    InputStop,
    LimitError,
    Outcome,
    ParsingLimits,
    ToolInput,
    UsageError,
    WireEvent,
)

# --- the ordinary ways ------------------------------------------------------------------------------------------------


def test_one_call() -> None:
    """The plain case, event by event: an empty fragment says nothing, and the outcome comes with the stop."""
    accumulator = InputAccumulator()
    assert told(accumulator, message_start(), tool_start(0, "search", caller={"type": "direct"})) == ["start 0"]
    tool_input = accumulator.inputs[0]
    assert (tool_input.index, tool_input.id, tool_input.name, tool_input.kind) == (0, "toolu_0", "search", "tool_use")
    assert tool_input.block["caller"] == {"type": "direct"}
    assert (tool_input.raw, tool_input.chars, tool_input.partial, tool_input.outcome) == ("", 0, {}, None)
    assert told(accumulator, input_delta(0, "")) == []
    assert told(accumulator, input_delta(0, '{"q": "li')) == ['delta 0 \'{"q": "li\'']
    assert (tool_input.partial, tool_input.value, tool_input.error) == ({"q": "li"}, None, None)
    with pytest.raises(UsageError):
        _ = tool_input.wrapped
    assert told(accumulator, input_delta(0, 'sbon"}')) == ["delta 0 'sbon\"}'"]
    assert tool_input.value is None
    assert told(accumulator, block_stop(0)) == ["stop 0 valid"]
    assert tool_input.raw == '{"q": "lisbon"}'
    assert tool_input.chars == len(tool_input.raw)
    assert tool_input.value == tool_input.partial == tool_input.wrapped == {"q": "lisbon"}
    assert told(accumulator, message_delta("tool_use"), MESSAGE_STOP) == []
    assert accumulator.violations == []


def test_many_interleaved_calls() -> None:
    """Thirty inputs at once, in random turns: each ends as what was written into it."""
    accumulator = heard(*random_stream(5, 30))
    assert [accumulator.inputs[index].value for index in range(30)] == [
        {"n": index, "text": "lorem ipsum " * 3} for index in range(30)
    ]


@rows("kind", ["text", "thinking", "web_search_tool_result", "hologram", "fallback"])
def test_other_blocks_are_none_of_its_business(kind: str) -> None:
    """Blocks without an input make no events, and are no violation."""
    accumulator = InputAccumulator()
    assert (
        told(accumulator, block_start(0, kind), text_delta(0, "x"), block_stop(0), {"type": "ping"}, {"type": "later"})
        == []
    )
    assert accumulator.inputs == {}
    assert accumulator.violations == []


def test_a_new_message_starts_afresh() -> None:
    """One accumulator follows a whole conversation; what was open when a message begins anew was cut off."""
    accumulator = heard(message_start(), tool_start(0), input_delta(0, '{"a":1'), tool_start(1))
    old = accumulator.inputs[0]
    assert told(accumulator, message_start(id="msg_2")) == ["stop 0 incomplete", "stop 1 incomplete"]
    assert accumulator.inputs == {}
    assert told(accumulator, tool_start(0), input_delta(0, "{}"), block_stop(0))[-1] == "stop 0 valid"
    assert accumulator.inputs[0] is not old


def test_a_message_start_with_the_same_id() -> None:
    """It is one message that goes on, unless an index comes again: then the peer gives every message that id."""
    accumulator = heard(message_start(), message_start(), tool_start(0), input_delta(0, '{"a":'), message_start())
    assert told(accumulator, input_delta(0, "1}"), block_stop(0))[-1] == "stop 0 valid"
    told(accumulator, message_start(), tool_start(1), input_delta(1, "{"))
    assert len(accumulator.inputs) == 2
    assert told(accumulator, message_start(), tool_start(0)) == ["stop 1 incomplete", "start 0"]
    assert len(accumulator.inputs) == 1
    assert accumulator.violations.count("message_start came again with the same id") == 4


@rows("is_open", [True, False])
def test_a_fragment_before_its_block_in_a_message_that_starts_again(is_open: bool) -> None:
    """The block with the index of the earlier one shows that the fragment was of the new message: that lacks it."""
    accumulator = heard(message_start(), tool_start(0), input_delta(0, "{}"), *([] if is_open else [block_stop(0)]))
    told(accumulator, message_start(), input_delta(0, '{"a": 1,'))
    assert told(accumulator, tool_start(0), input_delta(0, "{}"), block_stop(0))[-1] == "stop 0 invalid"
    told(accumulator, message_start(), input_delta(0, "{"))
    assert told(accumulator, message_start(id="msg_2"), tool_start(0), input_delta(0, "{}"))
    assert told(accumulator, block_stop(0)) == ["stop 0 valid"]


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_a_call_that_never_closed_is_incomplete_if_the_message_was_cut() -> None:
    """Even a whole object: the model did not end the message. The vectors have the cases in which it did."""
    accumulator = heard(tool_start(0), input_delta(0, '{"a":1}'), tool_start(1), input_delta(1, "[x"))
    assert closed(accumulator, "max_tokens") == ["stop 0 incomplete", "stop 1 invalid"]
    assert accumulator.inputs[0].wrapped == {"INVALID_JSON": '{"a":1}'}
    assert len(accumulator.violations) == 2
    assert closed(accumulator) == []


@rows("end", [MESSAGE_STOP, message_start()])
def test_a_missing_stop_is_noticed_at_the_end_of_the_message(end: WireEvent) -> None:
    """Every input that started stops, whether or not the peer says so."""
    accumulator = heard(tool_start(4), input_delta(4, '{"a":'))
    assert told(accumulator, end) == ["stop 4 incomplete"]
    assert accumulator.violations == ["block 4 was never closed"]


# --- empty inputs -----------------------------------------------------------------------------------------------------


@rows(
    "proof, lines",
    [
        (tool_start(1), ["stop 0 valid", "start 1"]),
        ({"type": "content_block_start", "index": 1}, ["stop 0 valid"]),  # of no block, but the response goes on
        (input_delta(5, "{"), ["stop 0 valid", "delta 5 '{'"]),
        (message_delta("tool_use"), ["stop 0 valid"]),
        (message_start(), ["stop 5 incomplete", "stop 0 incomplete"]),
        (input_delta(5, ""), []),
    ],
)
def test_an_empty_input_waits_for_a_proof(proof: WireEvent, lines: list[str]) -> None:
    """It may have no arguments, or be cut off before its first character. The vectors have further proofs."""
    accumulator = heard(tool_start(5), input_delta(5, " "), tool_start(0), input_delta(0, ""))
    assert told(accumulator, block_stop(0)) == []
    assert accumulator.inputs[0].outcome is None
    told_now = told(accumulator, proof)
    assert sorted(line for line in told_now if line != "stop 5 incomplete") == sorted(
        line for line in lines if line != "stop 5 incomplete"
    )
    if "stop 0 valid" in lines:
        assert told_now[0] == "stop 0 valid", "the earlier input is settled first"
        assert accumulator.inputs[0].value == accumulator.inputs[0].wrapped == {}
        assert accumulator.inputs[0].error is None


def test_several_empty_inputs_are_settled_together() -> None:
    """In the order of their ends."""
    accumulator = heard(tool_start(0), tool_start(1), block_stop(1), block_stop(0))
    assert told(accumulator, message_delta("tool_use")) == ["stop 1 valid", "stop 0 valid"]


@rows(
    "reason, outcome",
    [
        ("tool_use", "valid"),
        ("end_turn", "valid"),
        ("max_tokens", "incomplete"),
        (None, "incomplete"),
        ("new", "incomplete"),
    ],
)
def test_close_may_know_the_stop_reason(reason: str | None, outcome: str) -> None:
    """A body that ends without `message_stop` is settled by what is known of its end."""
    accumulator = heard(tool_start(0), block_stop(0))
    assert closed(accumulator, reason) == [f"stop 0 {outcome}"]


# --- inputs that come with the start ----------------------------------------------------------------------------------


def test_an_input_in_the_start_is_the_input() -> None:
    """Calls made from code that the API runs arrive whole; they wait for no proof."""
    accumulator = InputAccumulator()
    assert told(accumulator, tool_start(0, input={"city": "Braga"})) == ["start 0"]
    tool_input = accumulator.inputs[0]
    assert tool_input.partial == {"city": "Braga"}
    assert tool_input.is_finished("city")
    assert not tool_input.is_finished("town")
    assert told(accumulator, input_delta(0, ""), block_stop(0)) == ["stop 0 valid"]
    assert tool_input.value == {"city": "Braga"}
    assert (tool_input.raw, tool_input.chars) == ('{"city": "Braga"}', 0)


def test_an_input_in_the_start_without_a_json_form_is_invalid() -> None:
    """An event object may hold what Python made of a value. It has no form to be echoed in, and ends no stream."""
    accumulator = InputAccumulator()
    start = tool_start(0, input={"on": date(2026, 1, 2)})
    assert told(accumulator, start, block_stop(0)) == ["start 0", "stop 0 invalid"]
    assert accumulator.inputs[0].wrapped == {"INVALID_JSON": '{"on": "2026-01-02"}'}


@rows("given", ["x", '{"city":"Faro"}', 5, True, [1], "", []])
def test_an_input_in_the_start_that_is_no_object_is_invalid(given: object) -> None:
    """The peer says what the input is, and it is none: the tool must not run on an empty one instead."""
    accumulator = InputAccumulator()
    assert told(accumulator, tool_start(0, input=given), block_stop(0)) == ["start 0", "stop 0 invalid"]
    assert accumulator.inputs[0].partial == {}
    assert accumulator.inputs[0].wrapped == {"INVALID_JSON": json.dumps(given)}
    assert accumulator.inputs[0].error is not None
    assert "not an object" in str(accumulator.inputs[0].error)
    told(accumulator, tool_start(1, input=given), input_delta(1, '{"a":1}'), block_stop(1))
    # Some gateways write an empty text or list in place of `{}`, and the input then comes in fragments as usual.
    assert accumulator.inputs[1].outcome is (Outcome.VALID if given in ("", []) else Outcome.INVALID)


def test_calls_inside_message_start() -> None:
    """A reply may begin with content that is already there, whole."""
    accumulator = InputAccumulator()
    content = [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}, None]
    assert told(accumulator, message_start(content=content)) == ["start 1", "stop 1 valid"]
    content[1] = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    assert told(accumulator, message_start(content=content)) == ["start 1"]
    assert told(accumulator, message_delta("tool_use")) == ["stop 1 valid"]


# --- what the peer does wrong -----------------------------------------------------------------------------------------


@rows(
    "event",
    [
        input_delta(9, "x"),
        tool_start(1) | {"index": None},
        tool_start(1) | {"index": True},
        tool_start(1) | {"content_block": None},
        {"type": "content_block_start"},
    ],
)
def test_a_violation_is_noted_and_harms_no_input(event: WireEvent) -> None:
    """A broken event must neither raise nor end up in another call's input."""
    accumulator = heard(tool_start(0), input_delta(0, '{"a":'))
    assert told(accumulator, event) == []
    assert len(accumulator.violations) == 1
    assert told(accumulator, input_delta(0, "1}"), block_stop(0))[-1] == "stop 0 valid"
    assert accumulator.inputs[0].value == {"a": 1}


@rows("short", [False, True])  # True: as batches
@rows(
    "event",
    [
        input_delta(0, "x") | {"index": None},
        input_delta(0, "x") | {"index": "0"},
        input_delta(0, "x") | {"index": 0.0},
        input_delta(0, "x") | {"index": False},
        block_delta(0, "input_json_delta"),
        block_delta(0, "input_json_delta", partial_json=None),
        block_delta(0, "input_json_delta", partial_json={"a": 1}),
        block_delta(0, "input_json_delta", partial_json=b"x"),
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "content_block_delta", "index": 0, "delta": {"partial_json": "x"}},
    ],
)
def test_an_input_that_lacks_a_fragment_is_invalid(event: WireEvent, *, short: bool) -> None:
    """What comes before and after a lost fragment may well be JSON: `{"amount": 1` and `}` around a lost `0`."""
    accumulator = heard(tool_start(0), input_delta(0, '{"amount": 1'))
    if short:
        assert accumulator._message.feed_deltas(iter([event]), []) is event
    assert told(accumulator, event) == []
    assert len(accumulator.violations) == 1
    tool_input = accumulator.inputs[0]
    assert "lost" in str(tool_input.error)
    assert told(accumulator, input_delta(0, ', "to": "me"}'), block_stop(0))[-1] == "stop 0 invalid"
    assert tool_input.partial == {}, "nothing behind the loss is shown, and the number has no known end"
    assert tool_input.wrapped == {"INVALID_JSON": '{"amount": 1, "to": "me"}'}
    again = ToolInput.from_dict(tool_input.to_dict())
    assert (again.error, again.partial, again.raw) == (tool_input.error, tool_input.partial, tool_input.raw)
    assert accumulator.lost_fragments == 0


def test_a_fragment_before_its_block_makes_the_input_invalid() -> None:
    """The block looks empty, and what follows would prove that it is: but its text is known to be lost."""
    accumulator = heard(input_delta(0, '{"a":1}'))
    assert accumulator.lost_fragments == 1
    assert told(accumulator, tool_start(0), block_stop(0), message_delta("tool_use")) == ["start 0", "stop 0 invalid"]
    assert accumulator.lost_fragments == 0, "it has a call that answers for it"
    told(accumulator, input_delta(9, "{"), input_delta(0, "{") | {"index": None})
    assert accumulator.lost_fragments == 2
    told(accumulator, message_start(), tool_start(0), input_delta(0, "{}"), block_stop(0))
    assert accumulator.inputs[0].outcome is Outcome.VALID, "of another message"
    assert accumulator.lost_fragments == 0


@rows(
    "events",
    [
        # A delta without a kind before the block.
        [{"type": "content_block_delta", "index": 0, "delta": None}, tool_start(0), block_stop(0)],
        # Another index, in the block and behind it.
        [tool_start(0), input_delta(7, '{"a":5}'), block_stop(0)],
        [tool_start(0), block_stop(0), input_delta(7, '{"a":5}')],
    ],
)
def test_an_empty_input_beside_a_lost_fragment_is_invalid(events: list[WireEvent]) -> None:
    """It may be all of its text that was lost."""
    accumulator = InputAccumulator()
    assert told(accumulator, *events, message_delta("tool_use"))[-1] == "stop 0 invalid"
    assert accumulator.violation_count == 1


def test_a_hostile_peer_loses_many_fragments() -> None:
    """Each of them costs the same, however many inputs are open, and an index quotes nothing of the peer."""
    accumulator = heard(*(tool_start(index) for index in range(1_000)))
    for id in ("x", "y"):
        accumulator.feed(tool_start(0, id=id) | {"index": 10**5_000})
    assert accumulator.violations.pop() == "a block without an index started again before it was closed"
    before = accumulator.violation_count
    for index in [None, "secret", 10**5_001, -1, 1.5] * 200:
        accumulator.feed(block_delta(0, "input_json_delta", partial_json="{") | {"index": index})
    assert accumulator.violation_count - before == 1_000
    assert "secret" not in "".join(accumulator.violations)
    assert all(input.is_damaged for input in accumulator.inputs.values() if input.outcome is None)


def test_a_stop_reason_in_the_start() -> None:
    """It holds for a block that comes behind the start, too."""
    accumulator = InputAccumulator()
    start = message_start(stop_reason="tool_use")
    assert told(accumulator, start, tool_start(0), block_stop(0), MESSAGE_STOP) == ["start 0", "stop 0 valid"]
    assert accumulator.stop_reason == "tool_use"
    told(accumulator, message_start())
    assert accumulator.stop_reason is None


def test_a_fragment_behind_the_end_of_an_empty_input_makes_it_invalid() -> None:
    """The end of an empty input is proven by what follows, and this proves the contrary."""
    accumulator = heard(tool_start(0), block_stop(0))
    assert told(accumulator, input_delta(0, '{"a":1}'), message_delta("tool_use")) == ["stop 0 invalid"]


@rows("odd", [[], {}, [["tool_use"]], 5, None, True])
def test_a_word_that_is_no_word_is_unknown(odd: object) -> None:
    """Where the API has a string a broken gateway may have anything, also what cannot be looked up in a set."""
    accumulator = heard(tool_start(0), block_stop(0))
    assert told(accumulator, block_start(0, "text") | {"type": odd}) == []
    assert told(accumulator, block_delta(0, "x") | {"delta": {"type": odd, "partial_json": "{"}}) == []
    lines = told(accumulator, {"type": "message_delta", "delta": {"stop_reason": odd}})
    assert lines == ([] if odd is None else ["stop 0 incomplete"])
    assert told(accumulator, {"type": "content_block_start", "index": 1, "content_block": {"type": odd}}) == (
        ["stop 0 valid"] if odd is None else []
    )
    assert told(accumulator, message_start(content=[{"type": odd}])) == []
    assert list(accumulator.inputs) == []


def test_a_delta_after_the_stop_is_ignored() -> None:
    """A settled input never changes."""
    accumulator = heard(tool_start(0), input_delta(0, '{"a":1}'), block_stop(0))
    assert told(accumulator, input_delta(0, "x"), block_stop(0)) == []
    assert (accumulator.inputs[0].raw, accumulator.inputs[0].value) == ('{"a":1}', {"a": 1})
    assert len(accumulator.violations) == 1


def test_a_second_start_ends_the_first() -> None:
    """An index that starts again while it is open: the first call was cut off, the second is another call."""
    accumulator = heard(tool_start(0, "first"), input_delta(0, '{"a":'))
    first = accumulator.inputs[0]
    assert told(accumulator, tool_start(0, "second", id="other")) == ["stop 0 incomplete", "start 1"]
    assert told(accumulator, input_delta(0, "{}"), block_stop(0)) == ["delta 1 '{}'", "stop 1 valid"]
    assert first.raw == '{"a":'
    assert [input.name for input in accumulator.inputs.values()] == ["first", "second"]
    assert len(accumulator.violations) == 1


def test_a_start_after_the_stop_is_another_call() -> None:
    """An index used again makes a new input beside the settled one, and later indexes make way for it."""
    accumulator = InputAccumulator()
    for index, number in ((0, 1), (0, 2), (1, 3), (0, 4)):
        told(accumulator, tool_start(index, id=f"call_{number}"))
        told(accumulator, input_delta(index, f'{{"a":{number}}}'), block_stop(index))
    assert {index: input.value for index, input in accumulator.inputs.items()} == {
        0: {"a": 1},
        1: {"a": 2},
        2: {"a": 3},
        3: {"a": 4},
    }
    assert accumulator.violations == ["the index of block 0 was used again"] * 2


def test_an_empty_call_whose_index_starts_again() -> None:
    """The next start proves the empty input, also when it takes over its index and its id."""
    accumulator = heard(tool_start(0, "first"), block_stop(0))
    assert told(accumulator, tool_start(0, "second")) == ["stop 0 valid", "start 1"]
    assert [input.value for input in accumulator.inputs.values()] == [{}, None]
    assert accumulator.violations[-1] == "the tool call of block 1 has the id of an earlier one"


def test_violations_do_not_pile_up() -> None:
    """A peer that breaks the protocol a million times must not fill the memory, nor the log with its text."""
    accumulator = heard(*(input_delta(9, "secret") for _ in range(1_000)))
    assert len(accumulator.violations) == 100
    assert "secret" not in "".join(accumulator.violations)
    accumulator = heard(input_delta(0, "x") | {"index": "y" * 10_000})
    assert len(accumulator.violations[0]) < 200


def test_too_many_inputs() -> None:
    """The number of calls in one message is bounded, and a new message may have as many again."""
    accumulator = InputAccumulator(limits=ParsingLimits(max_blocks=3))
    for _ in range(2):
        told(accumulator, message_start(), *(tool_start(index) for index in range(3)))
    with pytest.raises(LimitError) as caught:
        accumulator.feed(tool_start(3))
    assert (caught.value.limit, caught.value.bound) == ("max_blocks", 3)
    told(accumulator, message_start(content=[{"type": "text", "text": "x"}] * 2), tool_start(2))
    with pytest.raises(LimitError):  # the blocks of the start count, too
        accumulator.feed(tool_start(3))


def test_what_is_no_event_is_the_callers_error() -> None:
    """Bytes and strings are not events."""
    with pytest.raises(UsageError):
        InputAccumulator().feed("content_block_start")


# --- what an input shows ----------------------------------------------------------------------------------------------


@rows("block", [{}, {"id": None, "name": 5}, {"input": "x"}])
def test_a_block_with_half_its_fields(block: dict[str, Any]) -> None:
    """An input exists and is a text in every field that should be one, whatever the block lacks."""
    accumulator = heard({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", **block}})
    tool_input = accumulator.inputs[0]
    assert isinstance(tool_input.id, str)
    assert isinstance(tool_input.name, str)


def test_a_subclass_of_tool_input() -> None:
    """Higher layers add to the inputs without a wrapper around each."""

    class MyInput(ToolInput):
        pass

    accumulator = InputAccumulator(input_type=MyInput)
    (event,) = accumulator.feed(tool_start(0))
    assert type(event.input) is MyInput


# --- kinds of events --------------------------------------------------------------------------------------------------

STREAM: list[WireEvent] = [
    message_start(),
    block_start(0, "text", text=""),
    text_delta(0, "x"),
    block_stop(0),
    tool_start(1),
    input_delta(1, '{"a":'),
    input_delta(1, "1}"),
    block_stop(1),
    tool_start(2),
    block_stop(2),
    message_delta("tool_use"),
    MESSAGE_STOP,
]

_EVENT_TYPES: dict[str, tuple[Any, Any]] = {
    "message_start": (types.RawMessageStartEvent, beta.BetaRawMessageStartEvent),
    "content_block_start": (types.RawContentBlockStartEvent, beta.BetaRawContentBlockStartEvent),
    "content_block_delta": (types.RawContentBlockDeltaEvent, beta.BetaRawContentBlockDeltaEvent),
    "content_block_stop": (types.RawContentBlockStopEvent, beta.BetaRawContentBlockStopEvent),
    "message_delta": (types.RawMessageDeltaEvent, beta.BetaRawMessageDeltaEvent),
    "message_stop": (types.RawMessageStopEvent, beta.BetaRawMessageStopEvent),
}


def summaries(events: Iterable[Any]) -> list[tuple[Any, ...]]:
    accumulator = InputAccumulator()
    return [event_summary(out) for event in events for out in accumulator.feed(event)]


@rows("which", [0, 1])  # of the stable and the beta client
@rows("build", ["model_validate", "construct"])
def test_event_objects_give_the_same_as_dicts(which: int, build: str) -> None:
    """Users of the official client have objects, users of gateways have dicts: one accumulator for both."""
    objects = []
    for event in STREAM:
        event_type = _EVENT_TYPES[event["type"]][which]
        objects.append(event_type.model_validate(event) if build == "model_validate" else event_type.construct(**event))
    assert summaries(objects) == summaries(STREAM)


def test_any_mapping_is_an_event() -> None:
    """A read-only view is as good as a dict."""
    assert summaries(MappingProxyType(event) for event in STREAM) == summaries(STREAM)


# --- anything at all --------------------------------------------------------------------------------------------------


def check_any_stream(stream: list[dict[str, Any]]) -> None:
    accumulator = InputAccumulator(limits=ParsingLimits(max_blocks=8))
    open_inputs: Counter[int] = Counter()
    known: dict[int, ToolInput] = {}
    events = []
    try:
        for event in stream:
            events += accumulator.feed(event)
    except LimitError:
        pass
    events += accumulator.close()
    for out in events:
        key = id(out.input)
        if isinstance(out, InputStart):
            assert key not in known
            known[key] = out.input
            open_inputs[key] += 1
        else:
            assert open_inputs[key] == 1, "an input has no events before its start or after its stop"
            if isinstance(out, InputStop):
                open_inputs[key] -= 1
    assert not +open_inputs, "every input that started has stopped"
    for tool_input in known.values():
        assert tool_input.outcome is not None
        assert isinstance(tool_input.wrapped, dict)
        assert (tool_input.value is not None) == (tool_input.outcome is Outcome.VALID) == (tool_input.error is None)
    assert accumulator.close() == []


@given(any_streams)
def test_no_stream_raises_and_every_start_has_its_stop(stream: list[dict[str, Any]]) -> None:
    """Whatever a gateway makes of a stream, each call that was announced is settled exactly once."""
    check_any_stream(stream)


@pytest.mark.slow
@pytest.mark.timeout(600)
@at_length(5_000)
@given(any_streams)
def test_no_stream_raises_and_every_start_has_its_stop_at_length(stream: list[dict[str, Any]]) -> None:
    """Rare orders of events take more examples than a quick run can afford."""
    check_any_stream(stream)


@rows("depth", [3, 4, 5, 900])
def test_an_input_that_came_whole_keeps_to_the_depth_too(depth: int) -> None:
    """Beyond the limit nothing recurses into it: a `RecursionError` once came out of the stream at a depth of 974."""
    deep: list[Any] = []
    for _ in range(depth - 2):
        deep = [deep]
    accumulator = InputAccumulator(limits=ParsingLimits(max_depth=4))
    assert told(accumulator, tool_start(0, input={"a": deep}), block_stop(0), MESSAGE_STOP)[0] == "start 0"
    tool_input = accumulator.inputs[0]
    if depth <= 4:
        assert tool_input.outcome is Outcome.VALID
        assert tool_input.wrapped == {"a": deep}
    else:
        assert tool_input.outcome is Outcome.INVALID
        assert str(tool_input.error) == "nested deeper than 4 at character 0"
        assert tool_input.wrapped == {"INVALID_JSON": ""}


@rows("whole", [{"a": {"b": [1]}}, {"a": 1}])
def test_a_whole_input_is_saved(whole: dict[str, Any]) -> None:
    """Made again from what was saved, an input that came with its block's start is the same, however deep."""
    accumulator = InputAccumulator()
    accumulator.feed(tool_start(0, input=whole))
    accumulator.feed(block_stop(0))
    accumulator.close()
    input = accumulator.inputs[0]
    again = ToolInput.from_dict(json.loads(json.dumps(input.to_dict())))
    assert (again.outcome, again.value, again.raw, again.error) == (Outcome.VALID, whole, input.raw, None)
