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

import anyio
import pytest
from tests import sampling
from tests.source_tree import ROOT

from eagerstream_durable.journal import Journal

pytestmark = pytest.mark.slow

_LEASE_S = 0.8
_STEPS = 16
_RUNS = 50


def competitor(where: str, *, stops: bool = False) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "packages.durable.tests.journal.competitor",
        where,
        str(_LEASE_S),
        str(_STEPS),
        str(int(stops)),
    ]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return await anyio.to_thread.run_sync(process.stdout.readline)


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()


async def compete(where: str, processes: int) -> None:
    chance = random.Random(sampling.SEED)
    fences: dict[str, int] = defaultdict(int)
    async with Journal(where) as journal:

        async def look() -> None:
            for run in await journal.runs():
                assert run.fence >= fences[run.run_id], "a fence went back"
                fences[run.run_id] = run.fence
            await anyio.sleep(0.05)

        for number in range(_RUNS):
            log = await journal.create(f"run-{number}", {"kind": "begin", "turn": 0})
            await log.release("running", {})
        with ExitStack() as ends, anyio.fail_after(300):
            running: list[subprocess.Popen[str]] = []
            while len(running) < processes:
                running.append(ends.enter_context(competitor(where, stops=not running)))
                ends.callback(running[-1].kill)
            for process in running:
                assert await read_line(process) == "ready\n"
            begin(running[0])
            _, run_id, fence = (await read_line(running[0])).split()
            for process in running[1:]:
                begin(process)
            while fences[run_id] <= int(fence):
                await look()
            os.kill(running[0].pid, signal.SIGCONT)
            while (line := await read_line(running[0])) != f"lost {run_id}\n":
                assert line, "an owner that woke up late did not notice"
            stops = 0
            while any(process.poll() is None for process in running):
                place = stops % processes
                victim = running[place]
                if victim.poll() is None:
                    leases = chance.choice((0.05, 0.5, 2.0))
                    stops += 1
                    os.kill(victim.pid, signal.SIGSTOP)
                    woken_s = time.monotonic() + leases * _LEASE_S
                    while time.monotonic() < woken_s:
                        await look()
                    os.kill(victim.pid, signal.SIGCONT)
                    if chance.random() < 0.1:
                        victim.kill()
                        running[place] = ends.enter_context(competitor(where))
                        begin(running[place])
                        ends.callback(running[place].kill)
                await anyio.sleep(0.2)
            for process in running:
                assert process.returncode == 0
        for run in await journal.runs():
            assert run.status == "completed"
            entries = (await journal.read(run.run_id))[1:]
            assert [entry["step"] for entry in entries] == list(range(1, _STEPS + 1))
            under = [entry["fence"] for entry in entries]
            assert under == sorted(under), "a step was accepted under a stale lease"
            assert under[-1] <= run.fence
            await journal.delete(run.run_id)
    assert len(fences) == _RUNS


@pytest.mark.timeout(400)
def test_competition_for_runs(where: str) -> None:
    """Owners are stopped, and wake up after others have their runs: each step is taken once, under the newest fence."""
    anyio.run(compete, where, 5)
