"""`Run`: a run under way: its result and figures, and the ways to speak to it, change it and end it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from .._support.event_loops import LoopThread
from ..errors import EagerStreamError, JournalError, UsageError
from ..transports._client import check_key
from ..transports._eager_fallback import EagerForm
from ..wire import JSONObject, MessageState
from ..wire._assistant_message import AssistantMessage
from ..wire._type_variables import OutputT
from ._compaction import Summarize
from ._durability import Durability
from ._journal import RunJournal, RunLog
from ._latency import RunLatency
from ._marks import RunMarks
from ._policy import Begins
from ._requests import GivenTool
from ._result import RunResult
from ._run_loop import MAX_VIOLATIONS, RunLoop
from ._steering import When
from ._sub_runs import ParentCall, begin_sub_run

_log = logging.getLogger(__name__)


class Run(RunLoop[OutputT]):
    """A run: an async context manager, and an async iterator over `RunEvent`s.

    If it is iterated, it ends when its consumer asks for the event behind the last `TurnStop`.

    The iteration (or `finish`) raises the errors of `MessageStream`, and whatever `next_request` raises. `result` is
    complete even then, and is the `result` of the error, too.

    Cancellation: leaving the block early, after an error, or because its task is cancelled, closes the connection and
    cancels the tools. Tools with `on_cancel="finish"` are waited for. The history keeps the calls that ran, each with a
    result, and can be sent. `cancel` does the same from within, and keeps a call whose input was being written.
    """

    _loop: LoopThread | None = None  # once the run is entered

    def _repr_html_(self) -> str:
        from .._support.markup import Markup, figures

        return figures(f"Run of {self.model}, turn {self.turn}", (), Markup(self.result._repr_html_()))

    async def finish(self) -> RunResult[OutputT]:
        """Read to the end without handing out events, and return the `result`, however the run ended.

        `(await run.finish()).raise_for_status()` raises an error if it did not end well.

        Cancelling this does not stop the run: leave the block for that. Events are dropped from the call on.

        Raises:
            EagerStreamError: The error that the iteration would have raised.
            UsageError: The block was not entered.
        """
        await self._finish()
        return self.result

    async def get_final_message(self) -> AssistantMessage | None:
        """Read to the end, and return the last assistant message; None if no response came. Cancel it as `finish`.

        Raises:
            EagerStreamError: As for `finish`.
        """
        return (await self.finish()).message

    @property
    def client(self) -> object:
        """The client that sends the requests, as it was given."""
        return self._transport.client

    @property
    def model(self) -> str:
        """The model of the requests."""
        return self._conversation.model

    @property
    def turn(self) -> int:
        """The number of the current turn, or of the last one; 0 before the first."""
        return self._turn.number if self._turn is not None else 0

    @property
    def has_journal(self) -> bool:
        """True if a journal keeps the run."""
        return self._keeper.keeps

    @property
    def resumed_after(self) -> int | None:
        """Number of turns that earlier processes had settled; None unless the run was resumed from a journal.

        It is known once the run is entered.
        """
        return self._keeper.resumed_after

    @property
    def carrier(self) -> dict[str, str]:
        """Texts that observers pass on to those of a later process, by name. Without a journal, they go nowhere.

        The journal has it from the next request on. For example, tracing keeps the `traceparent` of the run in it.
        """
        return self._keeper.carrier

    @property
    def violations(self) -> Sequence[str]:
        """The peer's violations of the protocol so far, in words that quote no model; the first 1,000."""
        under_way = self._assembler.violations if self._assembler is not None and self._is_reading else ()
        return [*self._violations, *under_way][:MAX_VIOLATIONS]

    @property
    def eager(self) -> EagerForm | None:
        """The form of `MessageStream.eager`, of the last request that was accepted."""
        return self._transport.eager

    @property
    def marks(self) -> RunMarks:
        """The times of the events of the run, as they are recorded; see `latency` for the figures."""
        return self._marks

    @property
    def latency(self) -> RunLatency:
        """Figures and JSON as of now: times to the first fragment, field and tool, gaps, time won."""
        return RunLatency(self._marks, model=self.model, eager=self.eager, status=self.result.status.value)

    def say(self, message: str | Mapping[str, Any], when: When = "next_turn") -> None:
        """Say something to the model while it runs.

        Any number of messages may be said, from any task and from any thread; they keep their order. `MessageDelivered`
        comes when a message is sent, and `result.undelivered` has those that never were. A message waits for another
        turn if only results may follow: code of the API waits for a call, or a response was paused.

        Args:
            message: A text, or a message with the role `user`.
            when: See `When`. `"now"` keeps what came of the response that it cuts, and running tools finish. Between
                responses, the message is in the next request, even if there would have been none, and a pause before a
                request ends.

        At every event of the iteration a message is taken, however far the reading is ahead: a run that is iterated
        waits at its last `TurnStop` until its consumer asks for the next event, calls `finish` or `cancel`, or leaves.

        Raises:
            UsageError: The message is not one of the user, the API would refuse it, or the iteration or `finish` has
                ended.
        """
        say = partial(self._say, message, when)
        if self._loop is None:
            say()
        elif not self._loop.do(say, is_over=self._has_gone):
            raise UsageError("the run has ended: nobody takes this any more")

    def _say(self, message: str | Mapping[str, Any], when: When) -> None:
        if self._is_over:
            if self._keeper.keeps:
                raise UsageError("the run has ended in this process: say it with `journal.say`, and resume the run")
            raise UsageError("the run has ended: start another one with its result and this message")
        self._conversation.say(message, when)
        self._keeper.said(self.result.undelivered[-1], when)
        self._heed(when)

    def _heed(self, when: str) -> None:
        """End what a message does not wait for: the response under way, a pause, or the waiting at the last word."""
        if self._is_cancelled or self._scope is None:
            return
        conversation = self._conversation
        # A complete response is not cut: its own end comes first. The scope is that of the reading, or of the pause.
        is_complete = self._assembler is not None and self._assembler.state is MessageState.STOPPED
        if self._is_pausing and (when == "now" or (when == "when_idle" and conversation.is_idle)):
            self._scope.cancel()
        elif self._is_reading and when == "now" and not (is_complete or conversation.compaction.is_under_way):
            self._is_cut_by_message = True
            self._scope.cancel()

    def add_tools(self, *tools: GivenTool) -> None:
        """Give the model more tools, from the next request on. They replace tools of the same names.

        Calls are run by the new tools at once. See the option `inline_tools` for how the model learns of them.

        Args:
            tools: As for `run`.

        Raises:
            UsageError: A tool cannot be run, or two share a name. Nothing has changed.
        """
        self._conversation.add_tools(*tools)

    def remove_tools(self, *tools: GivenTool | str) -> None:
        """Take tools, or tools with these names, from the model. Calls that have started finish.

        The model may still call such a tool in the response under way, and gets an error for that.

        Raises:
            UsageError: There is no such tool. Nothing has changed.
        """
        self._conversation.remove_tools(*tools)

    def compact(self, instructions: str | None = None, *, summarize: Summarize | None = None) -> None:
        """Replace the history by a summary before the next request. If the run ends before, nothing happens.

        The API writes the summary (a beta) in a turn of its own, with the results of the current turn in it. If it
        writes none, or refuses, the history stays, and the run continues.

        Args:
            instructions: The prompt of the summary, up to 16,384 characters; None for that of the API.
            summarize: Writes the summary in place of the API. An error that it raises ends the run, and a cancelled run
                cancels it.

        Raises:
            UsageError: Both are given, the instructions are no text, or the API compacts the conversation already.
        """
        if summarize is None:
            self._conversation.compact(instructions)
        elif instructions is not None:
            raise UsageError("instructions are for the API: leave them out if you summarize yourself")
        self._summarize = summarize

    def cancel(self) -> None:
        """End the run with status `CANCELLED`. Nothing is raised, and the rest of its events still come.

        The connection is closed, and tools are cancelled, except those with `on_cancel="finish"`. The history keeps the
        response up to its last call. If the input of that call was being written, the call is echoed as
        `{"INVALID_JSON": raw}` and answered as cut off. Call this from any task or thread. It does nothing once the run
        has ended.
        """
        if self._loop is None:
            self._cancel()
        else:
            self._loop.do(self._cancel, is_over=self._has_gone)

    def _has_gone(self) -> bool:
        return self._tasks is not None and self._tasks.has_ended

    def _cancel(self) -> None:
        # Not the scope of the task group: its cancellation would take the reader with it, which has yet to settle the
        # turn and to hand out its last events.
        if self._is_cancelled or self._has_ended:
            return
        self._is_cancelled = self._is_used = True
        if self._turn is not None:
            # Calls later in the current chunk must not start, either (test_cancel_from_a_guard).
            self._turn.is_stopped = True
            if self._turn.ending is not None:
                # The response has ended, so `end` does not come again: calls that wait for a slot are answered here.
                self._turn.withdraw(Begins.NONE)
        if self._scope is not None:
            self._scope.cancel()
        # The task of a call may exist without having started its tool: it must not (test_nothing_begins_after_cancel).
        if self._runner is not None:
            self._runner.stop()

    async def __aenter__(self) -> Self:
        # First: the observers that see the run begin may ask for its parent.
        if self._tasks is None:
            self._loop = LoopThread()
            check_key(self.client, self._conversation.complete_request)
            self.parent: ParentCall | None = begin_sub_run(self)
            self._open_turn = await self._keeper.open(self.parent)
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(kind, error, traceback)
        except BaseException:
            await self._close_journal(is_failing=True)
            raise
        await self._close_journal(is_failing=error is not None)

    async def _close_journal(self, *, is_failing: bool) -> None:
        try:
            await self._keeper.close()
        except EagerStreamError as fault:
            # Cancellation must pass, and so must the error that ends the block. The iteration has raised the first
            # error of the journal.
            if not is_failing and not isinstance(self._failure, JournalError):
                raise
            _log.warning("the end of run %r is not in its journal: %s", self.id, type(fault).__name__)

    def keep_in(self, journal: RunJournal, begin: JSONObject, log: RunLog | None = None) -> None:
        """Write the steps of the run into a journal, from its start on. Called before the run is entered.

        Args:
            journal: The journal.
            begin: The first entry of a new run.
            log: The run in the journal, if it was opened already.
        """
        self._keeper = Durability(
            journal,
            self.id,
            begin,
            conversation=self._conversation,
            on_failure=self.cancel,
            on_said=self._heed,
            log=log,
        )

    def hand_over(self, *, at_once: bool = False) -> None:
        """Stop here, and leave the run in its journal for another process, which continues it.

        The run ends with status `WAITING` in this process. In the journal it is `"running"`, without an owner once the
        block was left. It does nothing once the run has ended; but a run that has raised may still be handed over
        `at_once` within the block, so that another process tries again.

        Args:
            at_once: Do not wait for the end of the turn under way. The connection is closed and tools are cancelled.
                Only results that are there are kept; for the rest, the other process does the same as after a crash.

        Raises:
            UsageError: The run has no journal.
        """
        if not self._keeper.keeps:
            raise UsageError("a run without a journal cannot be handed over")
        self._keeper.hand_over(at_once=at_once)
