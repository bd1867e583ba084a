"""`SecretSpan`: the place of a secret in a text."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

REDACTED: Final = "[redacted]"
"""The text that replaces a secret."""


class SecretSpan(NamedTuple):
    """The place of a secret in a text.

    Attributes:
        start, end: Offsets, as in a slice.
        fill: The character that masks each of its characters if the length is kept: `"*"`, or `"9"` for a number in
            JSON, which then stays JSON.
    """

    start: int
    end: int
    fill: str = "*"


def merged(*ordered: Iterable[SecretSpan]) -> Iterator[SecretSpan]:
    """Yield all spans in order; none overlaps or touches another.

    Args:
        ordered: Spans, sorted by their starts. Sorting half a million of them, or collecting the garbage among them,
            would be one long step that stops all other threads.
    """
    last: SecretSpan | None = None
    for span in heapq.merge(*ordered):
        if last is None or span.start > last.end:
            if last is not None:
                yield last
            last = span
        else:
            fill = last.fill if (last.start, last.end) == (span.start, span.end) else "*"
            last = SecretSpan(last.start, max(last.end, span.end), fill)
    if last is not None:
        yield last
