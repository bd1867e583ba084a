"""Secrets that the rules of gitleaks find: the keys of about 200 services, by their form or by a name near them.

`rules.json` names its source and licence. `make secret-rules` generates it.

A rule is tried only near its words, and most texts have few of them. Near a word, a rule costs a bounded time for each
character, because all repetitions in it have bounds.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from .spans import SecretSpan
from .windows import WINDOW_CHARS, run_end, search
from .words import lowered

NEAR_CHARS: Final = 200
"""Maximum number of characters between a rule's word and the start of the secret's match."""

_WORD: Final = re.compile(r"[A-Za-z0-9_-]*+")
_PLAIN_WORD: Final = re.compile(r"[A-Za-z]?[a-z]*")


class Rule:
    """One rule. Its pattern is compiled when the first text has one of its words."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.id: str = fields["id"]
        self.words: list[str] = fields["words"]
        self._regex: str = fields["regex"]
        self._group: int = fields.get("group", 0)
        self._entropy: float = fields.get("entropy", 0)
        self._pattern: re.Pattern[str] | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        if self._pattern is None:
            self._pattern = re.compile(self._regex, re.ASCII)
        return self._pattern

    def place(self, found: re.Match[str]) -> tuple[int, int] | None:
        """Return the place of the secret in a match; None if it is too regular for one, or a plain word."""
        group = self._group or next((number for number, said in enumerate(found.groups(), 1) if said), 0)
        secret = found[group]
        if _PLAIN_WORD.fullmatch(secret) or entropy(secret) < self._entropy:
            return None
        return found.span(group)


def entropy(text: str) -> float:
    """Return Shannon's entropy of a text, in bits for each character."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


@cache
def rules_by_word() -> dict[str, list[Rule]]:
    """Return all rules, under each of their words."""
    by_word: dict[str, list[Rule]] = {}
    for fields in json.loads(Path(__file__).with_name("rules.json").read_bytes())["rules"]:
        rule = Rule(fields)
        for word in rule.words:
            by_word.setdefault(word, []).append(rule)
    return by_word


def by_rule(text: str, windows: Sequence[set[str]]) -> Iterator[SecretSpan]:
    """Yield the secrets that the rules find.

    Args:
        text: Of any length.
        windows: The words of the rules, and others, that start in each window of the text.
    """
    rules = rules_by_word()
    done: dict[str, int] = {}
    for start, words in zip(range(0, len(text), WINDOW_CHARS), windows, strict=True):
        known = [word for word in words if word in rules]
        window = lowered(text, start) if known else ""
        near = ((rule, places) for word in known for places in _near(window, word) for rule in rules[word])
        for rule, (first, last) in sorted(near, key=lambda pair: (pair[0].id, pair[1])):
            at = max(start + first, done.get(rule.id, 0))
            while (found := search(rule.pattern, text, at, start + last)) is not None:
                at = found.end()
                if (place := rule.place(found)) is not None:
                    end = run_end(_WORD, text, place[1])
                    at = max(at, end)
                    yield SecretSpan(place[0], end)
            done[rule.id] = max(at, start + last)


def _near(window: str, word: str) -> Iterator[tuple[int, int]]:
    """Yield the places near a word, as a few ranges. Words near each other share a range. The first may be negative."""
    at = window.find(word, 0, WINDOW_CHARS + len(word) - 1)
    while at >= 0:
        first = at - NEAR_CHARS
        while (further := window.rfind(word, at + 1, min(at + 2 * NEAR_CHARS, WINDOW_CHARS + len(word) - 1))) > 0:
            at = further
        yield first, at + len(word) + NEAR_CHARS
        at = window.find(word, at + 1, WINDOW_CHARS + len(word) - 1)
