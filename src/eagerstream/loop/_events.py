"""The events of a run, in addition to those of its responses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from eagerstream_wire._assistant_message import AssistantMessage, Block, is_lower_bound

from ..calls._policy import RunStatus
from ..errors import APIError, ProtocolError
from ..streaming import StreamEvent
from ..tools._call import ToolCall


@dataclass(slots=True)
class TurnStart:
    """A request is about to be sent.

    Attributes:
        turn: The number of its turn, from 1.
    """

    turn: int


@dataclass(slots=True)
class TurnStop:
    """A turn is settled.

    Attributes:
        turn: Its number.
        message: The assistant message.
        calls: Its calls in the order of their blocks, each with its result.
        error: The error with which its response broke off, if the run continues with its complete calls; else None.
    """

    turn: int
    message: AssistantMessage = field(repr=False)  # what models write does not belong in a log
    calls: Sequence[ToolCall]
    error: APIError | ProtocolError | None = None

    @property
    def usage_is_lower_bound(self) -> bool:
        """True if the response was cut before its final counts; see `RunResult.usage_is_lower_bound`."""
        return is_lower_bound(self.message.get("usage"))


@dataclass(slots=True)
class ToolStart:
    """A tool starts to run, usually while the response continues.

    Attributes:
        call: The call.
    """

    call: ToolCall


@dataclass(slots=True)
class ToolProgress:
    """A running tool reports progress.

    Attributes:
        call: The call.
        value: The value of the tool, unchanged; the model never sees it.
    """

    call: ToolCall
    value: Any = field(repr=False)

    @property
    def newest_of(self) -> Hashable:
        """The key of events of which only the newest counts while they wait for a consumer."""
        # A tool that reports often must not fill the memory if nobody reads, nor wait for its reader
        # (test_progress_that_nobody_reads). By identity, since ids of calls may come again.
        return ("progress", id(self.call))


@dataclass(slots=True)
class ToolStop:
    """A call has its result.

    Attributes:
        call: The call.
    """

    call: ToolCall

    @property
    def result(self) -> Block:
        """The `tool_result` block."""
        assert self.call.result is not None
        return self.call.result


@dataclass(slots=True)
class SubRunStart:
    """The tool of a call starts a run of its own.

    Attributes:
        call: The call.
        run: `Run.id` of the new run.
        model: Its model.
    """

    call: ToolCall
    run: str
    model: str


@dataclass(slots=True)
class SubRunStop:
    """A run that the tool of a call started has ended. It comes before the `ToolStop` of the call.

    Attributes:
        call: The call.
        run: `Run.id` of the run that has ended.
        model: Its model.
        status: The way in which it ended. `RUNNING` if the call ended first, and left it open.
        turns: Number of its complete responses.
        usage: Its token counts, with those of its own sub-runs. `RunResult.usage` of this run has them now, too.
    """

    call: ToolCall
    run: str
    model: str
    status: RunStatus
    turns: int
    usage: Mapping[str, Any]


@dataclass(slots=True)
class Restarted:
    """The events of this turn so far are void: the same request is sent once more.

    Nothing of the turn had been run, except calls of tools that are `idempotent`.

    Attributes:
        turn: Its number, which stays.
        reason: `"max_tokens"`, or `"interrupted"`.
        error: The error that interrupted it; None for `"max_tokens"`.
        delay_s: Seconds until the request is sent.
        usage: The counts of what came, which are part of those of the run.
    """

    turn: int
    reason: Literal["max_tokens", "interrupted"]
    error: APIError | ProtocolError | None = None
    delay_s: float = 0.0
    usage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usage_is_lower_bound(self) -> bool:
        """True if the response was cut before its final counts; see `RunResult.usage_is_lower_bound`."""
        return is_lower_bound(self.usage)


@dataclass(slots=True)
class MessageDelivered:
    """Messages of `Run.say` are in the history, and in the request that is about to be sent.

    Attributes:
        turn: The number of the turn of that request.
        messages: The messages, in the order in which they were said.
    """

    turn: int
    messages: Sequence[Mapping[str, Any]] = field(repr=False)


RunEvent: TypeAlias = (
    StreamEvent
    | TurnStart
    | MessageDelivered
    | TurnStop
    | ToolStart
    | ToolProgress
    | ToolStop
    | SubRunStart
    | SubRunStop
    | Restarted
)
