"""Words of the forms and rules that occur in a text: most forms and rules then need not be tried."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from .windows import WINDOW_CHARS

MAX_WORD_CHARS: Final = 100


class Words:
    """Finds many words at once, in any case, at little more than the cost of one.

    Args:
        words: In lower case.
    """

    def __init__(self, words: Iterable[str]) -> None:
        known = sorted(set(words))
        # At each place, the longest word is found. The other words there are its prefixes.
        self._beginnings = {word: {other for other in known if word.startswith(other)} for word in known}
        # A tree checks a character once for all words that share it.
        tree: dict[str, Any] = {}
        for word in known:
            node = tree
            for char in word:
                node = node.setdefault(char, {})
            node[""] = {}
        self._pattern = re.compile(f"(?=({_branches(tree)}))")

    def windows(self, text: str) -> list[set[str]]:
        """Return the words that start in each window of a text."""
        return [self._in(lowered(text, start)) for start in range(0, len(text), WINDOW_CHARS)]

    def _in(self, window: str) -> set[str]:
        found = set(self._pattern.findall(window))
        return set().union(*(self._beginnings[word] for word in found))


def lowered(text: str, start: int) -> str:
    """Return the window that starts at `start`, extended for words that leave it, in lower case. Offsets stay."""
    # This letter becomes two in lower case, which would move all places after it.
    return text[start : start + WINDOW_CHARS + MAX_WORD_CHARS].replace("\u0130", "i").lower()


def _branches(node: dict[str, Any]) -> str:
    """Return a pattern for the words of a tree."""
    branches = [re.escape(char) + _branches(inner) for char, inner in sorted(node.items(), reverse=True) if char]
    if "" in node:
        branches.append("")  # the last: longer words come first
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
