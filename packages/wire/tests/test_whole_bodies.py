"""The whole core over whole bodies: the project's own recordings always, those of real replies where they are present."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from anthropic.lib.streaming import _beta_messages, _messages
from packages.wire.tests.recordings import for_recordings
from packages.wire.tests.summaries import event_summary
from tests.streams import (
    MADE_DIR,
    blocks_of,
    cut_at,
    made_recordings,
    needs_recordings,
    one_by_one,
    random_pieces,
    real_recordings,
    strict_loads,
    wire_events,
    written,
)
from tests.tables import rows

from eagerstream_wire import (
    InputDelta,
    InputStart,
    InputStop,
    MessageAssembler,
    MessageStart,
    MessageState,
    Outcome,
    SSEDecoder,
    ToolInput,
    WireDecoder,
    decode_event,
)


class Reading(NamedTuple):
    """What came out of a body."""

    events: list[tuple[Any, ...]]
    message: str
    state: MessageState
    violations: list[str]


def read(chunks: Iterable[bytes]) -> Reading:
    decoder = SSEDecoder()
    assembler = MessageAssembler()
    events = [
        event_summary(out)
        for chunk in chunks
        for event in decoder.feed(chunk)
        for out in assembler.feed(decode_event(event.data))
    ]
    decoder.close()
    events += [event_summary(out) for out in assembler.close()]
    return Reading(events, written(assembler.message), assembler.state, assembler.violations)


def inputs_of(body: bytes) -> list[ToolInput]:
    """Every tool input of a body, settled; those of a message that was given up too."""
    assembler = MessageAssembler()
    events = [out for event in wire_events(body) for out in assembler.feed(event)]
    events += assembler.close()
    return [event.input for event in events if isinstance(event, InputStop)]


@for_recordings
def test_any_cut_gives_the_same_events_and_message(recording: Path) -> None:
    """How the network cut a reply must not show anywhere, down to the last field."""
    body = recording.read_bytes()
    whole = read([body])
    assert read(one_by_one(body)) == whole
    assert read(random_pieces(body, seed=1, largest=100)) == whole
    # The worst places: right before and inside every line end.
    line_ends = [at for at, byte in enumerate(body) if byte in b"\r\n"]
    assert read(cut_at(body, line_ends)) == whole


@for_recordings
def test_the_wire_decoder_gives_the_same_events(recording: Path) -> None:
    """Decoding bytes straight to wire events is a short cut, and leads to the same place."""
    body = recording.read_bytes()
    decoder = WireDecoder()
    events = [event for chunk in random_pieces(body, seed=7, largest=500) for event in decoder.feed(chunk)]
    assert written(events) == written(wire_events(body))


@for_recordings
def test_inputs_are_what_json_loads_gives(recording: Path) -> None:
    """A valid input is exactly the standard library's reading of all its fragments; any other goes back verbatim."""
    body = recording.read_bytes()
    fragments: dict[int, list[str]] = {}
    messages = 0
    for tool_input in inputs_of(body):
        if tool_input.outcome is Outcome.VALID and tool_input.chars:
            assert written(tool_input.value) == written(strict_loads(tool_input.raw))
        elif tool_input.outcome is Outcome.VALID:
            assert tool_input.value == (tool_input.block.get("input") or {})
        else:
            assert tool_input.value is None
            assert tool_input.wrapped == {"INVALID_JSON": tool_input.raw}
    # And raw is all fragments of its index, read here without any of our code but the decoder.
    for event in wire_events(body):
        if event["type"] == "message_start":
            messages += 1
            fragments.clear()
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            fragments.setdefault(event["index"], []).append(event["delta"]["partial_json"])
    raws = {tool_input.index: tool_input.raw for tool_input in inputs_of(body)}
    assert messages >= 1
    for index, pieces in fragments.items():
        assert raws[index] == "".join(pieces)


@for_recordings
def test_every_call_that_starts_stops_once(recording: Path) -> None:
    """No call without an end, no end without a call, and nothing of a call outside the two."""
    assembler = MessageAssembler()
    events = [out for event in wire_events(recording.read_bytes()) for out in assembler.feed(event)]
    events += assembler.close()
    open_inputs: list[ToolInput] = []
    for out in events:
        match out:
            case InputStart(input=tool_input):
                open_inputs.append(tool_input)
            case InputDelta(input=tool_input):
                assert tool_input in open_inputs
            case InputStop(input=tool_input):
                open_inputs.remove(tool_input)
            case _:
                pass
    assert open_inputs == []


@for_recordings
def test_a_body_cut_anywhere_is_an_interruption(recording: Path) -> None:
    """A lost connection never looks like a short reply: before the stop reason nothing is whole, and no call made up."""
    body = recording.read_bytes()
    whole = {(tool_input.id, tool_input.raw) for tool_input in inputs_of(body) if tool_input.outcome is Outcome.VALID}
    many = len(body) // 40 + 1
    for place in {*range(0, len(body), many), len(body) - 1}:
        events = wire_events(body[:place])
        assembler = MessageAssembler()
        outs = [out for event in events for out in assembler.feed(event)]
        outs += assembler.close()
        ends = [event.get("delta") or event.get("message") or {} for event in events]
        reason = any(end.get("stop_reason") for end in ends)  # may be in message_start, too
        if not reason:
            assert assembler.state is MessageState.INTERRUPTED
        for out in outs:
            if isinstance(out, InputStop) and out.input.outcome is Outcome.VALID:
                assert (out.input.id, out.input.raw) in whole


# --- the made ones, one by one ----------------------------------------------------------------------------------------

V, X, C = Outcome.VALID, Outcome.INVALID, Outcome.INCOMPLETE
STOPPED, INTERRUPTED = MessageState.STOPPED, MessageState.INTERRUPTED

MADE: dict[str, tuple[MessageState, str | None, list[Outcome], list[str]]] = {
    # name: how the body ended, the stop reason, the outcomes in order, the blocks of the message
    "call_in_message_start": (STOPPED, "tool_use", [V], ["tool_use"]),
    "citations": (STOPPED, "end_turn", [], ["text", "text"]),
    "crlf": (STOPPED, "tool_use", [V], ["tool_use"]),
    "cut_mid_event": (INTERRUPTED, None, [C], ["tool_use"]),
    "error_mid_stream": (INTERRUPTED, None, [V], ["tool_use", "text"]),
    "invalid_input": (STOPPED, "tool_use", [X, V], ["tool_use", "tool_use"]),
    "late_server_result": (STOPPED, "end_turn", [], ["web_search_tool_result", "text"]),
    "max_tokens_closed": (STOPPED, "max_tokens", [C], ["tool_use"]),
    "max_tokens_empty": (STOPPED, "max_tokens", [C], ["tool_use"]),
    "max_tokens_open": (STOPPED, "max_tokens", [C], ["text", "tool_use"]),
    "no_message_stop": (STOPPED, "tool_use", [V], ["tool_use"]),
    "one_tool": (STOPPED, "tool_use", [V], ["text", "tool_use"]),
    "programmatic_input": (STOPPED, "tool_use", [V, V], ["server_tool_use", "tool_use"]),
    "server_tool": (
        STOPPED,
        "end_turn",
        [V, V],
        ["server_tool_use", "web_search_tool_result", "mcp_tool_use", "mcp_tool_result", "text"],
    ),
    "spliced_message_start": (STOPPED, "tool_use", [C, V], ["text", "tool_use"]),
    "split_surrogates": (STOPPED, "tool_use", [V, V], ["tool_use", "tool_use"]),
    "text": (STOPPED, "end_turn", [], ["text"]),
    "thinking_then_tool": (STOPPED, "tool_use", [V], ["thinking", "redacted_thinking", "tool_use"]),
    "three_tools_interleaved": (STOPPED, "tool_use", [V, V, V], ["tool_use", "tool_use", "tool_use"]),
    "two_empty_inputs": (STOPPED, "tool_use", [V, V], ["tool_use", "tool_use"]),
    "unknown_kinds": (STOPPED, "end_turn", [], ["hologram", "text", "container_upload"]),
}


def test_every_made_recording_has_its_row() -> None:
    """A recording that nobody says anything about proves nothing."""
    assert [path.stem for path in made_recordings()] == sorted(MADE)


@rows("name", MADE)
def test_what_a_made_recording_shows(name: str) -> None:
    """Each was made to end in one certain way."""
    state, reason, outcomes, blocks = MADE[name]
    body = (MADE_DIR / f"{name}.sse").read_bytes()
    assembler = MessageAssembler()
    events = [out for event in wire_events(body) for out in assembler.feed(event)]
    events += assembler.close()
    assert assembler.state is state
    assert assembler.stop_reason == reason
    assert [event.input.outcome for event in events if isinstance(event, InputStop)] == outcomes
    assert [block["type"] for block in assembler.message["content"]] == blocks


def made_inputs(name: str) -> list[Any]:
    return [tool_input.wrapped for tool_input in inputs_of((MADE_DIR / f"{name}.sse").read_bytes())]


def test_the_inputs_of_some_made_recordings() -> None:
    """The values themselves, written out."""
    assert made_inputs("two_empty_inputs") == [{}, {}]
    assert made_inputs("invalid_input") == [{"INVALID_JSON": '{"keywords": Dave, "limit": 5}'}, {"keywords": "Dave"}]
    assert made_inputs("programmatic_input") == [{"code": "await forecast()"}, {"city": "Braga", "days": [1, 2]}]
    assert made_inputs("split_surrogates") == [
        {"mood": "\U0001f600 \U0001f30a!", "odd": "x\ud83dy\ude00z"},
        {"mood": "\U0001f600\U0001f600"},
    ]
    assert made_inputs("three_tools_interleaved") == [
        {"city": "Lisbon", "days": 3},
        {"city": "Porto", "days": 10},
        {"query": {"near": [41.15, -8.61], "radius_m": 0}},
    ]


def test_the_made_files_are_what_they_claim_to_be() -> None:
    """An editor or a checkout that mends line ends would silently take the point out of two recordings."""
    crlf = (MADE_DIR / "crlf.sse").read_bytes()
    assert crlf.count(b"\r\n") == crlf.count(b"\n") == crlf.count(b"\r") > 0
    assert not (MADE_DIR / "cut_mid_event.sse").read_bytes().endswith(b"\n")


# --- against the official client --------------------------------------------------------------------------------------

_READ_BY_THE_CLIENT = {
    "message_start",
    "message_delta",
    "message_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
}


def with_anthropic(events: list[dict[str, Any]], accumulate: Callable[..., Any]) -> list[dict[str, Any]]:
    """The content of the message as the official client puts it together."""
    snapshot: Any = None
    options: dict[str, Any] = {"json_bufs": {}, "request_headers": {}}
    known = inspect.signature(accumulate).parameters
    options = {name: value for name, value in options.items() if name in known}
    for event in events:
        if event["type"] == "error":
            break
        if event["type"] in _READ_BY_THE_CLIENT:
            snapshot = accumulate(event=event, current_snapshot=snapshot, **options)
    # Blocks that this version of the client has no type for are kept as another block's; pydantic warns of it.
    content: list[dict[str, Any]] = snapshot.to_dict(warnings=False)["content"]
    return content


def comparable(block: dict[str, Any]) -> str:
    # The client orders fields by its types, and fills in some that were not sent (`citations: null`); it drops none.
    return json.dumps({name: value for name, value in block.items() if value is not None}, sort_keys=True)


# What the client is known to do differently.

_RAISES = {"invalid_input", "unknown_kinds", "split_surrogates"}
"""A wrong character raises ValueError out of its stream, so does a lone surrogate; a gap in the indexes IndexError."""

_STARTS_TWICE = {
    "spliced_message_start",
    "vercel-ai-anthropic-tool-search-bm25.1",
    "vercel-ai-duplicate-message-start",
    "vercel-ai-spliced-message-start",
}
"""It knows no second `message_start`: the blocks of both messages end up in one content."""

_BETA_ONLY = {"mcp_tool_use", "compaction"}
"""Kinds that only its beta half follows: the other keeps them as they started, whatever their deltas bring."""


@for_recordings
@rows("accumulate", [_messages.accumulate_event, _beta_messages.accumulate_event])
def test_the_official_client_gives_the_same_content(recording: Path, accumulate: Callable[..., Any]) -> None:
    """Whoever comes from the official client must find the same message, wherever that client is right.

    Where it is known to be wrong, or to mean something else, is listed above; besides, an input that was cut off shows its
    last partial value as if it were whole, where ours is wrapped.
    """
    events = wire_events(recording.read_bytes())
    if sum(event["type"] == "message_start" for event in events) != 1:
        assert recording.stem in _STARTS_TWICE
        return
    if recording.parent == MADE_DIR and recording.stem in _RAISES:
        with pytest.raises((ValueError, IndexError)):
            with_anthropic(events, accumulate)
        return
    theirs = with_anthropic(events, accumulate)
    assembler = MessageAssembler()
    outs = [out for event in events for out in assembler.feed(event)]
    outs += assembler.close()
    unusable = {
        out.input.index for out in outs if isinstance(out, InputStop) and out.input.outcome is not Outcome.VALID
    }
    ours = blocks_of(assembler.message)
    assert len(ours) == len(theirs)
    starts = {event["index"]: event["content_block"] for event in events if event["type"] == "content_block_start"}
    for index, (our_block, their_block) in enumerate(zip(ours, theirs, strict=True)):
        if their_block["type"] in _BETA_ONLY and accumulate is _messages.accumulate_event:
            assert comparable(their_block) == comparable(starts[index])
            continue
        if index in unusable:
            assert "INVALID_JSON" in our_block["input"]
            assert "INVALID_JSON" not in their_block["input"]
            our_block = our_block | {"input": their_block["input"]}
        assert comparable(our_block) == comparable(their_block)


# --- the real ones, all together --------------------------------------------------------------------------------------


def real_bodies() -> Iterator[tuple[str, bytes]]:
    for path in real_recordings():
        yield path.stem, path.read_bytes()


@needs_recordings
def test_real_replies_end_as_known() -> None:
    """All but the few that are known not to: whole messages, valid inputs, no violations, one `message_start`."""
    odd = set()
    for name, body in real_bodies():
        assembler = MessageAssembler()
        outs = [out for event in wire_events(body) for out in assembler.feed(event)]
        outs += assembler.close()
        assert assembler.state is MessageState.STOPPED
        starts = sum(isinstance(out, MessageStart) for out in outs)
        valid = all(out.input.outcome is Outcome.VALID for out in outs if isinstance(out, InputStop))
        if starts != 1 or not valid or assembler.violations:
            odd.add(name)
    assert odd <= {
        "anthropic-sdk-python-incomplete_partial_json_response",  # cut at max_tokens, its last block never closed
        "vercel-ai-anthropic-tool-search-bm25.1",  # two messages in one body
        "vercel-ai-duplicate-message-start",  # the same message started twice
        "vercel-ai-spliced-message-start",  # a gateway's retry in the middle of a call
    }
