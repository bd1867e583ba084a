"""Rows of a terminal with the end of a text, cut to the cells that there are."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from .._support.wording import visible

CURSOR: Final = "▌"
"""Shown at the end of a text that grows."""


class Ending:
    """A row that ends with the end of a text, cut to the available cells."""

    def __init__(self, head: Text, text: str) -> None:
        self._head = head
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self._head.copy()
        line.no_wrap = True
        line.overflow = "ellipsis"
        line.append(end_of(self._text, max(1, options.max_width - line.cell_len)))
        yield line


def end_of(text: str, cells: int) -> str:
    """Return the end of a text in at most `cells` cells, with an ellipsis if a part is left out."""
    tail = visible(text[-4 * cells :])
    if len(text) <= 4 * cells and cell_len(tail) <= cells:
        return tail
    start, room = len(tail), cells - 1
    while start and (size := get_character_cell_size(tail[start - 1])) <= room:
        start -= 1
        room -= size
    while start < len(tail) and not get_character_cell_size(tail[start]):
        start += 1  # a mark that combines with a character that is left out
    return f"…{tail[start:]}"
