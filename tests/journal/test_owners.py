"""Processes that compete for runs, while they are stopped and killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from eagerstream.journal import Journal
from tests import sampling

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_LEASE_S = 0.8
_STEPS = 16
_RUNS = 50


def competitor(where: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.journal.competitor", where, str(_LEASE_S), str(_STEPS)]
    return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)


async def compete(where: str, processes: int) -> int:
    """Let processes compete; return how many runs were lost by owners that woke up late."""
    chance = random.Random(sampling.SEED)
    lost = 0
    fences: dict[str, int] = defaultdict(int)
    async with Journal(where) as journal:
        for number in range(_RUNS):
            log = await journal.create(f"run-{number}", {"kind": "begin", "turn": 0})
            await log.release("running", {})
        with ExitStack() as ends, anyio.fail_after(100):
            running: list[subprocess.Popen[str]] = []
            while len(running) < processes:
                running.append(ends.enter_context(competitor(where)))
                ends.callback(running[-1].kill)
            for process in running:
                assert process.stdout is not None
                assert await anyio.to_thread.run_sync(process.stdout.readline) == "began\n"
            stops = 0
            while any(process.poll() is None for process in running):
                place = stops % processes
                victim = running[place]
                if victim.poll() is None:
                    leases = 5.0 if stops < min(processes, 3) else chance.choice((0.05, 0.5, 2.0))
                    stops += 1
                    os.kill(victim.pid, signal.SIGSTOP)
                    woken_s = time.monotonic() + leases * _LEASE_S
                    while time.monotonic() < woken_s:
                        for run in await journal.runs():
                            assert run.fence >= fences[run.run_id], "a fence went back"
                            fences[run.run_id] = run.fence
                        await anyio.sleep(0.05)
                    os.kill(victim.pid, signal.SIGCONT)
                    if chance.random() < 0.1:
                        victim.kill()
                        running[place] = ends.enter_context(competitor(where))
                        ends.callback(running[place].kill)
                await anyio.sleep(0.2)
            for process in running:
                assert process.returncode == 0
                lost += (process.stdout.read() if process.stdout else "").count("lost")
        for run in await journal.runs():
            assert run.status == "completed"
            entries = (await journal.read(run.run_id))[1:]
            assert [entry["step"] for entry in entries] == list(range(1, _STEPS + 1))
            under = [entry["fence"] for entry in entries]
            assert under == sorted(under), "a step was accepted under a stale lease"
            assert under[-1] <= run.fence
            await journal.delete(run.run_id)
    assert len(fences) == _RUNS
    assert sum(fences.values()) > 2 * _RUNS, "nobody took over a run"
    return lost


@pytest.mark.parametrize("processes", [2, 5])
@pytest.mark.timeout(400)
def test_competition_for_runs(where: str, processes: int) -> None:
    """Owners are stopped until others have their runs, and wake up late: each step is taken once, under the newest fence."""
    # On a busy machine, the stopped owners may have had no run.
    assert any(anyio.run(compete, where, processes) for _ in range(4)), "no owner woke up late"
