"""This process's connection to a cluster: made by the first pool that needs one, and ended by the last."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Mapping
from math import ceil
from typing import Any, Final

import anyio

from ...errors import UsageError

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
