"""`RayPool`: workers on a Ray cluster, and the connection of this process to the cluster."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import ceil
from typing import Any, Final, Self

import anyio

from eagerstream.errors import MissingExtraError, UsageError
from eagerstream.tools import Tool

from ..workers import Pool, RemoteExecutor, _references as references
from ._worker import Worker

_CALLS_OF_A_LINE: Final = 3
"""Maximum number of concurrent Ray calls of a line: one fetches, one sends, and one sends the cancellation."""


class RayPool(Pool[Worker]):
    """Actors that run tools, shared by any number of executors and runs. An async context manager.

    Entering it returns when every worker is ready and has imported its tools. A worker that dies or loses its node is
    replaced, on any node with room. Ray reports a dead process at once, and a silent machine after some seconds (its
    health check). On exit the actors have ended. The cluster continues, unless this pool started it. Tools with other
    needs run in another pool: see `RayExecutor`.

    Args:
        workers: Number of actors, spread over the nodes.
        calls_per_worker: Number of calls that a worker runs at once. Use many for `async` tools that wait, and 1 for
            tools that keep a processor busy.
        num_cpus: Processors that Ray reserves for each worker. Use 0 for tools that only wait.
        num_gpus: GPUs that Ray reserves for each worker.
        resources: Other resources that each worker needs of its node, by Ray's names: `{"gpu_box": 1}`.
        address: The cluster to use if the program is not connected to one: `"auto"`, `"host:port"`, or `"local"` for a
            new cluster on this machine. The default is `RAY_ADDRESS`, or `"local"` if that is missing.
        runtime_env: Environment that Ray provides to each worker, or to the complete program if this pool connects.
        preload: Tools that each worker imports before it takes calls. Other tools are imported at their first call.
        max_waiting: Maximum number of calls that wait for a worker. Further calls are answered with an error.
        start_timeout_s: Maximum time until a worker is ready, in seconds. It includes the search for a node.

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
            raise MissingExtraError("ray", "ray", package="eagerstream-durable")
        super().__init__(
            workers=workers,
            calls_per_worker=calls_per_worker,
            max_waiting=max_waiting,
            start_timeout_s=start_timeout_s,
        )
        self._needs = {"CPU": num_cpus, "GPU": num_gpus, **(resources or {})}
        for name, amount in self._needs.items():
            if not amount >= 0:
                raise UsageError(f"a worker needs at least 0 of {name}, not {amount!r}")
        self._address = address
        self._runtime_env = None if runtime_env is None else dict(runtime_env)
        self._options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "resources": dict(resources or {}),
            "scheduling_strategy": "SPREAD",
            "max_concurrency": _CALLS_OF_A_LINE * calls_per_worker + 2,  # plus one for `forever` and one for `ready`
            "max_restarts": 0,  # a new actor is a new worker; Ray does not report its own restarts
            "max_task_retries": 0,
        }
        preload = tuple(preload)
        faults = [f"{tool.name} {fault}" for tool in preload if (fault := self.fault_of(tool)) is not None]
        if faults:
            raise UsageError("; ".join(faults))
        self._preload = [self._reference_to(tool) for tool in preload]

    async def __aenter__(self) -> Self:
        """Connect to the cluster if the program is not connected, and start the workers.

        Cancelling it waits for the connection to Ray, and then ends the workers that have started.

        Raises:
            UsageError: The event loop is not asyncio's, the pool was entered before, or the program is connected to
                another cluster.
            WorkerLost: A worker could not start. The text has the reason.
            Exception: Any error of `ray.init`.
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
        if worker.lost is None:  # a tool there does not end: kill the worker after its other calls have ended
            assert self._tasks is not None
            self._tasks.group.start_soon(worker.drain)

    def _refer_to(self, tool: Tool) -> bytes:
        return reference_to(tool)


_STAY = ("approve", "guard")
"""Options that run in the executor's process, and may refer to objects that cannot leave it."""


class RayExecutor(RemoteExecutor):
    """Executor that runs tools in the actors of `RayPool`s; see `RemoteExecutor`.

    `RayExecutor(tools, pool=pool, pools={"render": gpus})` runs one tool in another pool. A pool may be a pool of Ray
    or of processes, or `None` for this process.
    """


def reference_to(tool: Tool) -> bytes:
    """Return a tool's reference, as `workers._references.reference_to` does.

    A worker has Ray's main module, so a tool of this process's main module is sent by value.

    Raises:
        ValueError: The tool can be sent neither by name nor by value. The text has the reason.
    """
    is_ours = getattr(tool.__wrapped__, "__module__", None) == "__main__"
    if not (is_ours and tool.bound_to is None):
        return references.reference_to(tool, pickled=_pickled)
    options = {name: value for name, value in tool.options.items() if name not in _STAY}
    try:
        return _pickled(partial(Tool, tool.__wrapped__, **options))
    except Exception as error:  # pickling can raise anything
        raise ValueError(f"cannot be sent to another process: {error}") from None


def _pickled(value: object) -> bytes:
    from ray import cloudpickle

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps(value)


_OBJECT_STORE_BYTES: Final = 256 * 1024 * 1024
"""Object store of a cluster that this process starts. Large inputs and results pass through it, and none stay."""


class Connection:
    """Counter of the pools that use a connection made here. It never closes a connection that the program made itself.

    All work runs in threads: importing ray takes most of a second, and starting a cluster takes several seconds.
    """

    def __init__(self) -> None:
        self._users = 0
        self._is_ours = False
        self._lock = threading.Lock()

    async def enter(self, options: Mapping[str, Any], needs: Mapping[str, float]) -> bool:
        """Connect if there is no connection, and return whether this made it. Cancelling it waits for Ray.

        `options` has `address` and `runtime_env` for `ray.init`, and `needs` what a cluster started here must have.
        """
        with anyio.CancelScope(shield=True):
            made = await asyncio.to_thread(self._enter, dict(options), dict(needs))
        return bool(made)

    async def leave(self) -> None:
        """Count one pool less. After the last one, close a connection made here, and with it a cluster started here."""
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
                address = options.get("address")
                if address not in {None, "auto", "local"} and str(address) != ray.get_runtime_context().gcs_address:
                    raise UsageError("this program is connected to another Ray cluster already")
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
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage data leaves this machine unless the user sets this
    processors, graphics = ceil(needs.pop("CPU", 0)), ceil(needs.pop("GPU", 0))
    ray.init(
        address="local",
        num_cpus=max(os.cpu_count() or 1, processors),
        num_gpus=graphics or None,  # None: all that the machine has
        resources=needs,
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        **options,
    )
