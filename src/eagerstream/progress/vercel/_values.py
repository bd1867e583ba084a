"""What the client's own JSON reader takes: hostile values are sent as text, and deep inputs are not shown growing.

The `ai` package refuses a whole chunk that has a key `__proto__`, or `constructor` with `prototype` in it, at any
place; and it copies the message at every chunk by recursion, which ends at some thousands of levels. Either ends the
stream for its reader, however sound the rest of it is.
"""

from __future__ import annotations

import json
import re
from typing import Final

from ..._support.plain_json import load_json
from ...wire import JSON, is_deeper

MAX_DEPTH: Final = 512
"""Levels of a value that are sent as such; as the default of `Limits`. The reader fails between 2,000 and 4,000."""

TOOL_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""What may be a `toolCallId`: the API takes no other back."""

_STRUCTURE: Final = re.compile(r'[\[\]{}"\\]')


def readable(value: JSON) -> JSON:
    """The value, or where the client would refuse it, its JSON text."""
    try:
        text = json.dumps(value, separators=(",", ":"))
    except (RecursionError, ValueError):
        return "(too deeply nested to be shown)"
    # These are keys: inside of a string the quotes have backslashes.
    is_forbidden = '"__proto__":' in text or ('"constructor":{' in text and '"prototype":' in text)
    if isinstance(value, dict | list) and text.count("[") + text.count("{") > MAX_DEPTH:
        is_forbidden = is_forbidden or is_deeper(value, MAX_DEPTH)
    return text if is_forbidden else value


def from_readable(value: JSON) -> JSON:
    """The value that `readable` was given, where its text holds one."""
    if not isinstance(value, str):
        return value
    try:
        parsed: JSON = load_json(value)
    except (ValueError, RecursionError):
        return value
    return parsed


class DepthGauge:
    """How deep a growing JSON text is nested; fed with its fragments."""

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = False
        self._skips_first = False  # a backslash was the last character

    def feed(self, fragment: str) -> int:
        """The deepest level within the fragment."""
        deepest = self.depth
        skip = 1 if self._skips_first and fragment else 0
        if fragment:
            self._skips_first = False
        for found in _STRUCTURE.finditer(fragment):
            at, character = found.start(), found[0]
            if at < skip:
                continue
            if character == "\\":
                if self._in_string:
                    skip = at + 2
                    self._skips_first = skip > len(fragment)
            elif character == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self.depth += 1 if character in "[{" else -1
                deepest = max(deepest, self.depth)
        return deepest
