"""Tools that run elsewhere: in a pool of worker processes, or wherever a pool has its workers.

::

    async with ProcessPool(workers=4) as pool:
        async with eagerstream.run(client, tools=tools, executor=ProcessExecutor(tools, pool=pool), ...) as run:
            ...

`RemoteExecutor` keeps all that an executor keeps, in this process; a pool brings calls to its workers (`Workers`), and
a worker serves them (`host.serve`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import WorkerLost as WorkerLost
    from .executor import RemoteExecutor as RemoteExecutor
    from .line import HostLine as HostLine, Line as Line, Workers as Workers
    from .pool import Pool as Pool, PoolStats as PoolStats, PoolWorker as PoolWorker
    from .processes import ProcessExecutor as ProcessExecutor, ProcessPool as ProcessPool

_HOMES = {
    "HostLine": ".line",
    "Line": ".line",
    "Pool": ".pool",
    "PoolStats": ".pool",
    "PoolWorker": ".pool",
    "ProcessExecutor": ".processes",
    "ProcessPool": ".processes",
    "RemoteExecutor": ".executor",
    "WorkerLost": "..errors",
    "Workers": ".line",
}

__all__ = [
    "HostLine",
    "Line",
    "Pool",
    "PoolStats",
    "PoolWorker",
    "ProcessExecutor",
    "ProcessPool",
    "RemoteExecutor",
    "WorkerLost",
    "Workers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
