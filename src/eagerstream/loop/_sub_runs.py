"""Sub-runs: the runs that the tool of a call starts, as children of the run that the call belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from eagerstream_wire._assistant_message import add_usage

from .._support.event_loops import LoopThread
from ..calls._policy import RunStatus
from ..calls._sub_runs import CallRuns, ParentCall
from ..streaming import FeedEnd, Observer
from ..tools._call import ToolCall
from ._budget import Budget
from ._events import RunEvent, SubRunStart, SubRunStop
from ._result import RunResult


class _Run(Protocol):
    """The parts of a `Run` that this module uses."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def result(self) -> RunResult[Any]: ...
    def observe(self, observer: Observer[RunEvent]) -> None: ...
    def cancel(self) -> None: ...


def begin_sub_run(run: _Run, budget: Budget) -> ParentCall | None:
    """Make a run a child of the call that executes here, and return the call. Return None if there is none.

    What the run uses of its budget, it uses of that of the call's run, too.
    """
    runs = CallRuns.here()
    call = runs.call if runs is not None else None
    if runs is None or call is None:
        return None
    budget.parent = call.host.budget
    child = _Child(run, runs)
    runs.begin(child)
    run.observe(child)
    return ParentCall(call.host.run_id if call.host.is_run else None, call.id, call.name)


class _Child:
    """An observer of a run that reports its end to the call that started it."""

    wants_deltas = False

    def __init__(self, run: _Run, runs: CallRuns) -> None:
        self._run = run
        self._runs = runs
        self._home = LoopThread()
        self._end: FeedEnd | None = None
        """The end of the run; None before it, and `cancel` puts what the run has come to."""

    def _so_far(self, status: RunStatus) -> FeedEnd:
        result = self._run.result
        return FeedEnd(status.value, result.turns, {**result.usage}, None)

    # --- for the call -------------------------------------------------------------------------------------------------

    def tell_start(self, call: ToolCall) -> None:
        """See `SubRun`."""
        for listener in call.listeners:
            listener.call_told(SubRunStart(call, self._run.id, self._run.model))

    def tell_stop(self, call: ToolCall) -> None:
        """See `SubRun`."""
        end = self._end or self._so_far(self._run.result.status)
        # Before the event: a program that saves the result at the event has the counts.
        call.sub_usage = call.sub_usage or {}
        for account in (*call.accounts, call.sub_usage):
            add_usage(account, end.usage)
        stop = SubRunStop(call, self._run.id, self._run.model, RunStatus(end.status), end.turns, {**end.usage})
        for listener in call.listeners:
            listener.call_told(stop)

    def cancel(self) -> None:
        """See `SubRun`."""
        self._end = self._so_far(RunStatus.CANCELLED)
        self._home.do_soon(self._run.cancel)

    # --- for the run --------------------------------------------------------------------------------------------------

    def take(self, events: Sequence[object]) -> None:
        """See `Observer`: only the end concerns the parent."""

    def end(self, end: FeedEnd) -> None:
        """See `Observer`."""
        self._end = end
        self._runs.end(self)
