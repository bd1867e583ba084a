"""`TurnExchange`: the request of a turn, and its response, whose calls start while it comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final, cast

import anyio
import anyio.lowlevel

from eagerstream_wire import MessageAssembler
from eagerstream_wire._assistant_message import AssistantMessage

from ..calls._runner import CallRunner
from ..calls._turn import DELTAS, Turn
from ..inputs import GrowingInput
from ..streaming import StreamEvent
from ..streaming._deadline import ReplyDeadline
from ..streaming._delivery import Delivery
from ..streaming._exchange import Exchange
from ..streaming._output import OutputReader
from ..transports import Reply, RequestBody
from ._budget import Budget, usage_so_far
from ._events import RunEvent
from ._interruption import Unwanted, message_of
from ._keeper import Keeper
from ._marks import RunMarks
from ._message_thread import MessageThread
from ._rest_answer import ContinuedUsage

_ESTIMATE_S: Final = 0.25
"""Seconds between two estimates of a response."""


class TurnExchange(Exchange):
    """The request of a turn and its response. Calls start while the response is taken.

    Attributes:
        turn: The turn, which decides what counts of the response.
        scope: That of the reading. Cancelling it gives the response up.
        has_response: The response has started.
        is_reading: The request is sent, or its response is read.
        is_cut_by_message: The response was given up for a message of the user.
        is_cut_by_budget: Its estimate has passed the budget of the run.
        used: The usage of a response that further ones continue; None for another response.
    """

    marks: RunMarks

    def __init__(
        self,
        delivery: Delivery[RunEvent],
        request: RequestBody,
        assembler: MessageAssembler[GrowingInput],
        marks: RunMarks,
        *,
        turn: Turn,
        runner: CallRunner,
        keeper: Keeper,
        thread: MessageThread,
        output: OutputReader | None,
        budget: Budget | None,
    ) -> None:
        super().__init__(delivery, request, assembler, marks, output)
        self.turn = turn
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.has_response: bool = False
        self.is_reading: bool = False
        self.is_cut_by_message: bool = False
        self.is_cut_by_budget: bool = False
        self.used: ContinuedUsage | None = None
        self._budget = budget
        self._next_estimate_s = 0.0
        self._runner = runner
        self._keeper = keeper
        self._thread = thread
        self._starts_tools = False  # the reader gives way to tools that are about to start

    @property
    def message(self) -> AssistantMessage:
        """The assistant message as far as it has come and counts."""
        message = message_of(self.turn, self.assembler)
        return message if self.used is None else cast("AssistantMessage", {**message, "usage": self.used.so_far})

    def cut_for_message(self) -> None:
        """Give up the rest of the response for a message of the user, unless the response is complete."""
        # A complete response is not cut: its own end comes first.
        if self.is_reading and not self.is_whole:
            self.is_cut_by_message = True
            self.scope.cancel()

    def opened(self, reply: Reply) -> None:
        """See `Exchange`."""
        super().opened(reply)
        self.has_response = True
        self.marks.accepted(self._thread, getattr(reply, "sent_bytes", None))

    def take(self, events: Sequence[StreamEvent]) -> bool:
        """See `Exchange`. Calls start in here.

        Raises:
            Unwanted: The rest of the response is not wanted.
        """
        turn = self.turn
        if self.output is not None:
            events = self.output.take(events)
        # Nearly all chunks contain only deltas, which decide nothing if no guard looks at them. One set operation in C
        # finds that out for the chunk; matching each event against patterns cost every one of them.
        if not turn.looks_at_deltas and DELTAS.issuperset(map(type, events)):
            must_wait = self.delivery.put_all(events)
            if self._budget is not None:
                self._keep_within(self._budget)
            return must_wait
        step = turn.take(events)
        if step.cancelled:
            self._keeper.restarted(turn)
        # The task of a call is woken before the consumer, who may look at the whole input before he lets others have
        # their turn. The events of the call come behind the end of its input all the same, as the task makes them.
        must_wait = self.delivery.put_all(step.events, partial(self._runner.take, step))
        self._starts_tools = self._starts_tools or bool(step.started)
        # If a guard cuts a message that has come completely, no tokens are left to save, and reading to the end of the
        # body lets the connection be used again. A restart is cut in any case: its message is not wanted.
        if turn.voided is not None or (turn.is_cut and not self.is_whole):
            raise Unwanted
        if self._budget is not None:
            self._keep_within(self._budget)
        return must_wait or self._starts_tools

    async def keep_cut(self) -> None:
        """Write the response so far into the journal: its last input was cut off, and is about to be continued.

        Raises:
            JournalError: The run may not continue.
        """
        await self._keeper.cut(self.message)

    def leave_thread(self) -> None:
        """Let the next request start another thread: the API has the conversation otherwise than this side."""
        self._thread.answered(None)

    def _keep_within(self, budget: Budget) -> None:
        """Give the response up if its estimate passes the budget.

        Raises:
            Unwanted: It does.
        """
        # Not for each chunk: the message is put together for it, which takes time in proportion to its length.
        now_s = time.monotonic()
        if now_s < self._next_estimate_s or self.is_whole:
            return
        self._next_estimate_s = now_s + _ESTIMATE_S
        usage = usage_so_far(self.assembler) if self.used is None else self.used.so_far
        if budget.exceeded(usage, str(self.request.get("model"))) is not None:
            self.is_cut_by_budget = True
            raise Unwanted

    async def room(self, deadline: ReplyDeadline) -> None:
        """See `Exchange`. A tool that starts does so before the next read, which takes 62 µs."""
        if self._starts_tools:
            self._starts_tools = False
            since_s = time.monotonic()
            for _ in range(2):  # trio shuffles the tasks that are ready
                await anyio.lowlevel.checkpoint()
            deadline.excuse(since_s)
        await super().room(deadline)
