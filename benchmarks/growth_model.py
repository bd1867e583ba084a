"""Many runs on a cluster, in virtual time: gateway processes that hold the runs, and workers that run their tools.

A run is a sequence of turns. A turn is a request, the time to the first byte, and a response. The events of the
response cost the event loop of its gateway CPU as they come. The calls of the turn follow, all at once. Each call also
costs that loop CPU. While its tool runs, it takes a place on a worker of its kind. A loop is one server. A pool of
workers has as many servers as calls fit on it. All runs continue without a pause, so the number of runs is constant.

Responses are processed in steps of one second: the events of one second are one piece of work for the loop.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .queueing import Process, Simulation, Station, Use, finite_wait, percentile, staffed

SLICE_S = 1.0
"""Length of the steps in which responses are processed. Shorter steps change no figure by more than 1 %."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Measured costs: CPU seconds of a gateway's process, and bytes."""

    event_s: float
    turn_s: float
    call_s: float
    worker_call_s: float
    run_bytes: int
    gateway_bytes: int


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of tool, and of worker.

    Attributes:
        share: Its share of all calls.
        mean_s: Mean duration of a call. The durations are lognormal.
        sigma: Standard deviation of the logarithm of the duration. With 1, one call in forty takes more than four
            times the mean.
        per_worker: Number of calls that one worker runs at once.
    """

    name: str
    share: float
    mean_s: float
    sigma: float
    per_worker: int

    def draw_s(self, random: Random) -> float:
        """Draw the duration of one call."""
        return random.lognormvariate(math.log(self.mean_s) - self.sigma**2 / 2, self.sigma)


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work of the runs, with times in seconds.

    Attributes:
        events: Numbers of events in a response. Each turn draws one.
        events_per_s: Rate at which a response arrives.
        first_byte_s: Mean time to the first byte, lognormal with a sigma of 0.5.
        calls: Probabilities of 0, 1, 2 ... calls in a turn.
    """

    events: Sequence[int]
    kinds: Sequence[Kind]
    events_per_s: float = 25.0
    first_byte_s: float = 1.0
    calls: Sequence[float] = (0.2, 0.5, 0.2, 0.1)

    @property
    def mean_events(self) -> float:
        """Mean number of events in a turn."""
        return sum(self.events) / len(self.events)

    @property
    def mean_calls(self) -> float:
        """Mean number of calls in a turn."""
        return sum(number * chance for number, chance in enumerate(self.calls))


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Numbers of processes: `gateways` hold runs, and `workers` run tools, by the name of their kind."""

    gateways: int
    workers: dict[str, int]


@dataclass
class Seen:
    """Result of a simulation.

    Attributes:
        span_s: Observed time.
        turns: Number of turns that ended.
        loop_use: Share of the time in which the loop of the busiest gateway worked.
        worker_use: By kind, the share of places that were occupied.
        waits_s: By kind, the times that calls waited for a worker.
        slowdowns: For each turn, its duration divided by its duration alone.
        turn_s: Mean duration of a turn.
        alone_s: Mean duration of a turn alone.
    """

    span_s: float
    turns: int = 0
    loop_use: float = 0.0
    worker_use: dict[str, float] = field(default_factory=dict)
    waits_s: dict[str, list[float]] = field(default_factory=dict)
    slowdowns: list[float] = field(default_factory=list)
    turn_s: float = 0.0
    alone_s: float = 0.0

    @property
    def turns_per_s(self) -> float:
        """Turns that ended per second."""
        return self.turns / self.span_s

    def waited(self, name: str) -> float:
        """Return the share of calls of a kind that found no free worker."""
        waits = self.waits_s[name]
        return sum(wait > 0 for wait in waits) / len(waits) if waits else 0.0

    def slowdown(self, percent: float) -> float:
        """Return a percentile of the slowdowns."""
        return percentile(self.slowdowns, percent)


class _World:
    def __init__(self, work: Work, costs: Costs, cluster: Cluster, seed: int) -> None:
        self.work, self.costs = work, costs
        self.random = Random(seed)
        self.simulation = Simulation()
        self.loops = [Station(1) for _ in range(cluster.gateways)]
        self.pools = {kind.name: Station(cluster.workers[kind.name] * kind.per_worker) for kind in work.kinds}
        self.seen: Seen | None = None

    def run(self, loop: Station) -> Process:
        """Simulate one run. It never ends."""
        yield self.random.uniform(0, self.work.first_byte_s + self.work.mean_events / self.work.events_per_s)
        while True:
            begun_s = self.simulation.now_s
            alone_s = yield from self._turn(loop)
            took_s = self.simulation.now_s - begun_s
            if self.seen is not None:
                self.seen.turns += 1
                self.seen.turn_s += took_s
                self.seen.alone_s += alone_s
                self.seen.slowdowns.append(took_s / alone_s)

    def _turn(self, loop: Station) -> Generator[Any, Any, float]:
        """Simulate one turn. Return its duration alone."""
        work, costs, random = self.work, self.costs, self.random
        yield loop.use(costs.turn_s)
        first_byte_s = random.lognormvariate(math.log(work.first_byte_s) - 0.125, 0.5)
        yield first_byte_s
        alone_s = costs.turn_s + first_byte_s
        arrived_s, alone_arrived_s = self.simulation.now_s, alone_s
        left = float(random.choice(work.events))
        while left > 0:
            events = min(left, work.events_per_s * SLICE_S)
            left -= events
            arrived_s += events / work.events_per_s
            alone_arrived_s += events / work.events_per_s
            if arrived_s > self.simulation.now_s:
                yield arrived_s - self.simulation.now_s
            yield loop.use(events * costs.event_s)
            alone_s = max(alone_s, alone_arrived_s) + events * costs.event_s
        (number,) = random.choices(range(len(work.calls)), work.calls)
        kinds = random.choices(work.kinds, [kind.share for kind in work.kinds], k=number)
        tools_s = [kind.draw_s(random) + costs.worker_call_s for kind in kinds]
        yield [self._call(loop, self.pools[kind.name], tool_s) for kind, tool_s in zip(kinds, tools_s, strict=True)]
        return alone_s + (max(tools_s) + costs.call_s if tools_s else 0.0)

    def _call(self, loop: Station, pool: Station, tool_s: float) -> Generator[Use, Any, None]:
        yield loop.use(self.costs.call_s / 2)  # CPU to send the call
        yield pool.use(tool_s)
        yield loop.use(self.costs.call_s / 2)  # CPU to receive its result


def simulate(runs: int, work: Work, costs: Costs, cluster: Cluster, *, span_s: float, seed: int = 1) -> Seen:
    """Simulate so many simultaneous runs. Observe them for `span_s`, after they have run for `span_s`."""
    world = _World(work, costs, cluster, seed)
    for number in range(runs):
        world.simulation.start(world.run(world.loops[number % len(world.loops)]))
    world.simulation.run(span_s)
    stations = [*world.loops, *world.pools.values()]
    for station in stations:
        station.forget()
    world.seen = seen = Seen(span_s)
    world.simulation.run(2 * span_s)
    seen.loop_use = min(1.0, max(loop.busy_s for loop in world.loops) / span_s)
    for name, pool in world.pools.items():
        seen.worker_use[name] = min(1.0, pool.busy_s / span_s / pool.servers)
        seen.waits_s[name] = pool.waits_s
    seen.turn_s /= max(1, seen.turns)
    seen.alone_s /= max(1, seen.turns)
    return seen


@dataclass(frozen=True)
class Paper:
    """The same by formulas: Little's law, the utilisation law, and Erlang's formula for a finite source.

    Attributes:
        cycle_s: Mean duration of a turn that never waits. By Little's law, runs / cycle_s turns end per second.
        loop_s: Seconds that a turn occupies a gateway's loop.
        places_s: By kind, seconds that a turn occupies a worker's place.
        service_s: By kind, seconds that a call occupies a worker's place.
        gateway_knee: Number of runs with which the loop of one gateway is always busy.
    """

    cycle_s: float
    loop_s: float
    places_s: dict[str, float]
    service_s: dict[str, float]

    @property
    def gateway_knee(self) -> float:
        return self.cycle_s / self.loop_s

    @classmethod
    def of(cls, work: Work, costs: Costs, *, alone_s: float) -> Paper:
        """Return the formulas for this work.

        Args:
            work: Work of the runs.
            costs: Measured costs.
            alone_s: Mean duration of a turn alone. It has no closed form, because the calls of a turn run at once.
        """
        loop_s = costs.turn_s + work.mean_events * costs.event_s + work.mean_calls * costs.call_s
        service_s = {kind.name: kind.mean_s + costs.worker_call_s for kind in work.kinds}
        places_s = {kind.name: work.mean_calls * kind.share * service_s[kind.name] for kind in work.kinds}
        return cls(alone_s, loop_s, places_s, service_s)

    def turns_per_s(self, runs: int, cluster: Cluster, kinds: Sequence[Kind]) -> float:
        """Return the upper bound: the demand of the runs, or the throughput of the first saturated station."""
        places = [self.places_s[kind.name] / (cluster.workers[kind.name] * kind.per_worker) for kind in kinds]
        return min(runs / self.cycle_s, cluster.gateways / self.loop_s, *(1 / each for each in places))

    def load(self, turns_per_s: float, kind: Kind) -> float:
        """Return the mean number of occupied places of a kind, by Little's law."""
        return turns_per_s * self.places_s[kind.name]

    def workers(self, runs: int, kind: Kind, slack: float = 2.0) -> int:
        """Return the number of workers by square-root staffing, for runs that never wait."""
        return math.ceil(staffed(self.load(runs / self.cycle_s, kind), slack) / kind.per_worker)

    def waited(self, runs: int, turns_per_s: float, kind: Kind, workers: int) -> float:
        """Return the share of calls that find no free worker, if each run has one call of the kind at a time."""
        calls_per_s = turns_per_s * self.places_s[kind.name] / self.service_s[kind.name]
        service_s = self.service_s[kind.name]
        return finite_wait(runs, workers * kind.per_worker, max(runs / calls_per_s - service_s, 1e-6), service_s)
