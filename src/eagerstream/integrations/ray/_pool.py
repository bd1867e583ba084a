"""`RayPool`: workers on a Ray cluster, and the connection of this process to the cluster."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Self

import anyio

from ...errors import MissingExtraError, UsageError
from ...tools import Tool
from ...workers import Pool, RemoteExecutor, _references as references
from ._worker import Worker

_CALLS_OF_A_LINE: Final = 3
"""Calls of Ray's that a line has under way at most: one fetches, one tells, and one tells that it is cancelled."""


class RayPool(Pool[Worker]):
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
        super().__init__(
            workers=workers,
            calls_per_worker=calls_per_worker,
            max_waiting=max_waiting,
            start_timeout_s=start_timeout_s,
        )
        self._needs = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
        for name, amount in self._needs.items():
            if not amount >= 0:
                raise UsageError(f"a worker needs none or some of {name}, not {amount!r}")
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
        preload = tuple(preload)
        faults = [f"{tool.name} {fault}" for tool in preload if (fault := self.fault_of(tool)) is not None]
        if faults:
            raise UsageError("; ".join(faults))
        self._preload = [self._reference_to(tool) for tool in preload]

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
        return await super().__aenter__()

    async def _prepare(self) -> None:
        needs = {name: amount * self._count for name, amount in self._needs.items()}
        made = await CONNECTION.enter({"address": self._address, "runtime_env": self._runtime_env}, needs)
        if not made and self._runtime_env is not None:
            self._options["runtime_env"] = self._runtime_env

    async def _clean_up(self) -> None:
        await CONNECTION.leave()

    def _make(self) -> Worker:
        return Worker(self._options, self._preload, start_timeout_s=self._start_timeout_s)

    def _replaced(self, worker: Worker) -> None:
        if worker.lost is None:  # a tool there does not end, and has to be killed, once the others have ended
            assert self._tasks is not None
            self._tasks.start_soon(worker.drain)

    def _refer_to(self, tool: Tool) -> bytes:
        return reference_to(tool)


_STAY = ("approve", "guard")
"""Options that are asked in the executor's process, and may refer to what cannot leave it."""


class RayExecutor(RemoteExecutor):
    """Runs tools in the actors of `RayPool`s; see `RemoteExecutor`.

    `RayExecutor(tools, pool=pool, pools={"render": gpus})` has one of them in another pool. A pool may be of Ray or of
    processes, or None for this process.
    """


@dataclass(frozen=True, slots=True)
class _Carried:
    """A function that goes along, with the options that made it a tool."""

    function: Callable[..., Any]
    options: dict[str, Any]

    def tool(self) -> Tool:
        return Tool(self.function, **self.options)


def reference_to(tool: Tool) -> bytes:
    """As `workers.references.reference_to`; a worker's main module is Ray's, so what is in ours is carried.

    Raises:
        ValueError: It cannot be named, nor carried; the text says why.
    """
    is_ours = getattr(tool.__wrapped__, "__module__", None) == "__main__"
    if not (is_ours and tool.bound_to is None):
        return references.reference_to(tool, pickled=_pickled)
    options = {name: value for name, value in tool.options.items() if name not in _STAY}
    try:
        return _pickled(_Carried(tool.__wrapped__, options))
    except Exception as error:  # any code may run in here
        raise ValueError(f"cannot be sent to another process: {error}") from None


def _pickled(value: object) -> bytes:
    from ray import cloudpickle

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps(value)


_OBJECT_STORE_BYTES: Final = 256 * 1024 * 1024
"""Of a cluster of our own: large inputs and results pass through it, nothing stays."""


class Connection:
    """Counts the pools that use a connection of ours; one that the program made itself is left alone.

    All of it is done in threads: importing ray takes most of a second, and starting a cluster several.
    """

    def __init__(self) -> None:
        self._users = 0
        self._is_ours = False
        self._lock = threading.Lock()

    async def enter(self, options: Mapping[str, Any], needs: Mapping[str, float]) -> bool:
        """Be connected; True where this made the connection. Cancelling it waits for Ray, which cannot be stopped.

        Args:
            options: For `ray.init`: `address` and `runtime_env`, where they are wanted.
            needs: What a cluster of our own has to have.

        Raises:
            UsageError: Another cluster is asked for than the one that there is a connection to.
            Exception: As `ray.init` raises.
        """
        with anyio.CancelScope(shield=True):
            made = await asyncio.to_thread(self._enter, dict(options), dict(needs))
        return bool(made)

    async def leave(self) -> None:
        """The last one out ends a connection that was made here, and with it a cluster of our own."""
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(self._leave)

    def _enter(self, options: dict[str, Any], needs: dict[str, float]) -> bool:
        import ray

        with self._lock:
            makes = not ray.is_initialized()
            if makes:
                _connect(options, needs)
                self._users, self._is_ours = 0, True
            else:
                _check_same(options.get("address"))
            self._users += 1
            return makes

    def _leave(self) -> None:
        import ray

        with self._lock:
            self._users -= 1
            if self._users == 0 and self._is_ours:
                self._is_ours = False
                ray.shutdown()


CONNECTION: Final = Connection()


def _connect(options: dict[str, Any], needs: dict[str, float]) -> None:
    import ray

    options |= {"logging_level": logging.ERROR, "log_to_driver": False}
    address = options.pop("address", None) or os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        ray.init(address=address, **options)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine that nobody asked for
    processors, graphics = ceil(needs.pop("CPU", 0)), ceil(needs.pop("GPU", 0))
    ray.init(
        address="local",
        num_cpus=max(os.cpu_count() or 1, processors),
        num_gpus=graphics or None,  # None: those that are there
        resources=needs,
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        **options,
    )


def _check_same(address: str | None) -> None:
    import ray

    if address not in {None, "auto", "local"} and str(address) != ray.get_runtime_context().gcs_address:
        raise UsageError("this program is connected to another Ray cluster already")
