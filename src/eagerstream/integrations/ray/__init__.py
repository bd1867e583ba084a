"""Tools that run on a Ray cluster; needs the extra `ray`, and asyncio: Ray knows no other event loop.

::

    async with RayPool(workers=8) as pool, RayPool(workers=2, calls_per_worker=1, num_gpus=1) as gpus:
        executor = RayExecutor(tools, pool=pool, pools={"render": gpus})
        async with eagerstream.run(client, tools=tools, executor=executor, ...) as run:
            ...

A worker is an async actor. It gets a call's input as it is written, so tools with streaming parameters begin there as
early as here; progress comes back; cancelling a call cancels its coroutine, whose `finally` runs. A worker that dies,
or a node that is lost, is replaced, and its calls are run again where their tools are `idempotent`.

Which cluster: the one that the program has connected to (`ray.init`); otherwise `address`, or `RAY_ADDRESS`; otherwise
one on this machine that lasts as long as the pools. Actors belong to this process, and end with it.

Workers need eagerstream, of the same version, and what the tools import. On other machines `runtime_env` brings it:
`{"working_dir": "."}` the program's own modules, `{"pip": [...]}` packages. Ray takes a folder of this machine only
when it connects: give it to the pool that connects, or to `ray.init`. Tools of a script, and functions made inside
functions, are sent by value, with what they refer to; those of modules by name. What tools print goes to Ray's logs,
and to this process only where the program asked for that (`ray.init(log_to_driver=True)`).

Messages are pickled: whoever can reach the cluster can run code here, as Ray itself says of its clusters.
"""

from __future__ import annotations

from ._pool import RayExecutor, RayPool

__all__ = ["RayExecutor", "RayPool"]
