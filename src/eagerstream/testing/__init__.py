"""Responses without the API: recordings with their timing, scripted responses, and a server that plays them.

Importing this package is cheap. The packages of the extra `web` are imported when a server starts.
"""

from __future__ import annotations

from ._buffering import buffered
from ._faults import Fault, FaultKind
from ._platforms import Platform
from ._received import ReceivedRequest
from ._scenario import Scenario, Turn
from ._schedule import Faults
from ._scripted import (
    Scripted,
    block,
    encode_event,
    error_event,
    http_error,
    reply,
    server_tool_use,
    text,
    thinking,
    tool_use,
)
from ._server import ReplayServer
from ._threads import MessageThreads
from ._timing import Timing, at_speed, retime

__all__ = [
    "Fault",
    "FaultKind",
    "Faults",
    "MessageThreads",
    "Platform",
    "ReceivedRequest",
    "ReplayServer",
    "Scenario",
    "Scripted",
    "Timing",
    "Turn",
    "at_speed",
    "block",
    "buffered",
    "encode_event",
    "error_event",
    "http_error",
    "reply",
    "retime",
    "server_tool_use",
    "text",
    "thinking",
    "tool_use",
]
