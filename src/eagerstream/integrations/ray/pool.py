"""`RayPool`: workers on a Ray cluster, shared by any number of executors and runs."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import anyio.abc

from ...errors import MissingExtraError, UsageError, WorkerLost
from ...tools.call import ToolCall
from ...tools.definition import Tool
from ...workers.fair import FairQueue
from ...workers.line import Line
from ...workers.processes import PoolStats
from .connection import CONNECTION
from .references import reference_to
from .worker import Worker

_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 10.0
_MAX_FAILED_STARTS: Final = 3
"""In a row, and no worker is left: calls are answered with an error then, while further starts are tried."""
_CALLS_OF_A_LINE: Final = 3
"""Calls of Ray's that a line has under way at most: one fetches, one tells, and one tells that it is cancelled."""


class RayPool:
    """Actors that run tools, shared by any number of executors and runs; an async context manager.

    Entering it returns when every worker is ready, with its tools imported. A worker that dies, or whose node is lost,
    is replaced, wherever the cluster has a place; Ray tells of a process that dies at once, and of a machine that falls
    silent after some seconds (its own health check). On exit the actors have ended, and the cluster goes on, unless
    this pool has started it. Pools with other needs are other pools: see `RayExecutor`. To be left by the task that
    entered it.

    Args:
        workers: How many actors, spread over the nodes.
        calls_per_worker: Calls that a worker runs at once: many for `async` tools that wait, 1 for what keeps a
            processor busy.
        num_cpus: Processors that Ray sets aside for each worker; 0 for tools that only wait.
        num_gpus: As `num_cpus`.
        resources: What else each worker needs of its node, as Ray knows it: `{"gpu_box": 1}`.
        address: The cluster, where the program has not connected to one: `"auto"`, `"host:port"`, or `"local"`, a
            new one on this machine. `RAY_ADDRESS` by default, and `"local"` without that.
        runtime_env: What Ray brings to each worker; to the whole program where this pool connects.
        preload: Tools that each worker imports before it takes calls. One that is not among them is imported at its
            first call.
        max_waiting: Calls that may wait for a worker; one more is answered with an error.
        start_timeout_s: Seconds that a worker has until it is ready, and the cluster to find a place for it.

    Raises:
        MissingExtraError: ray is not installed.
        UsageError: A number is out of its range, or a tool of `preload` cannot be sent to a worker.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        calls_per_worker: int = 16,
        num_cpus: float = 1,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        address: str | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        preload: Iterable[Tool] = (),
        max_waiting: int = 10_000,
        start_timeout_s: float = 60.0,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("ray", "ray")
        counts = {"workers": workers, "calls_per_worker": calls_per_worker, "max_waiting": max_waiting}
        for name, number in counts.items():
            if type(number) is not int or number < 1:
                raise UsageError(f"{name} must be at least 1, not {number!r}")
        if not start_timeout_s > 0:
            raise UsageError(f"start_timeout_s must be a positive number, not {start_timeout_s!r}")
        self._needs = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
        for name, amount in self._needs.items():
            if not amount >= 0:
                raise UsageError(f"a worker needs none or some of {name}, not {amount!r}")
        self._count = workers
        self._address = address
        self._runtime_env = None if runtime_env is None else dict(runtime_env)
        self._options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "resources": dict(resources or {}),
            "scheduling_strategy": "SPREAD",
            "max_concurrency": _CALLS_OF_A_LINE * calls_per_worker + 2,  # one waits for its end, one that it is ready
            "max_restarts": 0,  # a new actor is a new worker: Ray's own restart would not tell
            "max_task_retries": 0,
        }
        self._start_timeout_s = start_timeout_s
        self._references: WeakKeyDictionary[Tool, bytes] = WeakKeyDictionary()
        preload = tuple(preload)
        faults = [f"{tool.name} {fault}" for tool in preload if (fault := self.fault_of(tool)) is not None]
        if faults:
            raise UsageError("; ".join(faults))
        self._preload = [self._reference_to(tool) for tool in preload]
        self._queue: FairQueue[Worker] = FairQueue(calls_per_worker=calls_per_worker, max_waiting=max_waiting)
        self._queue.give_up(WorkerLost("the pool is not entered"))
        self._workers: set[Worker] = set()
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
        """The processes of the workers, each on its machine."""
        return sorted(worker.pid for worker in self._workers if worker.pid is not None and worker.lost is None)

    async def __aenter__(self) -> Self:
        """Connect to the cluster, where the program has not, and start the workers.

        Raises:
            UsageError: It runs on trio; the pool was entered before; the program is connected to another cluster.
            WorkerLost: A worker could not start: the text says why.
            Exception: As `ray.init` raises.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("Ray needs asyncio: this runs on another event loop") from None
        if self._tasks is not None:
            raise UsageError("a pool is entered once")
        needs = {name: amount * self._count for name, amount in self._needs.items()}
        made = await CONNECTION.enter({"address": self._address, "runtime_env": self._runtime_env}, needs)
        if not made and self._runtime_env is not None:
            self._options["runtime_env"] = self._runtime_env
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the workers, and what still runs there."""
        await self._close()

    async def _close(self) -> None:
        assert self._tasks is not None
        self._queue.give_up(WorkerLost("the pool was left"))
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        with anyio.CancelScope(shield=True):
            await CONNECTION.leave()

    async def _keep(self, start: _Start) -> None:
        """Have a worker, and another one in its place when it is gone."""
        assert self._tasks is not None
        failures = 0
        while True:
            worker = Worker()
            self._workers.add(worker)

            def is_ready(worker: Worker) -> None:
                self._failed_starts = 0
                self._queue.add(worker)
                start.over.set()

            try:
                await worker.run(self._options, self._preload, self._start_timeout_s, is_ready)
            finally:
                self._workers.discard(worker)
                self._queue.remove(worker)
            if worker.lost is None:  # a tool there does not end, and has to be killed, once the others have ended
                self._tasks.start_soon(worker.drain)
            if worker.pid is not None:
                failures = 0
                self._lost += worker.lost is not None
            else:
                failures += 1
                self._failed_starts += 1
                if not worker.died or failures >= _MAX_FAILED_STARTS:  # a node may be lost at just this time
                    start.fail(worker.lost)
                if self._failed_starts >= _MAX_FAILED_STARTS and not self._queue.workers:
                    self._queue.give_up(WorkerLost(f"no worker can be started: {worker.lost}"))
                await anyio.sleep(min(_FIRST_DELAY_S * 2**failures, _MAX_DELAY_S))
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


class _Start:
    """The first start of a worker."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.fault: str | None = None

    def fail(self, fault: str | None) -> None:
        if not self.over.is_set():
            self.fault = fault or "it ended at once"
            self.over.set()
