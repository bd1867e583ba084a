"""What a run tells beside the events of its replies."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..errors import APIError, ProtocolError
from ..streaming._message_stream import StreamEvent
from ..tools._call import ToolCall
from ..wire._events import Block, Message


@dataclass(slots=True)
class TurnStart:
    """A request is about to be sent; turns count from 1."""

    turn: int


@dataclass(slots=True)
class TurnStop:
    """A turn is settled.

    Attributes:
        turn: Its number.
        message: The assistant message.
        calls: Its calls in the order of their blocks, each with its result.
        error: Why its reply broke off, where it did and the run goes on with what was whole of it; else None.
    """

    turn: int
    message: Message = field(repr=False)  # what models write does not belong in a log
    calls: Sequence[ToolCall]
    error: APIError | ProtocolError | None = None


@dataclass(slots=True)
class ToolStart:
    """A tool begins to run, usually while the reply goes on."""

    call: ToolCall


@dataclass(slots=True)
class ToolProgress:
    """A running tool tells how far it is.

    Attributes:
        call: The call.
        value: What the tool said, as it is; the model never sees it.
    """

    call: ToolCall
    value: Any = field(repr=False)

    @property
    def newest_of(self) -> Hashable:
        """While several wait for a consumer, only the newest of a call counts."""
        return ("progress", id(self.call))


@dataclass(slots=True)
class ToolStop:
    """A call has its result."""

    call: ToolCall

    @property
    def result(self) -> Block:
        """The `tool_result` block."""
        assert self.call.result is not None
        return self.call.result


@dataclass(slots=True)
class Restarted:
    """What came of this turn so far is void: the same request is sent once more.

    Nothing of it had been run, except calls of tools that are `idempotent`.

    Attributes:
        turn: Its number, which stays.
        reason: `"max_tokens"`, or `"interrupted"`.
        error: What interrupted it; None where nothing did.
        delay_s: Seconds until the request is sent.
    """

    turn: int
    reason: Literal["max_tokens", "interrupted"]
    error: APIError | ProtocolError | None = None
    delay_s: float = 0.0


RunEvent: TypeAlias = StreamEvent | TurnStart | TurnStop | ToolStart | ToolProgress | ToolStop | Restarted
