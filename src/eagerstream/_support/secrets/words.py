"""Which words of the forms and rules a text has: most of them need not be tried then."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from .windows import WINDOW_CHARS

MAX_WORD_CHARS: Final = 100


class Words:
    """Words to look for, in any case; all at once, so that many cost little more than one.

    Args:
        words: In small letters.
    """

    def __init__(self, words: Iterable[str]) -> None:
        known = sorted(set(words))
        # At each place, the longest word is found; the other words there are the beginnings of it.
        self._beginnings = {word: {other for other in known if word.startswith(other)} for word in known}
        self._pattern = re.compile(f"(?=({_alternatives(known)}))")

    def windows(self, text: str) -> list[set[str]]:
        """The words that begin in each window of a text."""
        return [self._in(lowered(text, start)) for start in range(0, len(text), WINDOW_CHARS)]

    def _in(self, window: str) -> set[str]:
        found = set(self._pattern.findall(window))
        return set().union(*(self._beginnings[word] for word in found))


def lowered(text: str, start: int) -> str:
    """The window that begins at `start`, and the words that go on behind it, in small letters; each in its place."""
    # The one letter that has two in lower case would move all places behind it.
    return text[start : start + WINDOW_CHARS + MAX_WORD_CHARS].replace("\u0130", "i").lower()


def _alternatives(words: Iterable[str]) -> str:
    """An expression for any of the words, as a tree: a character is looked at once for all words that have it there."""
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for char in word:
            node = node.setdefault(char, {})
        node[""] = {}
    return _branches(tree)


def _branches(node: dict[str, Any]) -> str:
    branches = [re.escape(char) + _branches(inner) for char, inner in sorted(node.items(), reverse=True) if char]
    if "" in node:
        branches.append("")  # the last: longer words come first
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
