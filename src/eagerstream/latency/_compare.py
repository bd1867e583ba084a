"""Two benchmarks beside one another: what became different from one day to another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from typing_extensions import TypedDict

from ..errors import UsageError
from ._matrix import MAX_CASES, MAX_REPETITIONS
from ._metrics import METRICS
from ._results import CaseData, Estimate, Results, Verdict
from ._statistics import check_confidence, difference_of_medians, verdict

VERSION: Final = 1
_SETTINGS: Final = ("profile", "speed")  # of which figures depend on; the others decide how sure one can be


class ComparedMetric(TypedDict):
    """One figure of a case in both.

    Attributes:
        metric: Its name.
        a, b: Its median in each.
        difference: Of the medians, b less a: runs of different benchmarks are no pairs.
        verdict: Of b: lower or higher than a.
    """

    metric: str
    a: Estimate
    b: Estimate
    difference: Estimate
    verdict: Verdict


class ComparedCase(TypedDict):
    """A case that both have."""

    id: str
    label: str
    metrics: list[ComparedMetric]


class Compared(TypedDict):
    """Two benchmarks beside one another; `warnings` say why the difference may not be what one wants to know."""

    eagerstream_bench_comparison: Literal[1]
    confidence: float
    simulated: bool
    warnings: list[str]
    cases: list[ComparedCase]
    only_a: list[str]
    only_b: list[str]


def compare(a: Results, b: Results, *, confidence: float = 0.95) -> Compared:
    """The cases that both have, matched by their ids, figure by figure.

    Args:
        a: The earlier one, say.
        b: What is compared with it.
        confidence: Of the intervals.

    Raises:
        UsageError: They have no case in common; one has two of an id, or more than a benchmark can have; or the
            confidence is out of its range.
        MissingExtraError: NumPy or SciPy is not installed.
    """
    check_confidence(confidence)
    first, second = _cases("a", a), _cases("b", b)
    shared = [id for id in first if id in second]
    if not shared:
        raise UsageError("the two benchmarks have no case in common")
    seed = a["settings"]["seed"]
    return {
        "eagerstream_bench_comparison": VERSION,
        "confidence": confidence,
        "simulated": a["simulated"] or b["simulated"],
        "warnings": list(_warnings(a, b)),
        "cases": [_case(first[id], second[id], confidence, seed) for id in shared],
        "only_a": [id for id in first if id not in second],
        "only_b": [id for id in second if id not in first],
    }


def _cases(side: str, results: Results) -> dict[str, CaseData]:
    cases = {case["id"]: case for case in results["cases"]}
    if len(cases) < len(results["cases"]):
        raise UsageError(f"{side} has two cases of one id")
    if len(cases) > MAX_CASES:
        raise UsageError(f"{side} has more than {MAX_CASES:,} cases")
    if any(len(figure["values"]) > MAX_REPETITIONS for case in cases.values() for figure in case["metrics"].values()):
        raise UsageError(f"{side} has figures of more than {MAX_REPETITIONS:,} runs")
    return cases


def _case(a: CaseData, b: CaseData, confidence: float, seed: int) -> ComparedCase:
    metrics: list[ComparedMetric] = []
    for name in METRICS:
        if name not in a["metrics"] or name not in b["metrics"]:
            continue
        first, second = a["metrics"][name], b["metrics"][name]
        difference = difference_of_medians(first["values"], second["values"], confidence=confidence, seed=seed)
        if difference is not None:
            metrics.append(
                {
                    "metric": name,
                    "a": _estimate(first),
                    "b": _estimate(second),
                    "difference": difference,
                    "verdict": verdict(difference, confidence=confidence),
                }
            )
    return {"id": a["id"], "label": a["label"], "metrics": metrics}


def _estimate(estimate: Estimate) -> Estimate:
    return {"n": estimate["n"], "median": estimate["median"], "low": estimate["low"], "high": estimate["high"]}


def _warnings(a: Results, b: Results) -> Iterator[str]:
    """What else is different, so that it may be the cause."""
    if a["simulated"] != b["simulated"]:
        simulated, live = ("a", "b") if a["simulated"] else ("b", "a")
        yield f"{simulated} is simulated and {live} is not: the difference says nothing"
    for name in dict.fromkeys((*a["machine"], *b["machine"])):
        first, second = (results["machine"].get(name, "not told") for results in (a, b))
        if first != second:
            yield f"not the same {name}: {first}, and {second}"
    settings_a, settings_b = dict(a["settings"]), dict(b["settings"])
    for name in _SETTINGS:
        if settings_a[name] != settings_b[name]:
            yield f"not the same {name}: {settings_a[name]}, and {settings_b[name]}"
