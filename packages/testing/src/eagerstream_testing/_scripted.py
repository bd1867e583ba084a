"""Scripted responses in the wire format of the Messages API.

    reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo"}))

returns the body that the API would send, in one chunk at 0. `retime` gives it times. Nothing is random: the same blocks
get the same ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eagerstream import Message, WireEvent
from eagerstream._support.checks import check_count
from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording

DEFAULT_MODEL: Final = "claude-sonnet-4-5"
FRAGMENT_CHARS: Final = 7
"""Characters in one delta: the median fragment of recorded inputs."""

_ID_PREFIXES: Final = {"tool_use": "toolu", "server_tool_use": "srvtoolu"}
_INPUT_TOKENS: Final = 100
_TOKEN_CHARS: Final = 4


@dataclass(frozen=True)
class Scripted:
    """One block of a response as its wire events, or an `error` event without a block.

    Attributes:
        block: The `content_block` of its start; empty for an `error` event.
        deltas: The `delta` of each `content_block_delta`.
        closed: A `content_block_stop` follows.
        error: The `error` of an `error` event; `None` for a block.
    """

    block: Mapping[str, Any]
    deltas: tuple[Mapping[str, Any], ...] = ()
    closed: bool = True
    error: Mapping[str, Any] | None = None


def text(content: str, *, fragment_chars: int = FRAGMENT_CHARS, closed: bool = True) -> Scripted:
    """Return a text block.

    Args:
        content: The complete text.
        fragment_chars: Characters in each `text_delta`.
        closed: False leaves the block open, as in a response that was cut off.

    Raises:
        UsageError: `fragment_chars` is not an integer of at least 1.
    """
    deltas = ({"type": "text_delta", "text": piece} for piece in _pieces(content, fragment_chars))
    return Scripted({"type": "text", "text": ""}, tuple(deltas), closed)


def thinking(
    content: str,
    *,
    signature: str = "c2NyaXB0ZWQ=",
    fragment_chars: int = FRAGMENT_CHARS,
    closed: bool = True,
) -> Scripted:
    """Return a thinking block. Its signature comes at its end, unless it is left open.

    Args:
        content: The complete thinking.
        signature: The opaque text that the API would expect back with the thinking.
        fragment_chars, closed: As for `text`.

    Raises:
        UsageError: `fragment_chars` is not an integer of at least 1.
    """
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(content, fragment_chars)]
    if closed:
        deltas.append({"type": "signature_delta", "signature": signature})
    return Scripted({"type": "thinking", "thinking": "", "signature": ""}, tuple(deltas), closed)


def tool_use(
    name: str,
    input: Mapping[str, Any] | str,
    *,
    id: str | None = None,
    fragment_chars: int = FRAGMENT_CHARS,
    closed: bool = True,
) -> Scripted:
    """Return a tool call.

    Args:
        name: The tool's name.
        input: An object, or its text, which need not be JSON. For a call without arguments the API sends `""`.
        id: The `tool_use_id`. `None` derives it from the message's id and the index of the block.
        fragment_chars: Characters in each `input_json_delta`. An empty one comes before them, as from the API.
        closed: False leaves the block open, as in a response cut off by `max_tokens`.

    Raises:
        UsageError: `input` cannot be written as JSON, or `fragment_chars` is not an integer of at least 1.
    """
    return _call("tool_use", name, input, id, fragment_chars, closed=closed)


def server_tool_use(
    name: str,
    input: Mapping[str, Any] | str,
    *,
    id: str | None = None,
    fragment_chars: int = FRAGMENT_CHARS,
    closed: bool = True,
) -> Scripted:
    """Return a call that the API runs itself. Arguments and exceptions are those of `tool_use`."""
    return _call("server_tool_use", name, input, id, fragment_chars, closed=closed)


def block(content: Mapping[str, Any]) -> Scripted:
    """Return any other block, complete in its `content_block_start`: a server tool's result, or an unknown kind."""
    return Scripted(dict(content))


def error_event(type: str, message: str) -> Scripted:
    """Return an `error` event, which ends the response: `error_event("overloaded_error", "Overloaded")`."""
    return Scripted({}, error={"type": type, "message": message})


def reply(
    *blocks: Scripted,
    stop_reason: str | None = None,
    stop_sequence: str | None = None,
    model: str = DEFAULT_MODEL,
    message_id: str | None = None,
    usage: Mapping[str, Any] | None = None,
) -> Recording:
    """Return the streamed response with these blocks, in one chunk at 0.

    Args:
        blocks: The blocks in the order of their indexes. Only the last may be an `error_event`.
        stop_reason: `None` means `"stop_sequence"` if there is one, `"tool_use"` if there is a `tool_use` block,
            otherwise `"end_turn"`.
        stop_sequence: The stop sequence that the response ends before.
        model: The model that the response names.
        message_id: `None` derives it from the blocks. Ids of calls derive from it. If a conversation has the same
            response twice, give one of the two an id, so that no id comes twice.
        usage: Counts that replace the default ones. `message_start` always reports 1 as `output_tokens`.

    Raises:
        UsageError: A block comes after an `error_event`.
        TypeError: A block or `usage` cannot be written as JSON.
    """
    if any(scripted.error is not None for scripted in blocks[:-1]):
        raise UsageError("an error event ends the response: nothing may follow it")
    if message_id is None:
        message_id = f"msg_{digest([(dict(b.block), b.deltas, b.closed, b.error) for b in blocks])}"
    if stop_reason is None and stop_sequence is not None:
        stop_reason = "stop_sequence"
    elif stop_reason is None:
        stop_reason = "tool_use" if any(b.block.get("type") == "tool_use" for b in blocks) else "end_turn"
    deltas = [delta for scripted in blocks for delta in scripted.deltas]
    chars = sum(len(value) for delta in deltas for name, value in delta.items() if name != "type")
    counts = {
        "input_tokens": _INPUT_TOKENS,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": max(1, chars // _TOKEN_CHARS),
        **(usage or {}),
    }
    events = [_message_start(message_id, model, {**counts, "output_tokens": 1})]
    for index, scripted in enumerate(blocks):
        if scripted.error is not None:
            events.append({"type": "error", "error": dict(scripted.error)})
            break
        content = dict(scripted.block)
        prefix = _ID_PREFIXES.get(str(content.get("type")))
        if prefix and content.get("id") is None:
            content["id"] = f"{prefix}_{digest([message_id, index])}"
        events.append({"type": "content_block_start", "index": index, "content_block": content})
        if index == 0:
            events.append({"type": "ping"})  # the API sends its first one here
        events += [{"type": "content_block_delta", "index": index, "delta": dict(delta)} for delta in scripted.deltas]
        if scripted.closed:
            events.append({"type": "content_block_stop", "index": index})
    else:
        end = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
        events += [{"type": "message_delta", "delta": end, "usage": counts}, {"type": "message_stop"}]
    return Recording.from_body(b"".join(encode_event(event) for event in events))


def http_error(
    status: int,
    error_type: str,
    message: str,
    *,
    request_id: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> Recording:
    """Return an HTTP error in the API's form: `http_error(529, "overloaded_error", "Overloaded")`.

    Raises:
        UsageError: `status` is not an HTTP status from 200 to 599, or `request_id` is not one line of Latin-1 text.
    """
    request_id = request_id or f"req_{digest([status, error_type, message])}"
    told: dict[str, Any] = {"type": error_type, "message": message}
    if details is not None:
        told["details"] = details
    error = {"type": "error", "error": told, "request_id": request_id}
    headers = {"content-type": "application/json", "request-id": request_id}
    return Recording((Chunk(0.0, dump_json(error).encode()),), status=status, headers=headers)


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Return a wire event as the server-sent event that the API sends for it.

    Raises:
        KeyError: The event has no `type`.
        TypeError: The event cannot be written as JSON.
    """
    return f"event: {event['type']}\ndata: {dump_json(event)}\n\n".encode()


# --- wire events ------------------------------------------------------------------------------------------------------


def _call(
    kind: str, name: str, input: Mapping[str, Any] | str, id: str | None, fragment_chars: int, *, closed: bool
) -> Scripted:
    if isinstance(input, str):
        raw = input
    else:
        try:
            raw = json.dumps(input, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the input of {name} cannot be written as JSON: {error}") from error
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(raw, fragment_chars))]
    return Scripted({"type": kind, "id": id, "name": name, "input": {}}, tuple(deltas), closed)


def _pieces(content: str, size: int) -> list[str]:
    check_count("fragment_chars", size)
    return [content[at : at + size] for at in range(0, len(content), size)]


def _message_start(message_id: str, model: str, usage: Mapping[str, Any]) -> WireEvent:
    message: Message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message}


def digest(content: object) -> str:
    """Return 24 characters for an id, the same for the same content."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]


def dump_json(value: object) -> str:
    """Return JSON as the API writes it: without spaces, and without escapes unless UTF-8 cannot encode a character."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        written.encode()
    except UnicodeEncodeError:  # the script has half a surrogate pair
        return json.dumps(value, separators=(",", ":"))
    return written
