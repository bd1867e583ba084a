"""Sub-runs: the runs that the tool of a call starts, as children of the run that the call belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .._support.event_loops import LoopThread
from ..streaming import FeedEnd
from ..tools._call import ToolCall
from ..tools._response import ToolErrorCode
from ._events import SubRunStart, SubRunStop
from ._result import RunStatus, add_usage

if TYPE_CHECKING:
    from ._run import Run


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The call whose tool started a run.

    Attributes:
        run: `Run.id` of the call's run; None if the call belongs to no `Run` (`Conversation`, `EarlyCalls`).
        call: The API's id of the call.
        name: The tool's name, as the model wrote it.
    """

    # Ids, not objects: a run that is kept must not keep its parent.

    run: str | None
    call: str
    name: str


class CallRuns:
    """The runs of one call that have not ended. Enter it in the task that executes the call, and then name the call.

    When it is left, the runs that are still open are reported as they are. If the call was cancelled or timed out, they
    are cancelled. Other runs continue without a parent, because a tool may start work that outlives it on purpose.
    """

    # Context variables are inherited by the tasks that the tool starts, and by its threads. A thread may run an event
    # loop of its own, so all changes are made on the loop of the call.

    def __init__(self) -> None:
        self.call: ToolCall | None = None
        """The call; None before it is known, and when this was left."""
        # None when it was left: contexts keep this object for long, those of tasks that outlive the call, and those of
        # cancelled timers (test_calls_of_earlier_responses_are_not_kept).
        self._home = LoopThread()
        self._open: dict[_SubRun, None] = {}
        self._tokens: list[Token[CallRuns | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_current.set(self))

    def __exit__(self, *error: object) -> None:
        _current.reset(self._tokens.pop())
        call, self.call = self.call, None
        if call is None:
            return  # no call came
        is_given_up = call.result is None or (call.response is not None and call.response.code == ToolErrorCode.TIMEOUT)
        for sub_run in self._open:
            if is_given_up:
                sub_run.cancel()
            _report(call, sub_run, RunStatus.CANCELLED if is_given_up else sub_run.run.result.status, sub_run.as_of_now)
        self._open.clear()

    def begin(self, run: Run[Any]) -> ParentCall | None:
        """Make a run a child of the call. Return None if the call has ended."""
        call = self.call
        if call is None:
            return None
        sub_run = _SubRun(run, self)
        self._home.do_soon(partial(self._begun, sub_run))
        run.observe(sub_run)
        return ParentCall(call.host.run_id if call.host.is_run else None, call.id, call.name)

    def end(self, sub_run: _SubRun, end: FeedEnd) -> None:
        """Take the end of a child, on its own event loop."""
        self._home.do_soon(partial(self._ended, sub_run, end))

    def _begun(self, sub_run: _SubRun) -> None:
        if self.call is not None:
            self._open[sub_run] = None
            _tell(self.call, SubRunStart(self.call, sub_run.run.id, sub_run.run.model))

    def _ended(self, sub_run: _SubRun, end: FeedEnd) -> None:
        if self.call is not None and sub_run in self._open:
            del self._open[sub_run]
            _report(self.call, sub_run, RunStatus(end.status), end)


def _report(call: ToolCall, sub_run: _SubRun, status: RunStatus, end: FeedEnd) -> None:
    # Before the event: a program that saves the result at the event has the counts.
    call.sub_usage = call.sub_usage or {}
    for account in (*call.accounts, call.sub_usage):
        add_usage(account, end.usage)
    stop = SubRunStop(call, sub_run.run.id, sub_run.run.model, status, end.turns, {**end.usage})
    _tell(call, stop)


def _tell(call: ToolCall, event: SubRunStart | SubRunStop) -> None:
    for listener in call.listeners:
        listener.call_told(event)


_current: ContextVar[CallRuns | None] = ContextVar("eagerstream_call_runs", default=None)


def begin_sub_run(run: Run[Any]) -> ParentCall | None:
    """Make a run a child of the call that executes here, and return the call. Return None if there is none."""
    runs = _current.get()
    return runs.begin(run) if runs is not None else None


class _SubRun:
    """An observer of a child that reports its end to the call."""

    wants_deltas = False

    def __init__(self, run: Run[Any], runs: CallRuns) -> None:
        self.run = run
        self._runs = runs
        self._home = LoopThread()

    @property
    def as_of_now(self) -> FeedEnd:
        result = self.run.result
        return FeedEnd(result.status.value, result.turns, {**result.usage}, None)

    def cancel(self) -> None:
        self._home.do_soon(self.run.cancel)

    def take(self, events: Sequence[object]) -> None:
        """See `Observer`: only the end concerns the parent."""

    def end(self, end: FeedEnd) -> None:
        """See `Observer`."""
        self._runs.end(self, end)
