"""Words of the report and of the terminal: names of figures and cases, quantities with units, verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from eagerstream._support.markup import plain

from ._metrics import METRICS, Unit
from ._results import CaseData, ComparisonData, Estimate, Judged, Results

LABEL_CHARS: Final = 72
"""Maximum length of the name of a case, a figure or a tool."""

AT_PROXY: Final = "programs: all figures are those at a proxy, except those about tools, which only our own cases have"
"""Note about results with programs."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Format of quantities of similar size: `value * factor`, the number of decimals, the unit."""

    factor: float
    digits: int
    unit: str

    @classmethod
    def of(cls, unit: Unit | None, *sizes: float) -> Scale:
        """Return the scale for quantities whose largest values are `sizes`, in the unit of the figures."""
        size = max((abs(size) for size in sizes if math.isfinite(size)), default=0.0)
        match unit:
            case "s" if 0 < size < 1:
                return cls(1000, _digits(size * 1000), "ms")
            case "share":
                return cls(100, _digits(size * 100), "%")
            case _:
                return cls(1, _digits(size), unit or "")

    @classmethod
    def of_estimate(cls, metric: str, estimate: Estimate) -> Scale:
        """Return the scale of a median and its interval."""
        return cls.of(unit_of(metric), estimate["median"], estimate["low"], estimate["high"])

    def number(self, value: float) -> str:
        """Format a value without its unit."""
        value *= self.factor
        if not math.isfinite(value):
            return "unknown"
        if abs(value) >= 1e9:
            return f"{value:.2e}"
        return f"{value:,.{self.digits}f}".replace("-", "\u2212")

    def text(self, value: float) -> str:
        """Format a value with its unit."""
        return f"{self.number(value)}{self.suffix}"

    def interval(self, estimate: Estimate) -> str:
        """Format an interval as `[low, high] unit`."""
        return f"[{self.number(estimate['low'])}, {self.number(estimate['high'])}]{self.suffix}"

    @property
    def suffix(self) -> str:
        """Unit as written after a number."""
        return self.unit if self.unit.startswith("/") or not self.unit else f"\u00a0{self.unit}"


def _digits(size: float) -> int:
    """Return the number of decimals that shows three or four digits."""
    return 0 if size >= 100 else 1 if size >= 10 else 2


def seconds(value: float) -> str:
    """Format one duration."""
    return Scale.of("s", value).text(value)


def unit_of(metric: str) -> Unit | None:
    """Return the unit of a figure; `None` if the figure is unknown."""
    return METRICS[metric].unit if metric in METRICS else None


def metric_name(metric: str) -> str:
    """Return a figure's name without its unit."""
    label = METRICS[metric].label if metric in METRICS else metric
    return plain(label[:1].upper() + label[1:], LABEL_CHARS)


class Names:
    """Names of a benchmark's cases: their labels, or their ids if a label is not unique."""

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
        """Return the parts that an eager and a buffered case share and others do not; "" if there is only one pair."""
        return plain(" / ".join(case[part] for part in self._varying), LABEL_CHARS)


_Part: TypeAlias = Literal["source", "tools", "model", "transport"]
_PARTS: Final[tuple[_Part, ...]] = ("source", "tools", "model", "transport")


def interval_words(metric: str, estimate: Estimate, *, needed: int) -> str:
    """Return the interval of a median. It is called a range if there are fewer than `needed` values."""
    text = Scale.of_estimate(metric, estimate).interval(estimate)
    return text if estimate["n"] >= needed else f"range {text}"


def verdict_words(judged: Judged) -> str:
    """Return the verdict on one figure compared with the other, such as `2.40 s earlier`."""
    verdict, metric = judged["verdict"], METRICS.get(judged["metric"])
    word = verdict if metric is None else metric.lower if verdict == "lower" else metric.higher
    return f"{_scale_of(judged).text(_amount(judged)['median'])} {word}"


def verdict_interval(judged: Judged) -> str:
    """Return the interval of the difference as an amount without its sign, to follow `verdict_words`."""
    return _scale_of(judged).interval(_amount(judged))


def ratio_words(comparison: ComparisonData) -> str:
    """Return the ratio, such as `, 0.25 times as much`; "" if it is within 5 % of 1."""
    ratio = comparison["ratio"]
    if ratio is None or not math.isfinite(ratio["median"]) or abs(ratio["median"] - 1) < 0.05:
        return ""
    return (
        f", {ratio['median']:,.0f} times as much" if ratio["median"] >= 10 else f", {ratio['median']:.2g} times as much"
    )


def no_verdict_reason(judged: Judged, *, needed: int) -> str:
    """Return the reason why there is no verdict, if a verdict needs `needed` values."""
    difference = judged["difference"]
    if difference["n"] < needed:
        return f"{difference['n']} of {needed} values that it takes"
    return f"the interval of the difference, {_scale_of(judged).interval(difference)}, holds 0"


def _scale_of(judged: Judged) -> Scale:
    scale = Scale.of_estimate(judged["metric"], judged["difference"])
    return replace(scale, unit="points") if scale.unit == "%" else scale


def _amount(judged: Judged) -> Estimate:
    """Return the difference as an amount without its sign."""
    difference = judged["difference"]
    if judged["verdict"] != "lower":
        return difference
    median, low, high = (-difference[bound] for bound in ("median", "high", "low"))
    return {"n": difference["n"], "median": median, "low": low, "high": high}


def moment(text: str) -> str:
    """Format an ISO 8601 time for people; return any other text unchanged."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return plain(text, LABEL_CHARS)
    return f"{at.day} {at:%B %Y, %H:%M} {at:%Z}".rstrip()


def listed(words: Sequence[str]) -> str:
    """Join the words as `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def ended_text(case: CaseData) -> str:
    """Describe the end of the runs that did not end as expected; empty if all did."""
    counts: dict[str, int] = {}
    refused = 0
    for run in case["runs"]:
        # A recording may end with calls, and the run with it.
        if run["error"] is not None or run["status"] not in ("completed", "limit"):
            how = f"failed with {run['error']}" if run["error"] else run["status"]
            counts[how] = counts.get(how, 0) + 1
        calls = [block["call"] for request in run["latency"]["requests"] for block in request["blocks"]]
        refused += run["error"] is None and any(call is not None and call["is_error"] for call in calls)
    if refused:  # such a run counts like others, but with broken tools it does not measure the intended case
        counts["with calls that were answered with an error"] = refused
    total = len(case["runs"])
    return "; ".join(f"{count} of {total} {how}" for how, count in counts.items())


def program_notes(case: CaseData, *, simulated: bool) -> str:
    """Describe the things in which the runs of a program differ from our own; empty if there are none."""
    if "program" not in case:
        return ""
    latencies = [run["latency"] for run in case["runs"] if run["latency"]["requests"]]
    notes: list[str] = []
    if not all(run.get("same_responses", True) for run in case["runs"]):
        told = "its tools cannot take the calls of the others, so it got calls of its own, and is compared with none"
        notes.append(f"{told}: measure the same tools with --tools")
    if len({latency["eager"] is None for latency in latencies}) > 1:
        notes.append("it asked for eager inputs only in some runs")
    models = {latency["model"] for latency in latencies} - {case["model"]}
    if models and not simulated:
        notes.append(f"it asked for another model: {plain(listed(sorted(models)), LABEL_CHARS)}")
    return "; ".join(notes)
