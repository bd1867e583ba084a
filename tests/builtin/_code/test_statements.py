"""`StatementSplitter`: the statements of Python code, however its text arrives."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest

from eagerstream.builtin._code.statements import Statement, StatementSplitter


def split(source: str, chars: int) -> list[Statement]:
    """Return the statements of a source that arrives in pieces."""
    splitter = StatementSplitter()
    found = [each for start in range(0, len(source), chars) for each in splitter.feed(source[start : start + chars])]
    return found + splitter.close()


def lines_of(source: str) -> list[tuple[int, int]]:
    """Return the first and last line of each top-level statement, as the compiler sees them."""
    found: list[tuple[int, int]] = []
    for node in ast.parse(source).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        last = node.end_lineno or first
        if found and first <= found[-1][1]:  # several statements on a line
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


MODULES = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::12]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_standard_library(path: Path) -> None:
    """The splitter finds the statements that the compiler finds."""
    source = path.read_text(encoding="utf-8")
    assert [(each.line, each.end_line) for each in split(source, 50)] == lines_of(source)
