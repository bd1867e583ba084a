"""Short visible texts: bounded, whatever is in them."""

from __future__ import annotations

from typing import Any

from eagerstream._support.wording import duration_text, size_text, value_text, visible
from tests.tables import rows


def test_a_value_on_one_line_is_bounded() -> None:
    """Whatever is in it: much, deep, long."""
    deep: Any = "x" * 10_000
    for _ in range(600):
        deep = {"a": [deep] * 9, "b" * 500: deep}
    assert len(value_text(deep)) < 20_000
    assert value_text({"a": None, "b": [True, 1.5, "t"]}) == "a: null, b: [true, 1.5, “t”]"
    assert value_text([1, 2, 3, 4, 5]) == "[…, 2, 3, 4, 5]"
    assert value_text(10**5000) == "a number of more than 30 digits"


@rows(
    "size, text", [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_960, "100 kB"), (16e6, "16.0 MB"), (2e9, "2.0 GB")]
)
def test_sizes(size: float, text: str) -> None:
    """Short, and never four digits."""
    assert size_text(size) == text


@rows("seconds, text", [(0.04, "0.0 s"), (9, "9 s"), (12.7, "12 s"), (60, "1 min 00 s"), (7325, "2 h 02 min")])
def test_durations(seconds: float, text: str) -> None:
    """Tenths only where they matter."""
    assert duration_text(seconds) == text


def test_visible_leaves_ordinary_text_alone() -> None:
    """Text in any script is itself."""
    assert visible("Lisboa, 東京, 😀") == "Lisboa, 東京, 😀"
    assert visible("one\ntwo\tthree") == "one two three"
