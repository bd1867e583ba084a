"""The adapter of eagerstream itself, and an example for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerstream.wire import PartialJSON, SSEDecoder, copy_json, pointer


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
