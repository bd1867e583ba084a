"""Figures and verdicts in words, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from ._metrics import METRICS, Metric, Unit
from ._results import CaseData, Estimate, MeasuredRun, Verdict
from ._statistics import least_n

AXES: Final = ("source", "tools", "streaming", "model", "transport")
"""Of a case; its fields of these names."""

_UNITS: Final[dict[Unit, str]] = {"s": "s", "/s": "/s", "share": "%"}
_MAX_DECIMALS: Final = 6  # microseconds, as results have them
_DECIMALS: Final = 3  # where an interval has no width to go by


def amount(value: float, unit: Unit, *, width: float) -> str:
    """A figure without its unit, as exact as an interval of this width makes sensible; a share in percent."""
    scale = 100 if unit == "share" else 1
    decimals = 1 - math.floor(math.log10(width * scale)) if width > 0 else _DECIMALS
    text = f"{value * scale:,.{max(0, min(decimals, _MAX_DECIMALS))}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text  # no minus before a zero


def unit_text(metric: Metric) -> str:
    """What figures of this metric are in."""
    return _UNITS[metric.unit]


def median_text(estimate: Estimate, metric: Metric) -> str:
    """The median, with its unit."""
    return f"{amount(estimate['median'], metric.unit, width=_width(estimate))} {unit_text(metric)}"


def range_text(estimate: Estimate, metric: Metric, *, confidence: float) -> str:
    """The interval of a median; of so few values that it takes more for one, `range [low, high]`."""
    is_range = 1 < estimate["n"] < least_n(confidence)
    return f"{'range ' if is_range else ''}{interval_text(estimate, metric)}"


def interval_text(estimate: Estimate, metric: Metric) -> str:
    """`[low, high]`; a dash where there is one value only."""
    if estimate["n"] < 2:
        return "-"
    low, high = (amount(estimate[bound], metric.unit, width=_width(estimate)) for bound in ("low", "high"))
    return f"[{low}, {high}]"


def verdict_text(difference: Estimate, verdict: Verdict, *, metric: Metric, name: str, confidence: float) -> str:
    """What can be said of a difference: `eager is 12.00 s [11.80, 12.30] earlier`, or why nothing can.

    Args:
        difference: Of the one that is spoken of, less the other.
        verdict: What its interval allows.
        metric: Of which figure.
        name: Of the one that is spoken of.
        confidence: Of the interval.
    """
    if verdict == "undecided":
        if difference["n"] < (needed := least_n(confidence)):
            return f"no verdict: {difference['n']} of {needed} values that it takes"
        return f"no verdict: {interval_text(difference, metric)} {_difference_unit(metric)} holds 0"
    shown = size_of(difference, verdict)
    by = amount(shown["median"], metric.unit, width=_width(shown))
    verb = "is" if metric.lower in ("earlier", "shorter") else "has"
    word = metric.lower if verdict == "lower" else metric.higher
    return f"{name} {verb} {by} {_difference_unit(metric)} {interval_text(shown, metric)} {word}"


def size_of(difference: Estimate, verdict: Verdict) -> Estimate:
    """A difference as the amount by which one is lower, or higher: without its sign."""
    if verdict != "lower":
        return difference
    median, low, high = (-difference[bound] for bound in ("median", "high", "low"))
    return {"n": difference["n"], "median": median, "low": low, "high": high}


def pair_text(base: CaseData, other: CaseData, cases: Sequence[CaseData]) -> tuple[str, str]:
    """Of two cases that differ on one axis: the name of the other, and both beside one another."""
    axes: list[Mapping[str, object]] = [dict(case) for case in (base, other)]
    differing = [axis for axis in AXES if axes[0][axis] != axes[1][axis]]
    first, second = (", ".join(str(axis[name]) for name in differing) for axis in axes)
    varying = [name for name in AXES if name not in differing and len({str(dict(case)[name]) for case in cases}) > 1]
    shared = ", ".join(str(axes[1][name]) for name in varying)
    return second, f"{second} beside {first}" + (f" ({shared})" if shared else "")


def ended_text(case: CaseData) -> str:
    """How its runs ended, where not all did as one expects; empty where they did."""
    counts: dict[str, int] = {}
    for run in case["runs"]:
        # A recording may end with calls, and the run with it.
        if run["error"] is not None or run["status"] not in ("completed", "limit"):
            how = f"failed with {run['error']}" if run["error"] else run["status"]
            counts[how] = counts.get(how, 0) + 1
    # Such a run is a run like others; but whose tools are broken does not measure what they want to.
    if refused := sum(map(_has_failed_calls, case["runs"])):
        counts["with calls that were answered with an error"] = refused
    total = len(case["runs"])
    return "; ".join(f"{count} of {total} {how}" for how, count in counts.items())


def _has_failed_calls(run: MeasuredRun) -> bool:
    blocks = (block for request in run["latency"]["requests"] for block in request["blocks"])
    return run["error"] is None and any(block["call"] is not None and block["call"]["is_error"] for block in blocks)


def metrics_of(cases: Sequence[CaseData]) -> list[Metric]:
    """The metrics that any of these cases has, in their order."""
    return [metric for name, metric in METRICS.items() if any(name in case["metrics"] for case in cases)]


def _difference_unit(metric: Metric) -> str:
    return "points" if metric.unit == "share" else unit_text(metric)


def _width(estimate: Estimate) -> float:
    return abs(estimate["high"] - estimate["low"])
