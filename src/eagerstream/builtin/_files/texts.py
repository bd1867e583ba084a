"""The text of a file as the file tools show it, page by page, and as they edit it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from .._text_files import Document

MAX_PAGE_BYTES: Final = 51_200


class NoSingleMatch(Exception):
    """What was to be replaced is not there once: `args` has the number of places."""

    @property
    def count(self) -> int:
        """In how many places it is."""
        return int(self.args[0])


def replacing(document: Document, old: str, new: str) -> Document:
    """Return the document with `new` in the one place where `old` is.

    Raises:
        NoSingleMatch: It is in none, or in more than one.
    """
    old = document.plain(old)
    count = document.count(old)
    if count != 1:
        raise NoSingleMatch(count)
    at = document.text.index(old)
    return document.replaced(at, at + len(old), new)


class Page(NamedTuple):
    """Some lines of a text.

    Attributes:
        content: Of at most `MAX_PAGE_BYTES`.
        lines: How many.
        has_more: Others follow.
        is_cut: The end of its one line is left out.
    """

    content: str
    lines: int
    has_more: bool
    is_cut: bool


def page_of(lines: Iterable[str], offset: int, limit: int) -> Page:
    """At most `limit` lines, after the first `offset`."""
    shown: list[str] = []
    room = MAX_PAGE_BYTES
    is_cut = False
    for line in islice(lines, offset, None):
        encoded = line.encode()
        if len(shown) == limit or (shown and len(encoded) > room):
            return Page("".join(shown), len(shown), has_more=True, is_cut=is_cut)
        if len(encoded) > room:
            line = encoded[:room].decode(errors="ignore")
            is_cut = True
        shown.append(line)
        room -= len(encoded)
    return Page("".join(shown), len(shown), has_more=False, is_cut=is_cut)
