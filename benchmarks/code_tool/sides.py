"""The sides, and how they are run: each in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

from eagerstream import Recording
from eagerstream_testing import Timing

from . import servers
from .program import SIZED, WARM_UP, Job
from .tasks import ONE_BY_ONE, Task, code_of

PEER_PYTHON: Final = Path(__file__).parents[2] / ".venv" / "code-mode" / "bin" / "python"
LIMIT_S: Final = 600
"""Time limit of a process."""


@dataclass(frozen=True)
class Side:
    """One side.

    Attributes:
        name: Its name.
        program: `"ours"`, or `"code_mode"`, which runs in its own environment.
        way: The name that the program knows it by.
    """

    name: str
    program: str
    way: str

    @property
    def writes_code(self) -> bool:
        """True if the model writes code."""
        return not self.way.startswith("calls")

    @property
    def command(self) -> list[str]:
        """The command that runs its jobs."""
        python = str(PEER_PYTHON) if self.program == "code_mode" else sys.executable
        return [python, "-m", f"{__package__}.{self.program}"]

    @property
    def is_installed(self) -> bool:
        """True if its packages are installed."""
        if self.program == "code_mode":
            return PEER_PYTHON.exists()
        return "Monty" not in self.way or find_spec("pydantic_monty") is not None


STREAMING: Final = Side("CodeTool", "ours", "streaming")
AT_END: Final = Side("CodeTool at the end", "ours", "at the end")
EARLY: Final = Side("CodeTool, early calls", "ours", "streaming, early calls")
IN_MONTY: Final = Side("CodeTool in Monty", "ours", "streaming, in Monty")
EAGER: Final = Side("CodeMode eager", "code_mode", "eager")
SPECULATE: Final = Side("CodeMode eager, speculate", "code_mode", "eager, speculate")
NO_BUDGET: Final = Side("CodeMode eager, no budget", "code_mode", "eager, no budget")
PACED: Final = (
    Side("one call per response", "ours", "calls one by one"),
    Side("calls together", "ours", "calls together"),
    Side("CodeMode", "code_mode", "at the end"),
    EAGER,
    AT_END,
    STREAMING,
    IN_MONTY,
)
ONE_BY_ONE_SIDES: Final = (
    AT_END,
    EAGER,
    SPECULATE,
    STREAMING,
    EARLY,
)
SIZED_SIDES: Final = (
    Side("a tool that takes the text", "ours", "plain"),
    STREAMING,
    IN_MONTY,
    Side("a tool that takes the text, pydantic-ai", "code_mode", "plain"),
    EAGER,
    NO_BUDGET,
)


# --- running the sides ------------------------------------------------------------------------------------------------


def _do(side: Side, jobs: Sequence[Job]) -> list[list[dict[str, Any]]]:
    """Run jobs in a new process, and return the figures of their runs.

    Raises:
        RuntimeError: The process failed.
    """
    command = [*side.command, json.dumps([asdict(job) for job in jobs])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{side.name}: {done.stderr[-500:]}")
    figures: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _turns(task: Task, side: Side) -> list[Recording]:
    if side.writes_code:
        is_peer = side.program == "code_mode"
        return servers.code_turns(task.code_mode or task.code if is_peer else task.code)
    return servers.call_turns(task, together="together" in side.way)


def paced(side: Side, tasks: Sequence[Task], repeats: int) -> dict[str, dict[str, float]]:
    """Return the median times of a side, by task."""
    with ExitStack() as stack:
        weather_url = stack.enter_context(servers.weather())
        warm_up = servers.code_turns("1\n") if side.writes_code else servers.call_turns(_WARM_UP, together=True)
        jobs = [Job(side.way, stack.enter_context(servers.model(warm_up, Timing.instant())), WARM_UP)]
        for task in tasks:
            url = stack.enter_context(servers.model(_turns(task, side), servers.timing(task)))
            jobs.append(Job(side.way, url, task.name, weather_url, repeats))
        _, *done = _do(side, jobs)
    names = ("effect_s", "end_s")
    return {
        task.name: {name: median(run[name] for run in runs) for name in names}
        for task, runs in zip(tasks, done, strict=True)
    }


def all_paced(sides: Sequence[Side], tasks: Sequence[Task], repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the median times of all sides. Two sides run at once: they wait most of the time."""
    own = {
        side: [task for task in tasks if side in (ONE_BY_ONE_SIDES if task is ONE_BY_ONE else sides)]
        for side in dict.fromkeys((*sides, *ONE_BY_ONE_SIDES))
        if side.is_installed
    }
    own = {side: its for side, its in own.items() if its}
    with ThreadPoolExecutor(2) as pool:
        times = pool.map(lambda side: paced(side, own[side], repeats), own)
        return {side.name: took for side, took in zip(own, times, strict=True)}


_WARM_UP: Final = Task(name=WARM_UP, code="", turns=((("keep", {"lines": "\n"}),),), expected="", expected_of_calls="")


def sized(side: Side, sizes: Sequence[int], repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of a side for each size of code."""
    codes = [code_of(size) for size in sizes]
    with ExitStack() as stack:
        urls = [
            stack.enter_context(servers.model(servers.code_turns(code), Timing.instant())) for code in ["1\n", *codes]
        ]
        jobs = [Job(side.way, urls[0], WARM_UP)]
        for url in urls[1:]:
            jobs += [Job(side.way, url, SIZED, repeats=repeats), Job(side.way, url, SIZED, counts=True)]
        _, *done = _do(side, jobs)
    for code, timed, (counted,) in zip(codes, done[::2], done[1::2], strict=True):
        yield {
            "side": side.name,
            "chars": len(code),
            "cpu_s": min(run["cpu_s"] for run in timed),
            **counted["parsed"],
        }
