"""Rows of a terminal: texts that are measured in cells."""

from __future__ import annotations

from hypothesis import given, strategies as st
from rich.cells import cell_len

from eagerstream._support.wording import visible
from eagerstream_progress._rows import end_of


@given(st.text(), st.integers(1, 40))
def test_the_end_of_a_text(text: str, cells: int) -> None:
    """Never more cells than there are; the whole text, where it fits."""
    end = end_of(text, cells)
    assert cell_len(end) <= cells
    if len(text) <= cells and cell_len(visible(text)) <= cells:
        assert end == visible(text)
