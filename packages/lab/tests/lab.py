"""What the tests of the lab share: cases on the embedded server, and results without measuring."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from eagerstream.loop import RunLatency, RunMarks
from eagerstream_lab._analysis import assemble
from eagerstream_lab._embedded import Simulation
from eagerstream_lab._kinds import TransportName
from eagerstream_lab._matrix import Case, Matrix, Step, cross
from eagerstream_lab._measure import Conditions, Measured
from eagerstream_lab._metrics import METRICS
from eagerstream_lab._profiles import DOCUMENTED
from eagerstream_lab._results import MachineData, Results, SettingsData
from eagerstream_lab._sources import Source, recorded_tools, the_poem
from eagerstream_testing import reply, text, tool_use
from eagerstream_testing.demos.poem import POEM

SETTINGS: SettingsData = {
    "repetitions": 8,
    "warmup": 1,
    "seed": 3,
    "confidence": 0.95,
    "primary": ["duration_s", "first_field_s"],
    "min_effect": None,
    "until": None,
    "looks": [8],
    "profile": "documented",
    "speed": 10.0,
}

MACHINE: MachineData = {
    "system": "Linux 6.12",
    "cpu": "x86_64",
    "cores": 2,
    "load": 0.5,
    "python": "CPython 3.13.1",
    "core": "compiled",
    "packages": {"eagerstream": "0.1.0", "anthropic": "2.14.0"},
    "commit": None,
    "dirty": None,
}


def conditions(*, speed: float = 100.0, timeout_s: float = 20.0) -> Conditions:
    """The embedded server, fast."""
    return Conditions(simulation=Simulation(profile=DOCUMENTED, speed=speed, seed=3), timeout_s=timeout_s)


def poem_cases(**axes: Any) -> tuple[Case, ...]:
    """The poem, eager and buffered."""
    known: dict[str, Any] = {
        "sources": [the_poem()],
        "streamings": ["eager", "buffered"],
        "models": ["simulated"],
        "transports": [TransportName.ANTHROPIC],
        "live": False,
    }
    return cross(**known | axes)


def large_source() -> Source:
    """A reply with a large input, whose tool takes no time; a run of it at 150 times the speed takes 0.1 s."""
    turns = (reply(text("I will."), tool_use("write", {"name": "poem.txt", "lines": POEM})), reply(text("Done.")))
    return Source(name="large", prompt="Go.", tools=recorded_tools(turns, tool_s=0, name="large"), recordings=turns)


def made_measured(step: Step, value: float | None) -> Measured:
    """A run in which every metric has this value; None for one that failed."""
    latency = RunLatency(RunMarks(), model=step.case.model, eager=None, status="error").to_dict()
    return Measured(
        step=step,
        run={
            "repetition": step.repetition,
            "order": step.order,
            "status": "error" if value is None else "completed",
            "error": "StreamInterrupted" if value is None else None,
            "latency": latency,
        },
        figures={} if value is None else dict.fromkeys(METRICS, value),
        failure=None if value is not None else "StreamInterrupted: no",
    )


def made_results(
    *, buffered_s: float = 15.0, eager_s: float = 3.0, seed: int = 1, failed: Sequence[int] = ()
) -> Results:
    """The results of eight repetitions of eager beside buffered, whose figures are around these.

    Args:
        buffered_s, eager_s: Every metric, with some noise.
        seed: Of the noise.
        failed: Repetitions in which the eager run failed.
    """
    matrix = Matrix(cases=poem_cases(), repetitions=8, warmup=1, seed=3)
    noise = random.Random(seed)

    def value(step: Step) -> float | None:
        if step.case.streaming == "eager" and step.repetition in failed:
            return None
        return (eager_s if step.case.streaming == "eager" else buffered_s) + noise.gauss(0, 0.05)

    measured = [made_measured(step, value(step)) for step in matrix.schedule()]
    return assemble(matrix, measured, settings={**SETTINGS}, simulated=True, machine={**MACHINE})
