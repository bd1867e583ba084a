"""Code that runs while it is written: `CodeTool`, and the same work in other ways.

Each side runs in a new process and sends its requests to the same kind of embedded server, which writes at a fixed
speed, in fragments of 8 characters, and in padded events. There is no text before a call, which would add the same
seconds to all sides. Times count from the start of the run. Of three runs, the median counts. Two sides run at once,
because they wait most of the time. The tasks:

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

The third table has the fixed costs: the median of the starts, and the least of three means of 300 statements or calls.
A direct call is one that the model makes itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from .rows import Times, paced_rows, sized_rows
from .sides import AT_END, EAGER, LIMIT_S, PACED, PEER_PYTHON, SIZED_SIDES, STREAMING, all_paced, sized
from .tasks import TASKS, Task

SIZES: Final = (1_000, 10_000, 100_000)
_REPEATS: Final = 3


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure the sides, print tables, and return the figures."""
    tasks, sizes, repeats = (TASKS[:1], SIZES[:2], 1) if quick else (TASKS, SIZES, _REPEATS)
    paced, measured = ((AT_END, STREAMING, EAGER), (STREAMING, EAGER)) if quick else (PACED, SIZED_SIDES)
    for left_out in dict.fromkeys(side.name for side in (*paced, *measured) if not side.is_installed):
        console.print(f"{left_out} is left out: make bench installs it.")
    sides = all_paced(paced, tasks, repeats)
    for task in tasks:
        console.print(_task_table(task, sides))
    cells = [cell for side in measured if side.is_installed for cell in sized(side, sizes, repeats)]
    console.print(_size_table(cells))
    costs = _costs(quick=quick)
    console.print(_cost_table(costs))
    versions = _versions()
    console.print(", ".join(f"{package} {version}" for package, version in versions.items()))
    return {
        "versions": versions,
        "sides": sides,
        "cells": cells,
        "costs": costs,
        "rows": [asdict(row) for row in (*paced_rows(sides), *sized_rows(cells))],
    }


def _task_table(task: Task, sides: Times) -> Table:
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


def _costs(*, quick: bool) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", f"{__name__}.fixed_costs", *(["--quick"] if quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
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
