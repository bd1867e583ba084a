"""JSON with exact numbers: an integer that a double cannot hold is written as `{"$number": "digits"}`.

JavaScript, like every reader that stores numbers as doubles, reads 9007199254740993 as 9007199254740992. A person would
then approve a different number from the one that the tool gets. Each integer outside of -(2^53 - 1) to 2^53 - 1
therefore becomes an object with the single key `$number`. No other object looks like it: a data key that is `$number`,
or `$number` with more `$` in front, gets one more `$`.

Floats need no mark. Python's floats are doubles, and JSON has the shortest text that gives the same double again. An
input with a number beyond the doubles is invalid and never runs.

Large values are written in pieces. Each step is short, so a thread that writes one does not block the others.
`json.dumps` holds Python's lock until it ends: half a second for 30 million characters that are not ASCII.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from eagerstream import JSON

KEY: Final = "$number"
"""The only key of an object that represents a number."""
_MAX_SAFE: Final = 2**53 - 1
_MAX_DIGITS: Final = 4_300
"""Maximum number of digits that Python converts, see `sys.set_int_max_str_digits`."""

# The smallest integer to mark has 16 digits. Most JSON does not match, and is not searched further.
_SUSPECT: Final = re.compile(r'[0-9]{16}|"\$+number"')
_RESERVED: Final = re.compile(r"\$+number")
_DIGITS: Final = re.compile(rf"-?[1-9][0-9]{{0,{_MAX_DIGITS - 1}}}", re.ASCII)

PIECE_BYTES: Final = 65_536
"""The length of a piece, roughly."""
_TEXT_CHARS: Final = 32_768  # characters of a text to write in one step: 0.5 ms
_FEW: Final = 64  # items of a container, and of each container in it, to write in one step
_SHORT: Final = 256  # maximum length of a text among these


def dumps(value: Any) -> str:
    """Return `value` as JSON on one line, in ASCII, with marked numbers.

    Raises:
        ValueError: The value contains NaN or an infinity, which JSON does not have.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return json.dumps(_marked_copy(value), separators=(",", ":")) if _SUSPECT.search(text) else text


def marked(value: JSON) -> JSON:
    """Return `value` with marked numbers, or `value` itself if it has nothing to mark."""
    if not isinstance(value, dict | list):
        return _marked_scalar(value)
    return _marked_copy(value) if _SUSPECT.search(json.dumps(value)) else value


def unmarked(value: JSON) -> JSON:
    """Return a copy of the value before it was marked.

    Raises:
        ValueError: An object has the key `$number` but is not a number.
    """
    return _copied(value, _unmarked_number, lambda key: key[1:] if _RESERVED.fullmatch(key) else key)


def escaped_key(key: str) -> str:
    """Return a key of the data as it is written in JSON with marks."""
    return f"${key}" if _RESERVED.fullmatch(key) else key


def _marked_copy(value: JSON) -> JSON:
    return _copied(value, _marked_scalar, escaped_key)


def _marked_scalar(value: JSON) -> JSON:
    if type(value) is int and not -_MAX_SAFE <= value <= _MAX_SAFE:
        return {KEY: str(value)}
    return value


def _unmarked_number(value: JSON) -> JSON:
    if not isinstance(value, dict) or KEY not in value:
        return value
    digits = value[KEY]
    if len(value) != 1 or not isinstance(digits, str) or not _DIGITS.fullmatch(digits):
        raise ValueError(f"an object with the key {KEY} is not a number")
    return int(digits)


def _copied(value: JSON, replace: Callable[[JSON], JSON], rename: Callable[[str], str]) -> JSON:
    """Return a copy, without recursion.

    Args:
        value: The value.
        replace: Returns the replacement of an item, or the item itself.
        rename: Returns the replacement of a key, or the key itself.
    """
    root: list[Any] = [value]
    pending: list[Any] = [root]
    while pending:
        copied = pending.pop()
        for place, item in copied.items() if isinstance(copied, dict) else enumerate(copied):
            found = replace(item)
            if found is item and isinstance(item, dict):
                found = {rename(key): inner for key, inner in item.items()}
                pending.append(found)
            elif isinstance(item, list):
                found = item.copy()
                pending.append(found)
            copied[place] = found
    copy: JSON = root[0]
    return copy


# --- JSON in pieces ---------------------------------------------------------------------------------------------------


def json_pieces(value: Any) -> list[bytes]:
    """Return the text of `dumps(value)` in pieces of about `PIECE_BYTES`."""
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
    """Yield the text in short parts. A list holds the open containers: they may be deeper than Python's stack."""
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
    """Yield the parts of a value's text. A container in it is yielded in place of its own text."""
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
    """Return True if a container has few items, each short or a container of few short items. It looks no deeper."""
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
