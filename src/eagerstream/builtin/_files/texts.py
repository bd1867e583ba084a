"""The content of a text file as a model sees it, page by page, and back to bytes after an edit."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import Final, NamedTuple, Self

MAX_PAGE_BYTES: Final = 51_200


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file. Every line of it ends with LF where every line of the file ends with CRLF.

    Attributes:
        text: Without the byte order mark.
        has_bom: The file begins with one.
        has_crlf: Its lines end with CRLF, all of them; where they differ, the text has them as they are.
    """

    text: str
    has_bom: bool
    has_crlf: bool

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """The text of a file.

        Raises:
            ValueError: It is not UTF-8, or holds NUL, which no text does.
        """
        if b"\0" in content:
            raise ValueError("it holds NUL")
        has_bom = content.startswith(codecs.BOM_UTF8)
        text = content.removeprefix(codecs.BOM_UTF8).decode()
        has_crlf = 0 < text.count("\r\n") == text.count("\n") == text.count("\r")
        return cls(text.replace("\r\n", "\n") if has_crlf else text, has_bom, has_crlf)

    def encode(self) -> bytes:
        """The file that has this text."""
        text = self.text.replace("\n", "\r\n") if self.has_crlf else self.text
        return (codecs.BOM_UTF8 if self.has_bom else b"") + text.encode()

    def replacing(self, old: str, new: str) -> Self:
        """With `new` in the one place where `old` is.

        Raises:
            NoSingleMatch: It is in none, or in more than one.
        """
        if self.has_crlf:
            old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        count = self.text.count(old)
        place = self.text.find(old)
        if count == 1 and self.text.find(old, place + 1) >= 0:
            count = 2  # they overlap: `aa` in `aaa`
        if count != 1:
            raise NoSingleMatch(count)
        text = f"{self.text[:place]}{new}{self.text[place + len(old) :]}"
        return type(self)(text, self.has_bom, self.has_crlf)

    @property
    def lines(self) -> Iterable[str]:
        """Its lines, each with the LF that ends it."""
        return StringIO(self.text, newline="\n")

    @property
    def total_lines(self) -> int:
        """How many there are; the last one need not be ended."""
        return self.text.count("\n") + (not self.text.endswith("\n") and bool(self.text))


class NoSingleMatch(Exception):
    """What was to be replaced is not there once: `args` has the number of places."""

    @property
    def count(self) -> int:
        """In how many places it is."""
        return int(self.args[0])


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
