"""Replies without the API: recordings with their timing, replies written by hand, and a server that plays them.

Importing this is cheap: what needs the extra `web` is imported when a server starts.
"""

from __future__ import annotations

from .buffering import buffered
from .chat import ChatDialect
from .faults import Fault, FaultKind
from .platforms import Platform
from .received import ReceivedRequest
from .scenario import Scenario, Turn
from .schedule import Faults
from .scripted import (
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
from .server import ReplayServer
from .timing import Timing, at_speed, retime

__all__ = [
    "ChatDialect",
    "Fault",
    "FaultKind",
    "Faults",
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
