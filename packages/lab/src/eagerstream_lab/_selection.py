"""Selection of the pairs and runs that a report shows. The number is limited, and the report says so."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from eagerstream.loop import BlockData, LatencyData

from ._results import CaseData, ComparisonData, MeasuredRun, Results

MAX_CASES: Final = 40
"""Maximum number of cases in one chart."""

MAX_PAIRS: Final = 12
"""Maximum number of pairs (eager and buffered) to draw."""

MAX_RUNS: Final = 20
"""Maximum number of runs of a case to draw."""

MAX_ALL_RUNS: Final = 200
"""Maximum number of runs in a report to draw, at about 50 ms each."""

_LARGEST: Final = 1e12


@dataclass(frozen=True, slots=True)
class Pair:
    """Two cases that differ only in the streaming of inputs."""

    eager: CaseData
    buffered: CaseData


def pairs(results: Results) -> list[Pair]:
    """Return all pairs, in the order of the cases."""
    found: dict[tuple[str, str, str, str], dict[str, CaseData]] = {}
    for case in results["cases"]:
        if "program" in case:
            continue  # two programs differ in more
        key = (case["source"], case["tools"], case["model"], case["transport"])
        found.setdefault(key, {}).setdefault(case["streaming"], case)
    return [Pair(two["eager"], two["buffered"]) for two in found.values() if len(two) == 2]


def metrics(results: Results) -> list[str]:
    """Return the figures that any case has, in order."""
    return list(dict.fromkeys(metric for case in results["cases"] for metric in case["metrics"]))


def by_pair(comparisons: Iterable[ComparisonData]) -> dict[tuple[str, str], list[ComparisonData]]:
    """Return the comparisons of each pair of cases, by the ids of both: (base, other)."""
    found: dict[tuple[str, str], list[ComparisonData]] = {}
    for comparison in comparisons:
        found.setdefault((comparison["base"], comparison["other"]), []).append(comparison)
    return found


def whole_runs(case: CaseData) -> list[MeasuredRun]:
    """Return the runs that did not fail."""
    return [run for run in case["runs"] if run["error"] is None]


def median_run(case: CaseData) -> MeasuredRun | None:
    """Return the successful run whose duration is nearest to the median; `None` if every run failed."""
    timed = [
        (duration, run) for run in whole_runs(case) if (duration := drawable(run["latency"]["duration_s"])) is not None
    ]
    if not timed:
        return next(iter(whole_runs(case)), None)
    middle = median(duration for duration, _ in timed)
    return min(timed, key=lambda one: abs(one[0] - middle))[1]


def shown_runs(case: CaseData, cases: int) -> list[MeasuredRun]:
    """Return the runs to draw: the median run first, the others in the order of measurement.

    The larger the number of cases, the fewer runs of each are drawn.
    """
    middle = median_run(case)
    others = sorted((run for run in case["runs"] if run is not middle), key=lambda run: run["order"])
    most = min(MAX_RUNS, max(1, MAX_ALL_RUNS // max(1, cases)))
    return ([middle] if middle else [])[:most] + others[: most - (1 if middle else 0)]


def scales_s(results: Results) -> dict[str, float]:
    """Return, by source, the end of its time lines: its longest successful run, or its longest run if all failed."""
    ends: dict[str, tuple[float, float]] = {}
    for case in results["cases"]:
        whole_s, any_s = ends.get(case["source"], (0.0, 0.0))
        for run in case["runs"]:
            end_s = run_end_s(run["latency"])
            any_s = max(any_s, end_s)
            if run["error"] is None:
                whole_s = max(whole_s, end_s)
        ends[case["source"]] = whole_s, any_s
    return {source: whole_s or any_s or 1.0 for source, (whole_s, any_s) in ends.items()}


def run_end_s(latency: LatencyData) -> float:
    """Return the last known moment of a run; 0 if there is none."""
    return max((drawable(at_s) or 0.0 for at_s in _moments(latency)), default=0.0)


def _moments(latency: LatencyData) -> Iterator[float | None]:
    yield latency["duration_s"]
    for request in latency["requests"]:
        yield from (request["sent_s"], request["headers_s"], request["end_s"], request["settled_s"])
        for block in request["blocks"]:
            yield block["stop_s"]
            yield block["last_fragment_s"]
            if block["call"]:
                yield block["call"]["end_s"]


def gaps_s(case: CaseData) -> list[float]:
    """Return the gaps between the fragments of each input, in all successful runs.

    If a case has no inputs, return the gaps of all blocks.
    """
    blocks = [
        block
        for run in whole_runs(case)
        for request in run["latency"]["requests"]
        if not request["discarded"]
        for block in request["blocks"]
    ]
    inputs = [block for block in blocks if block["outcome"] is not None]
    return [gap for block in inputs or blocks for gap in _gaps_of(block)]


def _gaps_of(block: BlockData) -> list[float]:
    times = [at_s for at_s, _, _ in block["arrivals"]]
    together = sum(fragments - 1 for _, fragments, _ in block["arrivals"])
    gaps = (drawable(later - earlier) for earlier, later in pairwise(times))
    return [max(0.0, gap) for gap in gaps if gap is not None] + [0.0] * together


def drawable(value: float | None) -> float | None:
    """Return the number if it can be drawn, or `None` if it is not finite or exceeds 30,000 years."""
    return value if value is not None and math.isfinite(value) and abs(value) < _LARGEST else None


def drawables(values: Sequence[float | None]) -> list[float]:
    """Return the values that can be drawn."""
    return [value for value in map(drawable, values) if value is not None]
