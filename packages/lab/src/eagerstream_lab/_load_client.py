"""A client of a load test: a process that starts runs, and reports each of them.

It has one event loop for all of its runs, and measures how late that loop is. It ignores Ctrl-C, and ends with the
process that has started it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property, partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread

from eagerstream._support.error_groups import members_of
from eagerstream.errors import EagerStreamError
from eagerstream.loop import run

from ._embedded import interrupts_blocked
from ._load_plan import FIGURES, share_of
from ._load_runs import UNKNOWN, ClientSettings, Figures, Load, LoadedRun, Order, variables_of
from ._load_watch import BusyData, LoopWatch, allow_files
from ._matrix import Case
from ._measure import Connected, connected
from ._metrics import METRICS
from ._programs import run_program
from ._sources import AnyTool
from ._wire import address_of

_REPORT_S: Final = 0.2
_IDLE_S: Final = 0.3
"""Time in which a client measures itself without load."""
_RUNS_OF_CONNECTION: Final = 64
"""Number of runs at once that share an HTTP client. Each request looks at all connections of its client: with 300 runs,
ten clients take 20 % less CPU time than one."""
_START_S: Final = 60.0
_END_S: Final = 5.0


class ClientEnd(NamedTuple):
    """Report of a client at the end of a level, and when it is ready.

    Attributes:
        busy: Its load during the window; `None` if the window had not ended.
    """

    busy: BusyData | None


class ClientLost(EagerStreamError):
    """Error for a client whose process has ended, or does not respond in time."""


# --- in the process of a client ---------------------------------------------------------------------------------------


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
    """The process of a client. It takes orders, and carries each out until it gets the next message."""

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
        try:
            await anyio.sleep(max(0.0, order.origin_s + end_s - monotonic()))
        finally:  # also if the level is interrupted
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
        told = (
            failure
            if isinstance(failure, EagerStreamError)
            else ClientLost(f"a client failed with {type(failure).__name__}")
        )
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
        report: list[LoadedRun] | ClientEnd | bool = received
        return report

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
