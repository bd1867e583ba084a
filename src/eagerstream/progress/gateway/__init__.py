"""A gateway: one process that holds so many runs and no more, for clients that ask over HTTP. Extra `web`.

::

    def start(asked: Mapping[str, Any]) -> eagerstream.Run:
        return eagerstream.run(client, messages=asked["messages"], buffer="wait", model=..., max_tokens=...)

    app = gateway_app(start, slots=RunSlots(1_000))

What is slow holds up only what waits for it: a client that reads slowly its own run, a watcher of the hub nothing.
"""

from __future__ import annotations

from ._app import Start, gateway_app
from ._slots import RunsFull, RunSlots

__all__ = ["RunSlots", "RunsFull", "Start", "gateway_app"]
