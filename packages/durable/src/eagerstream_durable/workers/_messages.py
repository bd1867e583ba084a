"""Messages between an executor and a worker about one call, and the protocols of the lines that carry them.

    executor    Begin  (More* End)?  Interrupt?  Cancel?
    worker      Refused
                Started  Progress*  (Ended | Cancelled)

The input is sent as its raw text, never as parsed values: the worker parses it as the executor's process would. Values
made by tools (progress, responses, exceptions) are sent as bytes inside the messages: see `_crossing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from eagerstream.limits import Limits
from eagerstream.tools import Tool, ToolCall


@dataclass(frozen=True, slots=True)
class Begin:
    """Request to run a call.

    Attributes:
        block: The `tool_use` block as received at its start.
        index: Block index in the message.
        turn: Number of the turn, from 1.
        limits: Limits of the run.
        text: The JSON text so far.
        whole: `None` while the input is still being written: the tool starts with the text so far. Otherwise as in
            `End`.
        interrupted: Reason why the rest of the input is not needed; `None` while it is.
        run_id: Id of the run; empty if there is none.
        context: The run's context, as bytes from `dumps`; `None` if the tool takes none.
    """

    block: Mapping[str, Any] = field(repr=False)
    index: int
    turn: int
    limits: Limits = field(repr=False)
    text: str = field(repr=False)
    whole: bool | None
    interrupted: str | None = field(default=None, repr=False)
    run_id: str = ""
    context: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class More:
    """Text written since the last message."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class End:
    """End of the input: closed by its block (`whole`), or cut off."""

    whole: bool


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Message that the rest of the input is not needed, even if it still arrives: see `GrowingInput.interrupt`."""

    reason: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Request to cancel the tool; `Ended` or `Cancelled` follows.

    Attributes:
        unless_begun: Ignore the request if the tool has been called already.
    """

    unless_begun: bool = False


ToWorker: TypeAlias = Begin | More | End | Interrupt | Cancel


@dataclass(frozen=True, slots=True)
class Started:
    """Message that the tool is being called."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Value of progress, as bytes from `to_bytes`."""

    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """Message that the input does not fit, or the tool was not found: the tool was not called."""

    text: str = field(repr=False)
    code: str
    error: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a tool that returned or raised.

    Attributes:
        response: The `ToolResponse`, as bytes from `response_as_bytes`.
        raised: True if the response represents an exception.
        error: The exception, as bytes from `error_as_bytes`.
        include_data: True if the model gets the response's data, too.
        blocked_s: Longest time, in seconds, for which the tool blocked the worker's event loop.
    """

    response: bytes = field(repr=False)
    raised: bool = False
    error: bytes | None = field(default=None, repr=False)
    include_data: bool = False
    blocked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Message that the tool was cancelled on request.

    Attributes:
        at_work: True if its thread still runs. Only the end of its process ends the thread.
    """

    at_work: bool = False


LastWord: TypeAlias = Refused | Ended | Cancelled
"""Last message of a call."""

FromWorker: TypeAlias = Started | Progress | LastWord


# --- the way between them ---------------------------------------------------------------------------------------------


class Line(Protocol):
    """Connection of one call to its worker. The docstring of this module gives the order of messages."""

    async def send(self, message: ToWorker) -> None:
        """Send a message to the worker. Cancelling this sends the complete message or nothing.

        Raises:
            WorkerLost: The worker is gone.
            ToolError: The message is too large.
        """
        ...

    async def receive(self) -> FromWorker:
        """Return the worker's next message, in the order sent. Cancelling this loses no message.

        If several progress values wait, the newest may have replaced others.

        Raises:
            WorkerLost: The worker is gone, and all of its messages were received.
        """
        ...


class HostLine(Protocol):
    """Worker's end of a `Line`."""

    async def send(self, message: FromWorker) -> None:
        """Send a message to the executor; return once it can no longer be lost on this side.

        Cancelling this sends the complete message or nothing.
        """
        ...

    async def receive(self) -> ToWorker:
        """Return the executor's next message. Cancelling this loses no message.

        Raises:
            EOFError: The executor is gone.
        """
        ...


class Workers(Protocol):
    """Pool as executors see it. Many executors share one."""

    def fault_of(self, tool: Tool) -> str | None:
        """Return the reason why a tool cannot run in these workers, as text to follow its name; `None` if it can."""
        ...

    def line(self, call: ToolCall, tool: Tool, owner: object, /) -> AbstractAsyncContextManager[Line]:
        """Wait for a free worker, and connect to it.

        If you leave it before the worker's last message, the work that still runs there is ended, if necessary with the
        worker.

        Args:
            call: The call.
            tool: Its tool.
            owner: Owner of the call. The owner with the fewest running calls is next.

        Raises:
            WorkerLost: On entry: no worker is available. The call may be retried if its tool has not started.
            ToolError: On entry: too many calls wait.
        """
        ...
