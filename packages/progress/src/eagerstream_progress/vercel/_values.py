"""Values for the client's JSON reader: hostile values are sent as text, and deep inputs are not shown while they grow.

The `ai` package refuses a chunk that has a key `__proto__`, or `constructor` with `prototype` in it, at any place. It
also copies the message at every chunk by recursion, which fails at some thousands of levels. Either error ends the
complete stream for its reader.
"""

from __future__ import annotations

import json
import re
from typing import Final

from eagerstream import JSON
from eagerstream._support.json_values import is_deeper
from eagerstream._support.plain_json import load_json

MAX_DEPTH: Final = 512
"""Maximum depth of a value that is sent unchanged, as the default of `Limits`. The reader fails between 2,000 and
4,000.
"""

TOOL_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""The allowed form of a `toolCallId`: the API accepts no other."""

_STRUCTURE: Final = re.compile(r'[\[\]{}"\\]')


def readable(value: JSON) -> JSON:
    """Return the value, or its JSON text if the client would refuse it."""
    try:
        text = json.dumps(value, separators=(",", ":"))
    except (RecursionError, ValueError):
        return "(too deeply nested to be shown)"
    # These are keys: inside a string, the quotes have backslashes.
    is_forbidden = '"__proto__":' in text or ('"constructor":{' in text and '"prototype":' in text)
    if isinstance(value, dict | list) and text.count("[") + text.count("{") > MAX_DEPTH:
        is_forbidden = is_forbidden or is_deeper(value, MAX_DEPTH)
    return text if is_forbidden else value


def from_readable(value: JSON) -> JSON:
    """Return the original of a value from `readable`."""
    if not isinstance(value, str):
        return value
    try:
        parsed: JSON = load_json(value)
    except (ValueError, RecursionError):
        return value
    return parsed


class DepthGauge:
    """Measures the depth of a growing JSON text from its fragments."""

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = False
        self._skips_first = False  # a backslash was the last character

    def feed(self, fragment: str) -> int:
        """Return the deepest level in the fragment."""
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
