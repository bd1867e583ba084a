"""A client of a load test: a process that starts runs, and reports each of them.

It has one event loop for all of its runs, and measures how late that loop is. It ignores Ctrl-C, and ends with the
process that has started it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

import anyio
import anyio.to_thread

from eagerstream._support.error_groups import members_of
from eagerstream.errors import EagerStreamError
from eagerstream.loop import run

from ._embedded import interrupts_blocked
from ._kinds import Arrivals
from ._load_plan import FIGURES, MAX_STARTS, Level, Phases, share_of, starts, user_starts
from ._load_watch import BusyData, LoopWatch, allow_files
from ._matrix import Case
from ._measure import Connected, connected
from ._metrics import METRICS
from ._programs import Program, run_program
from ._setup import Selection
from ._sources import AnyTool
from ._wire import MANY, address_of

_REPORT_S: Final = 0.2
_PAUSE_S: Final = 0.1
"""Pause of a user after a failed run, so that refusals are no flood."""
_IDLE_S: Final = 0.3
"""Time in which a client measures itself without load."""
_RUNS_OF_CONNECTION: Final = 64
"""Number of runs at once that share an HTTP client. Each request looks at all connections of its client: with 300 runs,
ten clients take 20 % less CPU time than one."""
_MAX_CAUSES: Final = 10
_START_S: Final = 60.0
_END_S: Final = 5.0

Figures: TypeAlias = tuple[float | None, ...]
"""Values of `FIGURES`, in seconds after the intended start; `None` if a figure does not apply, or is not known."""

UNKNOWN: Final[Figures] = (None,) * len(FIGURES)


class LoadedRun(NamedTuple):
    """One run. Times are seconds after the start of its level.

    Attributes:
        name: Name of the run at the proxy.
        intended_s: Time at which it should have started.
        started_s: Time at which it started.
        ended_s: Time of its end; `None` if it was cancelled at the end of the level.
        error: Class of the exception that ended it; `None` if there was none.
        figures: Its figures; those of a failed run do not count.
        queued: It had to wait, because as many runs as allowed were under way.
    """

    name: str
    intended_s: float
    started_s: float
    ended_s: float | None
    error: str | None
    figures: Figures
    queued: bool


class ClientEnd(NamedTuple):
    """Report of a client at the end of a level, and when it is ready.

    Attributes:
        busy: Its load during the window; `None` if the window had not ended.
    """

    busy: BusyData | None


class ClientLost(EagerStreamError):
    """Error for a client whose process has ended, or does not respond in time."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Settings of a client.

    Attributes:
        number, clients: Number of this client from 0, and of all clients.
        selection: Options that decide the cases of our own.
        url: Address of the server or the proxy; `None` for that of the environment.
        variables: Environment variables that point a program at it.
        proxied: The address is that of a proxy, which measures the runs by their names.
        max_tokens, max_turns, timeout_s: As in `Conditions`.
        max_connections: Number of connections that must be possible.
    """

    number: int
    clients: int
    selection: Selection
    url: str | None
    variables: Mapping[str, str] = field(repr=False)
    proxied: bool
    max_tokens: int
    max_turns: int
    timeout_s: float
    max_connections: int


@dataclass(frozen=True, kw_only=True)
class Order:
    """One level of one case.

    Attributes:
        number: Number of the order, which is part of the names of its runs.
        case: Id of the case.
        program: Program of the case; `None` for our own loop.
        prompt, model: Those of the case.
        level, phases, arrivals, seed: The load.
        max_concurrency: Maximum number of runs of all clients at once, in an open loop.
        origin_s: Start of the level, on the monotonic clock. It is known when all clients are ready.
    """

    number: int
    case: str
    program: Program | None
    prompt: str = field(repr=False)
    model: str
    level: Level
    phases: Phases
    arrivals: Arrivals
    seed: int
    max_concurrency: int
    origin_s: float = 0.0


# --- in the process of a client ---------------------------------------------------------------------------------------


class Load:
    """The runs of one level in one client.

    Args:
        settings: Settings of the client.
        order: The level.
        run_once: Runs the program or the loop once, and returns its figures. Its arguments are the name of the run and
            the time at which it should have started, on the monotonic clock.
        tell: Called with each run when it has ended.
    """

    def __init__(
        self,
        settings: ClientSettings,
        order: Order,
        run_once: Callable[[str, float], Awaitable[Figures]],
        tell: Callable[[LoadedRun], object],
    ) -> None:
        self._settings = settings
        self._order = order
        self._phases = order.phases
        self._run_once = run_once
        self._tell = tell
        self._started = 0
        self._under_way = 0  # of those that count
        self._starting = 0  # tasks that were made, and have not begun
        self._scheduled_s = 0.0  # all starts before this time have been made

    @property
    def is_done(self) -> bool:
        """True if the window has passed, and each run that counts has ended."""
        end_s = self._phases.window[1]
        is_past = self._now() >= end_s and self._scheduled_s >= end_s
        return is_past and not self._starting and not self._under_way

    async def run(self) -> None:
        """Keep the load on until this is cancelled. Runs under way are cancelled then, and reported without an end."""
        number, clients = self._settings.number, self._settings.clients
        level, program = self._order.level, self._order.program
        async with anyio.create_task_group() as tasks:
            if level.concurrency is None:
                await self._arrive(tasks)
                return
            self._scheduled_s = float("inf")
            if program is not None and program.runs_many:
                if own := share_of(level.concurrency, client=number, clients=clients):
                    tasks.start_soon(self._run_many, program, own)
                return
            for at_s in user_starts(level.concurrency, ramp_s=self._phases.ramp_s)[number::clients]:
                tasks.start_soon(self._user, at_s)

    async def _user(self, at_s: float) -> None:
        await self._until(at_s)
        while self._started < MAX_STARTS // self._settings.clients:
            if not await self._once(self._now(), queued=False):
                await anyio.sleep(_PAUSE_S)

    async def _arrive(self, tasks: anyio.abc.TaskGroup) -> None:
        order, settings = self._order, self._settings
        most = max(1, share_of(order.max_concurrency, client=settings.number, clients=settings.clients))
        places = anyio.Semaphore(most)
        assert order.level.rate is not None
        times = starts(
            order.level.rate,
            ramp_s=self._phases.ramp_s,
            arrivals=order.arrivals,
            seed=f"{order.seed} {order.level.name}",
        )
        free_at_s = 0.0
        for at_s in islice(times, settings.number, MAX_STARTS, settings.clients):
            self._scheduled_s = at_s
            await self._until(at_s)
            is_full = not places.value
            await places.acquire()
            if is_full:
                free_at_s = self._now()
            self._starting += 1
            tasks.start_soon(self._arrival, at_s, at_s < free_at_s, places)

    async def _arrival(self, at_s: float, queued: bool, places: anyio.Semaphore) -> None:  # noqa: FBT001 - a task
        self._starting -= 1
        try:
            await self._once(at_s, queued=queued)
        finally:
            places.release()

    async def _once(self, intended_s: float, *, queued: bool) -> bool:
        """Run once, and report it. Return False if it failed."""
        order = self._order
        self._started += 1
        name = f"{order.number}-{self._settings.number}-{self._started}"
        counts = self._phases.counts(intended_s)
        self._under_way += counts
        started_s = self._now()
        figures, error, ended_s = UNKNOWN, None, None
        try:
            with anyio.fail_after(self._settings.timeout_s):
                figures = await self._run_once(name, order.origin_s + intended_s)
            ended_s = self._now()
        except Exception as raised:
            ended_s = self._now()
            error = _name_of(members_of(raised)[0])
        finally:
            self._under_way -= counts
            self._tell(LoadedRun(name, intended_s, started_s, ended_s, error, figures, queued))
        return error is None

    async def _run_many(self, program: Program, concurrency: int) -> None:
        """Run a program that makes many runs at once, again and again. The proxy sees its runs; only failures count."""
        order, settings = self._order, self._settings
        name = f"{MANY}-{order.number}-{settings.number}"
        while True:
            started_s = self._now()
            try:
                await run_program(
                    program,
                    prompt=order.prompt,
                    model=order.model,
                    variables=variables_of(settings, name),
                    concurrency=concurrency,
                )
            except EagerStreamError as raised:
                now_s = self._now()
                self._tell(LoadedRun("", now_s, started_s, now_s, _name_of(raised), UNKNOWN, queued=False))
                await anyio.sleep(_PAUSE_S)
            await anyio.lowlevel.checkpoint()

    async def _until(self, at_s: float) -> None:
        delay_s = at_s - self._now()
        await (anyio.sleep(delay_s) if delay_s > 0 else anyio.lowlevel.checkpoint())

    def _now(self) -> float:
        return monotonic() - self._order.origin_s


def variables_of(settings: ClientSettings, name: str) -> dict[str, str]:
    """Return the environment variables that point a program at the proxy, under the name of a run."""
    url = settings.url or ""
    return {key: value.replace(url, address_of(url, name)) for key, value in settings.variables.items()}


def _name_of(error: BaseException) -> str:
    """Return the class of an exception, with the status of a refused request, or the class of its first cause."""
    name = type(error).__name__
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return f"{name} {status}"
    cause = error
    for _ in range(_MAX_CAUSES):
        cause = cause.__cause__ or cause
    return name if cause is error else f"{name} ({type(cause).__name__})"


class _Sending:
    """Observer that notes when the first request of a run is about to be sent."""

    wants_deltas = False

    def __init__(self) -> None:
        self.at_s: float | None = None

    def sending(self, _: Mapping[str, Any], /) -> None:
        if self.at_s is None:
            self.at_s = monotonic()

    def take(self, _: Sequence[Any], /) -> None: ...

    def end(self, _: object, /) -> None: ...


class _Client:
    """The process of a client: it takes orders, and carries each out until it is told to stop."""

    def __init__(self, connection: Connection, settings: ClientSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._watch = LoopWatch()
        self._ended: list[LoadedRun] = []
        self._loops: dict[str, _OwnLoop] = {}

    async def serve(self) -> None:
        """Take orders until the other side closes the connection."""
        self._watch.start()
        async with AsyncExitStack() as stack:
            self._folder = Path(stack.enter_context(TemporaryDirectory(prefix="eagerstream-load-")))
            self._stack = stack
            await anyio.sleep(_IDLE_S)
            self._connection.send(ClientEnd(self._watch.take()))
            while (order := await self._received()) is not None:
                await self._carry_out(order)

    async def _carry_out(self, order: Order) -> None:
        busy: list[BusyData] = []
        own = await self._own_loop(order) if order.program is None else None
        self._connection.send(ClientEnd(None))  # ready
        if (origin_s := await self._received()) is None:
            return
        order = replace(order, origin_s=origin_s)
        run_once = partial(self._run_program, order) if own is None else own.run_once
        load = Load(self._settings, order, run_once, self._ended.append)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load.run)
            tasks.start_soon(self._report, load)
            tasks.start_soon(self._measure, order, busy)
            await self._received()  # the request to stop, or nothing if the other side has left
            tasks.cancel_scope.cancel()
        self._flush()
        self._connection.send(ClientEnd(busy[-1] if busy else None))

    async def _measure(self, order: Order, busy: list[BusyData]) -> None:
        start_s, end_s = order.phases.window
        await anyio.sleep(max(0.0, order.origin_s + start_s - monotonic()))
        self._watch.take()  # what was before does not count
        await anyio.sleep(max(0.0, order.origin_s + end_s - monotonic()))
        busy.append(self._watch.take())

    async def _report(self, load: Load) -> None:
        told = False
        while True:
            await anyio.sleep(_REPORT_S)
            self._flush()
            if load.is_done and not told:
                self._connection.send(True)
                told = True

    def _flush(self) -> None:
        if self._ended:
            self._connection.send(self._ended[:])
            self._ended.clear()

    async def _received(self) -> Any:
        """Return the next message; `None` if the other side has closed the connection."""
        try:
            return await anyio.to_thread.run_sync(self._connection.recv, abandon_on_cancel=True)
        except (EOFError, OSError):
            return None

    @cached_property
    def _cases(self) -> dict[str, Case]:
        return {case.id: case for case in self._settings.selection.cases()}

    async def _own_loop(self, order: Order) -> _OwnLoop:
        """Return our own loop for a case, with the tools and the connections that the level needs."""
        settings, case, level = self._settings, self._cases[order.case], order.level
        if case.id not in self._loops:
            self._loops[case.id] = _OwnLoop(settings, case, self._folder / f"{len(self._loops)}")
        loop = self._loops[case.id]
        most = level.concurrency if level.concurrency is not None else order.max_concurrency
        await loop.connect(share_of(most, client=settings.number, clients=settings.clients), self._stack)
        loop.prepare(share_of(level.concurrency or 0, client=settings.number, clients=settings.clients))
        return loop

    async def _run_program(self, order: Order, name: str, _: float) -> Figures:
        """Run a program once. The proxy measures it."""
        assert order.program is not None
        variables = variables_of(self._settings, name)
        await run_program(order.program, prompt=order.prompt, model=order.model, variables=variables)
        return UNKNOWN


class _OwnLoop:
    """Our own loop in one case. Each of the runs at once has tools and a folder of its own."""

    def __init__(self, settings: ClientSettings, case: Case, folder: Path) -> None:
        self._settings = settings
        self._case = case
        self._folder = folder
        self._connections: list[Connected] = []
        recordings = case.source.recordings
        self._max_turns = settings.max_turns if recordings is None else min(settings.max_turns, len(recordings))
        self._free: list[_Place] = []
        self._made = 0

    async def connect(self, concurrency: int, stack: AsyncExitStack) -> None:
        """Open as many HTTP clients as this number of runs needs, until the stack is closed."""
        settings = self._settings
        while len(self._connections) * _RUNS_OF_CONNECTION < max(1, concurrency):
            opened = connected(self._case.transport, settings.url, is_live=settings.selection.live, is_loaded=True)
            self._connections.append(await stack.enter_async_context(opened))

    def prepare(self, concurrency: int) -> None:
        """Make the tools of so many runs: that takes as much CPU time as half a run."""
        self._free += [self._new_place() for _ in range(concurrency - len(self._free))]

    async def run_once(self, name: str, intended_s: float) -> Figures:
        """Run the loop once, and return its figures since the intended start."""
        settings, case = self._settings, self._case
        is_named = settings.proxied and settings.url is not None
        place = self._free.pop() if self._free else self._new_place()
        sending = _Sending()
        running = run(
            place.connection.at(address_of(settings.url or "", name)) if is_named else place.connection.client,
            model=case.model,
            max_tokens=settings.max_tokens,
            max_turns=self._max_turns,
            tools=place.tools,
            messages=[{"role": "user", "content": case.source.prompt}],
            on_interrupt="raise",  # a retry must not count as the first attempt
            eager_fallback=None,
        )
        running.observe(sending)
        try:
            async with running:
                await running.finish()
        finally:
            self._free.append(place)
        latency = running.latency
        values = (METRICS[figure].of(latency) for figure in FIGURES)
        late_s = (sending.at_s if sending.at_s is not None else intended_s) - intended_s
        return tuple(None if value is None else late_s + value for value in values)

    def _new_place(self) -> _Place:
        folder = self._folder / f"{self._made}"
        connection = self._connections[self._made % len(self._connections)]
        self._made += 1
        folder.mkdir(parents=True)
        return _Place(self._case.tools.made(folder, eager=self._case.streaming == "eager"), connection)


class _Place(NamedTuple):
    """Tools and client of one of the runs at once."""

    tools: Sequence[AnyTool]
    connection: Connected


def _serve(connection: Connection, settings: ClientSettings) -> None:
    """Run a client in its process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: ignore it here
    # A thousand runs may fail in a second. The results count them.
    logging.getLogger("eagerstream").addHandler(logging.NullHandler())
    logging.getLogger("eagerstream").propagate = False
    try:
        allow_files(settings.max_connections)
        anyio.run(_Client(connection, settings).serve)
    except (BrokenPipeError, EOFError, ConnectionResetError):
        pass  # the other side has left
    except Exception as error:
        failure = members_of(error)[0]
        told = failure if isinstance(failure, EagerStreamError) else ClientLost(f"a client failed: {failure!r:.200}")
        connection.send(told)
    os._exit(0)  # a thread may still wait for the other side


# --- in the measuring process -----------------------------------------------------------------------------------------


class LoadClient:
    """A client, as its other side sees it.

    Attributes:
        connection: For `multiprocessing.connection.wait`. It has a list of `LoadedRun`, True when each run that counts
            has ended, and a `ClientEnd` after `stop`.

    Raises:
        ClientLost: The process did not start. `receive` raises it if the process has ended.
        UsageError: The system does not allow so many connections.
    """

    def __init__(self, settings: ClientSettings) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, settings), daemon=True)
        with interrupts_blocked():
            self._process.start()
        theirs.close()

    def wait_until_ready(self) -> BusyData:
        """Wait until the process has started, and return its load while it is idle."""
        if not self.connection.poll(_START_S):
            raise ClientLost(f"a client did not start within {_START_S:g} s")
        ready = self.receive()
        assert isinstance(ready, ClientEnd)
        assert ready.busy is not None
        return ready.busy

    def prepare(self, order: Order) -> None:
        """Ask the client to prepare a level. It reports a `ClientEnd` when it is ready."""
        self._send(order)

    def start(self, origin_s: float) -> None:
        """Start the level at this time of the monotonic clock."""
        self._send(origin_s)

    def stop(self) -> None:
        """Ask the client to end the level. It reports what is left, and then a `ClientEnd`."""
        self._send("stop")

    def receive(self) -> list[LoadedRun] | ClientEnd | bool:
        """Return the next report."""
        try:
            received: Any = self.connection.recv()
        except (EOFError, OSError) as error:
            raise ClientLost("the process of a client has ended") from error
        if isinstance(received, EagerStreamError):
            raise received
        return received  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process, and all programs that it runs."""
        self.connection.close()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()

    def _send(self, what: object) -> None:
        try:
            self.connection.send(what)
        except OSError as error:
            raise ClientLost("the process of a client has ended") from error
