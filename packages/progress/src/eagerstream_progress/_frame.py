"""Runs as rows of a terminal, no more than it has.

Text of a model is shown as plain text: without markup and control characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from rich.cells import get_character_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import ControlType, Segment
from rich.text import Text

from eagerstream._support.redaction import printable
from eagerstream._support.wording import clean, count_text, duration_text, usage_texts

from ._panels import calls_in_rows, more, shares
from ._view import RunView, TextView, quiet_text, thinking_text

_TEXT_ROWS: Final = 6
_FINAL_ROWS: Final = 200


class RunState(NamedTuple):
    """The state of a run to show, and its elapsed time."""

    view: RunView
    elapsed_s: float


class Frame:
    """A renderable for `rich` that shows runs. It is never higher than the terminal, and is drawn again at each print.

    Args:
        states: Returns the current states. The first run is the main one; the others are shown below it.

    Attributes:
        is_final: True after the end: every call is one line, and the terminal no longer limits the height.
        lines: The last drawn lines, as plain text.
        times_drawn: Number of times it was drawn.
    """

    def __init__(self, states: Callable[[], Sequence[RunState]]) -> None:
        self._states = states
        self.is_final = False
        self.lines: list[str] = []
        self.times_drawn = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = _FINAL_ROWS if self.is_final else max(1, options.size.height)
        # Without a fixed height: the parts have their own.
        options = options.update(height=None, no_wrap=True, overflow="ellipsis")
        group = Group(*_runs(self._states(), rows, options.max_width, console, is_final=self.is_final))
        encoding = console.encoding
        lines = [
            [
                Segment(text.encode(encoding, "replace").decode(encoding), style)
                for text, style, control in line
                if not control
            ]
            for line in console.render_lines(group, options, pad=False)[:rows]
        ]
        self.times_drawn += 1
        self.lines = ["".join(segment.text for segment in line) for line in lines]
        # Terminals disagree about the width of some characters, such as emoji made of several. A line that is too long
        # must be cut, not wrapped. Otherwise the next frame would start at the wrong row.
        keeps_lines = console.is_terminal and not console.legacy_windows
        if keeps_lines:
            yield _control("\x1b[?7l")
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line
        if keeps_lines:
            yield _control("\x1b[?7h")
        yield Segment.line()

    def rows_at(self, width: int) -> int:
        """Return the number of rows of the last drawn lines in a terminal that was narrowed to `width`."""
        rows = len(self.lines)
        for line in self.lines:
            column, before = 0, ""
            for char in line:
                size = 0 if before == "\u200d" else get_character_cell_size(char)  # joined to one emoji
                if column + size > width:
                    rows, column = rows + 1, 0
                column += size
                before = char
        return rows


def _control(text: str) -> Segment:
    return Segment(text, None, [(ControlType.CARRIAGE_RETURN,)])  # `rich` writes `text`


def _runs(
    states: Sequence[RunState], rows: int, width: int, console: Console, *, is_final: bool
) -> list[RenderableType]:
    """Return all runs, one below another, in at most `rows` rows."""
    if len(states) <= 1:
        return [part for state in states for part in _run(state, rows, width, console, is_final=is_final)]
    shown = list(states)
    hidden: list[RunState] = []
    if len(shown) > rows:  # the main run comes first, then active runs
        order = sorted(range(len(shown)), key=lambda place: (place > 0, shown[place].view.status is not None, -place))
        kept = sorted(order[: max(1, rows - 1)])
        hidden = [shown[place] for place in sorted(order[max(1, rows - 1) :])]
        shown = [shown[place] for place in kept]
    wants: list[int] = []
    for view, _ in shown:
        if view.status is not None and not is_final:
            wants.append(1)  # an ended run among active ones
        else:
            texts = _texts(view)
            newest = _text_rows(texts[-1], _TEXT_ROWS, width, console) if texts else []
            calls = calls_in_rows(view, 0, is_final=is_final).wanted
            wants.append(1 + (view.error is not None) + bool(view.gaps) + calls + len(texts[:-1]) + len(newest))
    parts: list[RenderableType] = []
    for state, share in zip(shown, shares(rows - bool(hidden), wants), strict=True):
        parts += _run(state, share, width, console, is_final=is_final, is_one_of_many=True)
    if hidden:
        counts = Counter("running" if state.view.status is None else str(state.view.status) for state in hidden)
        parts.append(more(len(hidden), counts, "runs"))
    return parts


# --- a run ------------------------------------------------------------------------------------------------------------


def _run(
    state: RunState, rows: int, width: int, console: Console, *, is_final: bool, is_one_of_many: bool = False
) -> list[RenderableType]:
    """Return one run in at most `rows` rows: its texts and calls in the order in which they came, and a status line.

    The newest text gets several rows, and each earlier one a row if there is room. The status line is the last row. If
    there are several runs, it is the first row of its run.
    """
    if rows < 1:
        return []
    view = state.view
    status: list[RenderableType] = [status_line(state.view, state.elapsed_s)]
    errors: list[RenderableType] = []
    if view.error is not None and rows >= 3:
        errors.append(Text(clean(view.error), "yellow" if view.status is None else "red"))
    gaps: list[RenderableType] = [Text(gap, "dim") for gap in view.gaps[-1:] if rows >= 3 + len(errors)]
    rows -= 1 + len(errors) + len(gaps)
    texts = _texts(view)
    newest = _text_rows(texts[-1], min(_TEXT_ROWS, rows), width, console) if texts else []
    calls = calls_in_rows(view, rows, is_final=is_final)
    if newest and calls.wanted + len(newest) > rows:
        newest = newest[-max(1, rows // 4) :] if rows >= 6 or not view.calls else []
        calls = calls_in_rows(view, rows - len(newest), is_final=is_final)
    shown: dict[int, list[RenderableType]] = {id(texts[-1]): newest} if texts else {}
    left = rows - calls.rows - len(newest)
    for text in reversed(texts[:-1]):
        if left < 1:
            break
        shown[id(text)] = _text_rows(text, min(left, _TEXT_ROWS if is_final else 1), width, console)
        left -= len(shown[id(text)])
    parts = [*gaps, *([] if calls.hidden is None else [calls.hidden])]
    for item in view.items:
        if isinstance(item, TextView):
            parts += shown.get(id(item), [])
        elif (part := calls.parts.get(id(item))) is not None:
            parts.append(part[0])
    parts += errors
    return status + parts if is_one_of_many else parts + status


def _texts(view: RunView) -> list[TextView]:
    return [item for item in view.items if isinstance(item, TextView) and item.chars]


def status_line(view: RunView, elapsed_s: float) -> Text:
    """Return a run in one row: status, turn, time and usage."""
    status = view.status or "running"
    parts = [(status, {"running": "cyan", "completed": "green", "error": "red"}.get(status, "yellow"))]
    if view.name:
        parts.insert(0, (clean(view.name), "bold"))
    if view.status is None:
        # In whole seconds: if nothing else changes, it is redrawn once per second.
        parts += [(f"turn {view.turn}", ""), (duration_text(int(elapsed_s)), "")]
        if quiet := quiet_text(view, elapsed_s):
            parts.append((quiet, "yellow"))
    else:
        parts += [(clean(view.limit.replace("_", " ")), "yellow")] if view.limit else []
        parts += [(count_text(view.turn, "turn"), ""), (duration_text(elapsed_s), "")]
    parts += [(text, "") for text in usage_texts(view.usage)]
    if view.cost is not None:
        parts.append((f"cost {view.cost:g}", ""))
    if view.model:
        parts.append((clean(view.model), ""))
    line = Text(style="dim", no_wrap=True, overflow="ellipsis")
    for number, (text, style) in enumerate(parts):
        line.append(" · " if number else "")
        line.append(text, style and f"not dim {style}")
    return line


def _text_rows(text: TextView, rows: int, width: int, console: Console) -> list[RenderableType]:
    """Return the end of a text, in complete rows. Thinking that has ended is only counted."""
    if rows < 1:
        return []
    if text.kind == "thinking" and text.is_over:
        return [Text(thinking_text(text), "dim")]
    tail = printable(text.tail(rows * max(width, 20))).expandtabs(4).rstrip("\n")
    newest = Text("\n".join(tail.split("\n")[-rows:]), "italic" if text.kind == "text" else "dim italic")
    lines = newest.wrap(console, max(1, width), overflow="fold")
    for line in lines:
        line.rstrip()
    return [line for line in lines[-rows:] if line]
