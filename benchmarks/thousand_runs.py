"""1,000 simultaneous runs in one process, compared with `httpx2` and `aiohttp` alone, which only drain the bytes.

Every run is the same conversation of three responses: two calls, one call, and the text that ends it. A text is before
the calls, a third of the characters of the response, and all events are padded. The server is in another process. It
paces its responses, so that all runs are active all the time. It compares each request with the expected one. Each side
works in a fresh process, with as many connections as there are runs. The sides alternate, and the cheapest repetition
counts. CPU is that of the side's process, user and system, from the first request to the last byte. "GC" is the part of
it that Python's collector of cycles takes. Memory is the growth of the resident set: from its size after one run to its
largest size during the runs. Fairness is the duration of the slowest run, divided by the median. "Wakeups" is how often
the process waited per event: near 0, it had more to do than it could. Ratios are to draining with httpx2. A client of
httpx2 has 100 runs, because it scans its connections at each request. "Frozen" is a program that calls `gc.freeze()`
after its start. "Seldom collected" is one that calls `gc.set_threshold(700, 10, 1_000)`. By default, Python looks
through all objects of all runs again and again, and finds no cycles: a run leaves none.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import resource
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table

from . import cpu_shares
from .cpu_shares import Collector, CPUShares
from .targets import Row
from .thousand_clients import DRAIN, DRAIN_AIOHTTP, FROZEN, GC_THRESHOLDS, PATIENCE_S, RUN, SELDOM, SIDES, UVLOOP
from .thousand_server import EVENTS_PER_SECOND, allow_files, events_of_a_run, receive, served, spawn

RUNS: Final = 1_000
PACE: Final = f"one event per write, {EVENTS_PER_SECOND:,} events per second of all runs together"
TARGET_CPU: Final = 0.9
TARGET_FAIR: Final = 1.25
TARGET_KB: Final = 256
_FAILS_CPU: Final = 1.2
"""A run fails above this. The target is met only if the collector of cycles is seldom called."""
TARGET_AIOHTTP: Final = 1.6
"""Of draining with the same client."""
_QUICK: Final = (DRAIN, DRAIN_AIOHTTP, RUN, f"{RUN}{SELDOM}")
_TWICE: Final = (*_QUICK, f"{RUN}{FROZEN}")
"""Sides that are measured twice."""
_PROFILED: Final = (DRAIN, RUN)
"""A sample each 4 ms costs nothing."""


@dataclass
class Took:
    """Costs of one side for all runs.

    Attributes:
        name: Name of the side.
        cpu_s: CPU seconds of its process.
        gc_s: Seconds in the collector of cycles.
        durations_s: Duration of each run.
        wakeups: How often the process waited.
        rss_before: Resident bytes before the runs.
        rss_peak: Largest number of resident bytes during the runs.
        restarts: Number of lost connections whose response was requested again.
        faults: Lost, repeated or wrong things.
        shares: Shares of the CPU time by part of the code, if asked for: see `cpu_shares`.
    """

    name: str
    cpu_s: float
    gc_s: float
    durations_s: list[float]
    wakeups: int
    rss_before: int
    rss_peak: int
    restarts: int
    faults: list[str] = field(default_factory=list)
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def unfairness(self) -> float:
        """Duration of the slowest run, divided by the median."""
        ordered = sorted(self.durations_s)
        return ordered[-1] / ordered[len(ordered) // 2]

    @property
    def bytes_per_run(self) -> float:
        return (self.rss_peak - self.rss_before) / len(self.durations_s)


def take(name: str, url: str, runs: int, *, profiled: bool = False) -> Took:
    """Perform all runs by one side, in a new process."""
    ours, process = spawn(_work, name, url, runs, profiled)
    took: Took = receive(ours, PATIENCE_S)
    process.join()
    return took


def _work(connection: Connection, name: str, url: str, runs: int, profiled: bool) -> None:  # noqa: FBT001
    factory = importlib.import_module("uvloop").new_event_loop if UVLOOP in name else asyncio.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            connection.send(runner.run(_take(name, url, runs, CPUShares() if profiled else None)))
    except Exception as error:
        connection.send(RuntimeError(f"{name}: {''.join(traceback.format_exception(error))}"))


async def _take(name: str, url: str, runs: int, shares: CPUShares | None) -> Took:
    allow_files(runs)
    durations_s: list[float] = []
    faults: list[str] = []
    restarts = 0
    async with SIDES[name](url, runs) as converse:

        async def one(run: int, after_s: float = 0.0) -> None:
            await anyio.sleep(after_s)
            nonlocal restarts
            start = time.monotonic()
            told = await converse(run)
            faults.extend(told.faults)
            restarts += told.restarts
            durations_s.append(time.monotonic() - start)

        await one(runs)  # a warm-up: it loads modules, but opens no connections of the runs
        spread_s, durations_s[:] = durations_s[0] / 3, []
        gc.collect()
        if name.endswith(FROZEN):
            gc.freeze()  # modules and what else lives as long as the process
        elif name.endswith(SELDOM):
            gc.set_threshold(*GC_THRESHOLDS)
        resident, collector = _Resident(), Collector()
        start, wakeups = time.process_time(), _wakeups()
        with resident, collector, shares or nullcontext():
            async with anyio.create_task_group() as tasks:
                for run in range(runs):
                    tasks.start_soon(one, run, spread_s * run / runs)
        cpu_s = time.process_time() - start - resident.cpu_s
        wakeups = _wakeups() - wakeups
    rss = (resident.before, resident.peak)
    parts = shares.shares() if shares else {}
    return Took(name, cpu_s, collector.took_s, durations_s, wakeups, *rss, restarts, faults, parts)


def _wakeups() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


class _Resident:
    """Resident set of this process. A thread reads it ten times per second."""

    def __init__(self) -> None:
        self.before = self.peak = _resident()
        self.cpu_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            self.peak = max(self.peak, _resident())
        self.cpu_s = time.thread_time()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(runs: int, repeats: int, names: Sequence[str]) -> list[Took]:
    """Return the repetition with the least CPU, for each side. Only some are repeated.

    Raises:
        AssertionError: Something was lost, repeated or wrong.
    """
    best: dict[str, Took] = {}
    with served(runs) as server:
        for repetition in range(repeats):
            for name in names if repetition == 0 else [name for name in names if name in _TWICE]:
                took = take(name, server.url, runs, profiled=name in _PROFILED)
                faults = [*took.faults, *server.asked().missing(runs, took.restarts)]
                assert not faults, f"{name}: {len(faults)} faults, {faults[:5]}"
                assert len(took.durations_s) == runs
                if name not in best or took.cpu_s < best[name].cpu_s:
                    best[name] = took
    return list(best.values())


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides, print a table, and return the figures."""
    runs = RUNS // 10 if quick else RUNS
    names = [name for name in SIDES if find_spec("uvloop") is not None or UVLOOP not in name]
    sides = measure(runs, 1 if quick else 2, _QUICK if quick else names)
    events = runs * events_of_a_run()
    floor_s = next(side.cpu_s for side in sides if side.name == DRAIN)
    table = Table(title=f"{runs:,} runs at once, {events:,} events in {3 * runs:,} responses; nothing was lost")
    heads = (
        "CPU s",
        "µs per event",
        "ratio",
        "GC",
        "KB per run",
        "wakeups",
        "median s",
        "slowest s",
        "times",
        "restarts",
    )
    for name in ("side", *heads):
        table.add_column(name, justify="left" if name == "side" else "right")
    figures: list[dict[str, Any]] = []
    for side in sides:
        ordered = sorted(side.durations_s)
        figure = {
            "cpu_s": side.cpu_s,
            "us_per_event": side.cpu_s / events * 1e6,
            "ratio": side.cpu_s / floor_s,
            "gc_share": side.gc_s / side.cpu_s,
            "kb_per_run": side.bytes_per_run / 1024,
            "wakeups_per_event": side.wakeups / events,
            "median_s": ordered[len(ordered) // 2],
            "slowest_s": ordered[-1],
            "unfairness": side.unfairness,
        }
        forms = (".1f", ".0f", ".2f", ".0%", ".0f", ".2f", ".1f", ".1f", ".3f")
        cells = (f"{value:{form}}" for value, form in zip(figure.values(), forms, strict=True))
        table.add_row(side.name, *cells, str(side.restarts))
        figures.append({"name": side.name, "restarts": side.restarts, "rss_peak": side.rss_peak, **figure})
    console.print(table)
    profiles = {
        side.name: {part: share * side.cpu_s / events * 1e6 for part, share in side.shares.items()}
        for side in sides
        if side.shares
    }
    console.print(cpu_shares.table("µs per event by part of the code, sampled", profiles))
    return {
        "runs": runs,
        "events": events,
        "sides": figures,
        "profiles": profiles,
        "rows": [asdict(row) for row in _rows(runs, figures)],
    }


def _rows(runs: int, figures: Sequence[dict[str, Any]]) -> list[Row]:
    work = f"{runs:,} runs at once in one process, over HTTPTransport on aiohttp"
    found = {figure["name"]: figure for figure in figures}
    run, drained_us = found[RUN], found[DRAIN]["us_per_event"]
    cpu = [
        Row(
            work=f"{work}{settings}",
            against="draining the same bytes with httpx2 alone, asyncio",
            pace=PACE,
            target=f"CPU at most {TARGET_CPU} times (a run fails above {_FAILS_CPU:.2f})",
            measured=f"{figure['ratio']:.2f} times: {figure['us_per_event']:.0f} and {drained_us:.0f} µs an event"
            if figure
            else "not measured",
            met=figure["ratio"] <= TARGET_CPU if figure else None,
            asserted=figure is None or not TARGET_CPU < figure["ratio"] <= _FAILS_CPU,
        )
        for settings in ("", SELDOM, UVLOOP, UVLOOP + SELDOM)
        for figure in (found.get(f"{RUN}{settings}"),)
    ]
    alone_us = found[DRAIN_AIOHTTP]["us_per_event"]
    to_aiohttp = [
        Row(
            work=f"{work}{settings}",
            against="draining the same bytes with aiohttp alone, asyncio",
            pace=PACE,
            target=f"CPU at most {TARGET_AIOHTTP} times",
            measured=f"{us / alone_us:.2f} times: {us:.0f} and {alone_us:.0f} µs an event",
            met=us <= TARGET_AIOHTTP * alone_us,
            asserted=False,  # missed: see "Many runs in one process" in the guide to performance
        )
        for settings in ("", SELDOM)
        for us in (found[f"{RUN}{settings}"]["us_per_event"],)
    ]
    return [
        *cpu,
        *to_aiohttp,
        Row(
            work=work,
            against="the median of them",
            pace=PACE,
            target=f"the slowest takes at most {TARGET_FAIR} times as long",
            measured=f"{run['unfairness']:.3f} times: {run['slowest_s']:.1f} and {run['median_s']:.1f} s",
            met=run["unfairness"] <= TARGET_FAIR,
            asserted=False,
        ),
        Row(
            work=work,
            against="none",
            pace=PACE,
            target=f"at most {TARGET_KB} KB of memory for each, and nothing lost",
            measured=f"{run['kb_per_run']:.0f} KB, nothing lost",
            met=run["kb_per_run"] <= TARGET_KB,
        ),
    ]


if __name__ == "__main__":
    main(Console(), quick=True)
