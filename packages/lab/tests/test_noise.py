"""Warnings of a noisy machine: each sign is reported, and a quiet machine gives no warning."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packages.lab.tests.made_results import latency_of, made_case, made_run
from tests.tables import rows

from eagerstream_lab import _noise as module
from eagerstream_lab._noise import Readings, machine_warnings, run_warnings

QUIET = Readings(at_s=0.0, load=0.2, own_s=1.0, busy_s=100.0, stolen_s=0.0, hot=3, limited=0)
LATER = replace(QUIET, at_s=10.0, own_s=9.0, busy_s=109.0)


@rows(
    "before, after, told",
    [
        ({}, {}, None),
        ({"load": 1.4}, {}, "busy before the first run: load 1.4 on 2 processors"),
        ({}, {"busy_s": 114.0}, "other processes used 30 % of the processors"),
        ({}, {"stolen_s": 1.0}, "the host took away 5 % of the processor time"),
        ({}, {"hot": 5}, "slower because of heat, 2 times"),
        ({}, {"limited": 7}, "stopped by a CPU limit, 7 times"),
        (dict.fromkeys(("load", "busy_s", "stolen_s", "hot", "limited")), {"hot": 5, "limited": 5}, None),
    ],
)
def test_signs_in_the_counters(before: dict[str, Any], after: dict[str, Any], told: str | None) -> None:
    """Work of the benchmark itself is none, and a counter that the system lacks says nothing."""
    found = list(machine_warnings(replace(QUIET, **before), replace(LATER, **after), cores=2))
    assert [told in text for text in found if told] == ([] if told is None else [True])
    assert len(found) == (told is not None)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux counts the work of all processes")
def test_another_process_that_works() -> None:
    """The real counters of this machine: a program that keeps a processor busy shows up."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before = Readings.now()
        time.sleep(1)  # that is what is measured
        after = Readings.now()
    finally:
        busy.kill()
        busy.wait()
    assert any("other processes used" in text for text in machine_warnings(before, after, cores=1))


def test_counters_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other systems have none of the files."""
    for name in ("_STAT", "_CGROUP", "_CPUS"):
        monkeypatch.setattr(module, name, tmp_path / "none")
    found = Readings.now()
    assert (found.busy_s, found.stolen_s, found.hot, found.limited) == (None,) * 4
    throttle = tmp_path / "none" / "cpu0" / "thermal_throttle"
    throttle.mkdir(parents=True)
    (throttle / "core_throttle_count").write_text("12\n")
    assert Readings.now().hot == 12


def _warnings(values: list[float]) -> list[str]:
    runs = [made_run(latency_of(duration_s=value), repetition=number) for number, value in enumerate(values)]
    return list(run_warnings("eager", made_case(runs, streaming="eager")))


def test_signs_in_the_runs() -> None:
    """Runs that stand out, and runs that become slower. Ordinary noise is neither, and few runs say nothing."""
    random_ = random.Random(1)
    calm = [1 + random_.gauss(0, 0.02) for _ in range(12)]
    assert _warnings(calm) == []
    assert _warnings([*calm[:-1], 5.0]) == [
        "eager: 1 of 12 runs took far longer than the others, up to 5.00\u00a0s instead of 1.00\u00a0s"
    ]
    (drift,) = _warnings([value + 0.03 * number for number, value in enumerate(calm)])
    assert re.fullmatch("eager: the runs became 3[0-9]{2}\u00a0ms longer from the first to the last", drift)
    assert _warnings([*calm[:6], 9.0]) == []
    assert _warnings([1.0] * 11 + [1.001]) == []
