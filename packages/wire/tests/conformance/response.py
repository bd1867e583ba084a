"""Wire events of a response, written short, and the bytes of a body made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

Event = dict[str, Any]
Frame = Event | bytes
"""An event, or bytes that stand in the body as they are and complete no event of the API."""

STOP: Final[Event] = {"type": "message_stop"}
PING: Final[Event] = {"type": "ping"}


def message_start(*content: Any, **fields: Any) -> Event:
    """Return the start of a message; `fields` add to it."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [*content]}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage, **fields}}


def message_delta(reason: Any) -> Event:
    """Return the event that names the stop reason."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}


def block_start(index: Any, **block: Any) -> Event:
    """Return the start of a block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def tool_start(index: Any, id: str = "", name: str = "get_weather", type: str = "tool_use", **fields: Any) -> Event:
    """Return the start of a call."""
    prefix = "srvtoolu" if type == "server_tool_use" else "toolu"
    return block_start(index, **{"type": type, "id": id or f"{prefix}_{index}", "name": name, "input": {}, **fields})


def delta(index: Any, **delta: Any) -> Event:
    """Return a delta of any kind."""
    return {"type": "content_block_delta", "index": index, "delta": delta}


def fragment(index: Any, text: Any) -> Event:
    """Return a fragment of an input."""
    return delta(index, type="input_json_delta", partial_json=text)


def block_stop(index: Any) -> Event:
    """Return the end of a block."""
    return {"type": "content_block_stop", "index": index}


def call(index: int, *texts: str, **start: Any) -> list[Event]:
    """Return a call with these fragments, and its end."""
    return [tool_start(index, **start), *(fragment(index, text) for text in texts), block_stop(index)]


def said(index: int, text: str = "Let me see.") -> list[Event]:
    """Return a block of text."""
    deltas = [delta(index, type="text_delta", text=text)] if text else []
    return [block_start(index, type="text", text=""), *deltas, block_stop(index)]


def thought(index: int) -> list[Event]:
    """Return a block of thinking, with its signature."""
    deltas = [
        delta(index, type="thinking_delta", thinking="So."),
        delta(index, type="signature_delta", signature="c2ln"),
    ]
    return [block_start(index, type="thinking", thinking="", signature=""), *deltas, block_stop(index)]


def searched(index: int, id: str, *, answered: bool = True) -> list[Event]:
    """Return a call that the API runs itself, and its result in the next block."""
    events = call(index, '{"query": "Paris"}', id=id, name="web_search", type="server_tool_use")
    if answered:
        result = {"type": "web_search_tool_result", "tool_use_id": id, "content": []}
        events += [block_start(index + 1, **result), block_stop(index + 1)]
    return events


def ended(reason: Any) -> list[Event]:
    """Return the last two events of a message."""
    return [message_delta(reason), STOP]


def error(type: str = "overloaded_error") -> Event:
    """Return the event with which the API gives up."""
    return {"type": "error", "error": {"type": type, "message": "No."}}


def framed(frame: Frame, *, ascii: bool = True, line_end: str = "\n") -> bytes:
    """Return the bytes of an event."""
    if isinstance(frame, bytes):
        return frame
    text = f"event: {frame['type']}\ndata: {json.dumps(frame, ensure_ascii=ascii)}\n\n"
    return text.replace("\n", line_end).encode("utf-8", "surrogatepass")


def body_of(frames: Iterable[Frame]) -> str:
    """Return the body of a response as text."""
    return b"".join(map(framed, frames)).decode()
