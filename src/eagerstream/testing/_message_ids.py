"""The id of a message, changed in its recorded response."""

from __future__ import annotations

from dataclasses import replace

from ..recordings import Chunk, Recording
from ._framing import framing_of
from ._injection import slice_chunks, time_at


def message_id(recording: Recording) -> str | None:
    """Return the id of the message; `None` if the response has none."""
    for _, event in framing_of(recording).events(recording.body):
        message = event.get("message")
        if event.get("type") == "message_start" and isinstance(message, dict):
            return message["id"] if isinstance(message.get("id"), str) else None
    return None


def with_message_id(recording: Recording, id: str) -> Recording:
    """Return the response with another id of its message. All other bytes, and all times, stay the same."""
    start = 0
    framing = framing_of(recording)
    for end, event in framing.events(recording.body):
        if event.get("type") == "message_start":
            renamed = framing.encode({**event, "message": {**event["message"], "id": id}})
            before, after = slice_chunks(recording, 0, start), slice_chunks(recording, end)
            return replace(recording, chunks=(*before, Chunk(time_at(recording, end - 1), renamed), *after))
        start = end
    return recording
