"""The body of a reply, event by event, with the place of each in the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..errors import ProtocolError
from ..wire import TEXT_FIELDS, SSEDecoder, WireEvent, decode_event


class BodyEvent(NamedTuple):
    """One server-sent event: where it ends in the body, and its wire event (`{}` where it holds none)."""

    end: int
    data: WireEvent


def body_events(body: bytes) -> Iterator[BodyEvent]:
    """The server-sent events of `body`, in order. Bytes after the last whole one belong to none."""
    decoder = SSEDecoder(max_event_bytes=len(body) + 1)  # the body is in memory already
    end = 0
    for line in body.splitlines(keepends=True):
        end += len(line)
        for event in decoder.feed(line):
            try:
                yield BodyEvent(end, decode_event(event.data))
            except ProtocolError:
                yield BodyEvent(end, {})


def is_fragment(event: WireEvent) -> bool:
    """The event carries more of a tool's input."""
    delta = event.get("delta")
    if event.get("type") != "content_block_delta" or not isinstance(delta, dict):
        return False
    return delta.get("type") == "input_json_delta"


def model_text(event: WireEvent) -> str:
    """What the model wrote in this event."""
    delta = event.get("delta")
    if event.get("type") != "content_block_delta" or not isinstance(delta, dict):
        return ""
    written = delta.get(TEXT_FIELDS.get(str(delta.get("type")), ""))
    return written if isinstance(written, str) else ""


def noted(note: str, fact: str) -> str:
    """`note` with `fact`, so that no simulated time is taken for a measured one."""
    return note if fact in note else f"{note}; {fact}".removeprefix("; ")
