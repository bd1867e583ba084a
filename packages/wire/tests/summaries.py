"""Events written down at the moment they come, because their inputs and blocks go on growing afterwards."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st
from tests import streams
from tests.streams import event_line, written

from eagerstream_wire import (
    InputDelta,
    InputStart,
    InputStop,
    MessageEvent,
    ToolInput,
    UnknownEvent,
    WireEvent,
)


def input_summary(tool_input: ToolInput) -> dict[str, Any]:
    """All that an input shows."""
    return {
        "index": tool_input.index,
        "id": tool_input.id,
        "name": tool_input.name,
        "kind": tool_input.kind,
        "raw": tool_input.raw,
        "chars": tool_input.chars,
        "partial": written(tool_input.partial),
        "value": written(tool_input.value),
        "outcome": tool_input.outcome,
        "error": tool_input.error,
        "wrapped": None if tool_input.outcome is None else written(tool_input.wrapped),
    }


def event_summary(event: MessageEvent[ToolInput]) -> tuple[Any, ...]:
    """An event with all that it shows."""
    name = type(event).__name__
    match event:
        case InputDelta(input=tool_input, fragment=fragment):
            return name, fragment, input_summary(tool_input)
        case InputStart(input=tool_input) | InputStop(input=tool_input):
            return name, input_summary(tool_input)
        case UnknownEvent(data=data):
            return name, repr(data)
        case _:
            return event_line(event)


# --- streams of plausible and of garbage events -------------------------------------------------------------------------

_GARBAGE: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    "",
    "x",
    [],
    [[]],
    {},
    {"type": []},
    {"type": {}},
    "tool_use",
    b"x",
]
garbage = st.sampled_from(_GARBAGE)
_indexes = st.one_of(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.sampled_from([5, -1, 10**9]))
_fragments = st.sampled_from(
    ["", "{", "}", "{}", '{"a":', "1", ",", '"', "x", "[", "]", " ", "\\u12", "1e999", "nan", '{"a":"b"}']
)
_reasons = st.sampled_from(["tool_use", "end_turn", "max_tokens", "pause_turn", "refusal", None])
_kinds = st.sampled_from(["tool_use", "server_tool_use", "mcp_tool_use"])
_given: st.SearchStrategy[Any] = st.sampled_from([{}, {}, {"a": 1}, None, [], "x"])

plausible_events: st.SearchStrategy[WireEvent] = st.one_of(
    st.builds(lambda index, kind, given: streams.tool_start(index, kind=kind, input=given), _indexes, _kinds, _given),
    st.builds(lambda index: streams.block_start(index, "text", text=""), _indexes),
    st.builds(lambda index: streams.block_start(index, "thinking", thinking="", signature=""), _indexes),
    st.builds(streams.input_delta, _indexes, _fragments),
    st.builds(streams.input_delta, _indexes, _fragments),
    st.builds(streams.text_delta, _indexes, st.sampled_from(["", "a", "bc"])),
    st.builds(streams.block_stop, _indexes),
    st.builds(streams.block_stop, _indexes),
    st.builds(streams.message_delta, _reasons),
    st.just(streams.MESSAGE_STOP),
    st.builds(streams.message_start),
    st.just({"type": "ping"}),
    st.just({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
)

_TYPES = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
_TYPES += ["message_stop", "ping", "error", "later"]
_DELTAS = ["input_json_delta", "text_delta", "thinking_delta", "signature_delta", "citations_delta", "compaction_delta"]
_FIELDS = [
    "partial_json",
    "text",
    "thinking",
    "signature",
    "citation",
    "content",
    "stop_reason",
    "usage",
    "input",
    "citations",
]
_FIELDS += ["id", "name"]

_garbage_deltas = st.one_of(
    garbage,
    st.builds(
        lambda kind, fields: {"type": kind, **fields},
        st.one_of(st.sampled_from(_DELTAS), garbage),
        st.dictionaries(st.sampled_from(_FIELDS), garbage, max_size=4),
    ),
)
_garbage_blocks = st.one_of(
    garbage,
    st.builds(
        lambda kind, fields: {"type": kind, **fields},
        st.one_of(_kinds, st.sampled_from(["text", "thinking"]), garbage),
        st.dictionaries(st.sampled_from(_FIELDS), garbage, max_size=4),
    ),
)
_garbage_messages = st.one_of(
    garbage,
    st.builds(
        lambda content, fields: {"content": content, **fields},
        st.one_of(garbage, st.lists(_garbage_blocks, max_size=3)),
        st.dictionaries(st.sampled_from([*_FIELDS, "role"]), garbage, max_size=3),
    ),
)


@st.composite
def _garbage_events(draw: st.DrawFn) -> dict[str, Any]:
    event: dict[str, Any] = {"type": draw(st.one_of(st.sampled_from(_TYPES), garbage))}
    for name, values in (
        ("index", st.one_of(_indexes, garbage)),
        ("content_block", _garbage_blocks),
        ("delta", _garbage_deltas),
        ("message", _garbage_messages),
        ("usage", garbage),
    ):
        if draw(st.integers(0, 9)):
            event[name] = draw(values)
    return event


any_streams = st.lists(st.one_of(plausible_events, plausible_events, _garbage_events()), max_size=20)
"""Streams of wire events as no peer should send them."""

plausible_streams = st.lists(plausible_events, max_size=20)
"""Streams of well-formed wire events, in any order."""


def random_stream(seed: int, length: int) -> list[WireEvent]:
    """A long, well-formed stream of many tools at once, the same for the same seed."""
    chooser = random.Random(seed)
    events = [streams.message_start()]
    events += [streams.tool_start(index) for index in range(length)]
    texts = {index: f'{{"n": {index}, "text": "{"lorem ipsum " * 3}"}}' for index in range(length)}
    while texts:
        index = chooser.choice(list(texts))
        size = chooser.randint(1, 9)
        events.append(streams.input_delta(index, texts[index][:size]))
        texts[index] = texts[index][size:]
        if not texts[index]:
            del texts[index]
            events.append(streams.block_stop(index))
    return [*events, streams.message_delta("tool_use"), streams.MESSAGE_STOP]
