"""What work costs: in instructions, which callgrind counts, or in CPU time where there is no valgrind.

Instructions are the same in every run, on a busy machine too, to a few parts in a thousand; they say nothing of caches.
All jobs run in one process, which is started once: callgrind runs Python about 50 times slower. Its counters are
written out and begin at zero at each call of `getpriority`, which nothing else here calls.
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
"""Events of the jobs: few, and eight times as many."""

_REPEATS: Final = 60  # of each job, where CPU time is measured: seconds in all
_MARK: Final = "getpriority"
# Pages of its own for what is large. A string that grows is copied or not by what chance has put behind it in the heap,
# and callgrind counts such a copy byte by byte: the same job cost 4 or 8 million instructions.
_PAGES: Final = "glibc.malloc.mmap_threshold=1024"


class Count(NamedTuple):
    """What a job cost: `cost` in instructions or in nanoseconds."""

    events: int
    cost: float


Counts = dict[str, list[Count]]
"""For each piece of the hot path, a count for each of `SIZES`."""


def can_count_instructions() -> bool:
    """Valgrind is here, and can follow this Python."""
    return sys.platform == "linux" and shutil.which("valgrind") is not None


def count_instructions() -> Counts:
    """What each job costs in instructions; half a minute."""
    with TemporaryDirectory() as directory:
        out = Path(directory) / "counts"
        callgrind = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", f"--dump-before={_MARK}"]
        events = json.loads(_run_child([*callgrind, sys.executable], "instructions", GLIBC_TUNABLES=_PAGES))
        # A dump at each mark, numbered from 1: what is before the first job, then a job and what is between two.
        dumps = iter(range(2, sys.maxsize, 2))
        return {
            name: [Count(count, _total(out.with_name(f"{out.name}.{next(dumps)}"))) for count in counts]
            for name, counts in events.items()
        }


def _total(dump: Path) -> int:
    (line,) = [line for line in dump.read_text().splitlines() if line.startswith("totals:")]
    return int(line.split()[1])


def measure_cpu_time() -> Counts:
    """What each job costs in nanoseconds: the least of many runs, all jobs in turn."""
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
        _run(prepare(SIZES[0]))  # the interpreter has specialized its code
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
    gc.disable()  # it runs now and then, at the cost of whoever is at work
    print(json.dumps(_run_between_marks() if sys.argv[1] == "instructions" else _run_for_time()))
