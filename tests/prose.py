"""The prose of a Markdown page, sentence by sentence, and its headings: pages are read by people in a hurry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_PROSE = re.compile(
    r"<!-- (?:bench: \w+|fault matrix) -->.*?<!-- -->|<!--.*?-->|^(```+).*?^\1$", re.DOTALL | re.MULTILINE
)
_TAG = re.compile(r"<[^>]+>")
_LINK = re.compile(r"!?\[((?:[^\]\[]|\[[^\]]*\])*)\](?:\([^)]*\)|\[[^\]]*\])")
_DEFINITION = re.compile(r"^\[[^\]]+\]: \S+$")
_CODE = re.compile(r"``?[^`]+``?")
_END = re.compile(r"""(?<=[.!?])["')*_]*\s+(?=["'(*_]*[A-Z0-9`])""")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


@dataclass(frozen=True)
class Sentence:
    """A sentence, and how many words it has. A piece of code is one word, whatever it is."""

    text: str
    words: int


def sentences(page: Path) -> list[Sentence]:
    """The sentences of the paragraphs and lists of a page. Headings, tables, code and generated sections are left out."""
    return [
        Sentence(text, words)
        for paragraph in _paragraphs(_NO_PROSE.sub("\n", page.read_text(encoding="utf-8")))
        for text in _END.split(paragraph)
        if (words := len(re.findall(r"[\w`][^\s]*", text))) > 2
    ]


def _paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_other = line.lstrip().startswith(("#", "|", ":::", "```")) or _DEFINITION.match(line)
        if not line.strip() or is_other or _ITEM.match(line):
            if lines:
                yield _plain(" ".join(lines))
            lines = []
        if line.strip() and not is_other:
            lines.append(_ITEM.sub("", line).strip())


def _plain(text: str) -> str:
    """Without markup: a link is its text, code is one word."""
    text = _LINK.sub(lambda link: link[1], text)
    return _TAG.sub("", _CODE.sub("`code`", text)).strip()


def headings(page: Path) -> set[str]:
    """The anchors of a page, as Sphinx and GitHub make them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
