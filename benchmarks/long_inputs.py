"""Inputs of any length, written while they are read. The text is never complete in memory, so it is not measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count, islice
from random import Random

LONG_KINDS = ("one string", "one string, not all Latin-1", "lines", "numbers", "records")
"""Kinds of inputs. `records` are nested objects with short fields, as a tool of a database gets them."""

_SYLLABLES = (
    *("an", "be", "col", "der", "el", "fra", "gu", "hi", "in", "jo", "ka", "lor", "me", "nu"),
    *("ol", "pra", "qui", "ra", "se", "tor", "un", "ve", "wen", "xi", "yo", "zar", "ber", "ast"),
)


def _words(random: Random) -> str:
    """Return some words, as JSON. Few fragments come twice: decoders keep short strings, and would share them."""
    words = ["".join(random.choices(_SYLLABLES, k=random.randint(1, 4))) for _ in range(12)]
    return f'{" ".join(words)}, \\"{words[0]}\\";\\n'


def _items(kind: str) -> Iterator[str]:
    """Yield the items of the input's array, or the parts of its string, without end."""
    random = Random(kind)
    for number in count():
        match kind:
            case "one string":
                yield _words(random)
            case "one string, not all Latin-1":
                yield f"{_words(random)} – "
            case "lines":
                yield f'"{_words(random)}", '
            case "numbers":
                yield f"[{number}, {number * 1.25}, {-number}, {number / 64}, {json.dumps(number % 2 == 0)}], "
            case "records":
                place = f'{{"name": "place {number}", "at": [{number / 128}, {-number / 64}], "tags": ["a", "b"]}}'
                yield f'{{"id": {number}, "place": {place}, "open": true, "note": null}}, '
            case _:
                raise AssertionError(kind)


def text_of(kind: str, chars: int, *, end: str = "}") -> Iterator[str]:
    """Yield the JSON text of an input in pieces, together `chars` characters or a few less.

    Args:
        kind: One of `LONG_KINDS`.
        chars: Length of the text, in characters.
        end: Last character. The text is invalid there if it is not a brace.
    """
    is_string = kind.startswith("one string")
    opening, closing = ('{"text": "', '"' + end) if is_string else ('{"items": [', "null]" + end)
    left = chars - len(opening) - len(closing)
    yield opening
    for item in _items(kind):
        left -= len(item)
        if left < 0:
            break
        yield item
    yield closing


def fragments_of(text: Iterable[str], size: int) -> Iterator[str]:
    """Yield the text in fragments of `size` characters."""
    characters = (character for piece in text for character in piece)
    while fragment := "".join(islice(characters, size)):
        yield fragment


def events_of(fragments: Iterable[str]) -> Iterator[bytes]:
    """Yield the server-sent events of a response with one call of this input, up to the last fragment."""
    yield _event({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}})
    block = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}
    yield _event({"type": "content_block_start", "index": 0, "content_block": block})
    for fragment in fragments:
        delta = {"type": "input_json_delta", "partial_json": fragment}
        yield _event({"type": "content_block_delta", "index": 0, "delta": delta})


END_OF_INPUT = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'


def chunks_of(events: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the events in chunks of `size` bytes, cut anywhere, as a connection that is never idle returns them."""
    waiting = bytearray()
    for event in events:
        waiting += event
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
    yield bytes(waiting)


def _event(event: dict[str, object]) -> bytes:
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode()
