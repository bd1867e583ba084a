"""Words of the report and of the terminal: names of figures and cases, quantities with units, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypeVar

from eagerstream._support.markup import plain
from eagerstream._support.wording import count_text

from ._limits import LimitData, LimitState
from ._metrics import METRICS, Unit
from ._results import CaseData, ComparisonData, Estimate, Judged, MachineData, Results, Verdict
from ._statistics import has_interval, least_n

JudgedT = TypeVar("JudgedT", bound=Judged)

LABEL_CHARS: Final = 72
"""Maximum length of the name of a case, a figure or a tool."""

AT_PROXY: Final = "programs: all figures are those at a proxy, except those about tools, which only our own cases have"
"""Note about results with programs."""

NOT_IN_TURN: Final = "a and b were not measured in turn: whatever changed in between may be the cause of a difference"
"""Note about results of two benchmarks."""

LIMIT_STATES: Final[Mapping[LimitState, str]] = {
    "exceeded": "exceeded",
    "kept": "kept",
    "undecided": "undecided",
    "unknown": "not checked",
}
"""Words for the states of limits."""


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


def interval_words(metric: str, estimate: Estimate) -> str:
    """Return the interval of a median. It is called a range if there are too few values for an interval."""
    text = Scale.of_estimate(metric, estimate).interval(estimate)
    return text if has_interval(estimate) else f"range {text}"


def median_words(metric: str, estimate: Estimate) -> str:
    """Return a median with its unit."""
    return Scale.of_estimate(metric, estimate).text(estimate["median"])


MARKS: Final[Mapping[Verdict | None, str]] = {
    "lower": "\u2212",
    "higher": "+",
    "equivalent": "=",
    "undecided": "?",
    None: "",
}
"""Marks of verdicts at the end of a line."""


def cells(judged: Judged, a: Estimate, b: Estimate) -> tuple[str, ...]:
    """Return the line of one figure: its name, both medians, their difference, its interval, and a mark.

    The interval has the unit of the difference. Too few values have no interval.
    """
    difference, scale = judged["difference"], _scale_of(judged)
    unit = scale.suffix.replace("points", "pts")
    sign = "+" if difference["median"] > 0 else ""
    interval = replace(scale, unit="").interval(difference) if has_interval(difference) else "-"
    name, metric = metric_name(judged["metric"]), judged["metric"]
    told = f"{sign}{scale.number(difference['median'])}{unit}"
    return name, median_words(metric, a), median_words(metric, b), told, interval, MARKS[judged["verdict"]]


def primary_first(judged: Sequence[JudgedT]) -> list[JudgedT]:
    """Return the figures with a verdict, and then the others."""
    return sorted(judged, key=lambda one: one["verdict"] is None)


def rounds_words(results: Results) -> str:
    """Return the number of repetitions, such as `10 repetitions`, or `23 of up to 100 repetitions (until 2%)`."""
    settings = results["settings"]
    done = max((run["repetition"] + 1 for case in results["cases"] for run in case["runs"]), default=0)
    asked = count_text(settings["repetitions"], "repetition")
    if settings["until"]:
        return f"{done} of up to {asked} (until {plain(settings['until'], LABEL_CHARS)})"
    return asked if done == settings["repetitions"] else f"{done} of {asked}"


def notes_on(judged: Sequence[Judged], confidence: float) -> list[str]:
    """Return notes on the meaning of marks and intervals, for all comparisons of a benchmark together."""
    primary = [one for one in judged if one["verdict"] is not None]
    if not judged:
        return []
    notes: list[str] = []
    others = len(judged) - len(primary)
    if primary:
        figures = listed(list(dict.fromkeys(metric_name(one["metric"]) for one in primary)))
        level = level_words(primary[0]["difference"]["confidence"])
        words = [f"{MARKS['lower']} lower", f"{MARKS['higher']} higher", f"{MARKS['undecided']} undecided"]
        if any(one["margin"] for one in primary):
            words.insert(2, f"{MARKS['equivalent']} no difference that matters")
        notes.append(f"verdicts: {', '.join(words)}. Only these figures have one: {figures}.")
        if len(primary) > 1 or level != level_words(confidence):
            together = f"{level_words(confidence)} is the confidence of the {len(primary)} verdicts together"
            notes.append(f"{together}, and {level} that of each.")
    if others:
        notes.append(
            f"Each of the other {others} intervals has {level_words(confidence)} by itself: about"
            f" {others * (1 - confidence):.1f} of them exclude 0 by chance if nothing differs."
        )
    return notes


def verdict_words(judged: Judged) -> str:
    """Return the verdict on one figure compared with the other, such as `2.40 s earlier`."""
    verdict, metric = judged["verdict"], METRICS.get(judged["metric"])
    if verdict == "equivalent":
        return f"less than {_margin_words(judged)} apart"
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


def no_verdict_reason(judged: Judged) -> str:
    """Return the reason why a primary figure has no verdict."""
    difference = judged["difference"]
    if not has_interval(difference):
        return f"{difference['n']} of {least_n(difference['confidence'])} values that it takes"
    if judged["margin"]:
        return f"the interval is neither beyond {_margin_words(judged)} nor within it"
    return "the interval contains 0"


def undecided(judged: Iterable[Judged]) -> list[tuple[str, str]]:
    """Return the primary figures without a verdict, joined by their reasons, and each reason once."""
    found: dict[str, list[str]] = {}
    for one in judged:
        if one["verdict"] == "undecided":
            found.setdefault(no_verdict_reason(one), []).append(metric_name(one["metric"]))
    return [(listed(names), reason) for reason, names in found.items()]


def level_words(confidence: float) -> str:
    """Format a confidence, with the digits that tell it from 1."""
    digits = 4 if confidence < 0.999 else 6
    return f"{confidence * 100:.{digits}g} %"


def _margin_words(judged: Judged) -> str:
    """Return the smallest difference that matters."""
    scale = Scale.of(unit_of(judged["metric"]), judged["margin"])
    return scale.text(judged["margin"]).replace("%", "points")


def _scale_of(judged: Judged) -> Scale:
    scale = Scale.of_estimate(judged["metric"], judged["difference"])
    return replace(scale, unit="points") if scale.unit == "%" else scale


def _amount(judged: Judged) -> Estimate:
    """Return the difference as an amount without its sign."""
    difference = judged["difference"]
    if judged["verdict"] != "lower":
        return difference
    return _negated(difference)


def _negated(estimate: Estimate) -> Estimate:
    return {**estimate, "median": -estimate["median"], "low": -estimate["high"], "high": -estimate["low"]}


def machine_facts(machine: MachineData) -> dict[str, str]:
    """Return what is known about the machine, by its name for people."""
    cores = count_text(machine["cores"], "processor")
    load = "" if machine["load"] is None else f", load {machine['load']:.2f} before the first run"
    facts = {
        "System": machine["system"],
        "Processor": f"{machine['cpu']}, {cores}{load}",
        "Python": f"{machine['python']}, eagerstream-wire {machine['core']}",
        "Packages": ", ".join(f"{name} {version}" for name, version in machine["packages"].items()),
    }
    if machine["commit"] is not None:
        facts["Commit"] = machine["commit"] + (", with changes that are in no commit" if machine["dirty"] else "")
    return facts


def commit_words(commit: str | None, *, dirty: bool | None) -> str:
    """Return the first digits of a commit, with a plus if there were changes; `-` without a commit."""
    return "-" if commit is None else f"{plain(commit[:8])}{'+' if dirty else ''}"


def limit_words(limit: LimitData) -> str:
    """Return the distance from a limit, such as `82.1 ms [41.0, 130] ms beyond it`, or why it is unknown."""
    excess = limit["excess"]
    if excess is None or limit["state"] == "unknown":
        return limit["reason"] or "no value"
    scale = Scale.of_estimate(limit["metric"], excess)
    if limit["state"] == "undecided":
        return f"from {scale.text(-excess['low'])} within it to {scale.text(excess['high'])} beyond it"
    if limit["state"] == "exceeded":
        return f"{scale.text(excess['median'])} {scale.interval(excess)} beyond it"
    return f"{scale.text(-excess['median'])} {scale.interval(_negated(excess))} within it"


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
