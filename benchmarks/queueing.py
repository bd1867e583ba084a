"""Queues in virtual time, and the closed formulas that their simulation must agree with.

A process is a generator that yields the thing that it waits for. That is a number of seconds, the use of a station, or
a sequence of other processes that must all end. After the use of a station, it gets the seconds that it waited for its
turn.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Use:
    """Use of one server of a station, for so many seconds."""

    station: Station
    service_s: float


Process: TypeAlias = "Generator[float | Use | Sequence[Any], Any, None]"


@dataclass(eq=False)
class Station:
    """Some equal servers with one queue: first come, first served.

    Attributes:
        waits_s: Waiting time of each use, since the last `forget`.
        busy_s: Sum of the working times of all servers, since then.
    """

    servers: int
    waits_s: list[float] = field(default_factory=list)
    busy_s: float = 0.0
    busy: int = 0
    queue: deque[tuple[float, Process, float]] = field(default_factory=deque)

    def use(self, service_s: float) -> Use:
        """Return a use, which a process yields to get a server."""
        return Use(self, service_s)

    def forget(self) -> None:
        """Start counting again. The start, with empty queues, is not representative."""
        self.waits_s.clear()
        self.busy_s = 0.0


class Simulation:
    """Simulation of processes in virtual time. Their order is deterministic."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Process, float | None, Station | None]] = []
        self._serial = 0
        self._parents: dict[Process, tuple[Process, list[int]]] = {}

    def start(self, process: Process) -> None:
        """Start a process now."""
        self._later(0.0, process)

    def run(self, until_s: float) -> None:
        """Simulate until this time."""
        while self._due and self._due[0][0] <= until_s:
            self.now_s, _, process, waited_s, left = heapq.heappop(self._due)
            if left is not None:
                self._leave(left)
            self._step(process, waited_s)
        self.now_s = until_s

    def _later(
        self, delay_s: float, process: Process, waited_s: float | None = None, left: Station | None = None
    ) -> None:
        self._serial += 1  # of two at the same time, the earlier entry comes first
        heapq.heappush(self._due, (self.now_s + delay_s, self._serial, process, waited_s, left))

    def _step(self, process: Process, waited_s: float | None) -> None:
        try:
            wanted = process.send(waited_s)
        except StopIteration:
            self._ended(process)
            return
        if isinstance(wanted, Use):
            self._enter(process, wanted)
        elif isinstance(wanted, float | int):
            self._later(wanted, process)
        else:
            left = [len(wanted)]
            for child in wanted:
                self._parents[child] = (process, left)
                self.start(child)
            if not wanted:
                self._later(0.0, process)

    def _enter(self, process: Process, use: Use) -> None:
        station = use.station
        if station.busy < station.servers:
            station.busy += 1
            self._serve(station, process, use.service_s, 0.0)
        else:
            station.queue.append((self.now_s, process, use.service_s))

    def _leave(self, station: Station) -> None:
        if station.queue:
            came_s, process, service_s = station.queue.popleft()
            self._serve(station, process, service_s, self.now_s - came_s)
        else:
            station.busy -= 1

    def _serve(self, station: Station, process: Process, service_s: float, waited_s: float) -> None:
        station.waits_s.append(waited_s)
        station.busy_s += service_s
        self._later(service_s, process, waited_s, station)

    def _ended(self, process: Process) -> None:
        parent, left = self._parents.pop(process, (None, [0]))
        left[0] -= 1
        if parent is not None and left[0] == 0:
            self._later(0.0, parent)


def erlang_c(servers: int, load: float) -> float:
    """Return the share of arrivals that wait in M/M/c. `load` is arrivals per second times seconds of service."""
    if load >= servers:
        return 1.0
    blocked = 1.0  # Erlang B, by its recursion: no factorial of a large number
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


def finite_wait(customers: int, servers: int, think_s: float, service_s: float) -> float:
    """Return the share of visits that wait, if the same customers come again `think_s` after each visit.

    This is the machine repair model, with Erlang's formula for a finite source. An arriving customer sees the others.
    """
    others, ratio = customers - 1, service_s / think_s
    logarithm = 0.0
    terms: list[float] = []
    for there in range(others + 1):  # weight of each state relative to the first, as a logarithm: they are huge
        terms.append(logarithm)
        logarithm += math.log(max(others - there, 1) * ratio / min(there + 1, servers))
    largest = max(terms)
    weights = [math.exp(term - largest) for term in terms]
    return sum(weights[servers:]) / sum(weights)


def mean_wait_s(servers: int, load: float, service_s: float, *, service_cv2: float = 1.0) -> float:
    """Return the mean wait in M/M/c. If `service_cv2` is not 1 (exponential), it follows Allen and Cunneen."""
    if load >= servers:
        return math.inf
    return erlang_c(servers, load) * service_s / (servers - load) * (1 + service_cv2) / 2


def staffed(load: float, slack: float = 2.0) -> int:
    """Return the servers for a load by square-root staffing. The share that waits falls with `slack`."""
    return max(1, math.ceil(load + slack * math.sqrt(load)))


def halfin_whitt(slack: float) -> float:
    """Return the share that waits with `load + slack * sqrt(load)` servers, for large loads."""
    density = math.exp(-slack * slack / 2) / math.sqrt(2 * math.pi)
    below = (1 + math.erf(slack / math.sqrt(2))) / 2
    return 1 / (1 + slack * below / density)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least so many percent do not exceed, or 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(len(ordered) * percent / 100) - 1))]
