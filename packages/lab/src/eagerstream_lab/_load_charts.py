"""Charts of a load test: throughput and percentiles by load, and each run by its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from eagerstream._support.markup import Markup
from eagerstream._support.wording import count_text

from ._drawing import ARRIVAL, BUFFERED, EAGER, FAINT, GROUND, INK, NARROW, RULE, WIDE, new_figure, svg_of
from ._load_results import KneeData, LevelData
from ._selection import drawable
from ._wording import Scale, metric_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: Final = (
    ("p50", "p50", "-", "o"),
    ("p90", "p90", "--", "s"),
    ("p99", "p99", ":", "^"),
    ("p999", "p99.9", "-.", "D"),
)
"""Key, name, line and mark of each percentile."""
_MAX_POINTS: Final = 600
"""Maximum number of runs of a level to draw."""
_LABEL_GAP: Final = 0.1
"""Smallest distance of two labels, as a share of the height."""
_TICK_GAP: Final = 0.08
"""Smallest distance of two marks at the axis, as a share of its length."""
_WORDS: Final = {"concurrency": "concurrent runs", "rate": "starts per second"}

Kind = Literal["concurrency", "rate"]


def throughput(levels: Sequence[LevelData], kind: Kind, knee: KneeData | None, *, prefix: str) -> Markup:
    """Draw throughput and goodput of the levels of one kind by their load, with the knee."""
    loads = [_load(level) for level in levels]
    figure, axes = _axes(WIDE, 2.4, right=0.95)
    _scale_x(axes, loads, kind)
    axes.set_title("runs per second", loc="left", color=FAINT, fontsize=9, x=-0.04)
    lines: list[tuple[str, str, str, str, list[float]]] = [
        ("throughput", "-", "o", EAGER, [level["throughput_per_s"] for level in levels])
    ]
    goods = [good for level in levels if (good := level["goodput_per_s"]) is not None]
    if len(goods) == len(levels):
        lines.append(("goodput", "--", "s", BUFFERED, goods))
    top = max(max(values) for *_, values in lines) * 1.15 or 1.0
    axes.set_ylim(0, top)
    for _, line, mark, colour, values in lines:
        face = colour if mark == "o" else GROUND
        axes.plot(loads, values, line, marker=mark, color=colour, markersize=5, markerfacecolor=face, clip_on=False)
    _label(axes, loads[-1], top, [(values[-1], name, colour) for name, _, _, colour, values in lines])
    told = [
        f"{level['name']}: {', '.join(f'{name} {values[number]:.3g} runs/s' for name, *_, values in lines)}"
        for number, level in enumerate(levels)
    ]
    if knee is not None and knee["is_reached"]:
        axes.axvline(knee["load"], color=INK, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
        axes.annotate("knee", (knee["load"], top), xytext=(4, -9), textcoords="offset points", color=INK)
        told.append(f"knee at {knee['load']:g}")
    return svg_of(figure, prefix=prefix, label=f"Throughput by {_WORDS[kind]}. {'; '.join(told)}.")


def latencies(name: str, levels: Sequence[LevelData], kind: Kind, *, prefix: str) -> Markup | None:
    """Draw the percentiles of one figure by load; `None` if no level has one."""
    known = [value for level in levels for key, *_ in _STYLES if (value := _value(level, name, key)) is not None]
    if not known:
        return None
    scale = Scale.of("s", *known)
    figure, axes = _axes(NARROW, 1.9, right=0.5)
    _scale_x(axes, [_load(level) for level in levels], kind)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}{scale.suffix}")
    axes.locator_params(axis="y", nbins=4)
    top = max(known) * scale.factor * 1.15 or 1.0
    axes.set_ylim(0, top)
    labels: list[tuple[float, str, str]] = []
    told: list[str] = []
    for key, word, line, mark in _STYLES:
        found = [(_load(level), _value(level, name, key)) for level in levels]
        points = [(load, value * scale.factor) for load, value in found if value is not None]
        if points:
            across, up = zip(*points, strict=True)
            axes.plot(across, up, line, marker=mark, color=ARRIVAL, markersize=4.2, clip_on=False)
            labels.append((up[-1], word, INK))
            told.append(f"{word} {', '.join(f'{value:.4g}{scale.suffix}' for value in up)}")
    _label(axes, _load(levels[-1]), top, labels)
    return svg_of(figure, prefix=prefix, label=f"{metric_name(name)} by {_WORDS[kind]}. {'; '.join(told)}.")


def over_time(level: LevelData, figure_name: str, *, top_s: float, prefix: str) -> Markup | None:
    """Draw one figure of each run of a level by its intended start; `None` if there is nothing to draw.

    Args:
        level: The level.
        figure_name: The figure.
        top_s: Largest value of the figure in all levels, so that all charts have one scale.
        prefix: Prefix of ids.
    """
    each = level["each"]
    runs = list(zip(each["intended_s"], each["figures"][figure_name], each["error"], each["end_s"], strict=True))
    step = max(1, -(-len(runs) // _MAX_POINTS))
    values = [(at_s, value) for at_s, value, error, _ in runs[::step] if not error and drawable(value) is not None]
    never = [at_s for at_s, _, error, end_s in runs[::step] if error or end_s is None]
    if not values and not never:
        return None
    scale = Scale.of("s", top_s)
    figure, axes = _axes(NARROW, 1.5, right=0.28)
    first_s = runs[0][0]
    axes.set_xlim(0, max(level["duration_s"], runs[-1][0] - first_s))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g} s")
    axes.locator_params(axis="both", nbins=5)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}{scale.suffix}")
    top = top_s * scale.factor * 1.15 or 1.0
    axes.set_ylim(0, top)
    axes.grid(axis="y")
    across, up = [at_s - first_s for at_s, _ in values], [(value or 0) * scale.factor for _, value in values]
    axes.plot(across, up, "o", markersize=3.2, color=EAGER, alpha=0.6, markeredgewidth=0, clip_on=False)
    if never:
        late = [at_s - first_s for at_s in never]
        axes.plot(late, [top] * len(late), "x", markersize=4, color=BUFFERED, clip_on=False)
    told = f"{count_text(len(values), 'run')} drawn, {len(never):,} failed or without an end"
    return svg_of(figure, prefix=prefix, label=f"{metric_name(figure_name)} by start, {level['name']}. {told}.")


def _load(level: LevelData) -> float:
    return float(level["concurrency"] or level["rate"] or 0)


def _value(level: LevelData, name: str, key: str) -> float | None:
    data = level["figures"].get(name)
    if data is None:
        return None
    return drawable({"p50": data["p50"], "p90": data["p90"], "p99": data["p99"], "p999": data["p999"]}[key])


def _axes(width: float, height: float, *, right: float) -> tuple[Figure, Axes]:
    """Return a figure with axes of this height in inches, and this margin at the right."""
    left, bottom, over = 0.62, 0.42, 0.24
    whole = height + bottom + over
    figure = new_figure(width, whole)
    axes = figure.add_axes((left / width, bottom / whole, (width - left - right) / width, height / whole))
    axes.tick_params(axis="x", color=RULE, length=3)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def _scale_x(axes: Axes, loads: Sequence[float], kind: Kind) -> None:
    """Set a logarithmic axis with a mark at each load: levels usually double. Leave out marks that are too close."""
    low, high = min(loads), max(loads)
    axes.set_xscale("log")
    axes.set_xlim((low, high) if high > low else (low * 0.9, high * 1.1))
    apart = (high / low) ** _TICK_GAP
    shown: list[float] = []
    for load in sorted(loads):
        if not shown or load >= shown[-1] * apart:
            shown.append(load)
    axes.set_xticks(shown, [f"{load:,g}" for load in shown])
    axes.set_xticks([], minor=True)
    axes.grid(axis="y")
    axes.set_xlabel(_WORDS[kind], loc="right")


def _label(axes: Axes, at: float, top: float, labels: Sequence[tuple[float, str, str]]) -> None:
    """Write names at the right ends of lines, none over another."""
    free = -top
    for value, name, colour in sorted(labels):
        up = max(value, free)
        free = up + top * _LABEL_GAP
        axes.annotate(name, (at, up), xytext=(8, -3), textcoords="offset points", color=colour, annotation_clip=False)
