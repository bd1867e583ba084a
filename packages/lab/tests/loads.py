"""Runs, processes and results without measuring, for the tests of load."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from time import monotonic
from typing import Any

from packages.lab.tests.lab import MACHINE

from eagerstream_lab._kinds import Arrivals, TransportName
from eagerstream_lab._load_figures import Processes, knees_of, level_data
from eagerstream_lab._load_plan import Level, Objective, Phases
from eagerstream_lab._load_results import LevelData, LoadResults
from eagerstream_lab._load_runs import ClientSettings, Figures, LoadedRun, Order
from eagerstream_lab._load_watch import BusyData
from eagerstream_lab._setup import Selection

PHASES = Phases(ramp_s=2, warmup_s=3, duration_s=10, grace_s=5)


def busy(cpu_share: float = 0.1, lag_p99_s: float = 0.001) -> BusyData:
    """A process with this load."""
    return {"cpu_share": cpu_share, "lag_p50_s": 0.0, "lag_p99_s": lag_p99_s, "lag_max_s": lag_p99_s}


def made_run(intended_s: float, took_s: float | None = 1.0, *, error: str | None = None, **changes: Any) -> LoadedRun:
    """A run whose figures are all its duration; None for one without an end."""
    figures: Figures = (took_s,) * 4 if error is None else (None,) * 4
    ended_s = None if took_s is None else intended_s + took_s
    made = LoadedRun("1-0-1", intended_s, intended_s, ended_s, error, figures, queued=False)
    return made._replace(**changes)


def settings_of(**changes: Any) -> ClientSettings:
    """The settings of the only client."""
    known: dict[str, Any] = {
        "number": 0,
        "clients": 1,
        "selection": Selection(streamings=("eager",), models=("m",), transports=(TransportName.ANTHROPIC,), live=False),
        "url": None,
        "variables": {},
        "proxied": False,
        "max_tokens": 100,
        "max_turns": 2,
        "timeout_s": 30.0,
        "max_connections": 0,
    }
    return ClientSettings(**known | changes)


def order_of(level: Level, phases: Phases = PHASES, **changes: Any) -> Order:
    """An order for a level that starts now."""
    known: dict[str, Any] = {
        "number": 1,
        "case": "poem",
        "program": None,
        "prompt": "Go.",
        "model": "m",
        "level": level,
        "phases": phases,
        "arrivals": Arrivals.CONSTANT,
        "seed": 1,
        "max_concurrency": 100,
        "origin_s": monotonic(),
    }
    return Order(**known | changes)


def made_level(level: Level, *, capacity: float = 20.0, failed: int = 0, seed: int = 1) -> LevelData:
    """A level of a server that serves so many runs of a second at once, and queues the others."""
    random = Random(f"{seed} {level.name}")
    load = level.load
    took_s = max(1.0, load / capacity)
    count = round(PHASES.window[1] * min(load, capacity))
    runs: list[LoadedRun] = []
    for number in range(count):
        at_s = number * PHASES.window[1] / count
        value_s = took_s * random.uniform(0.9, 1.3)
        error = "APIError 529" if number % 10 < failed else None
        runs.append(made_run(at_s, value_s, error=error, figures=(value_s / 4, value_s / 3, value_s / 2, value_s)))
    share = min(1.0, load / capacity)
    return level_data(
        level,
        PHASES,
        runs,
        Processes([busy(share)], busy(share / 2), None),
        arrivals=Arrivals.CONSTANT,
        seed=seed,
        limits=[Objective("first_field_s", 0.5)],
        stopped_s=20.0,
    )


def made_load(loads: Sequence[int] = (1, 4, 16, 64, 256), *, label: str = "eager", failed: int = 0) -> LoadResults:
    """The results of levels of a server that serves 20 runs at once."""
    levels = [made_level(Level(concurrency=load), failed=failed) for load in loads]
    return {
        "eagerstream_load": 1,
        "created_at": "2026-11-30T12:00:00+00:00",
        "simulated": True,
        "machine": {**MACHINE, "packages": {**MACHINE["packages"]}},
        "warnings": [],
        "settings": {
            "ramp_s": 2.0,
            "warmup_s": 3.0,
            "duration_s": 10.0,
            "grace_s": 5.0,
            "arrivals": "poisson",
            "clients": 1,
            "max_concurrency": 1_000,
            "timeout_s": 300.0,
            "limits": [{"figure": "first_field_s", "limit_s": 0.5}],
            "seed": 1,
            "profile": "documented",
            "speed": 10.0,
            "measured_at": "client",
        },
        "baseline": {"client": busy(), "server": busy(), "proxy_added_s": None},
        "cases": [
            {
                "id": "poem/poem/eager/simulated/anthropic",
                "label": label,
                "source": "poem",
                "tools": "poem",
                "streaming": "eager",
                "model": "simulated",
                "transport": "anthropic",
                "levels": levels,
                "knees": knees_of(levels),
            }
        ],
    }
