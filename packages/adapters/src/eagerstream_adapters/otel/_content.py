"""Contents as span attributes, if `capture_content` asks for them. Secrets are masked, and the size is bounded.

The shapes are those of the conventions' JSON schemas: a message is `{"role": ..., "parts": [...]}`. Span attributes are
scalars, so each one is a JSON text.

An observer must return at once, and masking takes time. So texts are cut before any other work. A cut never goes
through a secret, because the masking might not recognize a part of one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic_core import to_jsonable_python

from eagerstream._support.json_values import encodable
from eagerstream._support.redaction import redact, secret_spans
from eagerstream.tools import ToolCall

from . import _conventions as names
from ._metrics import Attributes

MAX_TEXT_CHARS: Final = 4_096
"""Maximum number of characters of one text in an attribute. A longer text ends in an ellipsis."""
MAX_ATTRIBUTE_CHARS: Final = 16_384
"""Maximum number of characters of one attribute, before it is written as JSON. Beyond it, older messages are omitted.

Masking this much prose takes about 8 ms, on the event loop.
"""
_PART_CHARS: Final = 64
_ITEM_CHARS: Final = 16
"""Characters that count for each part and for each JSON value besides its texts: many small ones take time, too."""
_SECRET_CHARS: Final = 256
"""Number of characters after a cut that are searched for a secret that crosses it."""
_MAX_DEPTH: Final = 20
_CUT: Final = "..."
_LEFT_OUT: Final = "[left out]"


T = TypeVar("T")


class _Room:
    """Counter of the characters that an attribute has left."""

    def __init__(self) -> None:
        self.chars = MAX_ATTRIBUTE_CHARS

    def text(self, text: str) -> str:
        """Return as much of a text as fits."""
        most = max(0, min(MAX_TEXT_CHARS, self.chars))
        self.chars -= min(len(text), most) + 1
        if len(text) <= most:
            return text
        # Half a key may not look like a key, so a secret that crosses the cut is removed completely.
        spans = secret_spans(text[: most + _SECRET_CHARS]) if most else ()
        return text[: min((span.start for span in spans if span.start < most < span.end), default=most)] + _CUT

    def among(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items while there is room."""
        for item in items:
            if self.chars <= 0:
                break
            yield item


def input_attributes(request: Mapping[str, Any]) -> Attributes:
    """Return the newest messages and the system prompt of a request."""
    attributes: Attributes = {}
    room = _Room()
    messages = request.get("messages")
    newest_first = reversed(messages if isinstance(messages, list) else [])
    listed = [
        {"role": str(message.get("role", "")), "parts": _parts(message.get("content"), room)}
        for message in room.among(newest_first)
    ]
    attributes[names.INPUT_MESSAGES] = _written(listed[::-1])
    if (system := request.get("system")) is not None:
        attributes[names.SYSTEM_INSTRUCTIONS] = _written(_parts(system, _Room()))
    return attributes


def output_attributes(message: Mapping[str, Any]) -> Attributes:
    """Return the content of a complete response."""
    reason = str(message.get("stop_reason"))
    said = {"role": "assistant", "parts": _parts(message.get("content"), _Room())}
    return {names.OUTPUT_MESSAGES: _written([{**said, "finish_reason": names.FINISH_REASONS.get(reason, reason)}])}


def call_attributes(call: ToolCall) -> Attributes:
    """Return the input and the result of a call. An input that is not a JSON object is recorded as raw text."""
    value: Any = call.input.value
    if value is None:
        value = call.input.raw
    attributes: Attributes = {names.TOOL_CALL_ARGUMENTS: _written(_bounded(value, _Room()))}
    if call.result is not None:
        attributes[names.TOOL_CALL_RESULT] = _written(_blocks(call.result.get("content", ""), _Room()))
    return attributes


def _written(value: Any) -> str:
    return json.dumps(encodable(redact(value)), ensure_ascii=False)


def _parts(content: Any, room: _Room) -> list[dict[str, Any]]:
    """Return the parts of a message's content. Images, documents and unknown blocks are reduced to their type."""
    if isinstance(content, str):
        return [{"type": "text", "content": room.text(content)}]
    parts: list[dict[str, Any]] = _blocks(content, room)
    return parts


def _part(block: Any, room: _Room) -> dict[str, Any]:
    room.chars -= _PART_CHARS
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "content": room.text(text)}
        case {"type": "thinking", "thinking": str(text)}:
            return {"type": "reasoning", "content": room.text(text)}
        case {"type": "tool_use" | "server_tool_use" | "mcp_tool_use", "id": id, "name": name, "input": arguments}:
            named = {"id": _short(id), "name": _short(name)}
            return {"type": "tool_call", **named, "arguments": _bounded(arguments, room)}
        case {"type": "tool_result", "tool_use_id": id, **rest}:
            answered = _blocks(rest.get("content", ""), room)
            return {"type": "tool_call_response", "id": _short(id), "response": answered}
        case {"type": str(kind)}:  # images, documents and results of server tools: large, and in many forms
            return {"type": _short(kind)}
        case _:
            return {"type": "unknown"}


def _blocks(content: Any, room: _Room) -> Any:
    """Return the content of a result. Images, documents and unknown blocks are reduced to their type."""
    if isinstance(content, str):
        return room.text(content)
    blocks: Iterable[Any] = content if isinstance(content, list | tuple) else ()
    return [  # the program's own messages may have objects of the anthropic package
        _part(block if isinstance(block, Mapping) else to_jsonable_python(block, fallback=lambda _: None), room)
        for block in room.among(blocks)
    ]


def _bounded(value: Any, room: _Room, depth: int = 0) -> Any:
    """Return a JSON value cut to the room left. The first items stay, in order."""
    room.chars -= _ITEM_CHARS
    if isinstance(value, str):
        return room.text(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return _LEFT_OUT  # Python refuses to write an integer of thousands of digits
    if not isinstance(value, Mapping | list | tuple):
        return value if isinstance(value, bool | int | float | None) else f"<{type(value).__name__}>"
    if room.chars <= 0 or depth == _MAX_DEPTH:
        return _LEFT_OUT
    if isinstance(value, Mapping):
        items = room.among(value.items())
        return {room.text(str(key)): _bounded(item, room, depth + 1) for key, item in items}
    return [_bounded(item, room, depth + 1) for item in room.among(value)]


def _short(text: object) -> str:
    return str(text)[:256]
