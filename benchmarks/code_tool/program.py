"""The program of a side: it does its jobs in a new process, and prints their figures as JSON.

Both environments import this module.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .tasks import TASKS
from .workplace import Marks, Workplace, check

SIZED: Final = "code of a size"
WARM_UP: Final = "warm-up"


@dataclass(frozen=True)
class Job:
    """One run, several times.

    Attributes:
        side: Name of the side.
        url: Address of the server that plays the model.
        work: Name of a task, or `SIZED` or `WARM_UP`, for which nothing is checked.
        weather_url: Address of the server of `fetch`.
        repeats: Number of runs.
        counts: True to count the characters that are parsed, which takes time.
    """

    side: str
    url: str
    work: str
    weather_url: str = ""
    repeats: int = 1
    counts: bool = False


@dataclass
class Parsed:
    """Characters of one run that were read as JSON or as Python.

    Attributes:
        json_chars: Of the input of the call, decoded.
        code_chars: Of the code, examined to find its statements.
        compiled_chars: Of the code, given to the interpreter.
        early_chars: Of these, those of statements that were found before the input was complete.
    """

    json_chars: int = 0
    code_chars: int = 0
    compiled_chars: int = 0
    early_chars: int = 0


@dataclass(frozen=True)
class Done:
    """Figures of one run.

    Attributes:
        effect_s: Seconds from the request to the first line of the first tool. None if no tool ran.
        end_s: Seconds from the request to the end of the run.
        cpu_s: CPU seconds of the process and of its children.
        parsed: Characters, if they were counted.
    """

    effect_s: float | None
    end_s: float
    cpu_s: float
    parsed: dict[str, int] | None = None


Run = Callable[[Job, Workplace, Marks, Parsed], Awaitable[list[str]]]
"""Does the work of a job once, and returns the results of the model's calls."""


async def do(job: Job, run: Run, counting: Callable[[Job], AbstractContextManager[Parsed]]) -> list[Done]:
    """Do a job.

    Raises:
        RuntimeError: The work was not done.
    """
    task = next((task for task in TASKS if task.name == job.work), None)
    done = []
    for _ in range(job.repeats):
        marks = Marks()
        with Workplace(marks, job.weather_url) as workplace, counting(job) as parsed:
            start_s = _cpu_s()
            results = await run(job, workplace, marks, parsed)
            cpu_s = _cpu_s() - start_s
            if task is not None:
                check(task, results, workplace)
        end_s = marks.end_s
        assert end_s is not None
        done.append(Done(marks.effect_s, end_s, cpu_s, asdict(parsed) if job.counts else None))
    return done


def main(begin: Callable[[Callable[[], Awaitable[Any]]], Any], run: Run, counting: Any) -> None:
    """Do the jobs of the command line, and print the figures."""
    jobs = [Job(**job) for job in json.loads(sys.argv[1])]

    async def all_jobs() -> list[list[Done]]:
        return [await do(job, run, counting) for job in jobs]

    print(json.dumps([[asdict(one) for one in done] for done in begin(all_jobs)]))


def _cpu_s() -> float:
    """Return the CPU seconds of this process, of its children that have ended, and of those that still run."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) + sum(map(_running_s, _children()))


def _children() -> set[str]:
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for each in lists for pid in each.read_text().split()}


def _running_s(pid: str) -> float:
    """Return the CPU seconds of a process: the first field of `schedstat`, in nanoseconds, of each thread."""
    try:
        return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    except OSError:  # it has ended
        return 0.0
