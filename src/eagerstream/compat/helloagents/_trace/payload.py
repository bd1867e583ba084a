"""Anything as JSON, within bounds, without secrets: payloads hold what models and tools made."""

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
"""Of one text; its beginning is kept, and the number of what is left out."""
MAX_CHARS: Final = 4 * MAX_TEXT_CHARS
"""Of all texts of one payload that are looked at, keys among them."""
LOOK_AHEAD_CHARS: Final = 8 * 1024
"""So much of a text is looked at behind what is kept of it: a secret that is cut there may not be known as one."""
MAX_ITEMS: Final = 1_000
"""Of one container."""
MAX_VALUES: Final = 10_000
"""In one payload."""
MAX_DEPTH: Final = 32

_MAX_KEY_CHARS: Final = 256
_MAX_NUMBER_BITS: Final = 1024


def plain(value: Any) -> JSON:
    """A copy of `value` that is JSON, and that UTF-8 can carry. Other threads may change the value meanwhile.

    What has no JSON form becomes its `str`, NaN and the infinities too; what has no `str` either becomes its class in
    angle brackets, and a container in itself `"<cycle>"`. What lies beyond the bounds above is left out, and told so.
    Tuples stay tuples, which `json.dumps` writes as lists.
    """
    copied: JSON = _Walk(masks=False).value(value, 0)
    return copied


def sanitized(value: Any) -> JSON:
    """A copy of anything as `plain` makes it, without secrets and without names of users in paths.

    Secrets are known as in `eagerstream._support.redaction`, by their form or by the name in front of them, and become
    `[redacted]`; in a text that is cut, as many `*`. What is looked at is bounded, too, however large the value is.
    """
    masked: JSON = redact(_Walk(masks=True).value(value, 0))
    return masked


def dump(value: JSON) -> str:
    """What `plain` gave, on one line, for whatever takes a line to be: `str.splitlines`, too."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_LINE_ENDS)


_LINE_ENDS: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class _Walk:
    """One payload on its way, and the room that is left in it."""

    def __init__(self, *, masks: bool) -> None:
        self._masks = masks
        self._chars = MAX_CHARS
        self._values = MAX_VALUES
        self._around: set[int] = set()  # ids of the containers that what is looked at stands in

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
        except Exception:  # any code may run in here, and another thread may change what is read
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
            # Python writes no integer of thousands of digits, and many who read cannot take it.
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
            while name in copied:  # keys that are the same once they are texts, or once they are cut
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
    | ( (?i: [a-z]:\\++users\\++ ) )  # more backslashes than one: JSON in a text
      (?: [^/\\\r\n"<>:|]{1,64}+ (?=\\) | [^\s/\\"'<>:|]++ )  # a name may have spaces, where it is seen to end
    """,
    re.VERBOSE,
)
_WORDS: Final = re.compile(r"(?<![A-Za-z0-9])(?:(Bearer\s++)[A-Za-z0-9._~+/=-]++|sk-[A-Za-z0-9][A-Za-z0-9_-]*+)")
"""What HelloAgents masks however short or plain it is, so that no trace shows more than it did there."""


def without_homes(text: str) -> str:
    r"""`text` with `***` for the names of users in paths: `/home/***/`, `/Users/***/`, `C:\Users\***\`.

    It takes time linear in the length of the text, whoever wrote it.
    """
    return _HOMES.sub(lambda found: f"{found[1] or found[2]}***", text)


def _masked(text: str, max_chars: int) -> str:
    if len(text) > max_chars:  # offsets stay what they are: nothing moves up from where it could not be judged
        text = redact_text(text, keep_length=True)[:max_chars]
    return without_homes(_WORDS.sub(lambda found: f"{found[1] or ''}{REDACTED}", text))
