"""The streams that are measured: inputs of a given size and kind, cut into fragments, as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from eagerstream.replay import encode_event

KINDS = ("lines", "one string", "numbers")

_SENTENCE = 'The sea sends the parts, and lets the listener choose; "a word", a comma,\nthen the swell – à demain. '


def make_input(kind: str, chars: int) -> dict[str, Any]:
    """An input whose JSON text has about `chars` characters.

    `lines` is an array of short strings, as a file or a poem is written; `one string` has everything in one; `numbers`
    is a table of rows, a value every seven characters.
    """
    if kind == "lines":
        lines = _SENTENCE.splitlines() * (chars // len(_SENTENCE))
        return {"filename": "poem.txt", "lines_of_text": [f"{line} {number}" for number, line in enumerate(lines)]}
    if kind == "one string":
        return {"filename": "poem.txt", "text": (_SENTENCE * (chars // len(_SENTENCE) + 1))[: chars * 19 // 20]}
    rows = [[place, place * 1.25, -place, place / 64, place % 2 == 0] for place in range(chars // 38)]
    return {"table": "tides", "rows": rows}


def fragments(text: str, chars: int) -> list[str]:
    """`text` in pieces of `chars` characters, after the empty one that the API begins with."""
    return ["", *(text[at : at + chars] for at in range(0, len(text), chars))]


def message_events(pieces: list[str]) -> Iterator[dict[str, Any]]:
    """The wire events of a reply with one tool call whose input comes in these pieces."""
    yield {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    }
    block = {"type": "tool_use", "id": "toolu_1", "name": "make_file", "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for piece in pieces:
        delta = {"type": "input_json_delta", "partial_json": piece}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    }
    yield {"type": "message_stop"}


def body_chunks(pieces: list[str]) -> list[bytes]:
    """The body of that reply, one chunk per event, as the API sends it."""
    return [encode_event(event) for event in message_events(pieces)]


async def arriving(chunks: list[bytes]) -> AsyncIterator[bytes]:
    """The chunks as a body that has all arrived: what is measured is what it costs to take it in."""
    for chunk in chunks:
        yield chunk


def expected(text: str) -> Any:
    """What the input must come out as."""
    return json.loads(text)
