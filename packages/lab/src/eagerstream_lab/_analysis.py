"""Results of a benchmark: figures, verdicts, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from ._matrix import PROGRAM, Case, Matrix
from ._measure import Measured
from ._metrics import METRICS
from ._noise import run_warnings
from ._plan import Plan
from ._results import CaseData, MachineData, MetricData, Results, SettingsData
from ._statistics import of_pairs, of_values, ratios


def assemble(
    matrix: Matrix,
    measured: Iterable[Measured],
    *,
    settings: SettingsData,
    simulated: bool,
    machine: MachineData,
    warnings: Sequence[str] = (),
) -> Results:
    """Return the results of the measured runs; runs of warm-up rounds are left out.

    Raises:
        UsageError: As for `Plan`.
    """
    plan = Plan.of(settings, pairs=len(matrix.pairs()))
    runs = _counted(matrix, measured)
    labels = matrix.labels()
    cases = [_case(case, labels[case.id], runs[case.id], settings) for case in matrix.cases]
    same = {case.id: all(one.run.get("same_responses", True) for one in runs[case.id]) for case in matrix.cases}
    results: Results = {
        "eagerstream_bench": 1,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "simulated": simulated,
        "machine": machine,
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
    runs = _counted(matrix, measured)
    return plan.is_enough(
        (_values(name, runs[base.id]), _values(name, runs[other.id]))
        for base, other in matrix.pairs()
        for name in plan.primary
    )


def _counted(matrix: Matrix, measured: Iterable[Measured]) -> dict[str, list[Measured]]:
    """Return the runs that count, by the ids of their cases."""
    runs: dict[str, list[Measured]] = {case.id: [] for case in matrix.cases}
    for one in measured:
        if one.step.repetition >= 0:
            runs[one.step.case.id].append(one)
    return runs


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
