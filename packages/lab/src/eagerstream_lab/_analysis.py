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
from ._noise import run_warnings
from ._plan import Plan
from ._results import CaseData, Estimate, Judged, MetricData, Results, SettingsData
from ._statistics import of_pairs, of_samples, of_values, ratios

_PACKAGES: Final = ("eagerstream", "anthropic", "anyio", "httpx", "httpx2")


def assemble(
    matrix: Matrix,
    measured: Iterable[Measured],
    *,
    settings: SettingsData,
    simulated: bool,
    warnings: Sequence[str] = (),
) -> Results:
    """Return the results of the measured runs; runs of warm-up rounds are left out.

    Raises:
        UsageError: As for `Plan`.
    """
    plan = Plan.of(settings, pairs=len(matrix.pairs()))
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
        "warnings": [*warnings, *(text for case in cases for text in run_warnings(case["label"] or case["id"], case))],
        "settings": settings,
        "cases": cases,
        "comparisons": [],
    }
    by_id = {case["id"]: case for case in cases}
    for base, other in matrix.pairs():
        if not (same[base.id] and same[other.id]):
            continue  # else the difference would be that of the responses
        for name, base_data, other_data in _in_both(by_id[base.id], by_id[other.id]):
            # An interrupted round has only some of the cases.
            count = min(len(base_data["values"]), len(other_data["values"]))
            first, second = base_data["values"][:count], other_data["values"][:count]
            judged = plan.judge(name, first, second)
            if judged is not None:
                ratio = of_pairs(ratios(first, second) or (), confidence=judged["difference"]["confidence"])
                results["comparisons"].append({**judged, "base": base.id, "other": other.id, "ratio": ratio})
    return results


def is_enough(matrix: Matrix, plan: Plan, measured: Sequence[Measured], rounds: int) -> bool:
    """Return True if the benchmark may stop after this number of rounds that count."""
    if plan.until is None or rounds not in plan.looks:
        return False
    runs: dict[str, list[Measured]] = {case.id: [] for case in matrix.cases}
    for one in measured:
        if one.step.repetition >= 0:
            runs[one.step.case.id].append(one)
    return plan.is_enough(
        (_values(name, runs[base.id]), _values(name, runs[other.id]))
        for base, other in matrix.pairs()
        for name in plan.primary
    )


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
    for name in METRICS:
        values = _values(name, runs)
        middle = of_values(values, confidence=settings["confidence"])
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


def _values(metric: str, runs: Sequence[Measured]) -> list[float | None]:
    """Return a figure of the runs of a case, by repetition."""
    values: list[float | None] = [None] * (max((one.step.repetition for one in runs), default=-1) + 1)
    for one in runs:
        value = one.figures.get(metric)
        values[one.step.repetition] = None if value is None else round(value, 6)
    return values


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
    """One figure of a case in both benchmarks. The runs are no pairs: the difference is the shift between the samples.

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
    """Comparison of two benchmarks; `warnings` list other differences that may be the cause.

    All verdicts together hold with the `confidence`, so each has the higher `verdict_confidence`.
    """

    eagerstream_bench_comparison: Literal[1]
    confidence: float
    verdict_confidence: float
    simulated: bool
    warnings: list[str]
    cases: list[ComparedCase]
    only_a: list[str]
    only_b: list[str]


def compare(a: Results, b: Results, *, confidence: float = 0.95, min_effect: str | None = None) -> Compared:
    """Compare two benchmarks figure by figure, in the cases with the same ids.

    The primary figures of `a` get verdicts.

    Raises:
        UsageError: The two have no case in common, one has two cases with the same id or exceeds the limits of a
            benchmark, or `Plan` raises it.
    """
    first, second = _cases("a", a), _cases("b", b)
    shared = [case for id, case in first.items() if id in second]
    if not shared:
        raise UsageError("the two benchmarks have no case in common")
    changed = {"confidence": confidence, "min_effect": min_effect, "until": None, "looks": [1]}
    plan = Plan.of({**a["settings"], **changed}, pairs=len(shared))  # type: ignore[typeddict-item]
    cases: list[ComparedCase] = []
    for case in shared:
        metrics: list[ComparedMetric] = []
        for name, one, two in _in_both(case, second[case["id"]]):
            level = plan.verdict_confidence if name in plan.primary else confidence
            difference = of_samples(one["values"], two["values"], confidence=level)
            if difference is not None:
                judged = plan.judged(name, difference, one["values"])
                metrics.append({**judged, "a": _estimate(one), "b": _estimate(two)})
        cases.append({"id": case["id"], "label": case["label"], "metrics": metrics})
    return {
        "eagerstream_bench_comparison": 1,
        "confidence": confidence,
        "verdict_confidence": plan.verdict_confidence,
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


def _estimate(of: Estimate) -> Estimate:
    n, confidence = of["n"], of["confidence"]
    return {"n": n, "median": of["median"], "low": of["low"], "high": of["high"], "confidence": confidence}


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
