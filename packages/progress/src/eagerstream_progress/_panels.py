"""The calls of a run in a given number of rows: a panel for each active call, a line for each other call.

Only the visible part of a value is read. The cost is the same for an input of a hundred characters and of a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from eagerstream import JSON
from eagerstream._support.wording import SHOWN_CHARS, clean, count_text, duration_text, size_text, value_text, visible

from ._fold import CallPhase
from ._lines import LineProgress, TextLines
from ._rows import CURSOR, Row, diff_rows, end_of, ending, line_rows
from ._view import CallView, RunView, sub_run_text

_STYLES: Final = {
    CallPhase.WRITING: "cyan",
    CallPhase.WAITING: "yellow",
    CallPhase.APPROVAL: "bold yellow",
    CallPhase.RUNNING: "magenta",
    CallPhase.DONE: "green",
    CallPhase.FAILED: "red",
    CallPhase.INVALID: "red",
    CallPhase.CUT: "red",
}
_MARKS: Final = {CallPhase.APPROVAL: "?", CallPhase.RUNNING: "▸", CallPhase.WRITING: "✎", CallPhase.WAITING: "·"}

_BODY_ROWS: Final = 12
_LINES_BODY_ROWS: Final = 20
"""The same for a call with a diff, or with progress about the lines of its input."""
_ITEM_ROWS: Final = 6
_SUB_RUN_ROWS: Final = 3
_PANEL_ROWS: Final = 4
"""Minimum height of a panel that is worth its borders."""
_MAX_PANELS: Final = 200


class CallRows(NamedTuple):
    """The calls of a run in rows.

    Attributes:
        parts: What is shown of each call, by its identity, and the number of its rows.
        hidden: What is said of the calls that are not shown; None if all are.
        wanted: The number of rows that all of them want.
    """

    parts: Mapping[int, tuple[RenderableType, int]]
    hidden: Text | None
    wanted: int

    @property
    def rows(self) -> int:
        """The number of rows that they take."""
        return sum(height for _, height in self.parts.values()) + (self.hidden is not None)


def calls_in_rows(view: RunView, rows: int, *, is_final: bool) -> CallRows:
    """Return the calls in at most `rows` rows.

    Active calls get panels, the others lines. If the rows are too few, the earliest ended calls are only counted. If
    they are still too few, panels become lines.
    """
    calls = view.calls
    going = [] if is_final or view.status else [call for call in calls if not call.phase.is_final]
    going_ids = {id(call) for call in going}
    ended = [call for call in calls if id(call) not in going_ids]
    wanted = len(ended) + sum(_panel_rows(call) for call in going[:_MAX_PANELS])
    if rows < 1 or not calls:
        return CallRows({}, None, wanted)
    heights: dict[int, int] = {}  # id of a call to its number of rows
    if len(going) > rows or (len(going) == rows and ended):
        by_urgency = sorted(range(len(going)), key=lambda place: (_urgency(going[place]), place))
        heights = {id(going[place]): 1 for place in by_urgency[: rows - 1]}
    else:
        least = min(len(ended), max(1, (rows - len(going)) // 3)) if ended else 0
        heights = _panel_heights(going, rows - least)
        left = rows - sum(heights.values())
        # If some are hidden, one of these rows says so.
        kept = len(ended) if len(ended) <= left else left - 1
        heights |= {id(call): 1 for call in ended[len(ended) - kept :]}
    parts: dict[int, tuple[RenderableType, int]] = {}
    hidden = [call for call in calls if id(call) not in heights]
    for call in calls:
        height = heights.get(id(call), 0)
        if height == 1:
            parts[id(call)] = _line(call), 1
        elif height:
            body = Group(*_body(call, height - 2))
            border = _STYLES[call.phase]
            panel = Panel(body, title=_head(call), title_align="left", border_style=border, height=height)
            parts[id(call)] = panel, height
    told = more(len(hidden), Counter(call.phase.value for call in hidden)) if hidden else None
    return CallRows(parts, told, wanted)


def _urgency(call: CallView) -> int:
    """Return the rank of a call; 0 is first. Calls that wait for a person come before those that change most."""
    if call.phase is CallPhase.APPROVAL:
        return 0
    if call.input_stop_s is None:
        return 1
    return 2 if call.phase is CallPhase.RUNNING else 3


def _panel_heights(going: Sequence[CallView], rows: int) -> dict[int, int]:
    """Return the number of rows of each active call. One row is a line, more are a panel."""
    wants = [_panel_rows(call) for call in going]
    heights = [1] * len(going)
    room = max(0, rows - len(going)) // (_PANEL_ROWS - 1)
    by_urgency = sorted(range(len(going)), key=lambda place: (_urgency(going[place]), place))
    opened = [place for place in by_urgency if wants[place] > 1][:room] if room else []
    if len(going) == 1 and not opened and rows >= 3 and wants[0] > 1:
        opened = [0]  # three rows are enough for the panel of a single call
    dealt = shares(rows - (len(going) - len(opened)), [wants[place] for place in opened])
    for place, share in zip(opened, dealt, strict=True):
        heights[place] = share if share > 2 else 1
    return {id(call): height for call, height in zip(going, heights, strict=True)}


def _panel_rows(call: CallView) -> int:
    has_lines = call.diff is not None or LineProgress.of(call.progress, call.partial) is not None
    most = _LINES_BODY_ROWS if has_lines else _BODY_ROWS
    body = len(_body(call, most))
    return body + 2 if body else 1


def _head(call: CallView) -> Text:
    """Return the name, the state, the size and, while the input is written, the rate."""
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append(clean(call.name), "bold")
    head.append(f"  {call.phase.value}", f"not bold {_STYLES[call.phase]}")
    if call.input_stop_s is None and call.phase is not CallPhase.WRITING:
        head.append(" while it is written", f"not bold {_STYLES[call.phase]}")
    head.append(f"  {size_text(call.bytes)}", "not bold default")
    if call.input_stop_s is None and call.writing_s > 0:
        head.append(f"  {size_text(call.bytes / call.writing_s)}/s", "not bold default")
    return head


def _line(call: CallView) -> RenderableType:
    """Return a call in one row, with its result or the newest part of its input."""
    phase = call.phase
    style = _STYLES[phase]
    mark = _MARKS.get(phase, "✓" if phase is CallPhase.DONE else "✗")
    line = Text.assemble((f"{mark} ", style), (clean(call.name), "bold"), ("  " + phase.value, style))
    line.append(f"  {size_text(call.bytes)}", "dim")
    diff = call.diff
    if diff is not None:
        line.append(f"  {diff.counts}", "dim")
    if call.tool_start_s is not None and call.tool_stop_s is not None:
        line.append(f"  {duration_text(call.tool_stop_s - call.tool_start_s)}", "dim")
    if phase.is_final:
        if told := call.result_text or call.error:
            line.append(f"  → {clean(told)}", style)
    elif diff is not None:
        line.append(f"  {clean(diff.path)}", style)
    elif call.progress is not None:
        progress = LineProgress.of(call.progress, call.partial)
        line.append(f"  {progress.summary if progress else value_text(call.progress)}", style)
    elif call.partial:
        name = next(reversed(call.partial))
        value = call.partial[name]
        cursor = CURSOR if _is_growing(call, name) else ""
        line.append(f"  {clean(name, 40)} ", "dim")
        if isinstance(value, list) and value:
            line.append(f"{count_text(len(value), 'item')} ", "dim")
            value = value[-1]
        return ending(line, value_text(value, at_end=True) + cursor)
    return line


def more(number: int, counts: Counter[str], what: str = "") -> Text:
    """Return a row about hidden items."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    return Text(f"… {number:,} more{' ' if what else ''}{what}: {kinds}", "dim")


def shares(rows: int, wants: Sequence[int]) -> list[int]:
    """Share `rows` fairly. None gets more rows than it wants; unwanted rows go to the others."""
    dealt = [0] * len(wants)
    for number, place in enumerate(sorted(range(len(wants)), key=lambda place: wants[place])):
        dealt[place] = min(wants[place], rows // (len(wants) - number))
        rows -= dealt[place]
    return dealt


# --- the input of a call ----------------------------------------------------------------------------------------------


def _body(call: CallView, rows: int) -> list[RenderableType]:
    """Return a call's input and progress in at most `rows` rows. The growing field gets the remaining rows."""
    last: list[RenderableType] = []
    if call.phase is CallPhase.APPROVAL:
        last.append(Text("? a person is asked whether it may run", _STYLES[CallPhase.APPROVAL]))
    fields = call.partial
    progress = LineProgress.of(call.progress, fields)
    diff = call.diff
    if call.progress is not None and progress is None and diff is None:
        last.append(Text(f"▸ {value_text(call.progress)}", _STYLES[CallPhase.RUNNING]))
    # The last ones, those that still run before others.
    sub_runs = sorted(call.sub_runs.values(), key=lambda each: each.status == "running")[-_SUB_RUN_ROWS:]
    last += [Text(f"↳ {sub_run_text(each)}", "dim") for each in sub_runs]
    last = last[-rows:]
    rows -= len(last)
    if diff is not None and rows >= 1:
        return diff_rows(diff, fields, rows, is_growing=call.input_stop_s is None) + last
    if progress is not None and rows >= 1:
        return _body_of_lines(call, progress, rows) + last
    if not fields or rows < 1:
        return last
    finished = set(call.finished)
    shown = list(islice(reversed(fields.items()), rows))[::-1]
    parts: list[RenderableType] = []
    if 1 < len(shown) < len(fields):
        del shown[0]
        parts.append(Text(f"{count_text(len(fields) - len(shown), 'earlier field')}", "dim"))
    for number, (name, value) in enumerate(shown):
        growing = name not in finished and call.input_stop_s is None
        is_last = number == len(shown) - 1
        details = list(_details(value, min(rows - len(parts) - 1, _ITEM_ROWS), growing=growing)) if is_last else []
        parts.append(_field_row(name, value, is_done=name in finished, growing=growing, has_details=bool(details)))
        parts += details
    return parts + last


def _body_of_lines(call: CallView, progress: LineProgress, rows: int) -> list[RenderableType]:
    """Return the lines that the tool works on, below the newest other fields, each of which has one row."""
    name = progress.parameter
    room = rows // 4
    newest = [item for item in islice(reversed(call.partial.items()), room + 1) if item[0] != name]
    others = newest[:room][::-1]
    lines = line_rows(
        progress,
        call.partial[name],
        call.text_lines.setdefault(name, TextLines()),
        rows - len(others),
        is_done=name in call.finished,
        is_growing=_is_growing(call, name),
    )
    return [
        *(
            _field_row(name, value, is_done=name in call.finished, growing=_is_growing(call, name))
            for name, value in others
        ),
        *lines,
    ]


def _is_growing(call: CallView, name: str) -> bool:
    return call.input_stop_s is None and name not in call.finished


def _field_row(name: str, value: JSON, *, is_done: bool, growing: bool, has_details: bool = False) -> Row:
    """Return a field in one row: the end of a long text, or the size of a container, cut to the available cells."""
    head = Text.assemble(("✓ ", "green") if is_done else ("… ", "cyan"), (clean(name, 40), "bold"), "  ")
    match value:
        case str() if not has_details:
            return Row(partial(_text_field, head, value, CURSOR if growing else ""))
        case str():
            head.append(count_text(len(value), "character"), "dim")
        case list():
            head.append(count_text(len(value), "item"), "dim")
        case dict():
            head.append(count_text(len(value), "field"), "dim")
        case _:
            head.append(value_text(value))
    return Row(lambda _: head)


def _text_field(head: Text, value: str, cursor: str, cells: int) -> Text:
    cells -= head.cell_len + 2  # its quotes
    size = f"  {count_text(len(value), 'character')}"
    is_long = len(value) > 8 * SHOWN_CHARS or cell_len(visible(value)) > cells
    room = cells - len(cursor) - (cell_len(size) if is_long else 0)
    line = head.copy().append(f"“{end_of(value, max(room, 8))}{cursor or '”'}")
    return line.append(size, "dim") if is_long else line


def _details(value: JSON, rows: int, *, growing: bool) -> Iterator[RenderableType]:
    """Yield the newest parts of a value, to be shown below its field. None if the field's own row is enough."""
    if rows < 1:
        return
    match value:
        case str() if "\n" in value[-SHOWN_CHARS * _ITEM_ROWS :]:
            shown = value[-SHOWN_CHARS * _ITEM_ROWS :].split("\n")[-rows:]
        case list():
            shown = [value_text(item, at_end=True) for item in value[-rows:]]
        case dict():
            newest = list(islice(reversed(value.items()), rows))[::-1]
            shown = [f"{clean(name, 40)}: {value_text(item, at_end=True)}" for name, item in newest]
        case _:
            return
    for number, text in enumerate(shown, 1):
        yield ending(Text("    "), text + (CURSOR if growing and number == len(shown) else ""))
