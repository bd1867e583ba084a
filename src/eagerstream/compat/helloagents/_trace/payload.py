"""Conversion of any value to JSON, within bounds and without secrets, for payloads from models and tools."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from ...._support.redaction import REDACTED, redact, redact_text
from ....tools import ToolResponse
from ....wire import JSON, encodable

MAX_TEXT_CHARS: Final = 64 * 1024
"""Maximum number of characters of one text. Of a longer one, the beginning and the number of omitted characters stay.
"""
MAX_CHARS: Final = 4 * MAX_TEXT_CHARS
"""Maximum number of characters to inspect in all texts of one payload, including keys."""
LOOK_AHEAD_CHARS: Final = 8 * 1024
"""Number of characters to inspect after the kept part of a text, because half a secret may not be recognized."""
MAX_ITEMS: Final = 1_000
"""Maximum number of items of one container."""
MAX_VALUES: Final = 10_000
"""Maximum number of values in one payload."""
MAX_DEPTH: Final = 32

_MAX_KEY_CHARS: Final = 256
_MAX_NUMBER_BITS: Final = 1024


def plain(value: Any) -> JSON:
    """Return a copy of `value` as JSON that UTF-8 can encode. Other threads may change the value meanwhile.

    Values without a JSON form become their `str`, including NaN and the infinities. A value whose `str` fails becomes
    its class in angle brackets. A container inside itself becomes `"<cycle>"`. Values beyond the bounds above are
    omitted, and the copy reports it. Tuples stay tuples, which `json.dumps` writes as lists.
    """
    copied: JSON = _Walk(masks=False).value(value, 0)
    return copied


def sanitized(value: Any) -> JSON:
    """Return a copy as `plain` does, without secrets and without user names in paths.

    Secrets are recognized as in `eagerstream._support.redaction`, by their form or by the name before them. They become
    `[redacted]`, or the same number of `*` in a text that is cut. The inspected part is bounded for values of any size.
    """
    masked: JSON = redact(_Walk(masks=True).value(value, 0))
    return masked


def dump(value: JSON) -> str:
    """Return a value of `plain` as one line, also for `str.splitlines`."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_LINE_ENDS)


_LINE_ENDS: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class _Walk:
    """Copy of one payload in progress, with the room that is left."""

    def __init__(self, *, masks: bool) -> None:
        self._masks = masks
        self._chars = MAX_CHARS
        self._values = MAX_VALUES
        self._around: set[int] = set()  # ids of the containers around the current value

    def value(self, value: Any, depth: int) -> Any:
        self._values -= 1
        try:
            if value is None or value is True or value is False:
                return value
            if isinstance(value, str):
                return self._text(str.__str__(value), MAX_TEXT_CHARS)
            if isinstance(value, int | float):
                return self._number(value)
            if isinstance(value, ToolResponse):
                value = value.to_dict()
            if isinstance(value, Mapping | list | tuple | set | frozenset):
                return self._container(value, depth)
            if isinstance(value, bytes | bytearray | memoryview):
                value = bytes(value[: 2 * MAX_TEXT_CHARS])
            return self._text(str(value), MAX_TEXT_CHARS)
        except Exception:  # `str` can run any code, and another thread may change the value
            return f"<{type(value).__name__:.80}>"

    def _text(self, text: str, max_chars: int) -> str:
        max_chars = max(0, min(max_chars, self._chars))
        left_out = len(text) - max_chars
        window = text[: max_chars + LOOK_AHEAD_CHARS] if max_chars else ""
        self._chars -= len(window)
        kept = str(encodable(_masked(window, max_chars) if self._masks else window[:max_chars]))
        return f"{kept}... ({left_out} characters left out)" if left_out > 0 else kept

    def _number(self, value: float) -> Any:
        if isinstance(value, int):
            # Python refuses to write an integer of thousands of digits, and many readers cannot parse it.
            is_long = value.bit_length() > _MAX_NUMBER_BITS
            return f"<integer of {value.bit_length()} bits>" if is_long else int.__index__(value)
        return float.__float__(value) if math.isfinite(value) else str(float.__float__(value))

    def _container(self, container: Any, depth: int) -> Any:
        if id(container) in self._around:
            return "<cycle>"
        if depth >= MAX_DEPTH:
            return "<too deep>"
        self._around.add(id(container))
        try:
            if isinstance(container, Mapping):
                return self._mapping(container, depth)
            items = [self.value(item, depth + 1) for item in self._within(container)]
            if len(container) > len(items):
                items.append(f"... ({len(container) - len(items)} items left out)")
            return tuple(items) if isinstance(container, tuple) else items
        finally:
            self._around.discard(id(container))

    def _mapping(self, mapping: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, item in self._within(mapping.items()):
            name = key if isinstance(key, str) else str(self.value(key, MAX_DEPTH))
            name = self._text(str.__str__(name), _MAX_KEY_CHARS)
            while name in copied:  # keys that are equal as texts or after the cut
                name = f"{name} ({len(copied)})"
            copied[name] = self.value(item, depth + 1)
        if len(mapping) > len(copied):
            copied["..."] = f"({len(mapping) - len(copied)} items left out)"
        return copied

    def _within(self, items: Iterable[Any]) -> Iterable[Any]:
        for item in islice(items, MAX_ITEMS):
            if self._values <= 0:
                break
            yield item


_HOMES: Final = re.compile(
    r"""
      ( / (?: Users | home ) / ) [^\s/\\"'<>:|]++
    | ( (?i: [a-z]:\\++users\\++ ) )  # several backslashes: JSON in a text
      (?: [^/\\\r\n"<>:|]{1,64}+ (?=\\) | [^\s/\\"'<>:|]++ )  # a name may have spaces if its end is visible
    """,
    re.VERBOSE,
)
_WORDS: Final = re.compile(r"(?<![A-Za-z0-9])(?:(Bearer\s++)[A-Za-z0-9._~+/=-]++|sk-[A-Za-z0-9][A-Za-z0-9_-]*+)")
"""Secrets that HelloAgents masks in any length or form, so that a trace shows no more than there."""


def without_homes(text: str) -> str:
    r"""Return `text` with `***` for the user names in paths: `/home/***/`, `/Users/***/`, `C:\Users\***\`.

    It takes time linear in the length of any text.
    """
    return _HOMES.sub(lambda found: f"{found[1] or found[2]}***", text)


def _masked(text: str, max_chars: int) -> str:
    if len(text) > max_chars:  # keep the offsets, so that no character beyond the cut moves into the kept part
        text = redact_text(text, keep_length=True)[:max_chars]
    return without_homes(_WORDS.sub(lambda found: f"{found[1] or ''}{REDACTED}", text))
