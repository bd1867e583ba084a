"""The events of a response body, with their positions in the bytes, and notes about what was made of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from eagerstream_wire import ProtocolError, SSEDecoder, WireEvent, decode_event

from .terms import TEXT_FIELDS

TOKEN_CHARS: Final = 4
"""Characters of model text that count as one token. A rule of thumb, not the tokenizer."""

TIMED_NOTE: Final = "simulated timing"
"""Note of a recording with simulated times."""

BUFFERED_NOTE: Final = "simulated buffering"
"""Note of a recording whose inputs were held back later."""


class BodyEvent(NamedTuple):
    """A server-sent event: the offset of its end in the body, and its wire event (`{}` if it has none)."""

    end: int
    data: WireEvent


def body_events(body: bytes) -> Iterator[BodyEvent]:
    """Yield the server-sent events of `body`, in order. Bytes after the last complete event belong to none."""
    decoder = SSEDecoder(max_event_bytes=len(body) + 1)  # the body is in memory already
    start = end = 0
    for line in body.splitlines(keepends=True):
        end += len(line)
        if line.strip(b"\r\n"):
            continue
        event_bytes, start = body[start:end], end  # an event ends with an empty line: one call for each event
        for event in decoder.feed(event_bytes):
            try:
                yield BodyEvent(end, decode_event(event.data, event.event))
            except ProtocolError:
                yield BodyEvent(end, {})


def is_fragment(event: WireEvent) -> bool:
    """Return whether the event has a fragment of a tool input."""
    delta = event.get("delta")
    if event.get("type") != "content_block_delta" or not isinstance(delta, dict):
        return False
    return delta.get("type") == "input_json_delta"


def block_index(event: WireEvent) -> int | None:
    """Return the index of the event's block; `None` if it has none."""
    index = event.get("index")
    return index if type(index) is int else None


def tool_name(start: WireEvent) -> str:
    """Return the tool's name in a `content_block_start`; empty if the block is no call."""
    block = start.get("content_block")
    name = block.get("name") if isinstance(block, dict) else None
    return name if isinstance(name, str) else ""


def model_text(event: WireEvent) -> str:
    """Return the text that the model wrote in this event; empty for other events."""
    delta = event.get("delta")
    if event.get("type") != "content_block_delta" or not isinstance(delta, dict):
        return ""
    written = delta.get(TEXT_FIELDS.get(str(delta.get("type")), ""))
    return written if isinstance(written, str) else ""


def noted(note: str, fact: str) -> str:
    """Add `fact` to `note` unless it is there, so that nobody takes simulated times for measured ones."""
    return note if fact in note else f"{note}; {fact}".removeprefix("; ")
