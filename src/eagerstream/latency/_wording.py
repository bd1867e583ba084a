"""The words of a report: names of figures and cases, quantities with their units, verdicts as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from .._support.markup import plain
from ._metrics import METRICS, Unit
from ._results import CaseData, ComparisonData, Estimate, Results
from ._verdicts import size_of

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
        self._varying = [part for part in _PARTS if len({_part(case, part) for case in results["cases"]}) > 1]

    def __getitem__(self, id: str) -> str:
        return self._names.get(id) or plain(id, LABEL_CHARS)

    def shared(self, case: CaseData) -> str:
        """What a pair of an eager and a buffered case has in common, and others do not; "" where it is the only one."""
        return plain(" / ".join(_part(case, part) for part in self._varying), LABEL_CHARS)


_Part: TypeAlias = Literal["source", "tools", "model", "transport"]
_PARTS: Final[tuple[_Part, ...]] = ("source", "tools", "model", "transport")


def _part(case: CaseData, part: _Part) -> str:
    return case[part]


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
