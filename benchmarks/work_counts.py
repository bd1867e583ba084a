"""Cost of work: instructions, which callgrind counts, or CPU time if valgrind is missing.

Instruction counts are the same in every run to a few parts in a thousand, even on a busy machine. They do not include
the effects of caches. All jobs run in one process that starts once, because callgrind runs Python about 50 times
slower. At each call of `getpriority`, callgrind writes its counters and resets them to zero. No other code here calls
it.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from .hot_path import WORKLOADS, Job

SIZES: Final = (500, 4_000)
"""Numbers of events of the jobs: few, and eight times as many."""

_REPEATS: Final = 60  # repetitions of each job for CPU time: together some seconds
_MARK: Final = "getpriority"
# Separate pages for large blocks. Else chance decides about copies: a growing string is copied if its heap neighbour is
# in use. callgrind counts such a copy byte by byte: the same job cost 4 or 8 million instructions.
_PAGES: Final = "glibc.malloc.mmap_threshold=1024"


class Count(NamedTuple):
    """Cost of a job, in instructions or nanoseconds."""

    events: int
    cost: float


Counts = dict[str, list[Count]]
"""Counts for each of `SIZES`, by piece of the hot path."""


def can_count_instructions() -> bool:
    """Return `True` if valgrind is installed and this is Linux."""
    return sys.platform == "linux" and shutil.which("valgrind") is not None


def count_instructions() -> Counts:
    """Count the instructions of each job. It takes half a minute."""
    with TemporaryDirectory() as directory:
        out = Path(directory) / "counts"
        callgrind = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", f"--dump-before={_MARK}"]
        events = json.loads(_run_child([*callgrind, sys.executable], "instructions", GLIBC_TUNABLES=_PAGES))
        # A dump at each mark, numbered from 1: the code before the first job, then alternately a job and the code
        # between two.
        dumps = iter(range(2, sys.maxsize, 2))
        return {
            name: [Count(count, _total(out.with_name(f"{out.name}.{next(dumps)}"))) for count in counts]
            for name, counts in events.items()
        }


def _total(dump: Path) -> int:
    (line,) = [line for line in dump.read_text().splitlines() if line.startswith("totals:")]
    return int(line.split()[1])


def measure_cpu_time() -> Counts:
    """Measure the nanoseconds of each job: the least of many runs, in which all jobs alternate."""
    measured = json.loads(_run_child([sys.executable], "time"))
    return {name: [Count(*count) for count in counts] for name, counts in measured.items()}


def _run_child(python: Sequence[str], method: str, **settings: str) -> str:
    # The order of sets and the places in dicts are the same in each run.
    environment = {**os.environ, "PYTHONHASHSEED": "0", **settings}
    command = [*python, "-m", __name__, method]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _run(job: Job) -> None:
    assert job.run() == job.expected


def _run_between_marks() -> dict[str, list[int]]:
    events: dict[str, list[int]] = {}
    for name, prepare in WORKLOADS.items():
        _run(prepare(SIZES[0]))  # a warm-up: the interpreter specializes the code
        events[name] = []
        for size in SIZES:
            job = prepare(size)
            os.getpriority(os.PRIO_PROCESS, 0)
            result = job.run()
            os.getpriority(os.PRIO_PROCESS, 0)
            assert result == job.expected, name
            events[name].append(job.events)
    return events


def _run_for_time() -> Counts:
    jobs = {name: [prepare(size) for size in SIZES] for name, prepare in WORKLOADS.items()}
    least: dict[str, list[float]] = {name: [float("inf")] * len(SIZES) for name in jobs}
    for jobs_of_one in jobs.values():
        for job in jobs_of_one:
            _run(job)
    for _ in range(_REPEATS):
        for name, jobs_of_one in jobs.items():
            for place, job in enumerate(jobs_of_one):
                start = time.process_time_ns()
                job.run()
                least[name][place] = min(least[name][place], time.process_time_ns() - start)
    return {name: [Count(job.events, cost) for job, cost in zip(jobs[name], least[name], strict=True)] for name in jobs}


if __name__ == "__main__":
    gc.disable()  # a collection would count for the job in which it happens to run
    print(json.dumps(_run_between_marks() if sys.argv[1] == "instructions" else _run_for_time()))
