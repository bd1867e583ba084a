"""Shares of the CPU time of a program, by the part of the code that takes it: a sampling profiler.

The system sends a signal after some milliseconds of CPU time. The handler counts the innermost frame that belongs to a
known part. A function of the standard library counts for its caller, unless it is the event loop's. The collector of
cycles cannot be interrupted, so its time is measured, and not sampled.
"""

from __future__ import annotations

import gc
import re
import signal
import time
from collections import Counter
from collections.abc import Mapping
from functools import cache
from types import FrameType
from typing import Final

from rich.table import Table

_INTERVAL_S: Final = 0.001
_PARTS: Final = {
    "/asyncio/": "event loop",
    "/selectors.py": "event loop",
    "/aiohttp/": "HTTP client",
    "/httpx_aiohttp/": "HTTP client",
    "/httpx/": "HTTP client",
    "/httpx2/": "HTTP client",
    "/httpcore/": "HTTP client",
    "/httpcore2/": "HTTP client",
    "/h11/": "HTTP client",
    "/anthropic/": "HTTP client",
    "/anyio/": "anyio",
    "/pydantic/": "pydantic",
    "/benchmarks/": "the benchmark",
}
_OURS: Final = re.compile(r".*/(eagerstream\w*)/(\w+)")
_COLLECTOR: Final = "collector of cycles"
OTHERS: Final = "others"


class Collector:
    """Context manager that measures the CPU seconds of the collector of cycles, as `took_s`."""

    def __init__(self) -> None:
        self.took_s = 0.0
        self._since_s = 0.0

    def __enter__(self) -> None:
        gc.callbacks.append(self._note)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, _: object) -> None:
        now_s = time.thread_time()
        if phase == "start":
            self._since_s = now_s
        else:
            self.took_s += now_s - self._since_s


class CPUShares:
    """Context manager that samples this thread, which must be the main one."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._cpu_s = self._start_s = 0.0
        self._collector = Collector()

    def __enter__(self) -> None:
        self._collector.__enter__()
        self._start_s = time.process_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        self._cpu_s = time.process_time() - self._start_s
        self._collector.__exit__()

    def shares(self) -> dict[str, float]:
        """Return the shares by part, the largest first. Their sum is 1."""
        collecting = self._collector.took_s / self._cpu_s
        total = self._counts.total()
        sampled = {part: count / total * (1 - collecting) for part, count in self._counts.items()}
        return dict(sorted({**sampled, _COLLECTOR: collecting}.items(), key=lambda item: -item[1]))

    def _sample(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            if (part := _part_of(frame.f_code.co_filename)) is not None:
                self._counts[part] += 1
                return
            frame = frame.f_back
        self._counts[OTHERS] += 1


@cache
def _part_of(path: str) -> str | None:
    if found := _OURS.match(path):
        package, room = found.groups()
        return f"eagerstream.{room}" if package == "eagerstream" else package
    return next((part for folder, part in _PARTS.items() if folder in path), None)


def table(title: str, sides: Mapping[str, Mapping[str, float]]) -> Table:
    """Return a table of the parts.

    Args:
        title: Its title.
        sides: For each side, the cost of each part.
    """
    shown = Table(title=title)
    shown.add_column("part")
    for name in sides:
        shown.add_column(name, justify="right")
    for part in sorted({part for costs in sides.values() for part in costs}):
        shown.add_row(part, *(f"{costs.get(part, 0.0):.1f}" for costs in sides.values()))
    shown.add_row("all", *(f"{sum(costs.values()):.1f}" for costs in sides.values()))
    return shown
