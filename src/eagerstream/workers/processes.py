"""`ProcessPool` and `ProcessExecutor`: tools in worker processes on this machine, for what keeps a processor busy."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import anyio
import anyio.abc

from ..errors import UsageError, WorkerLost
from ..tools.call import ToolCall
from ..tools.definition import Tool
from .executor import RemoteExecutor
from .fair import FairQueue
from .frames import Setup
from .line import Line
from .process import WorkerProcess
from .references import reference_to
from .worker import check_not_preparing

_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 5.0
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


class ProcessPool:
    """Worker processes, shared by any number of executors and runs; an async context manager.

    Entering it returns when every worker is ready. Each is a fresh interpreter that imports the program's main module
    as `multiprocessing` does: what the program does must stand under `if __name__ == "__main__":`. A worker that dies
    is replaced. On exit, calls that still run are cancelled, and every worker has ended; the workers of a program that
    is killed end by themselves. To be left by the task that entered it.

    Args:
        workers: How many; the number of processors by default.
        calls_per_worker: Calls that a worker runs at once: 1 for work that keeps a processor busy, more for `async`
            tools that wait.
        preload: Modules (or their names) and tools that each worker imports before it takes calls. A tool that is not
            among them is imported at its first call.
        max_waiting: Calls that may wait for a worker; one more is answered with an error.
        max_message_bytes: One message to or from a worker: an input, a result.
        start_timeout_s: Seconds that a worker has until it is ready.
        cancel_grace_s: Seconds that tools have for their cleanup when the pool is left.

    Raises:
        UsageError: A number is out of its range, or a tool of `preload` cannot run in another process.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        calls_per_worker: int = 1,
        preload: Iterable[str | ModuleType | Tool] = (),
        max_waiting: int = 10_000,
        max_message_bytes: int = 128 * 1024 * 1024,
        start_timeout_s: float = 60.0,
        cancel_grace_s: float = 5.0,
    ) -> None:
        workers = workers if workers is not None else os.cpu_count() or 1
        for name, number in (
            ("workers", workers),
            ("calls_per_worker", calls_per_worker),
            ("max_waiting", max_waiting),
            ("max_message_bytes", max_message_bytes),
        ):
            if type(number) is not int or number < 1:
                raise UsageError(f"{name} must be at least 1, not {number!r}")
        for name, seconds in (("start_timeout_s", start_timeout_s), ("cancel_grace_s", cancel_grace_s)):
            if not seconds > 0:
                raise UsageError(f"{name} must be a positive number, not {seconds!r}")
        self._count = workers
        self._preload = tuple(_preloaded(each) for each in preload)
        self._max_message_bytes = max_message_bytes
        self._start_timeout_s = start_timeout_s
        self._cancel_grace_s = cancel_grace_s
        self._queue: FairQueue[WorkerProcess] = FairQueue(calls_per_worker=calls_per_worker, max_waiting=max_waiting)
        self._queue.give_up(WorkerLost("the pool is not entered"))
        self._references: WeakKeyDictionary[Tool, bytes] = WeakKeyDictionary()
        self._workers: set[WorkerProcess] = set()
        self._failed_starts = 0
        self._lost = 0
        self._restarted = 0
        self._tasks: anyio.abc.TaskGroup | None = None

    @property
    def stats(self) -> PoolStats:
        """How the pool is now."""
        queue = self._queue
        return PoolStats(queue.workers, queue.busy, queue.waiting, self._lost, self._restarted)

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return sorted(worker.pid for worker in self._workers if worker.pid is not None)

    async def __aenter__(self) -> Self:
        """Start the workers.

        Raises:
            WorkerLost: One could not start: the text says why.
            UsageError: The pool is entered already, or a worker imports the program.
        """
        check_not_preparing()
        if self._tasks is not None:
            raise UsageError("a pool is entered once")
        setup = Setup(_main(), _backend(), self._preload, self._max_message_bytes, self._cancel_grace_s)
        starts = [_Start() for _ in range(self._count)]
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            for start in starts:
                self._tasks.start_soon(self._keep, setup, start)
            for start in starts:
                await start.over.wait()
                if start.fault is not None:
                    raise WorkerLost(f"a worker process could not be started: {start.fault}")
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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

    async def _keep(self, setup: Setup, start: _Start) -> None:
        """Have a worker, and another one in its place when it is gone."""
        delay_s = _FIRST_DELAY_S
        while True:
            worker = WorkerProcess(setup, start_timeout_s=self._start_timeout_s)
            self._workers.add(worker)

            def is_ready(worker: WorkerProcess) -> None:
                self._failed_starts = 0
                self._queue.add(worker)
                start.over.set()

            try:
                await worker.run(is_ready)
            finally:
                self._workers.discard(worker)
                self._queue.remove(worker)
            if worker.was_ready:
                delay_s = _FIRST_DELAY_S
                self._lost += not worker.was_ended
            else:
                self._failed_starts += 1
                start.fail(worker.lost)
                if self._failed_starts >= _MAX_FAILED_STARTS and not self._queue.workers:
                    self._queue.give_up(WorkerLost(f"no worker process can be started: {worker.lost}"))
                await anyio.sleep(delay_s)
                delay_s = min(2 * delay_s, _MAX_DELAY_S)
            self._restarted += 1

    def fault_of(self, tool: Tool) -> str | None:
        """See `Workers.fault_of`."""
        try:
            self._reference_to(tool)
        except ValueError as error:
            return str(error)
        if not _is_main_importable() and getattr(tool.__wrapped__, "__module__", None) == "__main__":
            return "is made in a program that is no file: another process cannot import it"
        return None

    def _reference_to(self, tool: Tool) -> bytes:
        if tool not in self._references:
            self._references[tool] = reference_to(tool)
        return self._references[tool]

    @asynccontextmanager
    async def line(self, _call: ToolCall, tool: Tool, owner: object, /) -> AsyncIterator[Line]:
        """See `Workers.line`."""
        reference = self._reference_to(tool)
        worker = await self._queue.take(owner)
        line = worker.open(reference)
        try:
            yield line
        finally:
            if not worker.close(line):
                self._queue.remove(worker)
            self._queue.give_back(owner, worker)


class ProcessExecutor(RemoteExecutor):
    """Runs tools in the worker processes of a `ProcessPool`; see `RemoteExecutor`.

    For tools that keep a processor busy: in this process they would share one processor with the reading of every
    reply. `ProcessExecutor(tools, pools={"render": pool})` has one of them there, and the others in this process.

    A tool can run there that another process can import, by its module and name, those of the main script included;
    and a method of an object that can be pickled, of which each worker has its own copy.
    """


class _Start:
    """The first start of a worker."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.fault: str | None = None

    def fail(self, fault: str | None) -> None:
        if not self.over.is_set():
            self.fault = fault
            self.over.set()


def _backend() -> str:
    """The event loop that this runs in, by its name for `anyio.run`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return "trio"
    return "asyncio"


def _preloaded(each: str | ModuleType | Tool) -> str | bytes:
    if isinstance(each, Tool):
        try:
            return reference_to(each)
        except ValueError as error:
            raise UsageError(f"{each.name} {error}") from None
    return each.__name__ if isinstance(each, ModuleType) else each


def _is_main_importable() -> bool:
    """False of what was typed, or came by `python -c`."""
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None or getattr(main, "__file__", None) is not None


def _main() -> dict[str, Any]:
    """What a worker needs to know of the program, for `multiprocessing.spawn.prepare`.

    As `multiprocessing.spawn.get_preparation_data` gives it, which also decides on a start method for the whole program
    and gives away its secret.
    """
    found: dict[str, Any] = {
        "sys_path": list(sys.path),
        "sys_argv": sys.argv,
        "dir": str(Path.cwd()),
    }
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    path = getattr(main, "__file__", None)
    if name is not None:
        found["init_main_from_name"] = name
    elif path is not None:
        found["init_main_from_path"] = str(Path(path).absolute())
    return found
