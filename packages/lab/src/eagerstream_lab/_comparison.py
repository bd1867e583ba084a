"""Comparison of benchmarks: the last with the first, or the cases of one benchmark, with all in between as a trend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from typing_extensions import TypedDict

from eagerstream._support.wording import count_text
from eagerstream.errors import UsageError

from ._limits import Checked, Limit, LimitData, Shift, Values
from ._matrix import MAX_CASES, MAX_REPETITIONS
from ._metrics import METRICS
from ._plan import Plan
from ._results import CaseData, Estimate, Judged, Results, SettingsData
from ._statistics import differences, of_pairs, of_samples
from ._wording import Names, listed

MAX_FILES: Final = 1_000
"""Maximum number of benchmarks to compare."""


class FileData(TypedDict):
    """One of the benchmarks.

    Attributes:
        name: Path of its file, as it was given.
        created_at: Time of the measurement, in ISO 8601.
        commit, dirty: See `MachineData`.
    """

    name: str
    created_at: str
    commit: str | None
    dirty: bool | None


class ComparedMetric(Judged):
    """One figure of a case.

    Attributes:
        a, b: Median of the figure on each side.
        trend: Median in each of the benchmarks; `None` for one without the figure. Empty for a single benchmark.
    """

    a: Estimate
    b: Estimate
    trend: list[Estimate | None]


class ComparedCase(TypedDict):
    """Case of both sides. In a single benchmark, `base` is the id of the case on side a, and otherwise `None`."""

    id: str
    base: str | None
    label: str
    metrics: list[ComparedMetric]


class Compared(TypedDict):
    """Comparison of benchmarks: a is the first one, and b is the last one.

    All verdicts together hold with the `confidence`, so each has the higher `verdict_confidence`. `warnings` list other
    differences that may be the cause. `only_a` and `only_b` are the ids of cases that the other side does not have.
    """

    eagerstream_bench_comparison: Literal[1]
    confidence: float
    verdict_confidence: float
    simulated: bool
    warnings: list[str]
    files: list[FileData]
    cases: list[ComparedCase]
    limits: list[LimitData]
    only_a: list[str]
    only_b: list[str]


class Side(NamedTuple):
    """Results of one benchmark, and the path of their file."""

    name: str
    results: Results


class _Pair(NamedTuple):
    """Two cases to compare, and this case in all benchmarks. `b` is `None` if the case has gone."""

    label: str
    a: CaseData
    b: CaseData | None
    trend: Sequence[CaseData | None]


def compare(
    sides: Sequence[Side], *, confidence: float = 0.95, min_effect: str | None = None, limits: Sequence[Limit] = ()
) -> Compared:
    """Compare the last benchmark with the first one, in the cases with the same ids.

    Runs of two benchmarks are no pairs: the difference is the shift between the samples. A single benchmark is compared
    in itself, each of its pairs of cases by the runs of the same round. The figures with limits get verdicts; without
    limits, the primary figures of the first benchmark.

    Raises:
        UsageError: There is nothing to compare, a benchmark has two cases with the same id or is too large, no case has
            the figure of a limit, or `Plan` raises it.
    """
    if not 1 <= len(sides) <= MAX_FILES:
        raise UsageError(f"compare takes from 1 to {MAX_FILES:,} benchmarks, not {len(sides):,}")
    cases = [_cases(side) for side in sides]
    first, last = cases[0], cases[-1]
    if is_single := len(sides) == 1:
        pairs = [*_pairs_within(sides[0].results, first)]
    else:
        pairs = [
            _Pair(case["label"] or id, case, last.get(id), [by_id.get(id) for by_id in cases])
            for id, case in first.items()
        ]
    compared = [pair for pair in pairs if pair.b is not None]
    if not compared and not (is_single and limits):  # a limit on a case that failed is not checked
        raise UsageError("the benchmark compares no cases" if is_single else "the benchmarks have no case in common")
    settings: SettingsData = {**sides[0].results["settings"], "confidence": confidence, "min_effect": min_effect}
    settings |= {"until": None, "looks": [1]}
    if limits:
        settings["primary"] = [*dict.fromkeys(limit.metric for limit in limits)]
    plan = Plan.of(settings, pairs=len(compared))
    shift = _paired if is_single else _shifted
    return {
        "eagerstream_bench_comparison": 1,
        "confidence": confidence,
        "verdict_confidence": plan.verdict_confidence,
        "simulated": any(side.results["simulated"] for side in sides),
        "warnings": [*_warnings(sides), *_failures(compared)],
        "files": [_file(side) for side in sides],
        "cases": [_compared(pair, plan, shift, is_single=is_single) for pair in compared],
        "limits": [*_checked(pairs, limits, plan, shift)],
        "only_a": [pair.a["id"] for pair in pairs if pair.b is None],
        "only_b": [id for id in last if id not in first],
    }


# --- cases ------------------------------------------------------------------------------------------------------------


def _cases(side: Side) -> dict[str, CaseData]:
    cases = {case["id"]: case for case in side.results["cases"]}
    if len(cases) < len(side.results["cases"]):
        raise UsageError(f"{side.name} has two cases of one id")
    if len(cases) > MAX_CASES:
        raise UsageError(f"{side.name} has more than {MAX_CASES:,} cases")
    if any(len(figure["values"]) > MAX_REPETITIONS for case in cases.values() for figure in case["metrics"].values()):
        raise UsageError(f"{side.name} has figures of more than {MAX_REPETITIONS:,} runs")
    return cases


def _pairs_within(results: Results, cases: Mapping[str, CaseData]) -> Iterator[_Pair]:
    """Yield the pairs of cases that a benchmark compares, and each case that it compares with none."""
    names, seen = Names(results), set[str]()
    for base, other in dict.fromkeys((one["base"], one["other"]) for one in results["comparisons"]):
        if base in cases and other in cases:
            seen |= {base, other}
            yield _Pair(f"{names[other]} (b), compared with {names[base]} (a)", cases[base], cases[other], ())
    for id, case in cases.items():
        if id not in seen:
            yield _Pair(names[id], case, None, ())


def _compared(pair: _Pair, plan: Plan, shift: Shift, *, is_single: bool) -> ComparedCase:
    assert pair.b is not None
    metrics: list[ComparedMetric] = []
    for name in METRICS:
        base, other = _values(pair.a, name), _values(pair.b, name)
        level = plan.verdict_confidence if name in plan.primary else plan.confidence
        difference = shift(base, other, level)
        if difference is not None:
            a, b = _estimate(pair.a, name), _estimate(pair.b, name)
            assert a is not None
            assert b is not None
            trend = [case and _estimate(case, name) for case in pair.trend]
            metrics.append({**plan.judged(name, difference, base), "a": a, "b": b, "trend": trend})
    base_id = pair.a["id"] if is_single else None
    return {"id": pair.b["id"], "base": base_id, "label": pair.label, "metrics": metrics}


def _values(case: CaseData, metric: str) -> Values:
    return case["metrics"][metric]["values"] if metric in case["metrics"] else []


def _estimate(case: CaseData, metric: str) -> Estimate | None:
    if metric not in case["metrics"]:
        return None
    of = case["metrics"][metric]
    n, confidence = of["n"], of["confidence"]
    return {"n": n, "median": of["median"], "low": of["low"], "high": of["high"], "confidence": confidence}


def _paired(base: Values, other: Values, confidence: float) -> Estimate | None:
    count = min(len(base), len(other))  # an interrupted round has only some of the cases
    return of_pairs(differences(base[:count], other[:count]), confidence=confidence)


def _shifted(base: Values, other: Values, confidence: float) -> Estimate | None:
    return of_samples(base, other, confidence=confidence)


# --- limits -----------------------------------------------------------------------------------------------------------


def _checked(pairs: Sequence[_Pair], limits: Sequence[Limit], plan: Plan, shift: Shift) -> Iterator[LimitData]:
    for limit in limits:
        concerned = [pair for pair in pairs if any(case and _values(case, limit.metric) for case in (pair.a, pair.b))]
        if not concerned:
            raise UsageError(f"no case has the figure of {limit.text}")
        for pair in concerned:
            case, checked = (pair.b or pair.a)["id"], _check(pair, limit, plan, shift)
            yield {"limit": limit.text, "metric": limit.metric, "case": case, "label": pair.label, **checked}


def _check(pair: _Pair, limit: Limit, plan: Plan, shift: Shift) -> Checked:
    if pair.b is None:
        reason = "it was not measured again" if pair.trend else "it is compared with no other case"
        return {"excess": None, "state": "unknown", "reason": reason}
    base, other = _values(pair.a, limit.metric), _values(pair.b, limit.metric)
    checked = limit.check(base, other, shift=shift, confidence=plan.verdict_confidence)
    (before, runs_before), (after, runs) = _failed(pair.a), _failed(pair.b)
    if checked["state"] in ("kept", "undecided") and after * runs_before > before * runs:
        # The runs that failed are in no figure. Those that did not may be the fast ones.
        reason = f"{after} of {runs} runs failed, and {before} of {runs_before} of a"
        return {**checked, "state": "unknown", "reason": reason}
    return checked


def _failed(case: CaseData) -> tuple[int, int]:
    """Return the number of failed runs, and of all."""
    values = _values(case, "duration_s")
    return sum(value is None for value in values), len(values)


# --- other causes -----------------------------------------------------------------------------------------------------


def _file(side: Side) -> FileData:
    machine = side.results["machine"]
    created_at = side.results["created_at"]
    return {"name": side.name, "created_at": created_at, "commit": machine["commit"], "dirty": machine["dirty"]}


def _warnings(sides: Sequence[Side]) -> Iterator[str]:
    """Yield a warning for each other difference that may be the cause."""
    if len({side.results["simulated"] for side in sides}) > 1:
        simulated = listed([side.name for side in sides if side.results["simulated"]])
        yield f"only {simulated} is simulated: the difference means nothing"
    facts = [_facts(side.results) for side in sides]
    for name in dict.fromkeys(name for one in facts for name in one):
        by_value: dict[str, list[str]] = {}
        for side, one in zip(sides, facts, strict=True):
            by_value.setdefault(one.get(name, "unknown"), []).append(side.name)
        if len(by_value) > 1:
            told = [f"{value} ({names[0]}{', ...' if len(names) > 1 else ''})" for value, names in by_value.items()]
            yield f"not the same {name}: {', '.join(told)}"
    if len(sides) > 1 and (dirty := [side.name for side in sides if side.results["machine"]["dirty"]]):
        yield f"measured with changes that are in no commit: {listed(dirty)}"


def _facts(results: Results) -> dict[str, str]:
    """Return what the figures depend on."""
    machine, settings = results["machine"], results["settings"]
    return {
        "system": machine["system"],
        "processor": machine["cpu"],
        "number of processors": str(machine["cores"]),
        "Python": machine["python"],
        "eagerstream-wire": machine["core"],
        **machine["packages"],
        "profile": str(settings["profile"]),
        "speed": str(settings["speed"]),
        "place of measurement": settings.get("measured_at", "client"),
    }


def _failures(pairs: Sequence[_Pair]) -> Iterator[str]:
    """Yield a warning for each case with failed runs: they are in no figure."""
    for pair in pairs:
        for side, case in (("a", pair.a), ("b", pair.b)):
            failed, runs = (0, 0) if case is None else _failed(case)
            if failed:
                yield f"{pair.label}: {failed} of {count_text(runs, 'run')} of {side} failed, and are in no figure"
