"""Measurement under load: starts the server and the clients, and drives them through the levels."""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import ceil, inf
from multiprocessing.connection import wait
from statistics import median
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from ._embedded import EmbeddedServer, Simulation, embedded_server
from ._kinds import Arrivals
from ._load_client import ClientEnd, ClientLost, LoadClient
from ._load_figures import Processes, level_data
from ._load_plan import MAX_STARTS, Level, Objective, Phases
from ._load_results import BaselineData, LevelData
from ._load_runs import ClientSettings, LoadedRun, Order
from ._load_watch import BusyData
from ._load_wire import seen_runs
from ._matrix import Case
from ._measure import API_URL
from ._setup import Selection
from ._signals import interrupts_wait

if TYPE_CHECKING:
    from typing import Self

_VARIANTS: Final = 8
"""Number of variants of the simulated times: a request gets one of them."""
_LEAD_S: Final = 0.2
"""Time for an order to reach all clients before the level starts."""
_POLL_S: Final = 0.25
_STOP_S: Final = 60.0
"""Maximum time for a client to cancel its runs."""
_OPEN: Final = 3
"""Open files for each run at once: connections that are no longer used are closed late. A program has two."""
_PROBES: Final = 30
_IDLE_S: Final = 0.3
_MAX_REQUESTS: Final = 4 * MAX_STARTS


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """Plan of a load test.

    Attributes:
        selection: Options that decide the cases of our own.
        cases: All cases, programs included.
        levels: Levels, in the order of measurement.
        phases, arrivals, limits: See `_load_plan`.
        seed: Seed of the starts.
        clients: Number of processes that start runs.
        max_concurrency: Maximum number of concurrent runs in an open loop.
        simulation: Settings of the embedded server; `None` on the live API.
        max_tokens, max_turns, timeout_s: As in `Conditions`.
    """

    selection: Selection
    cases: tuple[Case, ...]
    levels: tuple[Level, ...]
    phases: Phases
    arrivals: Arrivals
    limits: tuple[Objective, ...]
    seed: int
    clients: int
    max_concurrency: int
    simulation: Simulation | None
    max_tokens: int
    max_turns: int
    timeout_s: float

    @property
    def is_proxied(self) -> bool:
        """True if a proxy measures the runs, because there are programs among them."""
        return any(case.program is not None for case in self.cases)

    @property
    def most(self) -> int:
        """Maximum number of runs at once."""
        closed = (level.concurrency for level in self.levels if level.concurrency is not None)
        opened = (self.max_concurrency for level in self.levels if level.rate is not None)
        return max((*closed, *opened))


class Progress(NamedTuple):
    """State of a level under way.

    Attributes:
        case, level: The level.
        passed_s, total_s: Time since its start, and until the end of its window.
        ended, failed: Numbers of runs so far, also of those that do not count.
    """

    case: Case
    level: Level
    passed_s: float
    total_s: float
    ended: int
    failed: int


class LoadTest:
    """The processes of a load test: `with LoadTest(plan) as test:`. Its calls block.

    Ctrl-C reaches only the measuring process. The others end with the block, or with that process.

    Attributes:
        baseline: Measurement without load; `None` on the live API.

    Raises:
        ServerLost: The embedded server did not start.
        ClientLost: A client did not start.
        UsageError: The system does not allow so many connections.
    """

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._orders = 0
        self.baseline: BaselineData | None = None
        self._server: EmbeddedServer | None = None
        self._proxy: EmbeddedServer | None = None
        self._clients: list[LoadClient] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        plan = self._plan
        url: str | None = None
        variables: dict[str, str] = {}
        if plan.simulation is not None:
            self._server = stack.enter_context(embedded_server(max_connections=_OPEN * plan.most))
            url, variables = self._server.base_url, dict(self._server.variables)
            self._server.play(plan.simulation.varied(plan.cases[0], 1))
        if plan.is_proxied:
            upstream = url or os.environ.get("ANTHROPIC_BASE_URL") or API_URL
            options: dict[str, Any] = {"max_requests": _MAX_REQUESTS, "max_connections": 2 * _OPEN * plan.most}
            # In a process of its own: its work must be neither that of the clients nor that of the server.
            self._proxy = stack.enter_context(embedded_server(proxied=True, upstream=upstream, **options))
            pointed = {name: value.replace(upstream, self._proxy.base_url) for name, value in variables.items()}
            variables = pointed or dict(self._proxy.variables)
            url = self._proxy.base_url
        for number in range(plan.clients):
            settings = ClientSettings(
                number=number,
                clients=plan.clients,
                selection=plan.selection,
                url=url,
                variables=variables,
                proxied=plan.is_proxied,
                max_tokens=plan.max_tokens,
                max_turns=plan.max_turns,
                timeout_s=plan.timeout_s,
                max_connections=_OPEN * ceil(plan.most / plan.clients),
            )
            client = LoadClient(settings)
            stack.callback(client.close)
            self._clients.append(client)
        idle = [client.wait_until_ready() for client in self._clients]
        if self._server is not None:
            direct_s = _probe_s(self._server.base_url)
            added_s = None if self._proxy is None else max(0.0, _probe_s(self._proxy.base_url) - direct_s)
            self._server.busy()
            sleep(_IDLE_S)
            self.baseline = {
                "client": idle[0],
                "server": self._server.busy(),
                "proxy_added_s": None if added_s is None else round(added_s, 6),
            }

    def level(self, case: Case, level: Level, tell: Callable[[Progress], object]) -> LevelData:
        """Measure one level of one case.

        Ctrl-C ends it early, and what was measured is kept: the level is then `interrupted`.

        Raises:
            ServerLost, ClientLost: A process has ended, or does not respond.
        """
        plan = self._plan
        self._orders += 1
        if self._server is not None and plan.simulation is not None:
            self._server.play(plan.simulation.varied(case, _VARIANTS))
        order = Order(
            number=self._orders,
            case=case.id,
            program=case.program,
            prompt=case.source.prompt,
            model=case.model,
            level=level,
            phases=plan.phases,
            arrivals=plan.arrivals,
            seed=plan.seed,
            max_concurrency=plan.max_concurrency,
        )
        for client in self._clients:
            client.prepare(order)
        for client in self._clients:
            client.receive()
        order = replace(order, origin_s=monotonic() + _LEAD_S)
        drive = _Drive(order, case, self._clients, self._server, self._proxy)
        interrupted = False
        try:
            for client in self._clients:
                client.start(order.origin_s)
            drive.follow(tell)
        except KeyboardInterrupt:
            interrupted = True
        with interrupts_wait():
            stopped_s = monotonic() - order.origin_s
            runs, processes = drive.end()
        return level_data(
            level,
            plan.phases,
            runs,
            processes,
            arrivals=plan.arrivals,
            seed=plan.seed,
            limits=plan.limits,
            stopped_s=stopped_s,
            interrupted=interrupted,
        )


class _Drive:
    """One level under way."""

    def __init__(
        self,
        order: Order,
        case: Case,
        clients: Sequence[LoadClient],
        server: EmbeddedServer | None,
        proxy: EmbeddedServer | None,
    ) -> None:
        self._order = order
        self._case = case
        self._clients = {client.connection: client for client in clients}
        self._watched = {"server": server, "proxy": proxy}
        self._proxy = proxy
        self._runs: list[LoadedRun] = []
        self._busy: dict[str, BusyData | None] = {"server": None, "proxy": None}
        self._failed = 0
        self._marks = [*order.phases.window]

    def follow(self, tell: Callable[[Progress], object]) -> None:
        """Take the reports of the clients until each run that counts has ended, or the grace period is over."""
        order = self._order
        end_s = order.phases.window[1]
        done: set[object] = set()
        while True:
            now_s = monotonic() - order.origin_s
            if self._marks and now_s >= self._marks[0]:
                self._marks.pop(0)
                self._read()  # the first reading only starts the second one
            if now_s >= end_s and (len(done) == len(self._clients) or now_s >= end_s + order.phases.grace_s):
                return
            mark_s = self._marks[0] if self._marks else inf
            for ready in wait(list(self._clients), timeout=min(_POLL_S, max(0.0, mark_s - now_s))):
                if self._take(ready) is True:
                    done.add(ready)
            tell(Progress(self._case, order.level, now_s, end_s, len(self._runs), self._failed))

    def end(self) -> tuple[list[LoadedRun], Processes]:
        """Stop the clients, and return all runs, with what the proxy saw of them."""
        if len(self._marks) == 1:  # interrupted within the window
            self._read()
        stopped_s = monotonic()
        for client in self._clients.values():
            client.stop()
        ends: dict[object, ClientEnd] = {}
        deadline_s = monotonic() + _STOP_S
        while len(ends) < len(self._clients):
            left = [connection for connection in self._clients if connection not in ends]
            ready = wait(left, timeout=max(0.0, deadline_s - monotonic()))
            if not ready:
                raise ClientLost(f"a client did not end its runs within {_STOP_S:g} s")
            for connection in ready:
                if isinstance(report := self._take(connection), ClientEnd):
                    ends[connection] = report
        seen = self._proxy.collect() if self._proxy is not None else None
        runs = self._runs if seen is None else seen_runs(seen, self._runs, self._order, stopped_s=stopped_s)
        busy = [ends[connection].busy for connection in self._clients]
        known = [one for one in busy if one is not None]
        processes = Processes(known, self._busy["server"], self._busy["proxy"])
        return runs, processes

    def _read(self) -> None:
        self._busy = {name: one.busy() if one is not None else None for name, one in self._watched.items()}

    def _take(self, connection: Any) -> object:
        report = self._clients[connection].receive()
        if isinstance(report, list):
            self._runs += report
            self._failed += sum(run.error is not None for run in report)
        return report


def _probe_s(url: str) -> float:
    """Return the median duration of small requests over one open connection."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    took_s: list[float] = []
    try:
        for _ in range(_PROBES):
            began_s = monotonic()
            connection.request("GET", "/probe")  # refused at once
            connection.getresponse().read()
            took_s.append(monotonic() - began_s)
    finally:
        connection.close()
    return median(took_s)
