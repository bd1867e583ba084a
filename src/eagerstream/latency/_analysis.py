"""What runs come to: the results of a benchmark."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from ._matrix import Case, Matrix
from ._measure import Measured
from ._metrics import METRICS
from ._results import CaseData, ComparisonData, MetricData, Results, SettingsData
from ._statistics import differences, estimate, ratios, verdict

_PACKAGES: Final = ("eagerstream", "anthropic", "anyio", "httpx", "httpx2")


def assemble(matrix: Matrix, measured: Iterable[Measured], *, settings: SettingsData, simulated: bool) -> Results:
    """The results of what was measured, as far as it came; runs of warm-up rounds are left out.

    Raises:
        MissingExtraError: NumPy or SciPy is not installed.
    """
    runs: dict[str, list[Measured]] = {case.id: [] for case in matrix.cases}
    for one in measured:
        if one.step.repetition >= 0:
            runs[one.step.case.id].append(one)
    labels = matrix.labels()
    cases = [_case(case, labels[case.id], runs[case.id], settings) for case in matrix.cases]
    by_id = {case["id"]: case for case in cases}
    return {
        "eagerstream_bench": 1,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "simulated": simulated,
        "machine": machine(),
        "settings": settings,
        "cases": cases,
        "comparisons": [
            comparison
            for base, other in matrix.pairs()
            for comparison in _comparisons(by_id[base.id], by_id[other.id], settings)
        ],
    }


def machine() -> dict[str, str]:
    """What it was measured on: the kind of machine and the versions, nothing that tells one machine from another."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": str(os.cpu_count()),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **{package: _version(package) for package in _PACKAGES},
    }


def _case(case: Case, label: str, runs: Sequence[Measured], settings: SettingsData) -> CaseData:
    return {
        "id": case.id,
        "label": label,
        "source": case.source.name,
        "tools": case.tools.name,
        "streaming": case.streaming,
        "model": case.model,
        "transport": case.transport.value,
        "metrics": _metrics(runs, settings),
        "runs": [one.run for one in runs],
    }


def _metrics(runs: Sequence[Measured], settings: SettingsData) -> dict[str, MetricData]:
    found: dict[str, MetricData] = {}
    if not runs:
        return found
    count = max(one.step.repetition for one in runs) + 1
    for name in METRICS:
        values: list[float | None] = [None] * count
        for one in runs:
            values[one.step.repetition] = one.figures.get(name)
        values = [None if value is None else round(value, 6) for value in values]
        middle = estimate(values, confidence=settings["confidence"], seed=settings["seed"])
        if middle is not None:
            found[name] = {**middle, "values": values}
    return found


def _comparisons(base: CaseData, other: CaseData, settings: SettingsData) -> list[ComparisonData]:
    found: list[ComparisonData] = []
    confidence, seed = settings["confidence"], settings["seed"]
    for name in METRICS:
        if name not in base["metrics"] or name not in other["metrics"]:
            continue
        first, second = base["metrics"][name]["values"], other["metrics"][name]["values"]
        count = min(len(first), len(second))  # an interrupted round has some of the cases only
        first, second = first[:count], second[:count]
        difference = estimate(differences(first, second), confidence=confidence, seed=seed)
        if difference is None:
            continue
        found.append(
            {
                "metric": name,
                "base": base["id"],
                "other": other["id"],
                "difference": difference,
                "ratio": estimate(ratios(first, second) or (), confidence=confidence, seed=seed),
                "verdict": verdict(difference, confidence=confidence),
            }
        )
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
