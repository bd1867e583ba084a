r"""Selection of the foreign patterns that Python's `re` matches in linear time. All others are not matched at all.

`re` backtracks: `^(a+)+$` takes 2^n steps on n characters, and `a*a*b` takes n^2. No time limit can stop it. Therefore
a pattern is only used if its form hardly lets a character match in two ways. A linear engine (google-re2) would match
more patterns, but it is a compiled package with its own dialect, and is missing on some platforms. The tool itself must
check the patterns that are skipped here.

A pattern is a sequence of single characters, escapes, classes and `.`, each with or without a quantifier. It may
start with `^` and end with `$`, and may have alternatives: `a|b`, or `^(a|b)$`. There are no other groups, no
references, no lookaround and no flags. An item that takes a variable number of characters must end at the start of the
next item, as in `^[a-z]+-[0-9]+$`. Only the last of them need not, if a few characters follow, as in `^.*\.txt$`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

MAX_PATTERN_CHARS: Final = 500
MAX_LOOKS: Final = 16
"""Maximum number of times that a pattern may read each character of a text. 16 times take up to 1 microsecond."""

_ESCAPE: Final = r"\\(?:[dDwWsStnrfv]|[^a-zA-Z0-9])"
_ITEM: Final = re.compile(
    rf"(?P<atom>{_ESCAPE}|\[\^?(?:{_ESCAPE}|[^\\\[\]])+\]|[^\\^$|?*+()\[\]{{}}])"
    r"(?:(?P<mark>[?*+])|\{(?P<min>[0-9]{1,3})(?P<upto>,(?P<max>[0-9]{0,3}))?\})?"
)
_QUANTIFIERS: Final = {"?": (0, 1), "*": (0, inf), "+": (1, inf)}
_WRAPPED: Final = re.compile(r"\^\((?:\?:)?([^()]*)\)\$")
_SET_OPERATIONS: Final = ("--", "&&", "~~", "||")  # Python warns that it may interpret them differently in future
_ASCII: Final = "".join(map(chr, range(128)))


class _Item(NamedTuple):
    """One or more characters of a pattern, from one set of characters."""

    atom: str
    min: int
    max: float  # infinity if there is no bound


def linear(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern that `search` matches in linear time; None for one of another form or dialect."""
    if len(pattern) > MAX_PATTERN_CHARS or any(marks in pattern for marks in _SET_OPERATIONS):
        return None
    wrapped = _WRAPPED.fullmatch(pattern)
    # A `|` in a class or after a backslash leaves parts without an allowed form.
    alternatives = [f"^{part}$" for part in wrapped[1].split("|")] if wrapped else pattern.split("|")
    try:
        looks = [_looks(alternative) for alternative in alternatives]
        return re.compile(pattern) if sum(looks) <= MAX_LOOKS else None
    except (re.error, OverflowError):  # for example a range that ends before its start
        return None


def _looks(alternative: str) -> float:
    """Return the maximum number of times that `re` reads each character; infinity for a form that is not allowed."""
    is_anchored, ends = alternative.startswith("^"), alternative.endswith("$")
    items = _items(alternative[is_anchored : len(alternative) - ends])
    if items is None:
        return inf
    again = 0.0  # the characters after an item, each time that it gives one back
    variable = [at for at, item in enumerate(items) if item.min != item.max]
    for at in variable:
        if not _ends_at_next(items, at):
            again += sum(item.min for item in items[at + 1 :]) if at == variable[-1] else inf
    if is_anchored:
        return 1 + again
    # It is tried from each character on. With an endless item at the end, nothing can fail any more.
    if items and items[-1].max == inf and not ends:
        items[-1] = items[-1]._replace(max=items[-1].min)
    return sum(item.max for item in items) * (1 + again)


def _items(text: str) -> list[_Item] | None:
    """Return the items of a pattern; None if it contains anything else."""
    items: list[_Item] = []
    at = 0
    while at < len(text):
        if (matched := _ITEM.match(text, at)) is None:
            return None
        at = matched.end()
        low, high = _QUANTIFIERS.get(matched["mark"], (1, 1))
        if matched["min"]:
            low = high = int(matched["min"])
            if matched["upto"]:
                high = int(matched["max"] or 0) or inf
        items.append(_Item(matched["atom"], low, high))
    return items


def _ends_at_next(items: list[_Item], at: int) -> bool:
    """Return True if no character that an item takes could be taken by the items that may follow it."""
    for following in items[at + 1 :]:
        if not _are_disjoint(items[at].atom, following.atom):
            return False
        if following.min > 0:
            return True
    return True


def _are_disjoint(one: str, other: str) -> bool:
    characters, more = _characters(one)
    other_characters, other_more = _characters(other)
    return not (more and other_more) and not characters & other_characters


@lru_cache(maxsize=1024)
def _characters(atom: str) -> tuple[frozenset[str], bool]:
    """Return the ASCII characters that an atom takes, and True if it may take others."""
    is_plain = atom.isascii() and not atom.startswith("[^") and not re.search(r"\\[dDwWsS]", atom) and atom != "."
    return frozenset(re.findall(atom, _ASCII)), not is_plain
