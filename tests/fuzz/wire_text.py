"""A grammar of replies, driven by choices: wire events as the API sends them, in any order, with slips; and their bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from eagerstream_wire import WireEvent
from tests import streams

from .choices import Choices
from .json_text import json_text

_REASONS: Final = ("tool_use", "end_turn", "max_tokens", "pause_turn", "refusal", None)
_TOOL_KINDS: Final = ("tool_use", "tool_use", "tool_use", "server_tool_use", "mcp_tool_use")
_FIELDS: Final = (
    "type", "index", "content_block", "delta", "message", "usage", "partial_json", "text", "thinking", "signature",
    "citation", "citations", "content", "encrypted_content", "stop_reason", "input", "id", "name", "role", "error",
)  # fmt: skip


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


_GARBAGE: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1, 1.5, 10**30, 10**4_200, float("inf"), float("nan"), "", "x", "\ud800", "tool_use",
    "input_json_delta", [], [[]], [None], {}, {"type": []}, {"type": "tool_use", "input": {"a": 1}}, {"a": float("inf")},
    {"INVALID_JSON": "x"}, _nested(150), _nested(250), _nested(700), {"a": _nested(600)}, {"x": 1e999, "y": "\udfff"},
)  # fmt: skip


def wire_events(choices: Choices) -> list[WireEvent]:
    """A stream of events as no peer should send them, and as every peer does."""
    events: list[WireEvent] = [streams.message_start()] if choices.below(4) else []
    texts: dict[int, str] = {}  # what is yet to come of an input
    most = choices.room // 10
    while choices.are_left and len(events) < most:
        if choices.below(24) == 0 and events:
            events.extend([events[-1]] * choices.pick((1, 1, 1, 2, 2, 5, 5, 30, 300)))
        event = _event(choices, texts)
        if choices.below(12) == 0:
            event = _mutated(choices, event)
        events.append(event)
    return events[:most]


def _event(choices: Choices, texts: dict[int, str]) -> WireEvent:
    index = choices.pick((0, 0, 0, 1, 1, 2, 3, 7))
    match choices.below(24):
        case 0 | 1 | 2 | 3:
            texts[index] = json_text(choices)
            given: Any = choices.pick(({}, {}, {}, {}, {"a": 1}, None, [], {"a": [1e999]}))
            return streams.tool_start(index, kind=choices.pick(_TOOL_KINDS), input=given)
        case 4:
            return streams.block_start(index, "text", text="")
        case 5:
            return streams.block_start(index, "thinking", thinking="", signature="")
        case 6:
            return streams.block_start(index, choices.pick(("redacted_thinking", "web_search_tool_result", "later")))
        case 7 | 8 | 9 | 10 | 11 | 12:
            text = texts.get(index, "")
            length = choices.pick((1, 2, 3, 5, 8, 20, 100, 100_000))
            texts[index] = text[length:]
            return streams.input_delta(index, text[:length])
        case 13 | 14:
            return _other_delta(choices, index)
        case 15 | 16 | 17 | 18:
            return streams.block_stop(index)
        case 19:
            return streams.message_delta(choices.pick(_REASONS), input_tokens=choices.pick((None, 3)))
        case 20:
            return dict(streams.MESSAGE_STOP)
        case 21:
            whole = {"type": "tool_use", "id": "toolu_w", "name": "tool", "input": choices.pick(({}, {"a": 1}, None))}
            return streams.message_start(content=choices.pick(([], [], [whole], [whole, None, whole])))
        case 22:
            return {"type": choices.pick(("ping", "ping", "later", "x"))}
        case _:
            if choices.below(8):
                return {"type": "ping"}
            return {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def _other_delta(choices: Choices, index: int) -> WireEvent:
    piece = choices.pick(("", "a", "bc", "é", "\ud83d", "x" * 200))
    match choices.below(6):
        case 0 | 1:
            return streams.text_delta(index, piece)
        case 2:
            return streams.block_delta(index, "thinking_delta", thinking=piece)
        case 3:
            return streams.block_delta(index, "signature_delta", signature=piece)
        case 4:
            return streams.block_delta(index, "citations_delta", citation={"cited_text": piece})
        case _:
            return streams.block_delta(index, "compaction_delta", content=piece, encrypted_content=piece)


def _mutated(choices: Choices, event: WireEvent) -> WireEvent:
    """One field, at the top or one level down, is garbage or gone."""
    event = dict(event)
    inner = [name for name, value in event.items() if isinstance(value, dict)]
    target = event
    if inner and choices.below(2):
        name = choices.pick(inner)
        target = event[name] = dict(event[name])
    field = choices.pick(list(target) or ["type"]) if choices.below(3) else choices.pick(_FIELDS)
    if choices.below(5):
        target[field] = choices.pick(_GARBAGE)
    else:
        target.pop(field, None)
    return event


def body(choices: Choices) -> bytes:
    """A body: wire events as server-sent events, their lines ended and interrupted in every way."""
    end = choices.pick((b"\n", b"\n", b"\n", b"\r\n", b"\r"))
    ensure_ascii = bool(choices.below(2))
    noise = choices.pick(
        (b"", b"", b"", b": keep alive", b"id: 7", b"retry: 30", b"data: [DONE]", b"data", b"\xff", b"x: y")
    )
    out = [choices.pick((b"", b"", b"", b"\xef\xbb\xbf", end))]
    for number, event in enumerate(wire_events(choices)):
        data = json.dumps(event, ensure_ascii=ensure_ascii).encode("utf-8", "surrogatepass")
        name = event.get("type")
        if isinstance(name, str):
            out += (b"event: ", name.encode("utf-8", "replace"), end)
        out += (b"data: ", data, end, end)
        if noise and number % 3 == 0:
            out += (noise, end, end if number % 2 else b"")
    return b"".join(out)


LINES: Final = (
    b"data", b"data:", b"data: ", b"data: x", b"data:  y", b"event: e", b"event", b"id: 7", b"id", b"id: a\0b", b": c",
    b"retry: 3", b"retry: +5", b"retry: 1_0", b"retry:", b"retry: \xd9\xa3", b"Data: x", b" data: x", b"datas: x",
    b"event: ping\ndata: {}\n\n", b'data: {"type": "ping"}', b'event: ping\ndata: {"type": "ping"}\n\n', b"data: [DONE]",
    b"data: \xf0\x9f\x98\x80", b"data: \xf0\x9f", b"data: \xe2\x80\xa8", b"\xef\xbb\xbf", b"data: " + b"x" * 70, b"",
)  # fmt: skip


def event_stream(choices: Choices) -> bytes:
    """Lines of a `text/event-stream`, of any kind but few of the API's."""
    return b"".join(_lines(choices))


def _lines(choices: Choices) -> Iterator[bytes]:
    for _ in range(choices.room // 8):
        if not choices.are_left:
            return
        line = choices.take(choices.below(12)) if choices.below(8) == 0 else choices.pick(LINES)
        end = choices.pick((b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\n\n", b"\r\r", b""))
        times = min(choices.pick((1,) * 30 + (9, 100)), choices.room // 20)
        yield (line + end) * times
