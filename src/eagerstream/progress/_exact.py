"""JSON whose numbers no reader rounds: an integer that a double cannot hold is written as `{"$number": "digits"}`.

JavaScript, and every other reader that keeps numbers as doubles, reads 9007199254740993 as 9007199254740992. A person
would then approve another number than the tool gets. So each integer outside of -(2^53 - 1) to 2^53 - 1 becomes an
object with the one key `$number`. Nothing else can be such an object: a key of the data that is `$number` itself, or
`$number` with more `$` in front of it, gets one `$` more.

Floats need no mark. Python's own are doubles, JSON has the shortest text that leads back to each, and an input with a
number beyond them is invalid and never runs.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ..wire import JSON

KEY: Final = "$number"
"""The only key of an object that stands for a number."""
_MAX_SAFE: Final = 2**53 - 1
_MAX_DIGITS: Final = 4_300
"""Python converts no longer ones; see `sys.set_int_max_str_digits`."""

# The smallest integer to be marked has 16 digits. Most JSON has nothing like it, and is not walked through.
_SUSPECT: Final = re.compile(r'[0-9]{16}|"\$+number"')
_RESERVED: Final = re.compile(r"\$+number")
_DIGITS: Final = re.compile(rf"-?[1-9][0-9]{{0,{_MAX_DIGITS - 1}}}", re.ASCII)


def dumps(value: Any) -> str:
    """Return `value` as JSON on one line, in ASCII, with its numbers marked.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return json.dumps(_marked_copy(value), separators=(",", ":")) if _SUSPECT.search(text) else text


def marked(value: JSON) -> JSON:
    """Return `value` with its numbers marked; `value` itself if there is nothing to mark."""
    if not isinstance(value, dict | list):
        return _marked_scalar(value)
    return _marked_copy(value) if _SUSPECT.search(json.dumps(value)) else value


def unmarked(value: JSON) -> JSON:
    """Return the value that was marked, as a copy.

    Raises:
        ValueError: An object has the key `$number` and is no number.
    """
    root: list[Any] = [value]
    pending: list[Any] = [root]
    while pending:
        copied = pending.pop()
        for place, item in copied.items() if isinstance(copied, dict) else enumerate(copied):
            if isinstance(item, dict) and KEY in item:
                copied[place] = _number(item)
            elif isinstance(item, dict):
                copied[place] = {key[1:] if _RESERVED.fullmatch(key) else key: inner for key, inner in item.items()}
                pending.append(copied[place])
            elif isinstance(item, list):
                copied[place] = item.copy()
                pending.append(copied[place])
    copy: JSON = root[0]
    return copy


def escaped_key(key: str) -> str:
    """Return a key of the data as it stands in JSON with marks."""
    return f"${key}" if _RESERVED.fullmatch(key) else key


def may_be_marked(text: str | bytes) -> bool:
    """Return True if there may be marks in JSON text."""
    return b'number"' in text if isinstance(text, bytes) else 'number"' in text


def _marked_scalar(value: JSON) -> JSON:
    if type(value) is int and not -_MAX_SAFE <= value <= _MAX_SAFE:
        return {KEY: str(value)}
    return value


def _marked_copy(value: JSON) -> JSON:
    root: list[Any] = [value]
    pending: list[Any] = [root]
    while pending:
        copied = pending.pop()
        for place, item in copied.items() if isinstance(copied, dict) else enumerate(copied):
            if isinstance(item, dict):
                copied[place] = {escaped_key(key): inner for key, inner in item.items()}
                pending.append(copied[place])
            elif isinstance(item, list):
                copied[place] = item.copy()
                pending.append(copied[place])
            else:
                copied[place] = _marked_scalar(item)
    copy: JSON = root[0]
    return copy


def _number(marker: dict[str, Any]) -> int:
    digits = marker[KEY]
    if len(marker) != 1 or not isinstance(digits, str) or not _DIGITS.fullmatch(digits):
        raise ValueError(f"an object with the key {KEY} is no number")
    return int(digits)
