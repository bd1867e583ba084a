"""From the runs of a level to its figures: percentiles, throughput, goodput, bottlenecks, and the knee.

| question | rule |
|---|---|
| Which runs count? | Those that should start within the window. Each is followed to its end, under the same load. |
| And failed ones? | A run that failed, or did not end, is later than all others. So it moves percentiles up. |
| Throughput and goodput | Runs that ended within the window, divided by its length. |
| Percentiles | Nearest rank, over the runs of all clients together. None without enough runs: see `is_shown`. |
| Bottlenecks | A process that used 85 % of a processor, or whose event loop or starts were 50 ms late (p99). |
| Knee | The last level before throughput grew by less than half of the growth of the load. |

The rule of the knee needs no model and no smoothing: if the load doubles, throughput has to grow by half. Fits of two
lines, of the universal scalability law, or Kneedle need five levels or more, and a curve that has been measured far
beyond the knee. This rule needs three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from math import ceil, inf, isfinite
from statistics import median
from typing import Final, Literal, NamedTuple

from ._kinds import Arrivals, is_shown
from ._load_plan import FIGURES, Level, Objective, Phases, starts
from ._load_results import BaselineData, FigureData, KneeData, LevelData, RunsData
from ._load_runs import LoadedRun
from ._load_watch import BusyData, percentile
from ._statistics import of_trend
from ._wording import seconds

PERCENTILES: Final = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999))
"""Names and shares of the percentiles."""

BUSY_SHARE: Final = 0.85
"""Share of a processor from which on a process counts as a bottleneck: its event loop uses no more than one."""
LATE_S: Final = 0.05
"""99th percentile of the delay of an event loop, or of starts, from which on the process counts as a bottleneck."""
GROWTH: Final = 0.5
"""Growth of throughput, as a share of the growth of the load, below which a level is beyond the knee."""
MIN_KNEE_LEVELS: Final = 3

_MIN_WINDOW: Final = 3.0
"""Length of a window, in median durations of its runs, below which its throughput is rough."""
_MAX_ERRORS: Final = 20
"""Maximum number of kinds of errors to keep: those of programs have their last words."""
_PARTS: Final = 16
"""Parts of the window whose medians show a trend."""
_MIN_IN_PART: Final = 3
_TREND_CONFIDENCE: Final = 0.99
_TREND: Final = 0.1
"""Smallest trend to report, as a share of the median."""


def percentiles_of(values: Iterable[float], never: int) -> FigureData:
    """Return the percentiles of these values and of runs without a value, which are later than all of them."""
    ordered = sorted(values)
    n = len(ordered) + never
    shown: dict[str, float | None] = {}
    for name, share in PERCENTILES:
        rank = ceil(share * n - 1e-9)
        shown[name] = round(ordered[rank - 1], 6) if is_shown(share, n) and rank <= len(ordered) else None
    return {"n": n, "p50": shown["p50"], "p90": shown["p90"], "p99": shown["p99"], "p999": shown["p999"]}


class Processes(NamedTuple):
    """Load of the processes of a level."""

    clients: Sequence[BusyData]
    server: BusyData | None
    proxy: BusyData | None


def level_data(
    level: Level,
    phases: Phases,
    runs: Sequence[LoadedRun],
    processes: Processes,
    *,
    arrivals: Arrivals,
    seed: int,
    limits: Sequence[Objective],
    stopped_s: float,
    interrupted: bool = False,
) -> LevelData:
    """Return the figures of a level.

    Args:
        level, phases, arrivals, seed, limits: The plan of the level.
        runs: All of its runs, also those that do not count.
        processes: Load of the processes.
        stopped_s: Time after the start of the level at which it was stopped.
        interrupted: It was stopped early. The window ends then.
    """
    start_s, end_s = phases.window
    end_s = min(end_s, max(start_s, stopped_s)) if interrupted else end_s
    duration_s = max(end_s - start_s, 1e-9)
    counted = sorted((run for run in runs if start_s <= run.intended_s < end_s), key=lambda run: run.intended_s)
    unstarted: list[float] = []
    if level.rate is not None:
        known = Counter(round(run.intended_s, 9) for run in counted)
        planned = takewhile(
            lambda at_s: at_s < end_s,
            starts(level.rate, ramp_s=phases.ramp_s, arrivals=arrivals, seed=f"{seed} {level.name}"),
        )
        planned_now = Counter(round(at_s, 9) for at_s in planned if at_s >= start_s)
        unstarted = sorted((planned_now - known).elements())
    good_ends = [run for run in runs if _completed(run) and start_s <= (run.ended_s or 0) < end_s]
    completed = [run for run in counted if _completed(run)]
    failed = [run for run in counted if run.error is not None]
    never = len(counted) + len(unstarted) - len(completed)
    total = len(counted) + len(unstarted)
    figures: dict[str, FigureData] = {}
    for number, figure in enumerate(FIGURES):
        values = [value for run in completed if (value := run.figures[number]) is not None]
        if values:
            figures[figure] = percentiles_of(values, never)
    goods = [run for run in good_ends if is_good(run, limits)]
    late = sorted(run.started_s - run.intended_s for run in counted if not run.queued)
    late_p99_s = round(percentile(late, 0.99), 6) if level.rate is not None else None
    under_way = (min(run.ended_s or stopped_s, end_s) - max(run.started_s, start_s) for run in runs)
    return {
        "name": level.name,
        "concurrency": level.concurrency,
        "rate": level.rate,
        "interrupted": interrupted,
        "duration_s": round(duration_s, 6),
        "runs": total,
        "completed": len(completed),
        "failed": len(failed),
        "unfinished": never - len(failed),
        "errors": dict(Counter(run.error for run in failed if run.error is not None).most_common(_MAX_ERRORS)),
        "throughput_per_s": round(len(good_ends) / duration_s, 6),
        "goodput_per_s": round(len(goods) / duration_s, 6) if limits else None,
        "good_share": sum(is_good(run, limits) for run in completed) / total if limits and total else None,
        "mean_concurrency": round(sum(time_s for time_s in under_way if time_s > 0) / duration_s, 3),
        "late_p99_s": late_p99_s,
        "queued": sum(run.queued for run in counted),
        "figures": figures,
        "clients": [*processes.clients],
        "server": processes.server,
        "proxy": processes.proxy,
        "bottlenecks": bottlenecks(processes, late_p99_s),
        "is_unsteady": is_unsteady([(run.intended_s, run.figures[-1]) for run in completed], (start_s, end_s)),
        "each": _each(counted, unstarted),
    }


def _completed(run: LoadedRun) -> bool:
    return run.error is None and run.ended_s is not None


def is_good(run: LoadedRun, limits: Sequence[Objective]) -> bool:
    """Return True if a completed run is within all limits. A figure that does not apply to it breaks none."""
    values = dict(zip(FIGURES, run.figures, strict=True))
    return all((value := values[limit.figure]) is None or value <= limit.limit_s for limit in limits)


def _each(counted: Sequence[LoadedRun], unstarted: Sequence[float]) -> RunsData:
    rows = [
        (
            run.intended_s,
            run.started_s - run.intended_s,
            None if run.ended_s is None else run.ended_s - run.intended_s,
            run.error or "",
            run.figures,
        )
        for run in counted
    ]
    nothing: tuple[float | None, ...] = (None,) * len(FIGURES)
    rows_of_all = sorted([*rows, *((at_s, None, None, "", nothing) for at_s in unstarted)], key=lambda row: row[0])
    return {
        "intended_s": [round(row[0], 4) for row in rows_of_all],
        "late_s": [_rounded(row[1]) for row in rows_of_all],
        "end_s": [_rounded(row[2]) for row in rows_of_all],
        "error": [row[3] for row in rows_of_all],
        "figures": {figure: [_rounded(row[4][number]) for row in rows_of_all] for number, figure in enumerate(FIGURES)},
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


# --- bottlenecks, steadiness, the knee --------------------------------------------------------------------------------


def bottlenecks(processes: Processes, late_p99_s: float | None) -> dict[str, str]:
    """Return the reasons why processes were too slow, by "clients", "server" and "proxy"."""
    found: dict[str, str] = {}
    groups: dict[str, Sequence[BusyData]] = {
        "clients": processes.clients,
        "server": [processes.server] if processes.server else [],
        "proxy": [processes.proxy] if processes.proxy else [],
    }
    for name, group in groups.items():
        reasons: list[str] = []
        share = max((busy["cpu_share"] for busy in group), default=0.0)
        lag_s = max((busy["lag_p99_s"] for busy in group), default=0.0)
        if share >= BUSY_SHARE:
            reasons.append(f"{share * 100:.0f} % of a processor")
        if lag_s >= LATE_S:
            reasons.append(f"an event loop that was {seconds(lag_s)} late (p99)")
        if name == "clients" and (late_p99_s or 0) >= LATE_S:
            reasons.append(f"starts that were {seconds(late_p99_s or 0)} late (p99)")
        if reasons:
            found[name] = " and ".join(filter(None, (", ".join(reasons[:-1]), reasons[-1])))
    return found


def is_unsteady(durations: Sequence[tuple[float, float | None]], window: tuple[float, float]) -> bool:
    """Return True if the durations of runs grow or shrink during the window.

    Args:
        durations: Intended start and duration of each run.
        window: Start and end of the window.
    """
    start_s, end_s = window
    parts: list[list[float]] = [[] for _ in range(_PARTS)]
    for at_s, value in durations:
        if value is not None and end_s > start_s:
            parts[min(_PARTS - 1, int((at_s - start_s) / (end_s - start_s) * _PARTS))].append(value)
    medians = [median(part) for part in parts if len(part) >= _MIN_IN_PART]
    trend = of_trend(medians, confidence=_TREND_CONFIDENCE)
    if trend is None or trend["low"] <= 0 <= trend["high"]:
        return False
    return abs(trend["median"]) * (len(medians) - 1) > _TREND * median(medians)


def baseline_warnings(baseline: BaselineData | None) -> Iterator[str]:
    """Yield a warning if processes were late before there was any load: other programs keep them from running."""
    if baseline is not None:
        for name in ("client", "server"):
            busy = baseline["client"] if name == "client" else baseline["server"]
            if busy is not None and busy["lag_p99_s"] >= LATE_S:
                late = seconds(busy["lag_p99_s"])
                yield f"without load, the event loop of the {name} was already {late} late: the machine is busy"


def short_warnings(name: str, levels: Sequence[LevelData]) -> Iterator[str]:
    """Yield a warning for each level whose window is short compared with its runs."""
    for level in levels:
        ended_s = [end_s for end_s in level["each"]["end_s"] if end_s is not None]
        middle = median(ended_s) if ended_s else None
        if middle is not None and level["duration_s"] < _MIN_WINDOW * middle and not level["interrupted"]:
            took = f"runs of {seconds(middle)} in a window of {seconds(level['duration_s'])}"
            yield f"{name}, {level['name']}: {took}: throughput is rough; give a longer --duration"


def knee_of(curve: Sequence[tuple[float, float]]) -> tuple[int, bool] | None:
    """Return the index of the knee, and True if it was reached; `None` if there are too few levels.

    Args:
        curve: Load, and throughput or goodput, of each level, by growing load.
    """
    if len(curve) < MIN_KNEE_LEVELS:
        return None
    for index, ((load, per_s), (next_load, next_per_s)) in enumerate(pairwise(curve)):
        growth = next_per_s / per_s - 1 if per_s > 0 else inf if next_per_s > 0 else 0.0
        if growth < GROWTH * (next_load / load - 1):
            return index, True
    return len(curve) - 1, False


def knees_of(levels: Sequence[LevelData]) -> list[KneeData]:
    """Return the knee of each kind of levels that has enough of them. Interrupted levels are left out."""
    found: list[KneeData] = []
    kinds: tuple[Literal["concurrency", "rate"], ...] = ("concurrency", "rate")
    for kind in kinds:
        of_kind = [level for level in levels if level[kind] is not None and not level["interrupted"]]
        of_kind.sort(key=lambda level: level[kind] or 0)
        by: Literal["goodput", "throughput"] = (
            "goodput" if all(level["goodput_per_s"] is not None for level in of_kind) else "throughput"
        )
        values = [_per_s(level, by) for level in of_kind]
        curve = [(float(level[kind] or 0), value) for level, value in zip(of_kind, values, strict=True)]
        knee = knee_of(curve)
        if knee is None:
            continue
        index, is_reached = knee
        beyond: Mapping[str, str] = of_kind[index + 1]["bottlenecks"] if is_reached else {}
        load, per_s = curve[index]
        found.append(
            {
                "kind": kind,
                "by": by,
                "load": load,
                "per_s": per_s,
                "is_reached": is_reached,
                "bottlenecks": [*beyond],
            }
        )
    return found


def _per_s(level: LevelData, by: Literal["goodput", "throughput"]) -> float:
    value = level["goodput_per_s"] if by == "goodput" else level["throughput_per_s"]
    return value if value is not None and isfinite(value) else 0.0
