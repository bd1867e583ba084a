"""The measured streams: inputs of a given size and kind, cut into fragments, as server-sent events."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from eagerstream.testing import Timing, reply, retime, text, tool_use

KINDS = ("lines", "one string", "numbers")

_SENTENCE = 'The sea sends the parts, and lets the listener choose; "a word", a comma,\nthen the swell – à demain. '

_ROOT = Path(__file__).parents[1]
_RECORDINGS = Path(os.environ.get("EAGERSTREAM_RECORDINGS") or _ROOT.parent / "shared" / "recordings")


def recorded_bodies() -> list[bytes]:
    """Return the bodies of recorded responses with tool inputs. The folder is not part of the project, and optional."""
    bodies = (path.read_bytes() for path in sorted(_RECORDINGS.glob("*.sse")))
    return [body for body in bodies if b'"input_json_delta"' in body]


def make_input(kind: str, chars: int) -> dict[str, Any]:
    """Return an input whose JSON text has about `chars` characters.

    `lines` is an array of short strings, as in a file or a poem. `one string` has all text in one string. `numbers` is
    a table of rows, with a value every seven characters.
    """
    if kind == "lines":
        lines = _SENTENCE.splitlines() * (chars // len(_SENTENCE))
        return {"filename": "poem.txt", "lines_of_text": [f"{line} {number}" for number, line in enumerate(lines)]}
    if kind == "one string":
        return {"filename": "poem.txt", "text": (_SENTENCE * (chars // len(_SENTENCE) + 1))[: chars * 19 // 20]}
    rows = [[place, place * 1.25, -place, place / 64, place % 2 == 0] for place in range(chars // 38)]
    return {"table": "tides", "rows": rows}


def body_chunks(content: str, fragment_chars: int, *, is_text: bool = False) -> list[bytes]:
    """Return the body of a response, in chunks of one event, as the API sends it.

    Args:
        content: The input of its one tool call, or its text.
        fragment_chars: Number of characters of each delta.
        is_text: It has a text instead of a call.
    """
    call = tool_use("make_file", content, fragment_chars=fragment_chars)
    block = text(content, fragment_chars=fragment_chars) if is_text else call
    chunks = retime(reply(block), Timing.instant()).chunks
    return [padded(chunk.data, number) for number, chunk in enumerate(chunks)]


def padded(event: bytes, number: int) -> bytes:
    """Return an event with 0 to 15 spaces at its end, as the API pads most of its streams."""
    return event.replace(b"}\n\n", b" " * (number * 7 % 16) + b"}\n\n")


async def arriving(chunks: list[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks as a body that has already arrived. Only the cost of reading it is measured."""
    for chunk in chunks:
        yield chunk


def make_document(chars: int) -> dict[str, Any]:
    """Return a document of about `chars` characters with all kinds of values: 45% is one string, the rest records."""
    size = chars * 45 // 100
    text = (_SENTENCE * (size // len(_SENTENCE) + 1))[:size]
    records: list[dict[str, Any]] = []
    document = {"filename": "poem.txt", "text": text, "records": records}
    left = chars - len(json.dumps(document, ensure_ascii=False))
    while left > 0:
        number = len(records)
        price = number * 1.25
        record = {"id": number, "name": f"item {number}", "price": price, "tags": ["a", "b"], "new": number % 2 == 0}
        records.append(record | {"note": None})
        left -= len(json.dumps(records[-1], ensure_ascii=False)) + len(", ")
    return document
