"""`Pool`: keeps a number of workers alive, and shares them among executors. Subclasses define the worker."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import anyio

from eagerstream._support.checks import check_count, check_positive
from eagerstream._support.hosted_tasks import HostedTasks
from eagerstream.errors import UsageError, WorkerLost
from eagerstream.tools import Tool, ToolCall

from ._fair import FairQueue
from ._messages import Line

_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 5.0
_MAX_DOUBLINGS: Final = 10
_MAX_FAILED_STARTS: Final = 3
"""Number of consecutive failed starts after which calls get an error if no worker is left. The pool still retries."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """State of a pool.

    Attributes:
        workers: Number of workers that take calls.
        busy: Number of those workers that have a call.
        waiting: Number of calls that wait for a worker.
        lost: Number of workers that died.
        restarted: Number of workers started to replace others.
    """

    workers: int
    busy: int
    waiting: int
    lost: int
    restarted: int


class PoolWorker(Protocol):
    """One worker, from its start to its end."""

    @property
    def pid(self) -> int | None:
        """Process id; `None` before the process exists."""
        ...

    @property
    def lost(self) -> str | None:
        """Reason why the worker is no longer usable; `None` while it lives."""
        ...

    @property
    def was_ready(self) -> bool:
        """True once the worker has started."""
        ...

    @property
    def has_died(self) -> bool:
        """True if the worker ended after its start, and the pool did not end it."""
        ...

    @property
    def may_start_again(self) -> bool:
        """True if the failed start may be due to the machine or the time."""
        ...

    async def run(self, on_ready: Callable[[Any], object]) -> None:
        """Start the worker, call `on_ready`, and return when it takes no more calls. Cancelling this ends it."""
        ...

    def open(self, reference: bytes) -> Line:
        """Return a line for a call of the tool with this reference."""
        ...

    def close(self, line: Any) -> bool:
        """End the call of a line; return False if the worker must not get another call."""
        ...


W = TypeVar("W", bound=PoolWorker)


class Pool(ABC, Generic[W]):
    """Workers, shared by any number of executors and runs; an async context manager.

    Entering it returns when every worker is ready. A lost worker is replaced. Leaving it cancels the calls that still
    run, and ends the workers. Any task may do it, in the event loop in which the pool was entered.

    Args:
        workers: Number of workers.
        calls_per_worker: Maximum number of calls that a worker runs at once.
        max_waiting: Maximum number of calls that wait for a worker. A further call gets an error.
        start_timeout_s: Seconds until a worker must be ready.

    Raises:
        UsageError: A number is out of range.
    """

    def __init__(self, *, workers: int, calls_per_worker: int, max_waiting: int, start_timeout_s: float) -> None:
        check_count("workers", workers)
        check_count("calls_per_worker", calls_per_worker)
        check_count("max_waiting", max_waiting)
        check_positive("start_timeout_s", start_timeout_s)
        self._count = workers
        self._start_timeout_s = start_timeout_s
        self._queue: FairQueue[W] = FairQueue(calls_per_worker=calls_per_worker, max_waiting=max_waiting)
        self._queue.give_up(WorkerLost("the pool is not entered"))
        self._references: WeakKeyDictionary[Tool, bytes] = WeakKeyDictionary()
        self._workers: set[W] = set()
        self._failed_starts = 0
        self._lost = 0
        self._restarted = 0
        self._tasks: HostedTasks | None = None
        self._thread: int | None = None
        """Id of the thread that runs the pool's event loop."""

    @abstractmethod
    async def _prepare(self) -> None:
        """Prepare once, before the first worker starts."""

    @abstractmethod
    def _make(self) -> W:
        """Return a worker that is not started yet."""

    @abstractmethod
    def _refer_to(self, tool: Tool) -> bytes:
        """Return the reference by which a worker finds a tool.

        Raises:
            ValueError: The tool cannot be referenced.
        """

    async def _clean_up(self) -> None:
        """Clean up after the last worker, if `_prepare` completed; not cancelled."""

    def _replaced(self, worker: W) -> None:
        """Note that a worker takes no more calls, and is replaced."""

    @property
    def stats(self) -> PoolStats:
        """Current state of the pool."""
        queue = self._queue
        return PoolStats(queue.workers, queue.busy, queue.waiting, self._lost, self._restarted)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, each on its machine."""
        return sorted(worker.pid for worker in self._workers if worker.pid is not None and worker.lost is None)

    async def __aenter__(self) -> Self:
        """Start the workers. Cancelling this ends those that have started.

        Raises:
            WorkerLost: A worker could not start. The text gives the reason.
            UsageError: The pool was entered before.
        """
        if self._tasks is not None:
            raise UsageError("a pool is entered once")
        self._thread = threading.get_ident()
        await self._prepare()
        starts = [_Start() for _ in range(self._count)]
        self._tasks = HostedTasks(type(self).__name__)
        try:
            await self._tasks.__aenter__()
            for start in starts:
                self._tasks.group.start_soon(self._keep, start)
            for start in starts:
                await start.over.wait()
                if start.fault is not None:
                    raise WorkerLost(f"a worker could not be started: {start.fault}")
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the calls that still run, and end the workers."""
        await self._close()

    async def _close(self) -> None:
        assert self._tasks is not None
        self._queue.give_up(WorkerLost("the pool was left"))
        try:
            await self._tasks.leave(None)
        finally:  # once more: a worker may have become ready in this moment
            self._queue.give_up(WorkerLost("the pool was left"))
            with anyio.CancelScope(shield=True):
                await self._clean_up()

    async def _keep(self, start: _Start) -> None:
        """Run a worker, and replace it when it ends."""
        failures = 0
        while True:
            worker = self._make()
            self._workers.add(worker)

            def is_ready(worker: W) -> None:
                self._failed_starts = 0
                self._queue.add(worker)
                start.over.set()

            try:
                await worker.run(is_ready)
            finally:
                self._workers.discard(worker)
                self._queue.remove(worker)
            self._replaced(worker)
            if worker.was_ready:
                failures = 0
                self._lost += worker.has_died
            else:
                failures += 1
                self._failed_starts += 1
                if not worker.may_start_again or failures >= _MAX_FAILED_STARTS:
                    start.fail(worker.lost)
                if self._failed_starts >= _MAX_FAILED_STARTS and not self._queue.workers:
                    self._queue.give_up(WorkerLost(f"no worker can be started: {worker.lost}"))
                await anyio.sleep(min(_FIRST_DELAY_S * 2 ** min(failures - 1, _MAX_DOUBLINGS), _MAX_DELAY_S))
            self._restarted += 1

    def fault_of(self, tool: Tool) -> str | None:
        """See `Workers.fault_of`."""
        try:
            self._reference_to(tool)
        except ValueError as error:
            return str(error)
        return None

    def _reference_to(self, tool: Tool) -> bytes:
        if tool not in self._references:
            self._references[tool] = self._refer_to(tool)
        return self._references[tool]

    @asynccontextmanager
    async def line(self, _call: ToolCall, tool: Tool, owner: object, /) -> AsyncIterator[Line]:
        """See `Workers.line`. Cancelling the wait for a worker loses nothing.

        Raises:
            UsageError: The pool belongs to the event loop of another thread.
            WorkerLost: No worker is available.
            ToolError: Too many calls wait.
        """
        if self._thread not in (None, threading.get_ident()):
            raise UsageError("a pool is used in the event loop that entered it: another thread needs its own")
        reference = self._reference_to(tool)
        worker = await self._queue.take(owner)
        line = worker.open(reference)
        try:
            yield line
        finally:
            if not worker.close(line):
                self._queue.remove(worker)
            self._queue.give_back(owner, worker)


class _Start:
    """First start of a worker."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.fault: str | None = None

    def fail(self, fault: str | None) -> None:
        if not self.over.is_set():
            self.fault = fault or "it ended at once"
            self.over.set()
