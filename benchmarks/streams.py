"""The measured streams: responses with inputs of a given size and kind, in fragments, as server-sent events.

They look like recorded ones. In the recorded responses with tool inputs, a third of the characters is text, on average,
and most pad their events. So `response` writes a text before its calls, and pads each event.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Scripted, reply, text, tool_use

KINDS = ("lines", "one string", "numbers")
TEXT_FRAGMENT_CHARS = 11  # the median of the texts of recorded responses with tool inputs

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
        return {"filename": "poem.txt", "text": _prose(chars * 19 // 20)}
    rows = [[place, place * 1.25, -place, place / 64, place % 2 == 0] for place in range(chars // 38)]
    return {"table": "tides", "rows": rows}


def _prose(chars: int) -> str:
    return (_SENTENCE * (chars // len(_SENTENCE) + 1))[:chars]


def response(*blocks: Scripted, message_id: str | None = None) -> Recording:
    """Return a response as the API sends it: a text before its calls, and padded events, each a chunk of its own.

    Args:
        blocks: The calls, or the text of a response without calls.
        message_id: As for `reply`.
    """
    before = text_before(*blocks)
    texts = [text(before, fragment_chars=TEXT_FRAGMENT_CHARS)] if before else []
    return padded(reply(*texts, *blocks, message_id=message_id))


def text_before(*calls: Scripted) -> str:
    """Return the text of a response before these calls. It is a third of the characters of the text and the inputs."""
    return _prose(sum(len(delta.get("partial_json", "")) for call in calls for delta in call.deltas) // 2)


def padded(recording: Recording) -> Recording:
    """Return a response in chunks of one event, each with 0 to 15 spaces before its last brace, as the API pads it."""
    events = [(at_s, event) for at_s, data in recording.chunks for event in data.split(b"\n\n")[:-1]]
    return Recording(
        tuple(
            Chunk(at_s, event[:-1] + b" " * (number * 7 % 16) + b"}\n\n") for number, (at_s, event) in enumerate(events)
        )
    )


def body_chunks(input_text: str, fragment_chars: int) -> list[bytes]:
    """Return the events of a response with one call of `make_file`, whose input has this text."""
    call = tool_use("make_file", input_text, fragment_chars=fragment_chars)
    return [chunk.data for chunk in response(call).chunks]


async def arriving(chunks: list[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks as a body that has already arrived. Only the cost of reading it is measured."""
    for chunk in chunks:
        yield chunk


def make_document(chars: int) -> dict[str, Any]:
    """Return a document of about `chars` characters with all kinds of values: 45% is one string, the rest records."""
    records: list[dict[str, Any]] = []
    document = {"filename": "poem.txt", "text": _prose(chars * 45 // 100), "records": records}
    left = chars - len(json.dumps(document, ensure_ascii=False))
    while left > 0:
        number = len(records)
        price = number * 1.25
        record = {"id": number, "name": f"item {number}", "price": price, "tags": ["a", "b"], "new": number % 2 == 0}
        records.append(record | {"note": None})
        left -= len(json.dumps(records[-1], ensure_ascii=False)) + len(", ")
    return document
