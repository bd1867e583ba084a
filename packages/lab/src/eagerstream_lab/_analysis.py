"""Results of a benchmark, and the comparison of two benchmarks."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

from typing_extensions import TypedDict

from eagerstream.errors import UsageError

from ._matrix import MAX_CASES, MAX_REPETITIONS, PROGRAM, Case, Matrix
from ._measure import Measured
from ._metrics import METRICS
from ._results import CaseData, Estimate, Judged, MetricData, Results, SettingsData
from ._statistics import check_confidence, difference_of_medians, differences, estimate, ratios, verdict

_PACKAGES: Final = ("eagerstream", "anthropic", "anyio", "httpx", "httpx2")


def assemble(matrix: Matrix, measured: Iterable[Measured], *, settings: SettingsData, simulated: bool) -> Results:
    """Return the results of the measured runs; runs of warm-up rounds are left out.

    Raises:
        MissingExtraError: NumPy or SciPy is not installed.
    """
    runs: dict[str, list[Measured]] = {case.id: [] for case in matrix.cases}
    for one in measured:
        if one.step.repetition >= 0:
            runs[one.step.case.id].append(one)
    labels = matrix.labels()
    cases = [_case(case, labels[case.id], runs[case.id], settings) for case in matrix.cases]
    same = {case.id: all(one.run.get("same_responses", True) for one in runs[case.id]) for case in matrix.cases}
    results: Results = {
        "eagerstream_bench": 1,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "simulated": simulated,
        "machine": machine(),
        "settings": settings,
        "cases": cases,
        "comparisons": [],
    }
    by_id = {case["id"]: case for case in cases}
    confidence, seed = settings["confidence"], settings["seed"]
    for base, other in matrix.pairs():
        if not (same[base.id] and same[other.id]):
            continue  # else the difference would be that of the responses
        for name, base_data, other_data in _in_both(by_id[base.id], by_id[other.id]):
            # An interrupted round has only some of the cases.
            count = min(len(base_data["values"]), len(other_data["values"]))
            first, second = base_data["values"][:count], other_data["values"][:count]
            difference = estimate(differences(first, second), confidence=confidence, seed=seed)
            if difference is not None:
                results["comparisons"].append(
                    {
                        "metric": name,
                        "base": base.id,
                        "other": other.id,
                        "difference": difference,
                        "ratio": estimate(ratios(first, second) or (), confidence=confidence, seed=seed),
                        "verdict": verdict(difference, confidence=confidence),
                    }
                )
    return results


def machine() -> dict[str, str]:
    """Return the kind of the machine and the versions, but nothing that identifies the machine."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": str(os.cpu_count()),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **{package: _version(package) for package in _PACKAGES},
    }


def _case(case: Case, label: str, runs: Sequence[Measured], settings: SettingsData) -> CaseData:
    data: CaseData = {
        "id": case.id,
        "label": label,
        "source": case.source.name,
        "tools": case.tools.name,
        "streaming": case.streaming,
        "model": case.model,
        "transport": case.transport.value,
        "metrics": {},
        "runs": [one.run for one in runs],
    }
    count = max((one.step.repetition for one in runs), default=-1) + 1
    for name in METRICS:
        values: list[float | None] = [None] * count
        for one in runs:
            value = one.figures.get(name)
            values[one.step.repetition] = None if value is None else round(value, 6)
        middle = estimate(values, confidence=settings["confidence"], seed=settings["seed"])
        if middle is not None:
            data["metrics"][name] = {**middle, "values": values}
    if case.program is not None:
        asked_eagerly = any(one.run["latency"]["eager"] for one in runs)
        data |= {
            "streaming": "eager" if asked_eagerly else "buffered",
            "transport": PROGRAM,
            "program": case.program.name,
        }
        if any(one.run["latency"]["requests"] for one in runs):
            data["label"] = f"{label} ({data['streaming']})"
    return data


def _in_both(a: CaseData, b: CaseData) -> Iterator[tuple[str, MetricData, MetricData]]:
    """Yield the figures that two cases share."""
    for name in METRICS:
        if name in a["metrics"] and name in b["metrics"]:
            yield name, a["metrics"][name], b["metrics"][name]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


# --- two benchmarks ---------------------------------------------------------------------------------------------------

_SETTINGS: Final = ("profile", "speed", "measured_at")  # figures depend on these; the others affect only the certainty

_OLDER: Final = {"measured_at": "client"}


class ComparedMetric(Judged):
    """One figure of a case in both benchmarks. The runs are no pairs, so the difference is that of the medians.

    Attributes:
        a, b: Median of the figure in each benchmark.
    """

    a: Estimate
    b: Estimate


class ComparedCase(TypedDict):
    """Case that both benchmarks have."""

    id: str
    label: str
    metrics: list[ComparedMetric]


class Compared(TypedDict):
    """Comparison of two benchmarks; `warnings` list other differences that may be the cause."""

    eagerstream_bench_comparison: Literal[1]
    confidence: float
    simulated: bool
    warnings: list[str]
    cases: list[ComparedCase]
    only_a: list[str]
    only_b: list[str]


def compare(a: Results, b: Results, *, confidence: float = 0.95) -> Compared:
    """Compare two benchmarks figure by figure, in the cases with the same ids.

    Raises:
        UsageError: The two have no case in common, one has two cases with the same id or exceeds the limits of a
            benchmark, or the confidence is out of range.
        MissingExtraError: NumPy or SciPy is not installed.
    """
    check_confidence(confidence)
    first, second = _cases("a", a), _cases("b", b)
    shared = [case for id, case in first.items() if id in second]
    if not shared:
        raise UsageError("the two benchmarks have no case in common")
    seed = a["settings"]["seed"]
    cases: list[ComparedCase] = []
    for case in shared:
        metrics: list[ComparedMetric] = []
        for name, one, two in _in_both(case, second[case["id"]]):
            difference = difference_of_medians(one["values"], two["values"], confidence=confidence, seed=seed)
            if difference is not None:
                metrics.append(
                    {
                        "metric": name,
                        "a": _estimate(one),
                        "b": _estimate(two),
                        "difference": difference,
                        "verdict": verdict(difference, confidence=confidence),
                    }
                )
        cases.append({"id": case["id"], "label": case["label"], "metrics": metrics})
    return {
        "eagerstream_bench_comparison": 1,
        "confidence": confidence,
        "simulated": a["simulated"] or b["simulated"],
        "warnings": list(_warnings(a, b)),
        "cases": cases,
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


def _estimate(estimate: Estimate) -> Estimate:
    return {"n": estimate["n"], "median": estimate["median"], "low": estimate["low"], "high": estimate["high"]}


def _warnings(a: Results, b: Results) -> Iterator[str]:
    """Yield a warning for each other difference that may be the cause."""
    if a["simulated"] != b["simulated"]:
        simulated, live = ("a", "b") if a["simulated"] else ("b", "a")
        yield f"{simulated} is simulated and {live} is not: the difference means nothing"
    for name in dict.fromkeys((*a["machine"], *b["machine"])):
        first, second = (results["machine"].get(name, "unknown") for results in (a, b))
        if first != second:
            yield f"not the same {name}: {first}, and {second}"
    settings_a, settings_b = dict(a["settings"]), dict(b["settings"])
    for name in _SETTINGS:
        one, other = (settings.get(name, _OLDER.get(name)) for settings in (settings_a, settings_b))
        if one != other:
            yield f"not the same {name}: {one}, and {other}"
