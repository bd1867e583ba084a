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
from collections.abc import Callable, Iterator
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
_STEP_CHARS: Final = 32_768  # characters to write in one step: 0.5 ms
_ITEM_CHARS: Final = 8  # weight of an item
_CONTAINER_CHARS: Final = 128  # weight of a container: what is written in one step is not deep


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
    """Yield the parts of a value's text. A large container in it is yielded in place of its own text."""
    if _weight(value) <= _STEP_CHARS:
        yield dumps(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), _STEP_CHARS):
            yield dumps(value[start : start + _STEP_CHARS])[1:-1]
        yield '"'
    elif isinstance(value, dict):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield "," if place else ""
            yield from _parts(escaped_key(key))
            yield ":"
            yield from _nested(item)
        yield "}"
    else:
        yield from _list_parts(value)


def _list_parts(value: list[Any]) -> Iterator[str | dict[str, Any] | list[Any]]:
    """Yield the parts of a list's text: as many items together as one step may have."""
    start = chars = 0
    yield "["
    for place, item in enumerate(value):
        weight = _weight(item)
        if chars + weight > _STEP_CHARS and start < place:
            yield dumps(value[start:place])[1:-1] + ","
            start, chars = place, 0
        chars += weight
        if weight > _STEP_CHARS:
            yield from _nested(item)
            yield "," if place < len(value) - 1 else ""
            start, chars = place + 1, 0
    yield dumps(value[start:])[1:-1]
    yield "]"


def _nested(item: Any) -> Iterator[str | dict[str, Any] | list[Any]]:
    return iter((item,)) if isinstance(item, dict | list) else _parts(item)


def _weight(value: Any) -> int:
    """Return the number of characters in a value, roughly. The count stops above those of one step."""
    weight = 0
    pending = [value]
    for item in pending:
        if isinstance(item, str):
            weight += len(item)
        elif isinstance(item, dict | list):
            weight += _CONTAINER_CHARS + _ITEM_CHARS * len(item)
            if weight <= _STEP_CHARS:
                pending += item.values() if isinstance(item, dict) else item
                if isinstance(item, dict):
                    weight += sum(map(len, item))
        elif isinstance(item, int):
            weight += item.bit_length() // 3
        if weight > _STEP_CHARS:
            break
    return weight
