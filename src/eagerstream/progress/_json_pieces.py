"""JSON in pieces: no step of it is long, whatever the value, so that a thread that writes it freezes no other.

`json.dumps` holds Python's lock until it is done: for half a second with 30 million characters that are not ASCII.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ._exact import dumps, escaped_key

PIECE_BYTES: Final = 65_536
"""The length of a piece, roughly."""
_TEXT_CHARS: Final = 32_768  # of a text that are written in one step: half a millisecond
_FEW: Final = 64  # items of a container, and of each one within it, that are written in one step
_SHORT: Final = 256  # characters of a text among these


def json_pieces(value: Any) -> list[bytes]:
    """Return the text of `exact.dumps(value)` in pieces of about `PIECE_BYTES`."""
    pieces: list[bytes] = []
    waiting: list[str] = []
    chars = 0
    for text in _texts(value):
        waiting.append(text)
        chars += len(text)
        if chars >= PIECE_BYTES:
            pieces.append("".join(waiting).encode("ascii"))
            waiting.clear()
            chars = 0
    return [*pieces, "".join(waiting).encode("ascii")] if waiting else pieces


def _texts(value: Any) -> Iterator[str]:
    """The text in short parts. Values may be deeper than Python's stack: what is open stands in a list."""
    opened = [_parts(value)]
    while opened:
        part = next(opened[-1], None)
        if part is None:
            opened.pop()
        elif isinstance(part, str):
            yield part
        else:
            opened.append(_parts(part))


def _parts(value: Any) -> Iterator[str | dict[str, Any] | list[Any]]:
    """Parts of the text of a value, and the containers in it whose text stands there."""
    if isinstance(value, str) and len(value) > _TEXT_CHARS:
        yield '"'
        for start in range(0, len(value), _TEXT_CHARS):
            yield dumps(value[start : start + _TEXT_CHARS])[1:-1]
        yield '"'
    elif isinstance(value, dict) and not _is_small(value):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield "," if place else ""
            yield from _parts(escaped_key(key))
            yield ":"
            yield from _nested(item)
        yield "}"
    elif isinstance(value, list) and not _is_small(value):
        yield "["
        for start in range(0, len(value), _FEW):
            yield "," if start else ""
            few = value[start : start + _FEW]
            if _is_small(few):
                yield dumps(few)[1:-1]
                continue
            for place, item in enumerate(few):
                yield "," if place else ""
                yield from _nested(item)
        yield "]"
    else:
        yield dumps(value)


def _nested(item: Any) -> Iterator[str | dict[str, Any] | list[Any]]:
    return iter((item,)) if isinstance(item, dict | list) else _parts(item)


def _is_small(value: dict[str, Any] | list[Any]) -> bool:
    """A container of few items, each of them short or a container of few short items. It looks no deeper than that."""
    return (
        len(value) <= _FEW
        and all(map(_is_short, _inside(value)))
        and all(
            len(item) <= _FEW
            and all(_is_short(inner) and not isinstance(inner, dict | list) for inner in _inside(item))
            for item in _items(value)
            if isinstance(item, dict | list)
        )
    )


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _inside(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
    yield from _items(value)


def _is_short(item: Any) -> bool:
    return not isinstance(item, str) or len(item) <= _SHORT
