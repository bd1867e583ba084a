"""Check that the project is written in plain English: `python -m tests.plain_english`, a part of `make check`.

It reads every docstring and comment of the library, its examples and its benchmarks, and every page of Markdown. It prints each
fault as `path:line: fault`, and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Final

from tests.prose import sentences

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = [
    path
    for folder in (ROOT / "src", *sorted(ROOT.glob("packages/*/src")), ROOT / "examples", ROOT / "benchmarks")
    for path in sorted(folder.rglob("*.py"))
]
PAGES: Final = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

SENTENCE_WORDS: Final = 40
MEAN_WORDS: Final = 19
"""Mean length of the sentences of a page."""

CLAUSES: Final = ("how", "if", "what", "when", "where", "whether", "which", "who", "whose")
"""First words that start a clause. A docstring starts with a verb or a noun."""

RATES: Final = {"where": 2.0, "what": 3.0}
"""Occurrences per 1,000 words of all docstrings, at most. Both words are good English, but not in each sentence."""

IDIOMS: Final = {
    r"as it were": "leave it out",
    r"as such": "leave it out",
    r"(?:is|are) to be": "must be",
    r"in vain": "without effect",
    r"lest": "so that ... not",
    r"none other": "no other",
    r"of (?:its|their) own accord": "by itself",
    r"so that nothing": "state the condition",
    r"(?:tells?|told) of": "report, log",
    r"(?:go|goes|gone|going|went) on from": "continue",
    r"where there (?:is|are)": "if there is",
    r"(?:there|here)(?:of|in|upon)": "name the thing",
    r"who(?:so)?ever": "name the person",
}
"""Phrases that are old, local or a detour, as patterns, and better words."""

_IDIOM: Final = re.compile(rf"\b(?:{'|'.join(f'({idiom})' for idiom in IDIOMS)})\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z']+")


@dataclass(frozen=True)
class Text:
    """A docstring, or a comment.

    Attributes:
        line: Its first line in the file, counted from 1.
    """

    content: str
    line: int


def docstrings(source: str) -> Iterator[Text]:
    """Return the docstrings of a module: its own, and those of its classes, functions, attributes and constants."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        documented = (after for before, after in pairwise(node.body) if isinstance(before, ast.Assign | ast.AnnAssign))
        for statement in (*node.body[:1], *documented):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                content = statement.value.value
                if isinstance(content, str):
                    yield Text(content, statement.lineno)


def comments(source: str) -> Iterator[Text]:
    """Return the comments of a module. Consecutive lines of comment are one text."""
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if lines and token.start[0] != last + 1:
            yield Text(" ".join(lines), last - len(lines) + 1)
            lines = []
        lines.append(token.string.lstrip("# "))
        last = token.start[0]
    if lines:
        yield Text(" ".join(lines), last - len(lines) + 1)


def faults_of_texts(texts: Iterable[Text]) -> Iterator[tuple[int, str]]:
    """Find idioms. A phrase may be broken over two lines."""
    for text in texts:
        for found in _IDIOM.finditer(" ".join(text.content.split())):
            better = list(IDIOMS.values())[found.lastindex - 1] if found.lastindex else ""
            yield text.line, f'"{found[0]}": {better}'


def faults_of_source(source: str) -> Iterator[tuple[int, str]]:
    """Find docstrings that start with a clause, and idioms in docstrings and comments."""
    documented = list(docstrings(source))
    for text in documented:
        first = _WORD.search(text.content)
        if first and first[0].lower() in CLAUSES:
            yield text.line, f'docstring starts with "{first[0]}": start with a verb or a noun'
    yield from faults_of_texts([*documented, *comments(source)])


def faults_of_page(page: Path) -> Iterator[tuple[int, str]]:
    """Find idioms and long sentences in a page of Markdown."""
    lines = page.read_text(encoding="utf-8").splitlines()
    yield from faults_of_texts(Text(line, number) for number, line in enumerate(lines, 1))
    found = sentences(page)
    for sentence in found:
        if sentence.words > SENTENCE_WORDS:
            yield 1, f"a sentence has {sentence.words} words, at most {SENTENCE_WORDS}: {sentence.text}"
    if found and (words := mean(sentence.words for sentence in found)) > MEAN_WORDS:
        yield 1, f"the sentences have {words:.1f} words on average, at most {MEAN_WORDS}"


def faults_of_rates(texts: Iterable[Text]) -> Iterator[str]:
    """Find words that all docstrings together use too often."""
    words = [word.lower() for text in texts for word in _WORD.findall(text.content)]
    for word, most in RATES.items():
        rate = 1000 * words.count(word) / len(words)
        if rate > most:
            yield f'"{word}" appears {rate:.1f} times per 1,000 words of docstrings, at most {most:g}'


def main() -> int:
    """Print the faults of the project. Return the exit code."""
    sources = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    found = [
        *((path, *fault) for path, source in sources.items() for fault in faults_of_source(source)),
        *((path, *fault) for path in PAGES for fault in faults_of_page(path)),
    ]
    faults = [f"{path.relative_to(ROOT)}:{line}: {fault}" for path, line, fault in found]
    faults += faults_of_rates(text for source in sources.values() for text in docstrings(source))
    print("\n".join([*faults, f"plain English: {len(faults)} faults in {len(sources)} modules and {len(PAGES)} pages"]))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
