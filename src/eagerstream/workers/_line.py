"""The seam: what a pool of workers is to an executor, and what an executor is to a worker."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ..tools import Tool, ToolCall
from ._messages import FromWorker, ToWorker


class Line(Protocol):
    """One call's way to its worker and back; see `messages` for what is said in which order."""

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
