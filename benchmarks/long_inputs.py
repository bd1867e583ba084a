"""Inputs of any length, written while they are read: the text is never held whole, so it is not in what is measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count, islice
from random import Random

LONG_KINDS = ("one string", "one string, not all Latin-1", "lines", "numbers", "records")
"""`records` are objects of six short fields, nested, as a tool of a database gets them."""

_SYLLABLES = (
    *("an", "be", "col", "der", "el", "fra", "gu", "hi", "in", "jo", "ka", "lor", "me", "nu"),
    *("ol", "pra", "qui", "ra", "se", "tor", "un", "ve", "wen", "xi", "yo", "zar", "ber", "ast"),
)


def _words(random: Random) -> str:
    """Some words, as JSON. Hardly any fragment comes twice: decoders keep short strings, and would share them."""
    words = ["".join(random.choices(_SYLLABLES, k=random.randint(1, 4))) for _ in range(12)]
    return f'{" ".join(words)}, \\"{words[0]}\\";\\n'


def _items(kind: str) -> Iterator[str]:
    """The items of the array that the input has, or the parts of its string, without end."""
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
    """The JSON text of an input in pieces, `chars` characters or a few less.

    Args:
        kind: One of `LONG_KINDS`.
        chars: Its length.
        end: Its last character; with any other than the brace that it should be, it is invalid there.
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
    """The text in fragments of `size` characters."""
    characters = (character for piece in text for character in piece)
    while fragment := "".join(islice(characters, size)):
        yield fragment


def events_of(fragments: Iterable[str]) -> Iterator[bytes]:
    """The server-sent events of a reply with one call of this input, up to the last fragment."""
    yield _event({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}})
    block = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}
    yield _event({"type": "content_block_start", "index": 0, "content_block": block})
    for fragment in fragments:
        delta = {"type": "input_json_delta", "partial_json": fragment}
        yield _event({"type": "content_block_delta", "index": 0, "delta": delta})


END_OF_INPUT = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'


def chunks_of(events: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The events in chunks of `size` bytes, cut anywhere, as a connection that is never idle hands them out."""
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
