"""Tools in other processes: in the worker processes of a pool, or in the workers of your own `Pool`.

::

    async with ProcessPool(workers=4) as pool:
        async with eagerstream.run(client, tools=tools, executor=ProcessExecutor(tools, pool=pool), ...) as run:
            ...

`RemoteExecutor` keeps all rules of an executor in this process. A pool sends calls to its workers (`Workers`), and a
worker serves them (`host.serve`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerstream._support.lazy import lazy_exports

__all__: list[str]

if TYPE_CHECKING:
    from eagerstream.errors import WorkerLost as WorkerLost

    from ._executor import RemoteExecutor as RemoteExecutor
    from ._messages import Workers as Workers
    from ._pool import Pool as Pool
    from ._processes import ProcessExecutor as ProcessExecutor, ProcessPool as ProcessPool
else:  # otherwise type checkers would accept any name
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "eagerstream.errors": ("WorkerLost",),
            "._executor": ("RemoteExecutor",),
            "._messages": ("Workers",),
            "._pool": ("Pool",),
            "._processes": ("ProcessExecutor", "ProcessPool"),
        },
    )
