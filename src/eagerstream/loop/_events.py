"""The events of a run, in addition to those of its responses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..errors import APIError, ProtocolError
from ..streaming._message_stream import StreamEvent
from ..tools._call import ToolCall
from ..wire._assistant_message import AssistantMessage, Block


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
class Restarted:
    """The events of this turn so far are void: the same request is sent once more.

    Nothing of the turn had been run, except calls of tools that are `idempotent`.

    Attributes:
        turn: Its number, which stays.
        reason: `"max_tokens"`, or `"interrupted"`.
        error: The error that interrupted it; None for `"max_tokens"`.
        delay_s: Seconds until the request is sent.
    """

    turn: int
    reason: Literal["max_tokens", "interrupted"]
    error: APIError | ProtocolError | None = None
    delay_s: float = 0.0


RunEvent: TypeAlias = StreamEvent | TurnStart | TurnStop | ToolStart | ToolProgress | ToolStop | Restarted
