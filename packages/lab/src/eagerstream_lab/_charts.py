"""Charts of many runs: each run as a point, and the gaps between fragments as cumulative shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from eagerstream._support.markup import Markup, ends
from eagerstream.loop import Gaps

from ._drawing import BUFFERED, EAGER, FAINT, GROUND, INK, NARROW, RULE, WIDE, new_figure, svg_of
from ._kinds import Streaming, is_shown
from ._results import CaseData, MetricData
from ._selection import MAX_CASES, drawable, drawables
from ._wording import Names, Scale, metric_name, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS: Final = {"eager": "o", "buffered": "s"}
_COLOURS: Final = {"eager": EAGER, "buffered": BUFFERED}
_SHORTEST_S: Final = 1e-4
"""Lower bound of drawn gaps. Shorter gaps count as simultaneous: a socket delivers all waiting data at once."""
_STEPS: Final = 400
"""Maximum number of points of a curve."""
_ROW_INCHES: Final = 0.56
_NAME_CHARS: Final = 38


def distribution(metric: str, cases: Sequence[CaseData], names: Names, *, prefix: str) -> Markup | None:
    """Draw one figure of all cases, each run as a point; return `None` if there is nothing to draw."""
    from matplotlib.transforms import blended_transform_factory

    rows = [(case, case["metrics"][metric]) for case in cases if metric in case["metrics"]]
    rows = [(case, data) for case, data in rows if drawables(data["values"])][:MAX_CASES]
    if not rows:
        return None
    values = [value for _, data in rows for value in drawables([*data["values"], data["low"], data["high"]])]
    scale = Scale.of(unit_of(metric), *values)
    figure, axes = _axes(NARROW, _ROW_INCHES * len(rows), top=0.03, bottom=0.26, left=0.28, right=0.28)
    low, high = _limits([value * scale.factor for value in values])
    axes.set_xlim(low, min(high, 101) if unit_of(metric) == "share" and max(values) <= 1 else high)
    axes.set_ylim(len(rows), 0)
    axes.set_yticks([])
    axes.grid(axis="x")
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}{scale.suffix}")
    told = []
    across = blended_transform_factory(figure.transFigure, axes.transData)
    for row, (case, data) in enumerate(rows):
        _strip(axes, row, case, data, scale)
        own = Scale.of_estimate(metric, data)
        words = f"{own.text(data['median'])} {own.interval(data)}"
        axes.text(0, row + 0.26, ends(names[case["id"]], _NAME_CHARS), color=INK, weight="bold", transform=across)
        axes.text(1, row + 0.26, words, color=INK, ha="right", transform=across)
        told.append(f"{names[case['id']]}: median {words}, {len(drawables(data['values']))} runs")
    return svg_of(figure, prefix=prefix, label=f"{metric_name(metric)}. {'; '.join(told)}.")


def _strip(axes: Axes, row: int, case: CaseData, data: MetricData, scale: Scale) -> None:
    """Draw one case: runs as points, quartiles as a box, the median as a line, its interval as a bracket."""
    values = [value * scale.factor for value in drawables(data["values"])]
    colour, middle = _COLOURS[case["streaming"]], row + 0.66
    if len(values) > 3:
        first, _, third = quantiles(values, n=4, method="inclusive")
        axes.barh(middle, third - first, 0.34, first, facecolor="none", edgecolor=FAINT, linewidth=0.7)
    spread = [0.0 if len(values) == 1 else 0.22 * ((number * 0.618034) % 1 - 0.5) for number in range(len(values))]
    axes.plot(
        values,
        [middle + off for off in spread],
        _MARKERS[case["streaming"]],
        markersize=4.2,
        markerfacecolor=colour if case["streaming"] == "eager" else "none",
        markeredgecolor=colour,
        markeredgewidth=1,
        alpha=0.75,
        clip_on=False,
    )
    centre, ends = drawable(data["median"]), drawables([data["low"], data["high"]])
    if centre is not None:
        axes.plot([centre * scale.factor] * 2, [middle - 0.2, middle + 0.2], color=INK, linewidth=1.8)
    if len(ends) == 2:
        low, high = (end * scale.factor for end in ends)
        bracket = [middle + 0.2, middle + 0.27, middle + 0.27, middle + 0.2]
        axes.plot([low, low, high, high], bracket, color=INK, linewidth=1)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Return axis limits around all values, at least 5 % of the largest apart: nearly equal values look equal."""
    low, high = min(values), max(values)
    wide = (max(high - low, 0.05 * max(abs(low), abs(high))) or 1.0) * 1.12
    middle = (low + high) / 2
    left = middle - wide / 2
    return (left if low < 0 else max(0.0, left)) - wide * 0.01, middle + wide / 2


@dataclass(frozen=True, slots=True)
class GapCurve:
    """Gaps of one case: `gaps_s` is sorted and never empty."""

    name: str
    gaps_s: Sequence[float]
    figures: Gaps
    is_dashed: bool


def gap_curves(curves: Sequence[GapCurve], *, prefix: str) -> Markup:
    """Draw the cumulative share of gaps over the logarithm of their length."""
    from matplotlib.ticker import FixedLocator, NullLocator

    longest_s = max(curve.figures.max_s for curve in curves)
    figure, axes = _axes(WIDE, 2.5, top=0.24, bottom=0.42, left=0.55, right=0.15)
    axes.set_xscale("log")
    low, high = -4, max(-2, math.ceil(math.log10(max(longest_s, _SHORTEST_S) * 1.0001)))
    axes.set_xlim(10**low, 10**high)
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(low, high + 1)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: _gap_tick(value))
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 1], ["0 %", "25 %", "50 %", "75 %", "90 %", "100 %"])
    axes.grid(visible=True)
    axes.set_xlabel("gap between two fragments", loc="right")
    axes.set_title("share of gaps up to this length", loc="left", color=FAINT, fontsize=9, x=-0.05)
    for number, curve in enumerate(curves):
        _curve(axes, curve, number)
    told = "; ".join(f"{curve.name}: {gap_words(curve.figures)}" for curve in curves)
    return svg_of(figure, prefix=prefix, label=f"Shares of the gaps between fragments by their length. {told}.")


def percentiles(gaps: Gaps) -> list[tuple[str, float, float | None]]:
    """Return names, shares and values of the percentiles; `None` for one with too few gaps behind it."""
    values = (("p50", 0.5, gaps.p50_s), ("p90", 0.9, gaps.p90_s), ("p99", 0.99, gaps.p99_s))
    return [(name, share, value if is_shown(share, gaps.count) else None) for name, share, value in values]


def gap_words(gaps: Gaps) -> str:
    """Return the figures as text."""
    parts = [(name, value) for name, _, value in percentiles(gaps) if value is not None]
    told = (f"{name} {Scale.of('s', value).text(value)}" for name, value in (*parts, ("longest", gaps.max_s)))
    return f"{', '.join(told)} of {gaps.count:,} gaps"


def _curve(axes: Axes, curve: GapCurve, number: int) -> None:
    gaps, total = curve.gaps_s, len(curve.gaps_s)
    steps = sorted({min(total - 1, round(step * (total - 1) / _STEPS)) for step in range(_STEPS + 1)})
    streaming: Streaming = "buffered" if curve.is_dashed else "eager"
    colour = _COLOURS[streaming]
    axes.step(
        [_SHORTEST_S, *(max(_SHORTEST_S, gaps[step]) for step in steps), axes.get_xlim()[1]],
        [0, *((step + 1) / total for step in steps), 1],
        where="post",
        color=colour,
        linewidth=1.6 if curve.is_dashed else 2,
        linestyle=(0, (5, 2)) if curve.is_dashed else "-",
        clip_on=False,
    )
    shown = [(share, gap_s) for _, share, gap_s in percentiles(curve.figures) if gap_s is not None]
    points = [(max(_SHORTEST_S, gap_s), share) for share, gap_s in (*shown, (1, gaps[-1]))]
    axes.plot(
        [gap_s for gap_s, _ in points],
        [share for _, share in points],
        _MARKERS[streaming],
        markersize=5,
        markerfacecolor=GROUND if curve.is_dashed else colour,
        markeredgecolor=colour,
        clip_on=False,
        zorder=4,
    )
    # Write next to the median, where curves differ most. The second name is lower, in case they do not differ.
    at_s = max(_SHORTEST_S, curve.figures.p50_s)
    axes.annotate(
        curve.name,
        (at_s, 0.5 - 0.16 * number),
        xytext=(8, -3),
        textcoords="offset points",
        color=colour,
        weight="bold",
        bbox={"boxstyle": "square,pad=0.1", "facecolor": GROUND, "edgecolor": "none"},
    )


def _gap_tick(value_s: float) -> str:
    if value_s <= _SHORTEST_S:
        return "0.1 ms or less"
    return f"{value_s * 1000:,.0f} ms" if value_s < 1 else f"{value_s:,.0f} s"


def _axes(width: float, height: float, *, top: float, bottom: float, left: float, right: float) -> tuple[Figure, Axes]:
    """Return a figure with axes of this height, and margins in inches around them."""
    figure = new_figure(width, height + bottom + top)
    whole = height + bottom + top
    axes = figure.add_axes((left / width, bottom / whole, (width - left - right) / width, height / whole))
    axes.tick_params(axis="x", color=RULE, length=3)
    axes.tick_params(axis="y", length=0)
    return figure, axes
