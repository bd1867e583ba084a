"""The loop: send a request, run its tools, send their results, until a stop reason ends the run."""

from __future__ import annotations

from ._agent import Agent
from ._conversation import Conversation
from ._entries import check_entries
from ._events import (
    MessageDelivered,
    Restarted,
    RunEvent,
    SubRunStart,
    SubRunStop,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from ._journal import RunJournal, RunLog
from ._latency import CallLatency, Gaps, RequestLatency, RunLatency
from ._latency_data import BlockData, CallData, LatencyData, RequestData
from ._marks import RequestMarks, RunMarks
from ._options import CallOptions, ConversationOptions, LoopOptions, NextRequest, RunOptions
from ._result import RunEndedError, RunResult
from ._resume import Resumed, resume
from ._run import Run
from ._start_run import run
from ._steering import When

__all__ = [
    "Agent",
    "BlockData",
    "CallData",
    "CallLatency",
    "CallOptions",
    "Conversation",
    "ConversationOptions",
    "Gaps",
    "LatencyData",
    "LoopOptions",
    "MessageDelivered",
    "NextRequest",
    "RequestData",
    "RequestLatency",
    "RequestMarks",
    "Restarted",
    "Resumed",
    "Run",
    "RunEndedError",
    "RunEvent",
    "RunJournal",
    "RunLatency",
    "RunLog",
    "RunMarks",
    "RunOptions",
    "RunResult",
    "SubRunStart",
    "SubRunStop",
    "ToolProgress",
    "ToolStart",
    "ToolStop",
    "TurnStart",
    "TurnStop",
    "When",
    "check_entries",
    "resume",
    "run",
]
