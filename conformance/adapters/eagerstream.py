"""The adapter of eagerstream itself, and an example for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerstream.wire import PartialJSON, SSEDecoder, copy_json, pointer

_NOTHING = {"$nothing": True}


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
    parser = PartialJSON(reports=True)
    steps = []
    for fragment in fragments:
        parser.feed(fragment)
        steps.append(_step(parser))
    parser.close()
    steps.append(_step(parser))
    outcome = "valid" if parser.complete else "incomplete" if parser.error is None else "invalid"
    return {"steps": steps, "outcome": outcome, "error_at": parser.error and parser.error.offset_chars}


def _step(parser: PartialJSON) -> dict[str, Any]:
    return {
        # A copy: the value grows in place.
        "value": copy_json(parser.value) if parser.started else _NOTHING,
        "finished": [pointer(*path) for path, _ in parser.finished],
        "changes": parser.patch,
        "state": "complete" if parser.complete else "partial" if parser.error is None else "invalid",
    }
