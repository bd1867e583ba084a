"""Inspect a peer's text or JSON only up to a bound, before slower code does, and shorten it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_SCHEMA_CHARS: Final = 100_000
MAX_SCHEMA_DEPTH: Final = 64


class TooMuchError(ValueError):
    """A value that is larger or deeper than the bound. The text says which."""


def head(text: str, max_chars: int) -> str:
    """Return the part of a text that is inspected: its first `max_chars` characters."""
    return text if len(text) <= max_chars else text[:max_chars]


def without_middle(text: str, max_chars: int) -> str:
    """Return `text`. If it is longer than `max_chars`, the number of omitted characters replaces its middle."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    end = text[len(text) - half :]
    return f"{text[:half]}... ({len(text) - 2 * half} characters left out) ...{end}"


def check_size(value: Any, *, max_chars: int, max_depth: int) -> int:
    """Return the size of a JSON value. Count without recursion, and stop at the bound.

    Each value counts as one character. Texts and keys also count by their length, and containers by their number of
    items. The count is at most the length of the JSON text. The time is linear in the bound, whatever the value.

    Raises:
        TooMuchError: The value has more characters, or more nested containers.
    """
    left = max_chars
    pending: list[tuple[Any, int]] = [(value, 1)]
    while pending:
        item, depth = pending.pop()
        left -= 1 + (len(item) if isinstance(item, str | Mapping | list | tuple) else 0)
        if left < 0:
            raise TooMuchError(f"it has more than {max_chars:,} characters")
        if isinstance(item, Mapping):
            left -= sum(len(key) for key in item if isinstance(key, str))
            inner: Any = item.values()
        elif isinstance(item, list | tuple):
            inner = item
        else:
            continue
        if depth > max_depth:
            raise TooMuchError(f"it has more than {max_depth} containers inside one another")
        pending.extend((part, depth + 1) for part in inner)
    return max_chars - left
