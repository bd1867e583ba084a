"""`RunResult`: what is left of a run, however it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..tools.call import ToolCall
from ..wire.events import Message


class RunStatus(Enum):
    """How a run ended; ending is not success."""

    RUNNING = "running"
    """It has not ended."""
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    STOP_SEQUENCE = "stop_sequence"
    REFUSED = "refused"
    PAUSED = "paused"
    LIMIT = "limit"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(slots=True)
class RunResult:
    """What is left of a run, however it ended.

    Attributes:
        status: How it ended.
        message: The last assistant message, its `stop_reason` and `stop_details` included; None where no reply came.
        messages: The history to go on from: it can be sent as it is, or with a further user message. Only as it is
            where the API has yet to run a call of its own, as after a pause.
        turns: Replies received whole.
        usage: The counts of all replies, summed, nested ones too: what the API bills. Of what is no count (the service
            tier, say) the last.
        calls: Every call of every turn, also of turns that the history does not keep (`call.in_history` tells).
    """

    status: RunStatus
    message: Message | None = field(repr=False)  # what models and tools say does not belong in a log
    messages: list[Mapping[str, Any]] = field(repr=False)
    turns: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped last; None where no reply came, or it did not say."""
        return self.message.get("stop_reason") if self.message else None

    @property
    def is_empty(self) -> bool:
        """The model ended without a word.

        The API's advice: do not send the same again; as a last resort, add a user message that says to go on.
        """
        return self.message is not None and not self.message["content"]


def add_usage(total: dict[str, Any], usage: Mapping[str, Any]) -> None:
    """Add the counts of one reply to those of a run. Within a reply they are cumulative: its last ones are its own."""
    for name, value in usage.items():
        earlier = total.get(name)
        if type(value) is int:
            total[name] = value + (earlier if type(earlier) is int else 0)
        elif isinstance(value, Mapping):
            total[name] = nested = dict(earlier) if isinstance(earlier, dict) else {}
            add_usage(nested, value)
        elif value is not None:
            total[name] = value
