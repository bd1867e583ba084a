"""Code that runs while it is written: `CodeTool`, and the same work in other ways.

Each side runs in a new process and sends its requests to the same kind of embedded server, which writes at a fixed
speed, in fragments of 8 characters. Times count from the start of the run. Of three runs, the median counts. Two sides
run at once, because they wait most of the time. The tasks:

- prototype: two calls that take 1 s start in the first two lines, 200 more lines take 2 s to write, and the last line
  awaits the calls.
- fetch five, compute: `asyncio.gather` of five requests to an HTTP server that answers after 0.4 to 1.2 s, then 1 KB of
  code that computes with the answers.
- ten edits: ten calls of the built-in `Edit` on a real file, one after the other.
- fetch one by one, compute: the same as "fetch five", but each request waits for the answer before it.

In all but the first, the model writes 800 characters per second, and its first byte takes 0.5 s. The sides:

- one call per response, calls together: ordinary tools, which start when their inputs are complete. "Together" means
  that calls that do not depend on each other are in one response. The model writes the numbers that it computes with
  into calls of `Calculator`. In the prototype, a third call takes the 200 lines.
- CodeTool at the end: the same code and tool with `approve=`, which approves at once. Then, the code runs when all of
  it is written.
- CodeTool: the code runs while it is written. In `ProcessSandbox` (the default), and in `MontySandbox`.
- CodeTool, early calls: with `early_calls=True`, and `fetch` marked as `read_only`.
- CodeMode, CodeMode eager: `CodeMode(eager=True)` of pydantic-ai-harness, in an environment of its own, with
  `anthropic_eager_input_streaming`. It runs the code in Monty, which starts more quickly than a process and knows a
  part of Python, and checks types before the first statement. It has no `asyncio.create_task`, so the prototype's code
  begins with `asyncio.gather` there. "Speculate" is with `speculate=["fetch"]`, the same idea as early calls.

The second table counts characters for code of 1 to 100 KB without calls, which arrives without pauses: those of the
input that are decoded as JSON, and those of the code that are examined to find its statements or are compiled. A
character that is read twice counts twice. `CodeMode(eager=True)` decodes the input again for each new line, and stops
to run code early when it has decoded 1,048,576 characters; "no budget" is the same without this limit. Its checks of
types are not counted. CPU is that of the process and its children, for the complete run.

The third table has the fixed costs. A direct call is one that the model makes itself.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from eagerstream import Recording
from eagerstream.testing import Timing

from ..targets import Row
from . import servers
from .side import SIZED, WARM_UP, Job
from .tasks import ONE_BY_ONE, TASKS, Task, code_of

PEER_PYTHON: Final = Path(__file__).parents[2] / ".venv" / "code-mode" / "bin" / "python"
SIZES: Final = (1_000, 10_000, 100_000)
_REPEATS: Final = 3
_LIMIT_S: Final = 600
_END_RATIO: Final = 0.75
_EFFECT_RATIO: Final = 0.25
_READ_TWICE: Final = 2.1
_LINEAR: Final = 1.02


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
        return [python, "-m", f"{__name__}.{self.program}"]

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
    Side("CodeMode eager, speculate", "code_mode", "eager, speculate"),
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{side.name}: {done.stderr[-500:]}")
    figures: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _turns(task: Task, side: Side) -> list[Recording]:
    if side.writes_code:
        is_peer = side.program == "code_mode"
        return servers.code_turns(task.code_mode or task.code if is_peer else task.code)
    return servers.call_turns(task, together="together" in side.way)


def _paced(side: Side, tasks: Sequence[Task], repeats: int) -> dict[str, dict[str, float]]:
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


def _all_paced(sides: Sequence[Side], tasks: Sequence[Task], repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the median times of all sides. Two sides run at once: they wait most of the time."""
    own = {
        side: [task for task in tasks if side in (ONE_BY_ONE_SIDES if task is ONE_BY_ONE else sides)]
        for side in dict.fromkeys((*sides, *(ONE_BY_ONE_SIDES if ONE_BY_ONE in tasks else ())))
        if side.is_installed
    }
    with ThreadPoolExecutor(2) as pool:
        times = pool.map(lambda side: _paced(side, own[side], repeats), own)
        return {side.name: took for side, took in zip(own, times, strict=True)}


_WARM_UP: Final = Task(name=WARM_UP, code="", turns=((("keep", {"lines": "\n"}),),), expected="", expected_of_calls="")


def _sized(side: Side, sizes: Sequence[int], repeats: int) -> Iterator[dict[str, Any]]:
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


# --- tables -----------------------------------------------------------------------------------------------------------


def _task_table(task: Task, sides: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    table = Table(title=f"{task.name}: {len(task.code):,} characters of code (seconds since the request)")
    for name in ("side", "first effect", "end", "end, times that of CodeTool"):
        table.add_column(name, justify="left" if name == "side" else "right")
    ours_s = sides[STREAMING.name][task.name]["end_s"]
    for side, tasks in sides.items():
        if (took := tasks.get(task.name)) is None:
            continue
        table.add_row(side, f"{took['effect_s']:.2f}", f"{took['end_s']:.2f}", f"{took['end_s'] / ours_s:.2f}")
    return table


def _size_table(cells: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="characters read, per character of code")
    heads = ("side", "characters", "as JSON", "to find statements", "compiled", "run early", "CPU, ms per 1,000")
    for name in heads:
        table.add_column(name, justify="left" if name == "side" else "right")
    for cell in cells:
        chars = cell["chars"]
        has_code = cell["compiled_chars"] > 0
        names = ("json_chars", "code_chars", "compiled_chars")
        shares = [f"{cell[name] / chars:,.2f}" if has_code else "" for name in names]
        early = f"{cell['early_chars'] / chars:.0%}" if has_code else ""
        table.add_row(cell["side"], f"{chars:,}", *shares, early, f"{cell['cpu_s'] / chars * 1e6:.2f}")
    return table


def _cost_table(costs: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="fixed costs, milliseconds")
    for name in ("sandbox", "start of the interpreter", "statement", "call of a tool"):
        table.add_column(name, justify="left" if name == "sandbox" else "right")
    for cost in costs:
        cells = [cost["start_ms"], cost["statement_ms"], cost["call_ms"]]
        table.add_row(cost["name"], *("" if ms is None else f"{ms:.2f}" for ms in cells))
    return table


# --- targets ----------------------------------------------------------------------------------------------------------


def _read_chars(cell: Mapping[str, Any]) -> int:
    """Return the characters that were read as Python."""
    return int(cell["code_chars"] + cell["compiled_chars"])


def _exponent(cells: Sequence[Mapping[str, Any]], read: Any) -> float:
    """Return the exponent of growth from the first to the last cell. 1 is linear, 2 quadratic."""
    first, last = cells[0], cells[-1]
    return math.log(read(last) / read(first)) / math.log(last["chars"] / first["chars"])


def _paced_rows(sides: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Row]:
    names = sides[STREAMING.name]
    for task in names:
        ours, late, eager = (sides.get(side.name, {}).get(task) for side in (STREAMING, AT_END, EAGER))
        assert ours is not None
        assert late is not None
        end, effect = ours["end_s"] / late["end_s"], ours["effect_s"] / late["effect_s"]
        if task != "ten edits":
            yield Row(
                work=f"CodeTool, {task}: time to the end",
                against="the same code, run at the end of its input",
                target=f"at most {_END_RATIO:g} times",
                measured=f"{end:.2f} times ({ours['end_s']:.2f} and {late['end_s']:.2f} s)",
                met=end <= _END_RATIO,
            )
        limit = _EFFECT_RATIO if task != "fetch five, compute" else 0.5
        yield Row(
            work=f"CodeTool, {task}: time to the first effect",
            against="the same code, run at the end of its input",
            target=f"at most {limit:g} times",
            measured=f"{effect:.2f} times ({ours['effect_s']:.2f} and {late['effect_s']:.2f} s)",
            met=effect <= limit,
        )
        times = None if eager is None else ours["effect_s"] / eager["effect_s"]
        yield Row(
            work=f"CodeTool, {task}: time to the first effect",
            against="CodeMode(eager=True) of pydantic-ai-harness",
            target="less",
            measured="not installed" if eager is None else f"{times:.2f} times (theirs: {eager['effect_s']:.2f} s)",
            met=None if times is None else times < 1,
            asserted=False,
        )


def _sized_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    ours, theirs, unbounded = (
        [cell for cell in cells if cell["side"] == side.name] for side in (STREAMING, EAGER, NO_BUDGET)
    )
    most = max(_read_chars(cell) / cell["chars"] for cell in ours)
    exponent = _exponent(ours, _read_chars)
    yield Row(
        work="CodeTool: characters read as Python, 1 to 100 KB of code",
        against="the length of the code",
        target=f"at most {_READ_TWICE:g} times, exponent at most {_LINEAR:g}",
        measured=f"{most:.2f} times, exponent {exponent:.2f}",
        met=most <= _READ_TWICE and exponent <= _LINEAR,
    )
    if not theirs:
        measured, met = "not installed", None
    else:
        early = [f"{cell['early_chars'] / cell['chars']:.0%} of {cell['chars']:,}" for cell in theirs]
        ours_early = [cell["early_chars"] / cell["chars"] for cell in ours]
        measured = f"{min(ours_early):.0%} of each; theirs {', '.join(early)} characters"
        if unbounded:
            growth = _exponent(unbounded, lambda cell: cell["json_chars"])
            measured += f" (characters decoded as JSON, without the budget: exponent {growth:.2f})"
        met = min(ours_early) >= max(0.9, theirs[-1]["early_chars"] / theirs[-1]["chars"])
    yield Row(
        work="CodeTool: share of the code that is compiled before its end, 1 to 100 KB",
        against="CodeMode(eager=True) of pydantic-ai-harness",
        target="at least 90% of each, and more than theirs of 100 KB",
        measured=measured,
        met=met,
        asserted=False,
    )
    if theirs:
        ratio = ours[-1]["cpu_s"] / theirs[-1]["cpu_s"]
        yield Row(
            work=f"CodeTool: CPU of a run with {ours[-1]['chars']:,} characters of code",
            against="CodeMode(eager=True) of pydantic-ai-harness",
            target="at most 1 times",
            measured=f"{ratio:.2f} times",
            met=ratio <= 1,
            asserted=False,
        )


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure the sides, print tables, and return the figures."""
    tasks, sizes, repeats = (TASKS[:1], SIZES[:2], 1) if quick else ((*TASKS, ONE_BY_ONE), SIZES, _REPEATS)
    paced, sized = ((AT_END, STREAMING, EAGER), (STREAMING, EAGER)) if quick else (PACED, SIZED_SIDES)
    for left_out in dict.fromkeys(side.name for side in (*paced, *sized) if not side.is_installed):
        console.print(f"{left_out} is left out: make bench installs it.")
    sides = _all_paced(paced, tasks, repeats)
    for task in tasks:
        console.print(_task_table(task, sides))
    cells = [cell for side in sized if side.is_installed for cell in _sized(side, sizes, repeats)]
    console.print(_size_table(cells))
    costs = _costs(quick=quick)
    console.print(_cost_table(costs))
    return {
        "versions": _versions(),
        "sides": sides,
        "cells": cells,
        "costs": costs,
        "rows": [asdict(row) for row in (*_paced_rows(sides), *_sized_rows(cells))],
    }


def _costs(*, quick: bool) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", f"{__name__}.fixed_costs", *(["--quick"] if quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-500:])
    costs: list[dict[str, Any]] = json.loads(done.stdout)
    return costs


def _versions() -> dict[str, str]:
    """Return the versions of the peer's packages."""
    if not PEER_PYTHON.exists():
        return {}
    names = ["pydantic-ai-harness", "pydantic-ai-slim", "pydantic-monty", "anthropic"]
    program = f"import json, importlib.metadata as m; print(json.dumps({{name: m.version(name) for name in {names}}}))"
    done = subprocess.run([str(PEER_PYTHON), "-c", program], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


if __name__ == "__main__":
    main(Console(), quick="--quick" in sys.argv)
