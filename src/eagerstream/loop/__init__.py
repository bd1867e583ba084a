"""The loop: send a request, run its tools, send their results, until a stop reason ends the run."""

from __future__ import annotations

from ._callable_tools import callable_tools
from ._compaction import Summarize
from ._conversation import Conversation
from ._early_calls import EarlyCalls
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
from ._latency_data import BlockData, CallData, FieldData, GapsData, LatencyData, RequestData
from ._marks import CallMarks, RequestMarks, RunMarks
from ._options import CallOptions, ConversationOptions, LoopOptions, NextRequest, RunOptions
from ._policy import OnInterrupt, OnTruncated
from ._result import RunEndedError, RunResult, RunStatus
from ._resume import Resumed, resume
from ._run import Run
from ._settle import add_content, drop_last_thinking
from ._start_run import run
from ._steering import When
from ._sub_runs import ParentCall
from ._turn import Turn

__all__ = [
    "BlockData",
    "CallData",
    "CallLatency",
    "CallMarks",
    "CallOptions",
    "Conversation",
    "ConversationOptions",
    "EarlyCalls",
    "FieldData",
    "Gaps",
    "GapsData",
    "LatencyData",
    "LoopOptions",
    "MessageDelivered",
    "NextRequest",
    "OnInterrupt",
    "OnTruncated",
    "ParentCall",
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
    "RunStatus",
    "SubRunStart",
    "SubRunStop",
    "Summarize",
    "ToolProgress",
    "ToolStart",
    "ToolStop",
    "Turn",
    "TurnStart",
    "TurnStop",
    "When",
    "add_content",
    "callable_tools",
    "check_entries",
    "drop_last_thinking",
    "resume",
    "run",
]
