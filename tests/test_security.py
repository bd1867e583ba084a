"""SECURITY.md names a test for each promise: they are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_NAMED = sorted(
    set(re.findall(r"`(tests/[\w/.]+\.py(?:::\w+)?)`", (_ROOT / "SECURITY.md").read_text(encoding="utf-8")))
)


@pytest.mark.parametrize("named", _NAMED)
def test_the_tests_are_there(named: str) -> None:
    """A promise whose test has gone, or has another name, is no promise."""
    path, _, function = named.partition("::")
    tree = ast.parse((_ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert function in functions if function else any(name.startswith("test_") for name in functions)


def test_there_are_some() -> None:
    """The pattern above finds what the page names."""
    assert len(_NAMED) > 20
