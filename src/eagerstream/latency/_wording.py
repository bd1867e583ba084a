"""The words of the report and of the terminal: names of figures and cases, quantities with units, verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from .._support.markup import plain
from ._metrics import METRICS, Metric, Unit
from ._results import CaseData, ComparisonData, Estimate, MeasuredRun, Results, Verdict
from ._statistics import least_n

LABEL_CHARS: Final = 72
"""Of the name of a case, a figure, a tool."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How quantities of about one size are written: `value * factor`, so many digits behind the point, the unit."""

    factor: float
    digits: int
    unit: str

    @classmethod
    def of(cls, unit: Unit | None, *sizes: float) -> Scale:
        """That of quantities of which these are the largest; in the unit of the figures."""
        size = max((abs(size) for size in sizes if math.isfinite(size)), default=0.0)
        match unit:
            case "s" if 0 < size < 1:
                return cls(1000, _digits(size * 1000), "ms")
            case "share":
                return cls(100, _digits(size * 100), "%")
            case _:
                return cls(1, _digits(size), unit or "")

    def number(self, value: float) -> str:
        """Without its unit."""
        value *= self.factor
        if not math.isfinite(value):
            return "unknown"
        if abs(value) >= 1e9:
            return f"{value:.2e}"
        return f"{value:,.{self.digits}f}".replace("-", "\u2212")

    def text(self, value: float) -> str:
        """With its unit."""
        return f"{self.number(value)}{self.suffix}"

    def interval(self, estimate: Estimate) -> str:
        """`[low, high] unit`."""
        return f"[{self.number(estimate['low'])}, {self.number(estimate['high'])}]{self.suffix}"

    @property
    def suffix(self) -> str:
        """The unit as it stands behind a number."""
        return self.unit if self.unit.startswith("/") or not self.unit else f"\u00a0{self.unit}"


def _digits(size: float) -> int:
    """So that three or four are shown."""
    return 0 if size >= 100 else 1 if size >= 10 else 2


def seconds(value: float) -> str:
    """One duration."""
    return Scale.of("s", value).text(value)


def unit_of(metric: str) -> Unit | None:
    """The unit of a figure; None of one that is not known here."""
    return METRICS[metric].unit if metric in METRICS else None


def metric_name(metric: str) -> str:
    """A figure in words, without its unit."""
    label = METRICS[metric].label if metric in METRICS else metric
    return plain(label[:1].upper() + label[1:], LABEL_CHARS)


class Names:
    """How the cases of a benchmark are called: by their labels, or by their ids where those are not enough."""

    def __init__(self, results: Results) -> None:
        labels = [case["label"] for case in results["cases"]]
        self._names = {
            case["id"]: plain(case["label"] if labels.count(case["label"]) == 1 else case["id"], LABEL_CHARS)
            for case in results["cases"]
        }
        self._varying = [part for part in _PARTS if len({case[part] for case in results["cases"]}) > 1]

    def __getitem__(self, id: str) -> str:
        return self._names.get(id) or plain(id, LABEL_CHARS)

    def shared(self, case: CaseData) -> str:
        """What a pair of an eager and a buffered case has in common, and others do not; "" where it is the only one."""
        return plain(" / ".join(case[part] for part in self._varying), LABEL_CHARS)


_Part: TypeAlias = Literal["source", "tools", "model", "transport"]
_PARTS: Final[tuple[_Part, ...]] = ("source", "tools", "model", "transport")


def verdict_words(comparison: ComparisonData) -> str:
    """What is said of `other` against `base`: `2.40 s earlier`, where the interval allows it."""
    size, verdict = size_of(comparison["difference"], comparison["verdict"]), comparison["verdict"]
    metric = METRICS.get(comparison["metric"])
    word = verdict if metric is None else metric.lower if verdict == "lower" else metric.higher
    return f"{_scale_of(comparison).text(size['median'])} {word}"


def verdict_interval(comparison: ComparisonData) -> str:
    """The interval of the difference as `verdict_words` tells it: of an amount, so without its sign."""
    return _scale_of(comparison).interval(size_of(comparison["difference"], comparison["verdict"]))


def ratio_words(comparison: ComparisonData) -> str:
    """`, 0.25 times as much`; "" where it is about the same."""
    ratio = comparison["ratio"]
    if ratio is None or not math.isfinite(ratio["median"]) or abs(ratio["median"] - 1) < 0.05:
        return ""
    return (
        f", {ratio['median']:,.0f} times as much" if ratio["median"] >= 10 else f", {ratio['median']:.2g} times as much"
    )


def no_verdict_reason(comparison: ComparisonData, *, needed: int) -> str:
    """Why there is none, where it takes so many pairs."""
    difference = comparison["difference"]
    if difference["n"] < needed:
        return f"{difference['n']} of {needed} pairs that it takes"
    interval = _scale_of(comparison).interval(difference)
    return f"the interval of the difference, {interval}, holds 0"


def _scale_of(comparison: ComparisonData) -> Scale:
    difference = comparison["difference"]
    scale = Scale.of(unit_of(comparison["metric"]), difference["median"], difference["low"], difference["high"])
    return replace(scale, unit="points") if scale.unit == "%" else scale


def moment(text: str) -> str:
    """A time of ISO 8601 as people write it; as it is, where it is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return plain(text, LABEL_CHARS)
    return f"{at.day} {at:%B %Y, %H:%M} {at:%Z}".rstrip()


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


# --- in the terminal --------------------------------------------------------------------------------------------------


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
