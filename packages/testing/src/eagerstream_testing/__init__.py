"""Responses without the API: recordings with their timing, scripted responses, and a server that plays them.

Importing this package is cheap: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerstream._support.lazy import lazy_exports

__all__: list[str]

if TYPE_CHECKING:
    from ._buffering import buffered as buffered
    from ._faults import Fault as Fault, FaultKind as FaultKind
    from ._made_up import made_up_input as made_up_input
    from ._platforms import Platform as Platform
    from ._received import ReceivedRequest as ReceivedRequest
    from ._scenario import Scenario as Scenario, Turn as Turn
    from ._schedule import Faults as Faults
    from ._scripted import (
        Scripted as Scripted,
        block as block,
        encode_event as encode_event,
        error_event as error_event,
        http_error as http_error,
        reply as reply,
        server_tool_use as server_tool_use,
        text as text,
        thinking as thinking,
        tool_use as tool_use,
    )
    from ._server import ReplayServer as ReplayServer
    from ._threads import MessageThreads as MessageThreads
    from ._timing import Timing as Timing, at_speed as at_speed, retime as retime
else:  # otherwise type checkers would accept any name
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "._buffering": ("buffered",),
            "._faults": ("Fault", "FaultKind"),
            "._made_up": ("made_up_input",),
            "._platforms": ("Platform",),
            "._received": ("ReceivedRequest",),
            "._scenario": ("Scenario", "Turn"),
            "._schedule": ("Faults",),
            "._scripted": (
                "Scripted",
                "block",
                "encode_event",
                "error_event",
                "http_error",
                "reply",
                "server_tool_use",
                "text",
                "thinking",
                "tool_use",
            ),
            "._server": ("ReplayServer",),
            "._threads": ("MessageThreads",),
            "._timing": ("Timing", "at_speed", "retime"),
        },
    )
