"""Rows of a terminal: the end of a text, a growing text with the state of each line, and a growing diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from eagerstream._support.redaction import printable
from eagerstream._support.wording import clean, count_text, visible

from ._diff import CallDiff, LineChange, TextDiff
from ._lines import LineProgress, LineState, TextLines, shown_lines

CURSOR: Final = "▌"
"""Shown at the end of a text that grows."""

_MOST_LINES: Final = 14
_OUTPUT_ROWS: Final = 3
_OUTPUT_CHARS: Final = 600
_TAB: Final = 4
_MARKS: Final = {LineState.DONE: "✓", LineState.RUNNING: "▸", LineState.FAILED: "✗", LineState.WAITING: "·"}
_STYLES: Final = {
    LineState.DONE: "green",
    LineState.RUNNING: "bold magenta",
    LineState.FAILED: "bold red",
    LineState.WAITING: "dim",
}

_CHANGES: Final = {
    LineChange.SAME: (" ", ""),
    LineChange.ADDED: ("+", "green"),
    LineChange.REMOVED: ("-", "red"),
    LineChange.PENDING: ("…", "dim"),
}


class Row:
    """A row that is made for the available cells, and cut to them.

    Args:
        make: Takes the number of cells.
    """

    def __init__(self, make: Callable[[int], Text]) -> None:
        self._make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self._make(options.max_width)
        line.no_wrap = True
        line.overflow = "ellipsis"
        yield line


def ending(head: Text, text: str) -> Row:
    """Return a row that ends with the end of a text."""
    return Row(lambda cells: head.copy().append(end_of(text, max(1, cells - head.cell_len))))


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


# --- a text with line numbers -----------------------------------------------------------------------------------------


def line_rows(
    progress: LineProgress, text: str, lines: TextLines, rows: int, *, is_done: bool, is_growing: bool
) -> list[RenderableType]:
    """Return a text with the progress of its tool in at most `rows` rows.

    Below the name of the parameter are the visible lines, each with its state. Below these are the statement with the
    running calls, and the end of the output. If the rows are too few, the output goes first and the lines last.

    Args:
        progress: The progress.
        text: The parameter so far.
        lines: The lines of this text. It reads what is new.
        rows: Number of rows, at least 1.
        is_done: True if the parameter is finished.
        is_growing: True if it is still being written.
    """
    lines.read(text)
    count = lines.count - (not is_growing and text.endswith("\n"))  # at the end, nothing comes after the last line end
    output = progress.output_lines(min(_OUTPUT_ROWS, rows // 4), _OUTPUT_CHARS)
    room = min(_MOST_LINES, rows - len(output) - (rows >= 2) - (rows >= 4))
    parts: list[RenderableType] = []
    if rows >= 4:
        head = Text.assemble(("✓ ", "green") if is_done else ("… ", "cyan"), (clean(progress.parameter, 40), "bold"))
        head.append(f"  {count_text(count, 'line')}", "dim")
        parts.append(head)
    before = 0
    for shown in shown_lines(room, count, progress, is_growing=is_growing):
        if before and (hidden := shown.start - before) > 0 and room > 2:
            parts.append(Text(f"  … {count_text(hidden, 'line')}", "dim"))
        before = shown.stop
        parts += [
            Row(partial(_line, progress, text, lines, number, is_open=is_growing and number == lines.count))
            for number in shown
        ]
    if rows >= 2:
        parts.append(Text(f"{_MARKS[progress.line_state]} {progress.summary}", _STYLES[progress.line_state]))
    return parts + [ending(Text.assemble(("» ", "dim")), each) for each in output]


def diff_rows(diff: CallDiff, fields: Mapping[str, Any], rows: int, *, is_growing: bool) -> list[RenderableType]:
    """Return the newest lines of a diff in at most `rows` rows, below its file and the numbers of changed lines.

    Args:
        diff: The diff.
        fields: The input so far.
        rows: Number of rows, at least 1.
        is_growing: True if the new text is still being written.
    """
    head = Text.assemble(("± ", "cyan"), (clean(diff.path), "bold"), f"  {diff.counts}")
    if len(diff.diffs) > 1:
        head.append(f"  {count_text(len(diff.diffs), 'edit')}", "dim")
    newest, text = diff.diffs[-1], diff.new_text(fields, len(diff.diffs) - 1)
    room = min(_MOST_LINES, rows - 1, newest.count)
    first = max(1, min(newest.newest + room // 4, newest.count) - room + 1)
    return [
        head,
        *(
            Row(partial(_diff_line, newest, text, number, is_newest=is_growing and number == newest.newest))
            for number in range(first, first + room)
        ),
    ]


def _diff_line(diff: TextDiff, new: str, number: int, cells: int, *, is_newest: bool) -> Text:
    line = diff.line(new, number, 4 * cells)
    mark, style = _CHANGES[line.change]
    row = Text.assemble((f"{mark} ", style), ("" if line.number is None else f"{line.number:>4} ", style or "dim"))
    text = line.text.expandtabs(_TAB)
    row.append(end_of(text, max(1, cells - row.cell_len - 1)) if line.is_open else visible(printable(text)), style)
    if is_newest:
        row.append(CURSOR, "cyan")
    return row


def _line(progress: LineProgress, text: str, lines: TextLines, number: int, cells: int, *, is_open: bool) -> Text:
    """Return a line of the text in one row: its start, or its end while it is being written."""
    state = progress.state_of(number)
    style = _STYLES[state]
    width = max(2, len(str(lines.count)))  # the text stays in its place at the tenth line
    numbers = (f"{number:>{width}} ", "dim" if state is LineState.DONE else style)
    line = Text.assemble((f"{_MARKS[state]} ", style), numbers)
    cells = max(1, cells - line.cell_len)
    if is_open:
        start = lines.start(text, number)
        shown = end_of(text[max(start, len(text) - 4 * cells) :].expandtabs(_TAB), cells - 1)
    else:
        # Tabs first: a tab is a character, and several cells. One character more than there are cells is cut by `rich`.
        shown = visible(printable(lines.line(text, number, 4 * cells)).expandtabs(_TAB))
    line.append(shown, "dim" if state is LineState.WAITING else "")
    if is_open:
        line.append(CURSOR, "cyan")
    return line
