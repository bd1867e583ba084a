"""Search a long text in windows, so no call of `re` takes long.

Python switches threads between its own steps only. A regular expression that is searched in a megabyte is one step: all
other threads, and so the event loop, stop until it returns. A window takes less than a millisecond.

The result is the same as without windows if no match depends on more than `AHEAD_CHARS` characters from its start. Each
match sees at least that many after its window. Tests check all patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

WINDOW_CHARS: Final = 32_768
AHEAD_CHARS: Final = 8_192


def matches(pattern: re.Pattern[str], text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
    """Yield the matches that start between two places, in order; none overlaps another."""
    end = len(text) if end is None else min(end, len(text))
    at = start
    while at < end:
        until = min(at + WINDOW_CHARS, end)
        seen = until + AHEAD_CHARS
        for found in pattern.finditer(text, at, seen):
            if found.start() >= until:
                break
            yield found
            at = found.end()
        at = max(at, until)


def search(pattern: re.Pattern[str], text: str, start: int, end: int | None = None) -> re.Match[str] | None:
    """Return the first match that starts between two places."""
    end = len(text) if end is None else min(end, len(text))
    for at in range(start, end, WINDOW_CHARS):
        until = min(at + WINDOW_CHARS, end)
        found = pattern.search(text, at, until + AHEAD_CHARS)
        if found is not None and found.start() < until:
            return found
    return None


def run_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Return the end of a run of characters that starts at `start`.

    Args:
        pattern: Pattern of the run. It takes the characters one by one, and looks at most at the one after each.
        text: Of any length.
        start: The first character of the run, if there is one.
    """
    at = start
    while (found := pattern.match(text, at, at + WINDOW_CHARS)) is not None and found.end() == at + WINDOW_CHARS:
        at = found.end() - 1  # the last one saw nothing after it
    return at if found is None else found.end()
