"""Tools that run on a Ray cluster. Needs the extra `ray` and asyncio: Ray supports no other event loop.

::

    async with RayPool(workers=8) as pool, RayPool(workers=2, calls_per_worker=1, num_gpus=1) as gpus:
        executor = RayExecutor(tools, pool=pool, pools={"render": gpus})
        async with eagerstream.run(client, tools=tools, executor=executor, ...) as run:
            ...

A worker is an async actor. It gets a call's input as it is written, so tools with streaming parameters start as early
there as in this process. Progress comes back. Cancelling a call cancels its coroutine, and its `finally` blocks run. A
worker that dies or loses its node is replaced. Its calls run again if their tools are `idempotent`.

The pool uses the cluster that the program is connected to (`ray.init`). Without a connection it uses `address`, or else
`RAY_ADDRESS`. Without those it starts a cluster on this machine that lasts as long as the pools. Actors belong to this
process and end with it.

Workers need the same version of eagerstream, and the modules that the tools import. On other machines, `runtime_env`
provides them: `{"working_dir": "."}` the program's own modules, `{"pip": [...]}` packages. Ray accepts a local folder
only when it connects, so pass it to the pool that connects, or to `ray.init`. Tools of a script and nested functions
are sent by value, with the objects that they refer to. Tools of modules are sent by name. The output of tools goes to
Ray's logs. It reaches this process only if the program connected with `ray.init(log_to_driver=True)`.

Messages are pickled: any program that can reach the cluster can run code here, as Ray's own documentation warns.
"""

from __future__ import annotations

from ._pool import RayExecutor, RayPool

__all__ = ["RayExecutor", "RayPool"]
