"""Cost of hostile peers, clients and texts: how long they block the event loop, and how much memory they take.

Each attack runs in its own process. A task of the same event loop records the longest time between two of its turns.
The system reports the largest growth of the process (`VmHWM`). "Before" is the same program with the code before
these bounds existed, on this machine. It cannot be measured again, so its figures are stored.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console
from rich.progress import track
from rich.table import Table

from .attack_cases import ATTACKS, warm_up
from .targets import Row

BEFORE: Final = Path(__file__).with_name("attacks_before.json")
"""Figures of the code before these bounds: costs by attack, and successful tries by kind."""

PACE: Final = "as fast as the attacker can send, unless the row says otherwise"
_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class Cost:
    """Cost of an attack.

    Attributes:
        frozen_s: Longest time for which the event loop was blocked, in seconds.
        grown_mb: Largest growth of the process, in MB.
        took_s: Duration, in seconds. If the program was stopped, its time limit.
        ended: Description of the end.
    """

    frozen_s: float
    grown_mb: float
    took_s: float
    ended: str


async def measure(name: str) -> Cost:
    """Return the cost of an attack in this process."""
    attack = ATTACKS[name]
    frozen_s = 0.0

    async def watch() -> None:
        nonlocal frozen_s
        while True:
            began_s = time.perf_counter()
            await anyio.sleep(0.005)
            frozen_s = max(frozen_s, time.perf_counter() - began_s - 0.005)

    prepared = await attack.prepare()
    await warm_up()
    _begin_peak()
    before = _status("VmRSS")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.sleep(0.05)
        frozen_s = 0.0
        began_s = time.perf_counter()
        ended = await attack.run(prepared)
        took_s = time.perf_counter() - began_s
        await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    return Cost(frozen_s, (_status("VmHWM") - before) / 1024, took_s, ended)


def _begin_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def cost_of(name: str) -> Cost:
    """Return the cost of an attack in a new process.

    Raises:
        RuntimeError: The process failed.
    """
    command = [sys.executable, "-m", __package__ + ".attacks", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Cost(_TIMEOUT_S, 0, _TIMEOUT_S, "never")
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _row(name: str, before: Mapping[str, Any], now: Cost) -> Row:
    attack = ATTACKS[name]
    return Row(
        work=attack.what,
        against="the same without the bound" if before else "a bound",
        pace=PACE,
        target=f"at most {attack.frozen_s:g} s frozen, {attack.grown_mb} MB",
        measured=f"{now.frozen_s:.2f} s, {now.grown_mb:.0f} MB"
        + (f"; {before['frozen_s']:.2f} s, {before['grown_mb']:.0f} MB before" if before else ""),
        met=now.frozen_s <= attack.frozen_s and now.grown_mb <= attack.grown_mb,
    )


def main(console: Console, *, quick: bool) -> dict[str, Any]:  # noqa: ARG001
    """Measure all attacks, print a table, and return the figures."""
    befores: dict[str, Any] = json.loads(BEFORE.read_text(encoding="utf-8"))["attacks"]
    costs = {name: cost_of(name) for name in track(ATTACKS, "attacks", console=console, transient=True)}
    table = Table(title="blocked event loop, growth of the process, and end of the attack")
    for name in ("attack", "before: s", "MB", "now: s", "MB", "total: s", "end"):
        table.add_column(name, justify="left" if name in ("attack", "end") else "right")
    for name, now in costs.items():
        before = befores.get(name)
        told = (f"{before['frozen_s']:.2f}", f"{before['grown_mb']:.0f}") if before else ("", "")
        figures = (f"{now.frozen_s:.2f}", f"{now.grown_mb:.0f}", f"{now.took_s:.1f}")
        table.add_row(ATTACKS[name].what, *told, *figures, now.ended)
    console.print(table)
    rows = [_row(name, befores.get(name, {}), now) for name, now in costs.items()]
    return {"costs": {name: asdict(cost) for name, cost in costs.items()}, "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    print(json.dumps(asdict(anyio.run(measure, sys.argv[1]))))
