"""CPU of a run over each client, one event per read, compared with draining the same bytes with httpx2.

The first response has a text of 50 KB, and calls a tool with an input of 100 KB, in fragments of 16 characters. The
second response ends the run. All events are padded. A server in another process writes each event by itself, 0.3 ms
apart, and not before the client has read the one before it. So a busy machine changes nothing: "wakeups" is how often
the client waited per event.

Each client works in a fresh process, which first has a short conversation to load modules and to open the connection.
The figures are the CPU time of that process, user and system, for the complete conversation after it. The repetitions
alternate. The least of each side counts, and ratios are to the least of `httpx2 alone` on asyncio. The spread shows the
least and the largest ratio of all repetitions.

`blocking socket` and `asyncio.Protocol` are bounds: they only look for the end of the body, and do not read HTTP. The
part with TLS repeats the sides with targets. A compiled side has the compiled core, as in a wheel for a platform.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from . import cpu_shares
from .flavors import ROOT, Flavor, NoCompilerError, path_of
from .paced_server import Certificate, paced
from .targets import Row
from .transport_sides import (
    AIOHTTP,
    ANTHROPIC_AIOHTTP,
    BASE,
    CHARS,
    HTTPX2,
    MEASURED,
    SIDES,
    UVLOOP,
    Cost,
    conversation,
)

PACE_S: Final = 0.0003
PACE: Final = f"one event per write, {PACE_S * 1e3:g} ms apart, each after the one before was read"
_PATIENCE_S: Final = 120.0
TARGETS: Final = {AIOHTTP: 0.55, f"{AIOHTTP}{UVLOOP}": 0.40, ANTHROPIC_AIOHTTP: 0.65, HTTPX2: 1.25}
_MARGIN: Final = 1.15
"""A run fails above the target times this: caches and neighbours change a ratio by some per cent."""
_WITH_TLS: Final = (BASE, *TARGETS)
_PROFILED: Final = (BASE, HTTPX2, AIOHTTP)
COMPILED: Final = ", compiled"
_COMPILED: Final = tuple(name + COMPILED for name in (AIOHTTP, f"{AIOHTTP}{UVLOOP}", ANTHROPIC_AIOHTTP))
"""Sides that are also measured with the compiled core."""
_FORMS: Final = {"pure": ("plain", ""), "compiled": ("plain", COMPILED), "pure over TLS": ("tls", "")}
"""The figures of a target: the key of their sides, and the end of the name of ours."""


@dataclass
class Measured:
    """Repetitions of one side."""

    name: str
    costs: list[Cost] = field(default_factory=list)

    @property
    def cpu_s(self) -> float:
        """The least."""
        return min(cost.cpu_s for cost in self.costs)

    @property
    def wakeups(self) -> int:
        """Wakeups of the cheapest repetition."""
        return min(self.costs, key=lambda cost: cost.cpu_s).wakeups


def measure(names: Iterable[str], *, share: float, repeats: int, tls: bool = False) -> list[Measured]:
    """Measure these sides in turn.

    Args:
        names: Of `SIDES`.
        share: Share of the complete input.
        repeats: Number of repetitions of each side.
        tls: Over TLS.

    Raises:
        LookupError: `tls`, and the command openssl is not installed.
    """
    sides = [Measured(name) for name in names]
    conversations = {model: conversation(model, share) for model in CHARS}
    with tempfile.TemporaryDirectory() as folder:
        certificate = Certificate.make(Path(folder)) if tls else None
        with paced(conversations, PACE_S, certificate) as url:
            for _ in range(repeats):
                for side in sides:
                    side.costs.append(_cost(side.name, url, certificate, share))
    return sides


def _cost(name: str, url: str, certificate: Certificate | None, share: float, *options: str) -> Cost:
    """Measure one side in a new process."""
    arguments = (name.removesuffix(COMPILED), url, str(certificate.certificate) if certificate else "", str(share))
    command = [sys.executable, "-m", f"{__package__}.transport_sides", *arguments, *options]
    source = path_of(Flavor.COMPILED if name.endswith(COMPILED) else Flavor.PURE)
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False, env=environment, cwd=ROOT
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    return Cost(**json.loads(done.stdout))


def _profiles(share: float) -> dict[str, dict[str, float]]:
    """Return µs per event by part of the code, for some sides."""
    count = events(share)
    with paced({model: conversation(model, share) for model in CHARS}, PACE_S) as url:
        costs = {name: _cost(name, url, None, share, "--profile") for name in _PROFILED}
    return {
        name: {part: part_share * cost.cpu_s / count * 1e6 for part, part_share in cost.shares.items()}
        for name, cost in costs.items()
    }


def events(share: float) -> int:
    """Return the number of events of the measured conversation."""
    return sum(map(len, conversation(MEASURED, share)))


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides, print the tables, and return the figures."""
    has_uvloop = find_spec("uvloop") is not None
    names = [name for name in (*SIDES, *_compiled()) if has_uvloop or UVLOOP not in name]
    share, repeats = (0.2, 1) if quick else (1.0, 3)
    plain = measure(names, share=share, repeats=repeats)
    figures = {"plain": _shown(console, "plain HTTP", plain, share)}
    try:
        tls = measure([name for name in _WITH_TLS if name in names], share=share, repeats=repeats, tls=True)
    except LookupError as error:
        console.print(f"TLS is left out: {error}")
    else:
        figures["tls"] = _shown(console, "TLS", tls, share)
    rows = [_row(name, target, figures, events(share)) for name, target in TARGETS.items()]
    profiles = _profiles(share)
    console.print(cpu_shares.table("µs per event by part of the code, sampled", profiles))
    return {"events": events(share), **figures, "profiles": profiles, "rows": [asdict(row) for row in rows]}


def _compiled() -> Sequence[str]:
    try:
        path_of(Flavor.COMPILED)
    except NoCompilerError:
        return ()
    return _COMPILED


def _shown(console: Console, protocol: str, sides: Sequence[Measured], share: float) -> list[dict[str, Any]]:
    """Print a table, and return its figures."""
    count = events(share)
    floor_s = next(side.cpu_s for side in sides if side.name == BASE)
    table = Table(title=f"a conversation of {count:,} events over {protocol}: CPU of the client's process")
    for name in ("side", "ms", "µs per event", "ratio", "spread", "wakeups per event"):
        table.add_column(name, justify="left" if name == "side" else "right")
    figures = []
    for side in sorted(sides, key=lambda side: side.cpu_s):
        ratios = sorted(cost.cpu_s / floor_s for cost in side.costs)
        figure = {"name": side.name, "cpu_s": side.cpu_s, "ratio": side.cpu_s / floor_s}
        spread, wakeups = [ratios[0], ratios[-1]], side.wakeups / count
        times = (f"{side.cpu_s * 1e3:.0f}", f"{side.cpu_s / count * 1e6:.1f}")
        shown = (f"{spread[0]:.2f} to {spread[1]:.2f}", f"{wakeups:.2f}")
        table.add_row(side.name, *times, f"{figure['ratio']:.2f}", *shown)
        figures.append({**figure, "spread": spread, "wakeups_per_event": wakeups})
    console.print(table)
    return figures


def _row(name: str, target: float, figures: Mapping[str, list[dict[str, Any]]], count: int) -> Row:
    shown: list[str] = []
    ratios: dict[str, float] = {}
    for how, (key, suffix) in _FORMS.items():
        costs_us = {side["name"]: side["cpu_s"] / count * 1e6 for side in figures.get(key, ())}
        if (ours_us := costs_us.get(name + suffix)) is not None:
            ratios[how] = ours_us / costs_us[BASE]
            shown.append(f"{how} {ratios[how]:.2f} times, {ours_us:.0f} and {costs_us[BASE]:.0f} µs an event")
    # A wheel for a platform is compiled, so that is what users get.
    ratio = ratios.get("compiled", ratios.get("pure"))
    # A miss within the margin is reported, and does not fail a run.
    return Row(
        work=f"CPU of a run with an input of 100 KB, one event per read: {name.removeprefix('run, ')}",
        against="draining the same bytes with httpx2 alone, asyncio",
        pace=PACE,
        target=f"at most {target:.2f} times (a run fails above {target * _MARGIN:.2f})",
        measured="; ".join(shown) or "uvloop is not installed",
        met=None if ratio is None else ratio <= target,
        asserted=ratio is None or not target < ratio <= target * _MARGIN,
    )


if __name__ == "__main__":
    main(Console(), quick=True)
