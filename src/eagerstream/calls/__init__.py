"""The calls of a response: when each starts, how each ends, and what of its turn stays in the history."""

from __future__ import annotations

from ._callable_tools import callable_tools
from ._early_calls import EarlyCalls
from ._policy import OnInterrupt, OnTruncated, RunStatus
from ._settle import add_content, drop_last_thinking
from ._sub_runs import ParentCall
from ._turn import Turn

__all__ = [
    "EarlyCalls",
    "OnInterrupt",
    "OnTruncated",
    "ParentCall",
    "RunStatus",
    "Turn",
    "add_content",
    "callable_tools",
    "drop_last_thinking",
]
