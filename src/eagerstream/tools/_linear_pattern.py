r"""Which patterns of others Python's `re` matches in linear time; all others are not matched at all.

`re` backtracks: `^(a+)+$` takes 2^n steps on n characters, and `a*a*b` takes n^2. No time limit can stop it. So a
pattern is only used if it has a form in which a character can hardly be taken in two ways. A linear engine (google-re2)
would match more of them, but it is a compiled package with a dialect of its own, and is not there for every platform.
The patterns that are left out here are checked by the tool itself.

A pattern is a sequence of single characters, escapes, classes and `.`, each with or without a quantifier. It may
begin with `^` and end with `$`, and may have alternatives: `a|b`, or `^(a|b)$`. There are no other groups, no
references, no lookaround and no flags. An item that takes a variable number of characters must end where the next item
begins, as in `^[a-z]+-[0-9]+$`. Only the last of them need not, if a few characters follow, as in `^.*\.txt$`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

MAX_PATTERN_CHARS: Final = 500
MAX_LOOKS: Final = 16
"""How often a pattern may look at each character of a text. 16 times take up to 1 microsecond."""

_ESCAPE: Final = r"\\(?:[dDwWsStnrfv]|[^a-zA-Z0-9])"
_ITEM: Final = re.compile(
    rf"(?P<atom>{_ESCAPE}|\[\^?(?:{_ESCAPE}|[^\\\[\]])+\]|[^\\^$|?*+()\[\]{{}}])"
    r"(?:(?P<mark>[?*+])|\{(?P<min>[0-9]{1,3})(?P<upto>,(?P<max>[0-9]{0,3}))?\})?"
)
_QUANTIFIERS: Final = {"?": (0, 1), "*": (0, inf), "+": (1, inf)}
_WRAPPED: Final = re.compile(r"\^\((?:\?:)?([^()]*)\)\$")
_SET_OPERATIONS: Final = ("--", "&&", "~~", "||")  # Python warns that it may read them otherwise one day
_ASCII: Final = "".join(map(chr, range(128)))


class _Item(NamedTuple):
    """One character or more of a pattern, of one set of characters."""

    atom: str
    min: int
    max: float  # infinity if there is no bound


def linear(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern that `search` matches in linear time; None for one of another form or dialect."""
    if len(pattern) > MAX_PATTERN_CHARS or any(marks in pattern for marks in _SET_OPERATIONS):
        return None
    wrapped = _WRAPPED.fullmatch(pattern)
    # A `|` in a class or behind a backslash leaves parts that are of no allowed form.
    alternatives = [f"^{part}$" for part in wrapped[1].split("|")] if wrapped else pattern.split("|")
    try:
        looks = [_looks(alternative) for alternative in alternatives]
        return re.compile(pattern) if sum(looks) <= MAX_LOOKS else None
    except (re.error, OverflowError):  # a range that ends before it begins, for example
        return None


def _looks(alternative: str) -> float:
    """How often `re` looks at each character of a text, at most; infinity for what is of no allowed form."""
    is_anchored, ends = alternative.startswith("^"), alternative.endswith("$")
    items = _items(alternative[is_anchored : len(alternative) - ends])
    if items is None:
        return inf
    again = 0.0  # the characters behind an item, each time that it gives one back
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
    """The items of a pattern; None if it has something else."""
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
    """No character that an item takes could be taken by what may follow it."""
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
    """The ASCII characters that an atom takes, and whether it may take others."""
    is_plain = atom.isascii() and not atom.startswith("[^") and not re.search(r"\\[dDwWsS]", atom) and atom != "."
    return frozenset(re.findall(atom, _ASCII)), not is_plain
