"""`waterfall`: one run on a time line, with requests and blocks in rows, and each tool below its input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal

from eagerstream._support.markup import Markup, ends, plain
from eagerstream._support.wording import count_text
from eagerstream.loop import BlockData, CallData, LatencyData, RequestData

from ._drawing import ARRIVAL, BLOCK, FAINT, GROUND, INK, ON_TOOL, RULE, TOOL, WIDE, Shapes, new_figure, svg_of
from ._selection import drawable, run_end_s
from ._wording import LABEL_CHARS, Scale, seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ROWS: Final = 60
"""Maximum number of rows of a run."""

MAX_TICKS: Final = 240
"""Maximum number of arrivals, and of finished fields, to draw for a block."""

_GUTTER: Final = 1.75
_RIGHT: Final = 0.3
_TOP: Final = 0.34
_BOTTOM: Final = 0.44
_REQUEST_INCHES: Final = 0.36
_BLOCK_INCHES: Final = 0.44
_LABEL_CHARS: Final = 20
_SMALL_CHARS: Final = 25
_CHAR_INCHES: Final = 0.069  # of the font at 9 points, on average


@dataclass(frozen=True, slots=True)
class Panel:
    """One run, and the title above it."""

    title: str
    latency: LatencyData


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of a request, or of one of its blocks."""

    request: RequestData
    block: BlockData | None
    top: float

    @property
    def height(self) -> float:
        return _BLOCK_INCHES if self.block is not None else _REQUEST_INCHES


def waterfall(panels: Sequence[Panel], *, end_s: float, prefix: str, max_rows: int = MAX_ROWS) -> Markup:
    """Draw runs below one another on one time line.

    Args:
        panels: Runs to draw.
        end_s: End of the time line. A longer run is cut off there, with a note.
        prefix: Prefix of the figure's ids.
        max_rows: Maximum number of rows of each run; the last rows are left out.
    """
    rows = [_rows(panel.latency, max_rows) for panel in panels]
    heights = [sum(row.height for row in own) or _REQUEST_INCHES for own in rows]
    whole = sum(heights) + (_TOP + _BOTTOM) * len(panels)
    figure = new_figure(WIDE, whole)
    at = whole
    for panel, own, height in zip(panels, rows, heights, strict=True):
        at -= _TOP + height
        box = (_GUTTER / WIDE, at / whole, (WIDE - _GUTTER - _RIGHT) / WIDE, height / whole)
        at -= _BOTTOM
        _draw(figure.add_axes(box), panel, own, height, end_s)
    label = " ".join(f"{panel.title}. {described(panel.latency)}" for panel in panels)
    return svg_of(figure, prefix=prefix, label=label)


def hidden_rows(latency: LatencyData, max_rows: int) -> int:
    """Return the number of rows of the run that are not drawn."""
    return max(0, sum(1 + len(request["blocks"]) for request in latency["requests"]) - max_rows)


def described(latency: LatencyData) -> str:
    """Return the important moments of a run as text."""
    moments = (
        ("first fragment of an input", latency["time_to_first_fragment_s"]),
        ("first finished field", latency["time_to_first_field_s"]),
        ("first tool", latency["time_to_tool_start_s"]),
        ("end", latency["duration_s"]),
    )
    told = [f"{name} {seconds(at_s)}" for name, at_s in moments if drawable(at_s) is not None and at_s is not None]
    sizes = [
        count_text(len(latency["requests"]), "request"),
        count_text(sum(len(r["blocks"]) for r in latency["requests"]), "block"),
    ]
    return f"{', '.join(sizes)}; {', '.join(told) or 'nothing was timed'}."


def _rows(latency: LatencyData, max_rows: int) -> list[_Row]:
    rows: list[_Row] = []
    top = 0.0
    for request in latency["requests"]:
        for block in (None, *request["blocks"]):
            if len(rows) == max_rows:
                return rows
            row = _Row(request, block, top)
            rows.append(row)
            top += row.height
    return rows


def _draw(axes: Axes, panel: Panel, rows: Sequence[_Row], height: float, end_s: float) -> None:
    """Draw a panel: down in inches from the top, across in seconds."""
    axes.set_xlim(0, end_s * 1.02)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    axes.autoscale(enable=False)
    axes.grid(axis="x")
    axes.tick_params(axis="x", length=3)
    axes.locator_params(axis="x", nbins=8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.set_xlabel("seconds since the first request", loc="right")
    inch_s = end_s * 1.02 / (WIDE - _GUTTER - _RIGHT)
    axes.text(-_GUTTER * inch_s, -0.12, panel.title, weight="bold", color=INK)
    if not rows:
        axes.text(0, height / 2, "no data about this run", color=FAINT, va="center")
    for at_s in panel.latency.get("resumed_s", ()):
        if drawable(at_s) is not None:
            axes.axvline(at_s, color=FAINT, linewidth=2.5)
            axes.text(at_s + 0.04 * inch_s, height, "resumed", va="bottom", color=FAINT, fontsize=7.5, clip_on=True)
    shapes = Shapes()
    bottoms = {id(row.request): row.top + row.height for row in rows}
    for row in rows:
        if row.block is None:
            _draw_request(axes, shapes, row, bottoms[id(row.request)], inch_s)
        else:
            _draw_block(axes, shapes, row, row.block, inch_s)
    shapes.draw(axes)
    if run_end_s(panel.latency) > end_s * 1.02:
        text = f"continues to {seconds(run_end_s(panel.latency))} \u2192"
        axes.text(1, -0.12, text, transform=axes.get_yaxis_transform(), ha="right", color=INK, weight="bold")


# --- a request --------------------------------------------------------------------------------------------------------


def _draw_request(axes: Axes, shapes: Shapes, row: _Row, bottom: float, inch_s: float) -> None:
    request = row.request
    moments = ((drawable(at_s), name) for name, at_s in _moments(request))
    marks = sorted(((at_s, name) for at_s, name in moments if at_s is not None), key=itemgetter(0))
    line = row.top + _REQUEST_INCHES - 0.08
    axes.text(-_GUTTER * inch_s, line, f"Turn {request['turn']}", va="bottom", color=INK, weight="bold")
    if request["discarded"]:
        axes.text((0.52 - _GUTTER) * inch_s, line, "discarded", va="bottom", color=FAINT)
    axes.plot([-_GUTTER * inch_s, axes.get_xlim()[1]], [row.top, row.top], color=RULE, linewidth=0.8, clip_on=False)
    if not marks:
        return
    shapes.line([(marks[0][0], line), (marks[-1][0], line)], colour=FAINT, width=1.1)
    shapes.ticks([at_s for at_s, _ in marks], (line - 0.05, line + 0.05), colour=INK, width=1.1)
    stop_s = drawable(request["message_stop_s"])
    if stop_s is not None:
        shapes.line([(stop_s, line), (stop_s, bottom)], colour=FAINT, width=0.9, dashed=True)
    for label in _labels(marks, axes.get_xlim()[1], inch_s):
        axes.text(
            label.at_s, line - 0.07, label.words, ha=label.align, va="bottom", color=FAINT, fontsize=8, clip_on=True
        )


def _moments(request: RequestData) -> Iterator[tuple[str, float | None]]:
    yield "sent", request["sent_s"]
    yield "headers", request["headers_s"]
    yield "first byte", request["first_byte_s"]
    if request["message_stop_s"] is not None:
        yield "message_stop", request["message_stop_s"]
    else:
        yield "broken off", request["end_s"]
    if any(block["call"] for block in request["blocks"]):
        yield "all results", request["settled_s"]
    yield "next request", request["next_request_s"]


@dataclass(frozen=True, slots=True)
class _Label:
    """Text for some marks, next to the first of them or at the end of the line."""

    marks: list[tuple[float, str]]
    at_s: float
    align: Literal["left", "right"]
    ends_s: float

    @property
    def words(self) -> str:
        return _group_text(self.marks)


def _labels(marks: Iterable[tuple[float, str]], end_s: float, inch_s: float) -> list[_Label]:
    """Return labels for the marks, from left to right. They do not overlap, nor extend beyond `end_s`."""
    labels: list[_Label] = []
    for mark in marks:
        group = [mark]
        while (label := _label(group, labels[-1].ends_s if labels else 0.0, end_s, inch_s)) is None:
            group = [*labels.pop().marks, *group]
        labels.append(label)
    return labels


def _label(marks: list[tuple[float, str]], from_s: float, end_s: float, inch_s: float) -> _Label | None:
    """Return one label for all of these marks; `None` if there is no room after `from_s`."""
    at_s, wide_s = marks[0][0], _text_inches(_group_text(marks)) * inch_s
    if from_s <= at_s <= end_s - wide_s:
        return _Label(marks, at_s, "left", at_s + wide_s)
    if from_s <= at_s - wide_s:
        return _Label(marks, at_s, "right", at_s)
    if from_s <= min(at_s, end_s - wide_s) or not from_s:
        return _Label(marks, end_s, "right", end_s)
    return None


def _group_text(group: Sequence[tuple[float, str]]) -> str:
    names, first, last = ", ".join(name for _, name in group), group[0][0], group[-1][0]
    scale = Scale.of("s", last)
    if scale.number(first) != scale.number(last):
        return f"{names} {scale.number(first)}\u2013{scale.text(last)}"
    return f"{names} {scale.text(first)}" if first else names


def _text_inches(text: str) -> float:
    return len(text) * _CHAR_INCHES * 0.9 + 0.08


# --- a block ----------------------------------------------------------------------------------------------------------


def _draw_block(axes: Axes, shapes: Shapes, row: _Row, block: BlockData, inch_s: float) -> None:
    above, below = row.top + 0.05, row.top + 0.19
    name = ends(plain(block["name"] or block["kind"] or "block", LABEL_CHARS), _SMALL_CHARS)
    size = 9 if len(name) <= _LABEL_CHARS else 7.5
    sizes = [count_text(block["fragments"], "fragment")]
    if block["outcome"] not in (None, "valid"):
        sizes.insert(0, plain(str(block["outcome"]), 12))
    elif block["fields"]:
        sizes.append(count_text(len(block["fields"]), "field"))
    axes.text((0.12 - _GUTTER) * inch_s, above + 0.07, name, va="center", color=INK, fontsize=size)
    axes.text((0.12 - _GUTTER) * inch_s, below + 0.11, ", ".join(sizes), va="center", color=FAINT, fontsize=7.5)
    start_s, stop_s = drawable(block["start_s"]), drawable(block["stop_s"])
    first_s, last_s = drawable(block["first_fragment_s"]), drawable(block["last_fragment_s"])
    known = [at_s for at_s in (start_s, first_s, last_s, stop_s) if at_s is not None]
    if known:
        shapes.bar(min(known), max(known), (above, below), face="none", edge=ARRIVAL)
    if first_s is not None and last_s is not None:
        shapes.bar(first_s, last_s, (above, below), face=BLOCK, edge="none")
        arrivals = _thinned([at_s for at_s, _, _ in block["arrivals"]])
        shapes.ticks(arrivals, (above, below), colour=ARRIVAL, width=0.5)
    fields = _thinned([field["at_s"] for field in block["fields"]])
    shapes.ticks(fields, (below + 0.005, below + 0.065), colour=INK, width=0.9)
    if block["call"] is not None:
        _draw_call(axes, shapes, row.top, block["call"], inch_s)


def _draw_call(axes: Axes, shapes: Shapes, top: float, call: CallData, inch_s: float) -> None:
    above, below = top + 0.27, top + 0.405
    admitted_s, start_s = drawable(call["admitted_s"]), drawable(call["start_s"])
    progress_s, end_s = drawable(call["progress_s"]), drawable(call["end_s"])
    waits_until_s = start_s if start_s is not None else end_s
    if admitted_s is not None and waits_until_s is not None:
        shapes.bar(admitted_s, waits_until_s, (above, below), face="none", edge=TOOL)
    if start_s is None:
        return
    shapes.bar(start_s, start_s if end_s is None else end_s, (above, below), face=TOOL, edge=TOOL)
    if progress_s is not None:
        shapes.diamond(progress_s, (above + below) / 2, face=GROUND, edge=TOOL)
    if end_s is None:
        words = "never ended"
    else:
        words = ("error, " if call["is_error"] else "tool ") + seconds(end_s - start_s)
    width_s = _text_inches(words) * inch_s
    done_s = start_s if end_s is None else end_s
    inside = done_s - start_s > width_s * 1.3 and progress_s is None
    fits = done_s + width_s < axes.get_xlim()[1]
    at_s, align = (start_s, "left") if inside else (done_s, "left") if fits else (start_s, "right")
    off = -0.04 * inch_s if align == "right" else 0.04 * inch_s
    colour = ON_TOOL if inside else INK
    axes.text(
        at_s + off, (above + below) / 2 + 0.008, words, ha=align, va="center", color=colour, fontsize=7.5, clip_on=True
    )


def _thinned(at_s: Sequence[float]) -> list[float]:
    """Return at most `MAX_TICKS` of them, including the first and the last."""
    there = [at for at in at_s if drawable(at) is not None]
    if len(there) <= MAX_TICKS:
        return there
    return [there[round(step * (len(there) - 1) / (MAX_TICKS - 1))] for step in range(MAX_TICKS)]
