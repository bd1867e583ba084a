"""A gateway: one process that holds a limited number of runs for HTTP clients. Extra `web`.

::

    def start(asked: Mapping[str, Any]) -> eagerstream.Run:
        return eagerstream.run(client, messages=asked["messages"], buffer="wait", model=..., max_tokens=...)

    app = gateway_app(start, slots=RunSlots(1_000))

A slow client delays only its own run. A slow watcher of the hub delays no run.
"""

from __future__ import annotations

from importlib.util import find_spec

from ...errors import MissingExtraError
from ._app import Start, gateway_app
from ._slots import RunsFull, RunSlots

if find_spec("starlette") is None:
    # A program imports this first: the error names the extra, before `import starlette` fails without it.
    raise MissingExtraError("web", "starlette")

__all__ = ["RunSlots", "RunsFull", "Start", "gateway_app"]
