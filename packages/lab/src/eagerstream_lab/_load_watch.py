"""Measurement of an event loop and its process: is this process too slow for the load?

The event loop of a process should wake it every 10 ms. The delay of each of these wake-ups is also the delay of
everything else in the loop, such as the reading of a response. If one wake-up is late, those that it has covered count,
too, each with its own delay.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from math import ceil
from time import monotonic, process_time
from typing import Final

from typing_extensions import TypedDict

from eagerstream.errors import UsageError

TICK_S: Final = 0.01
_MAX_LAGS: Final = 1_000_000
_SPARE_FILES: Final = 64


class BusyData(TypedDict):
    """Load of one process.

    Attributes:
        cpu_share: CPU time, as a share of one processor.
        lag_p50_s, lag_p99_s, lag_max_s: Delay of its event loop: percentiles of the delays of a timer of 10 ms, in
            seconds.
    """

    cpu_share: float
    lag_p50_s: float
    lag_p99_s: float
    lag_max_s: float


class LoopWatch:
    """Watches the event loop in which `start` is called. `take` may be called in another thread."""

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._due_s: float | None = None
        self._since = monotonic(), process_time()

    def start(self) -> None:
        """Start to watch the running event loop. Calls after the first do nothing."""
        if self._due_s is None:
            loop = asyncio.get_running_loop()
            self._due_s = loop.time() + TICK_S
            loop.call_at(self._due_s, self._tick, loop)

    def take(self) -> BusyData:
        """Return the figures since the last call, or since the watch was made."""
        now = monotonic(), process_time()
        lags, self._lags = self._lags, []
        since, self._since = self._since, now
        passed_s = max(now[0] - since[0], 1e-9)
        ordered = sorted(lags)
        return {
            "cpu_share": round((now[1] - since[1]) / passed_s, 4),
            "lag_p50_s": round(percentile(ordered, 0.5), 6),
            "lag_p99_s": round(percentile(ordered, 0.99), 6),
            "lag_max_s": round(ordered[-1], 6) if ordered else 0.0,
        }

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        due_s = self._due_s if self._due_s is not None else now_s
        while due_s <= now_s:
            if len(self._lags) < _MAX_LAGS:
                self._lags.append(now_s - due_s)
            due_s += TICK_S
        self._due_s = due_s
        loop.call_at(due_s, self._tick, loop)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed; 0 of none."""
    return ordered[max(0, ceil(share * len(ordered) - 1e-9) - 1)] if ordered else 0.0


def allow_files(sockets: int) -> None:
    """Let this process open so many sockets: raise its soft limit of open files, up to the hard one.

    Raises:
        UsageError: The hard limit is too low. The text says which limit to raise.
    """
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
    needed = sockets + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{sockets:,} connections need {needed:,} open files, and this system allows {hard:,}: ulimit -Hn {needed}"
        )
    if sys.platform == "darwin" and hard == resource.RLIM_INFINITY:
        needed = min(needed, 10_240)  # more is refused there (OPEN_MAX), whatever the hard limit says
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
