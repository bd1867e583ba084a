"""`Pool`: keeps so many workers alive, and shares them among executors; what a worker is, its subclasses say."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.abc

from ..errors import UsageError, WorkerLost
from ..tools import Tool, ToolCall
from ..wire import check_count, check_positive
from ._fair import FairQueue
from ._messages import Line

_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 5.0
_MAX_DOUBLINGS: Final = 10
_MAX_FAILED_STARTS: Final = 3
"""In a row, and no worker is left: calls are answered with an error then, while further starts are tried."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """How a pool is.

    Attributes:
        workers: Those that take calls.
        busy: Those of them that have a call.
        waiting: Calls that wait for a worker.
        lost: Workers that died.
        restarted: Workers that were started in the place of others.
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
        """Of its process; None before it has one."""
        ...

    @property
    def lost(self) -> str | None:
        """Why there is nothing more to be had of it; None while it lives."""
        ...

    @property
    def was_ready(self) -> bool:
        """It has started."""
        ...

    @property
    def has_died(self) -> bool:
        """Its end, after it had started, was not the pool's doing."""
        ...

    @property
    def may_start_again(self) -> bool:
        """That it did not start may be due to where it was, or when."""
        ...

    async def run(self, on_ready: Callable[[Any], object]) -> None:
        """Start it, tell that it is ready, and stay until it takes no more calls; cancelling this ends it."""
        ...

    def open(self, reference: bytes) -> Line:
        """A line for a call of the tool of this reference."""
        ...

    def close(self, line: Any) -> bool:
        """The call of a line is over; False where the worker is not to get another one."""
        ...


W = TypeVar("W", bound=PoolWorker)


class Pool(ABC, Generic[W]):
    """Workers, shared by any number of executors and runs; an async context manager.

    Entering it returns when every worker is ready. A worker that is gone is replaced. Leaving it cancels what still
    runs, and ends the workers. To be left by the task that entered it, and used in its event loop only.

    Args:
        workers: How many.
        calls_per_worker: Calls that a worker runs at once.
        max_waiting: Calls that may wait for a worker; one more is answered with an error.
        start_timeout_s: Seconds that a worker has until it is ready.

    Raises:
        UsageError: A number is out of its range.
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
        self._tasks: anyio.abc.TaskGroup | None = None
        self._thread: int | None = None
        """Where its event loop runs."""

    @abstractmethod
    async def _prepare(self) -> None:
        """What comes before the first worker; once."""

    @abstractmethod
    def _make(self) -> W:
        """A worker, not yet started."""

    @abstractmethod
    def _refer_to(self, tool: Tool) -> bytes:
        """How a worker is told of a tool.

        Raises:
            ValueError: It cannot be.
        """

    async def _clean_up(self) -> None:
        """What comes after the last worker, where `_prepare` has ended; not cancelled."""

    def _replaced(self, worker: W) -> None:
        """A worker takes no more calls, and is replaced."""

    @property
    def stats(self) -> PoolStats:
        """How the pool is now."""
        queue = self._queue
        return PoolStats(queue.workers, queue.busy, queue.waiting, self._lost, self._restarted)

    @property
    def pids(self) -> list[int]:
        """The processes of the workers, each on its machine."""
        return sorted(worker.pid for worker in self._workers if worker.pid is not None and worker.lost is None)

    async def __aenter__(self) -> Self:
        """Start the workers.

        Raises:
            WorkerLost: One could not start: the text says why.
            UsageError: The pool was entered before.
        """
        if self._tasks is not None:
            raise UsageError("a pool is entered once")
        self._thread = threading.get_ident()
        await self._prepare()
        starts = [_Start() for _ in range(self._count)]
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            for start in starts:
                self._tasks.start_soon(self._keep, start)
            for start in starts:
                await start.over.wait()
                if start.fault is not None:
                    raise WorkerLost(f"a worker could not be started: {start.fault}")
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel what still runs, and end the workers."""
        await self._close()

    async def _close(self) -> None:
        assert self._tasks is not None
        self._queue.give_up(WorkerLost("the pool was left"))
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:  # once more: a worker may have become ready in this moment
            self._queue.give_up(WorkerLost("the pool was left"))
            with anyio.CancelScope(shield=True):
                await self._clean_up()

    async def _keep(self, start: _Start) -> None:
        """Have a worker, and another one in its place when it is gone."""
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
        """See `Workers.line`.

        Raises:
            UsageError: The pool belongs to the event loop of another thread.
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
    """The first start of a worker."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.fault: str | None = None

    def fail(self, fault: str | None) -> None:
        if not self.over.is_set():
            self.fault = fault or "it ended at once"
            self.over.set()
