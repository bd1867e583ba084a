"""A growing text with its line numbers and the state of each line, as rows of a terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from .._support.redaction import printable
from .._support.wording import clean, count_text, visible
from ._endings import CURSOR, Ending, end_of
from ._lines import LineProgress, LineState, TextLines, shown_lines

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
        parts += [_Line(progress, text, lines, number, is_growing=is_growing) for number in shown]
    if rows >= 2:
        parts.append(Text(f"{_MARKS[progress.line_state]} {progress.summary}", _STYLES[progress.line_state]))
    return parts + [Ending(Text.assemble(("» ", "dim")), each) for each in output]


class _Line:
    """A line of the text in one row: its start, or its end while it is being written."""

    def __init__(self, progress: LineProgress, text: str, lines: TextLines, number: int, *, is_growing: bool) -> None:
        self._state = progress.state_of(number)
        self._text = text
        self._lines = lines
        self._number = number
        self._is_open = is_growing and number == lines.count

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style = _STYLES[self._state]
        width = max(2, len(str(self._lines.count)))  # the text stays in its place at the tenth line
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{_MARKS[self._state]} ", style)
        line.append(f"{self._number:>{width}} ", "dim" if self._state is LineState.DONE else style)
        cells = max(1, options.max_width - line.cell_len)
        shown = self._open(cells) if self._is_open else self._finished(cells)
        line.append(shown, "dim" if self._state is LineState.WAITING else "")
        if self._is_open:
            line.append(CURSOR, "cyan")
        yield line

    def _finished(self, cells: int) -> str:
        # Tabs first: a tab is a character, and several cells. One character more than there are cells is cut by `rich`.
        return visible(printable(self._lines.line(self._text, self._number, 4 * cells)).expandtabs(_TAB))

    def _open(self, cells: int) -> str:
        start = self._lines.start(self._text, self._number)
        shown = self._text[max(start, len(self._text) - 4 * cells) :].expandtabs(_TAB)
        return end_of(shown, cells - 1)
