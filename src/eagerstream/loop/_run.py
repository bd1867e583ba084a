"""`Run`: a run under way: its result and figures, and the ways to speak to it, change it and end it."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self

from eagerstream_wire import JSONObject, ToolInput
from eagerstream_wire._assistant_message import AssistantMessage

from .._support.event_loops import LoopThread
from ..calls._sub_runs import ParentCall
from ..errors import EagerStreamError, JournalError, UsageError
from ..streaming import EventFeed
from ..streaming._delivery import Delivery
from ..streaming._types import OutputT
from ..tools._definition import Tool
from ..tools._foreign import GivenTool
from ..transports._client import check_key
from ..transports._eager_fallback import EagerForm
from ._compaction import Summarize
from ._durability import Durability
from ._events import RunEvent
from ._journal import RunJournal, RunLog
from ._latency import RunLatency
from ._marks import RunMarks
from ._result import RunResult
from ._run_driver import RunDriver
from ._steering import When
from ._sub_runs import begin_sub_run

_log = logging.getLogger(__name__)


class Run(EventFeed[RunEvent], Generic[OutputT]):
    """A run: an async context manager, and an async iterator over `RunEvent`s.

    Or await it: `result = await eagerstream.run(...)`. A run that is neither entered nor awaited does nothing: mypy
    reports that with `unused-awaitable`, and pyright with `reportUnusedCallResult`.

    If it is iterated, it ends when its consumer asks for the event behind the last `TurnStop`.

    The iteration (or `finish`) raises the errors of `MessageStream`, and whatever `next_request` raises. `result` is
    complete even then, and `RunResult.of(error)` finds it.

    Cancellation: leaving the block early, after an error, or because its task is cancelled, closes the connection and
    cancels the tools. Tools with `on_cancel="finish"` are waited for. The history keeps the calls that ran, each with a
    result, and can be sent. `cancel` does the same from within, and keeps a call whose input was being written.
    """

    def __init__(self, driver: RunDriver, delivery: Delivery[RunEvent]) -> None:
        super().__init__(delivery, driver)
        self._driver: RunDriver = driver
        self._loop: LoopThread | None = None  # once the run is entered
        self.parent: ParentCall | None = None
        """The call of another run whose tool entered this run; None if there is none, and before the run is entered."""
        # The first observer: others ask the marks for the times of the same events. Every run has marks, since they add
        # no CPU that can be measured (0.962 times that of a run without them).
        self.observe(driver.marks)

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._driver.id

    @property
    def result(self) -> RunResult[OutputT]:
        """The result as of now. It is final when the block was left; without an error, when the iteration has ended."""
        return self._driver.course.result

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

    def __await__(self) -> Generator[Any, Any, RunResult[OutputT]]:
        """Enter the run, read it to the end without events, leave it, and return the `result`.

        `result = await eagerstream.run(...)`. Cancelling this cancels the run. The errors are those of `finish`.
        """
        return self._finished().__await__()

    async def _finished(self) -> RunResult[OutputT]:
        async with self:
            return await self.finish()

    async def get_final_message(self) -> AssistantMessage | None:
        """Read to the end, and return the last assistant message; None if no response came. Cancel it as `finish`.

        Raises:
            EagerStreamError: As for `finish`.
        """
        return (await self.finish()).message

    @property
    def client(self) -> object:
        """The client that sends the requests, as it was given."""
        return self._driver.transport.client

    @property
    def model(self) -> str:
        """The model of the requests."""
        return self._driver.course.model

    @property
    def turn(self) -> int:
        """The number of the current turn, or of the last one; 0 before the first."""
        return self._driver.turn.number if self._driver.turn is not None else 0

    @property
    def has_journal(self) -> bool:
        """True if a journal keeps the run."""
        return self._driver.keeper.keeps

    @property
    def resumed_after(self) -> int | None:
        """Number of turns that earlier processes had settled; None unless the run was resumed from a journal.

        It is known once the run is entered.
        """
        return self._driver.keeper.resumed_after

    @property
    def carrier(self) -> dict[str, str]:
        """Texts that observers pass on to those of a later process, by name. Without a journal, they go nowhere.

        The journal has it from the next request on. For example, tracing keeps the `traceparent` of the run in it.
        """
        return self._driver.keeper.carrier

    @property
    def violations(self) -> Sequence[str]:
        """The peer's violations of the protocol so far, in words that quote no model; the first 1,000."""
        return self._driver.violations

    @property
    def eager(self) -> EagerForm | None:
        """The form of `MessageStream.eager`, of the last request that was accepted."""
        return self._driver.transport.eager

    @property
    def marks(self) -> RunMarks:
        """The times of the events of the run, as they are recorded; see `latency` for the figures."""
        return self._driver.marks

    @property
    def latency(self) -> RunLatency:
        """Figures and JSON as of now: times to the first fragment, field and tool, gaps, time won."""
        return RunLatency(self._driver.marks, model=self.model, eager=self.eager, status=self.result.status.value)

    def tool_of(self, input: ToolInput) -> Tool | None:
        """Return the tool that a call with this input is for; None if the run has none of its name."""
        return self._driver.course.tools.find(input.block) if input.kind == "tool_use" else None

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
        is_left = self._tasks is not None and self._tasks.is_left
        if self._has_ended and (is_left or self._delivery.is_over):
            if self.has_journal:
                raise UsageError("the run has ended in this process: say it with `journal.say`, and resume the run")
            raise UsageError("the run has ended: start another one with its result and this message")
        driver = self._driver
        driver.course.say(message, when)
        driver.keeper.said(self.result.undelivered[-1], when)
        driver.heed(when)

    def add_tools(self, *tools: GivenTool) -> None:
        """Give the model more tools, from the next request on. They replace tools of the same names.

        Calls are run by the new tools at once. See the option `inline_tools` for how the model learns of them.

        Args:
            tools: As for `run`.

        Raises:
            UsageError: A tool cannot be run, or two share a name. Nothing has changed.
        """
        self._driver.course.add_tools(*tools)

    def remove_tools(self, *tools: GivenTool | str) -> None:
        """Take tools, or tools with these names, from the model. Calls that have started finish.

        The model may still call such a tool in the response under way, and gets an error for that.

        Raises:
            UsageError: There is no such tool. Nothing has changed.
        """
        self._driver.course.remove_tools(*tools)

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
            self._driver.course.compact(instructions)
        elif instructions is not None:
            raise UsageError("instructions are for the API: leave them out if you summarize yourself")
        self._driver.summarize = summarize

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

    def cancel_call(self, id: str, reason: str = "") -> None:
        """Cancel one call of the turn under way; the others and the run continue.

        A call that has not started does not start, also if its input is still being written. A tool that runs is
        cancelled; with `on_cancel="finish"` it finishes, and a plain `def` continues in its thread, without an effect
        on the answer. A call that has its result keeps it. Call this from any task or thread.

        Args:
            id: The API's id of the call (`call.id`).
            reason: Told to the model, in the result of the call.

        Raises:
            UsageError: The turn under way has no such call, or the run has ended.
        """
        cancel = partial(self._driver.cancel_call, id, reason)
        if self._loop is None or not self._loop.do(cancel, is_over=self._has_gone):
            raise UsageError("the run is not under way: there is no call to cancel")

    def _has_gone(self) -> bool:
        return self._tasks is not None and self._tasks.has_ended

    def _cancel(self) -> None:
        if not self._has_ended:
            self._delivery.is_used = True
            self._driver.cancel()

    async def __aenter__(self) -> Self:
        # First: the observers that see the run begin may ask for its parent.
        if self._tasks is None:
            self._loop = LoopThread()
            check_key(self.client, self._driver.course.complete_request)
            self.parent = begin_sub_run(self, self._driver.course.budget)
            self._driver.open_turn = await self._driver.keeper.open(self.parent)
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
            await self._driver.keeper.close()
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
        self._driver.keeper = Durability(
            journal,
            self.id,
            begin,
            course=self._driver.course,
            on_failure=self.cancel,
            on_said=self._driver.heed,
            on_cancel_call=self._driver.cancel_call,
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
        if not self._driver.keeper.keeps:
            raise UsageError("a run without a journal cannot be handed over")
        self._driver.keeper.hand_over(at_once=at_once)
