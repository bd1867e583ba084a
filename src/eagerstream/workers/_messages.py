"""What an executor and a worker tell each other about one call, and what they need of the way between them.

    executor    Begin  (More* End)?  Interrupt?  Cancel?
    worker      Refused
                Started  Progress*  (Ended | Cancelled)

The input crosses as its raw text, never as parsed values: the worker reads it as the executor's own process would. What
tools made (values of progress, responses, exceptions) crosses as bytes inside the messages: see `_crossing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ..limits import Limits
from ..tools import Tool, ToolCall


@dataclass(frozen=True, slots=True)
class Begin:
    """Run a call.

    Attributes:
        block: The `tool_use` block as received at its start.
        index: Block index in the message.
        turn: Number of the turn, from 1.
        limits: Those of the run.
        text: The JSON text so far.
        whole: None while it is still written: the tool begins with what is there. Otherwise as in `End`.
        interrupted: Why nothing more of the input is wanted; None while it is.
    """

    block: Mapping[str, Any] = field(repr=False)
    index: int
    turn: int
    limits: Limits = field(repr=False)
    text: str = field(repr=False)
    whole: bool | None
    interrupted: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class More:
    """What has been written since."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class End:
    """The input has ended: closed by its block (`whole`), or cut off."""

    whole: bool


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Nothing more of the input is wanted, although it may still come: see `GrowingInput.interrupt`."""

    reason: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the tool; `Ended` or `Cancelled` follows.

    Attributes:
        unless_begun: Nothing, where the tool has been called already.
    """

    unless_begun: bool = False


ToWorker: TypeAlias = Begin | More | End | Interrupt | Cancel


@dataclass(frozen=True, slots=True)
class Started:
    """The tool is called now."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A value of progress, as `to_bytes` gives it."""

    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The input does not fit: the tool was not called."""

    text: str = field(repr=False)
    code: str
    error: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """The tool has answered, or raised.

    Attributes:
        response: The `ToolResponse`, as `response_as_bytes` gives it.
        raised: The response stands for an exception.
        error: What was raised, as `error_as_bytes` gives it.
        include_data: The response's data is for the model, too.
        blocked_s: The longest time, in seconds, for which it kept the worker's event loop.
    """

    response: bytes = field(repr=False)
    raised: bool = False
    error: bytes | None = field(default=None, repr=False)
    include_data: bool = False
    blocked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The tool was cancelled, as it was asked to be.

    Attributes:
        at_work: Its thread still runs: only the end of its process ends it.
    """

    at_work: bool = False


LastWord: TypeAlias = Refused | Ended | Cancelled
"""After one of these, nothing more is said of a call."""

FromWorker: TypeAlias = Started | Progress | LastWord


# --- the way between them ---------------------------------------------------------------------------------------------


class Line(Protocol):
    """One call's way to its worker and back; see this module for what is said in which order."""

    async def send(self, message: ToWorker) -> None:
        """Hand a message to the worker; cancelling it leaves it sent whole, or not at all.

        Raises:
            WorkerLost: The worker is gone.
            ToolError: The message is too large.
        """
        ...

    async def receive(self) -> FromWorker:
        """The next word of the worker, in the order in which it said them.

        Of values of progress that wait, the newest may have taken the place of others.

        Raises:
            WorkerLost: The worker is gone, and all that it had said was received.
        """
        ...


class HostLine(Protocol):
    """The other end of a `Line`."""

    async def send(self, message: FromWorker) -> None:
        """Tell the executor; returns when the message is on its way, for good."""
        ...

    async def receive(self) -> ToWorker:
        """The next message of the executor.

        Raises:
            EOFError: There will be none: the executor is gone.
        """
        ...


class Workers(Protocol):
    """A pool, as executors see it: many of them share one."""

    def fault_of(self, tool: Tool) -> str | None:
        """Why a tool cannot run in these workers, to be read after its name; None where it can."""
        ...

    def line(self, call: ToolCall, tool: Tool, owner: object, /) -> AbstractAsyncContextManager[Line]:
        """Wait for a free worker, and be put through to it.

        Leaving it before the worker's last word ends what still runs there, if need be with the worker.

        Args:
            call: The call.
            tool: Its tool.
            owner: Whose call it is: who has fewest running is next.

        Raises:
            WorkerLost: On entry: no worker can be had. Before the tool has begun, it may be tried again.
            ToolError: On entry: too many calls wait.
        """
        ...
