"""`Keeper`: what a run tells its journal, for runs that have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyio.abc import TaskGroup

from eagerstream_wire import MessageAssembler
from eagerstream_wire._assistant_message import AssistantMessage

from .._support.terms import CANCELLED_TEXT
from ..calls._sub_runs import ParentCall
from ..calls._turn import Turn
from ..errors import EagerStreamError
from ..tools._call import CallHost, CallListener, ToolCall
from ._restoring import OpenTurn


class Keeper(CallHost, CallListener):
    """Keeps a run, step by step, and is the host of its calls. This one keeps nothing: the run has no journal.

    Attributes:
        error: The reason for `on_failure`; None before.
        resumed_after: Number of turns that earlier processes had settled; None if the run is new.
        closers: Functions to call at the end of the run.
        is_leaving: The run ends here, and continues in another process or later: it only waits for decisions, or was
            handed over.
        carrier: See `Run.carrier`.
    """

    is_run = True
    run_id: str
    keeps = False
    """True if there is a journal."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.closers: list[Callable[[], object]] = []
        self.error: EagerStreamError | None = None
        self.is_leaving = False
        self.carrier: dict[str, str] = {}
        self.resumed_after: int | None = None

    def leaves(self, call: ToolCall) -> bool:
        """Return True if a call was cut here for the process that continues, which treats it as after a crash."""
        cut = not call.ran or call.response is None or call.response.text.startswith(CANCELLED_TEXT)
        return self.is_leaving and cut

    def when_over(self, callback: Callable[[], object]) -> None:
        """See `CallHost`."""
        self.closers.append(callback)

    async def open(self, parent: ParentCall | None) -> OpenTurn | None:
        """Create the run, or take it over, and restore its conversation. Return the turn that was under way.

        Args:
            parent: The call whose tool has started the run, if any.

        Raises:
            RunOwnedError: Another process has the run.
            JournalError: The journal cannot be read or written.
            UsageError: A call has begun or waits, and its tool is missing.
        """

    async def close(self) -> None:
        """Give the run up: another process may continue it.

        Raises:
            JournalError: The end could not be written. All settled turns are in the journal.
        """

    async def all_written(self) -> None:
        """Wait until the last settled turn is durable.

        Raises:
            JournalError: It could not be written.
        """

    def start(self, tasks: TaskGroup) -> None:
        """Look for messages from now on, until `stop`, or until the run may not continue."""

    def stop(self) -> None:
        """Look for messages no longer."""

    async def take_messages(self) -> None:
        """Take the messages and decisions that other processes have left for the run.

        Raises:
            JournalError: The journal cannot be read, or the run may not continue.
        """

    def hand_over(self, *, at_once: bool) -> None:
        """Let another process continue the run: after the turn under way, or at once, also after an error."""

    def leaves_here(self) -> bool:
        """Return True if the run was handed over: its turns are settled."""
        return False

    def salvaging(self, turn: Turn, assembler: MessageAssembler[Any], saved: OpenTurn) -> None:
        """Take the response that is salvaged: all of it is in the journal."""

    async def sending(self, turn: Turn, assembler: MessageAssembler[Any]) -> None:
        """Write a request that is about to be sent, after the end of the turn before.

        Raises:
            JournalError: The run may not continue.
        """

    def said(self, message: Mapping[str, Any], when: str) -> None:
        """Write a message that was said to the run, also while it leaves."""

    def responded(self, turn: Turn, message: AssistantMessage) -> None:
        """Write the rest of a response that has ended or broken off, if its calls still run."""

    async def cut(self, message: AssistantMessage) -> None:
        """Write a response whose last input was cut off, before a request for the rest of it.

        Raises:
            JournalError: The run may not continue.
        """

    def restarted(self, turn: Turn) -> None:
        """Write that the peer has started a response again: what is known of it does not count."""

    def settled(self, turn: Turn) -> None:
        """Write a settled turn in place of its steps."""
