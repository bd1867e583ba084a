"""Request, run tools, send results, until a stop reason ends it."""

from __future__ import annotations

from .conversation import Conversation
from .early import EarlyCalls
from .events import Restarted, RunEvent, ToolProgress, ToolStart, ToolStop, TurnStart, TurnStop
from .latency import CallLatency, Gaps, RequestLatency, RunLatency
from .loop import Run, run
from .policy import OnInterrupt, OnTruncated
from .result import RunResult, RunStatus
from .turn import Turn

__all__ = [
    "CallLatency",
    "Conversation",
    "EarlyCalls",
    "Gaps",
    "OnInterrupt",
    "OnTruncated",
    "RequestLatency",
    "Restarted",
    "Run",
    "RunEvent",
    "RunLatency",
    "RunResult",
    "RunStatus",
    "ToolProgress",
    "ToolStart",
    "ToolStop",
    "Turn",
    "TurnStart",
    "TurnStop",
    "run",
]
