"""The adapter of eagerstream-wire, and an example for others. What a run does is in `eagerstream.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerstream_wire import (
    InputStop,
    MessageAssembler,
    MessageEvent,
    PartialJSON,
    ServerToolUse,
    SSEDecoder,
    ToolInput,
    WireDecoder,
    copy_json,
    pointer,
)


def sse(chunks: Sequence[bytes]) -> dict[str, Any]:
    """Return the events of each chunk, and the reconnection time."""
    decoder = SSEDecoder()
    steps = []
    for events in [*map(decoder.feed, chunks), decoder.close()]:
        step = {"events": [{"event": event.event, "data": event.data} for event in events]}
        steps.append({**step, "ids": [event.id for event in events], "retries": [event.retry for event in events]})
    return {"steps": steps, "retry": decoder.reconnection_time_ms}


def partial_json(fragments: Sequence[str]) -> dict[str, Any]:
    """Return the value after each fragment, what the fragment finished and changed, and the outcome."""
    # Three times: a parser that records changes reads long fragments value by value, the others several values at once.
    parser, other, plain = PartialJSON(reports=True), PartialJSON(tracks=True), PartialJSON()
    steps = []
    for fragment in (*fragments, None):
        for each in (parser, other, plain):
            each.close() if fragment is None else each.feed(fragment)
        finished = _finished(parser)
        # Without reports, values under a repeated key may be omitted, except those of the last one.
        if _finished(other) != finished and (
            len({*finished}) == len(finished) or not {*_finished(other)} <= {*finished}
        ):
            raise AssertionError("parsers finish different values")
        if not _shown(plain) == _shown(other) == _shown(parser):
            raise AssertionError("parsers show different values")
        value, state = _shown(parser)
        steps.append({"value": value, "finished": finished, "changes": parser.patch, "state": state})
    if not plain.error == other.error == parser.error:
        raise AssertionError("parsers find different errors")
    outcome = "valid" if parser.complete else "incomplete" if parser.error is None else "invalid"
    return {"steps": steps, "outcome": outcome, "error_at": parser.error and parser.error.offset_chars}


def _finished(parser: PartialJSON) -> list[str]:
    return [pointer(*path) for path, _ in parser.finished]


def _shown(parser: PartialJSON) -> tuple[Any, str]:
    is_shown = parser.value is not None or parser.is_finished(())
    state = "complete" if parser.complete else "partial" if parser.error is None else "invalid"
    return copy_json(parser.value) if is_shown else {"$nothing": True}, state  # a copy: the value grows in place


def inputs(chunks: Sequence[bytes]) -> dict[str, Any]:
    """Return the calls that may start and the inputs that settle with each chunk, and all inputs at the end."""
    decoder, assembler = WireDecoder(), MessageAssembler()
    steps = []
    is_over = False
    for chunk in chunks:
        events: list[MessageEvent] = []
        for event in decoder.feed(chunk):
            if is_over:
                break
            is_over = event["type"] == "error"  # the response ends with it
            events += assembler.close(cleanly=False) if is_over else assembler.feed(event)
        steps.append(_settled(events))
    steps.append(_settled([] if is_over else assembler.close()))
    found = [_told(input) for _, input in sorted(assembler.inputs.items())]
    starts = sorted(call for step in steps for call in step["may_start"])
    return {"steps": steps, "inputs": found, "starts": starts, "stop_reason": assembler.stop_reason}


def _settled(events: Sequence[MessageEvent]) -> dict[str, Any]:
    inputs = [event.input for event in events if isinstance(event, InputStop | ServerToolUse)]
    return {
        "may_start": [input.id for input in inputs if input.kind == "tool_use" and input.outcome == "valid"],
        "settled": [{"id": input.id, "outcome": str(input.outcome)} for input in inputs],
    }


def _told(input: ToolInput) -> dict[str, Any]:
    told = {"id": input.id, "name": input.name, "type": input.kind, "outcome": str(input.outcome)}
    # An input that came with the start of its call has no fragments, so no text either.
    told["raw"] = input.raw if input.fragments else ""
    return told | ({"value": copy_json(input.value)} if input.value is not None else {})
