"""The runs that a call's tool starts, seen from the call: which are open, and what becomes of them when it ends."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from .._support.event_loops import LoopThread
from ..tools._call import ToolCall
from ..tools._response import ToolErrorCode


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


class SubRun(Protocol):
    """A run that a tool has started."""

    def tell_start(self, call: ToolCall) -> None:
        """Tell the call's listeners that it has begun."""

    def tell_stop(self, call: ToolCall) -> None:
        """Add its tokens to the call's, and tell the call's listeners that it has ended, or how far it has come."""

    def cancel(self) -> None:
        """Cancel it. From then on, it counts as cancelled."""


class CallRuns:
    """The runs of one call that have not ended. Enter it in the task that executes the call, and then name the call.

    When it is left, the runs that are still open are reported as they are. If the call was cancelled or timed out, they
    are cancelled. Other runs continue without a parent, because a tool may start work that outlives it on purpose.

    Args:
        home: The event loop of the call.
    """

    # Context variables are inherited by the tasks that the tool starts, and by its threads. A thread may run an event
    # loop of its own, so all changes are made on the loop of the call.

    def __init__(self, home: LoopThread) -> None:
        self.call: ToolCall | None = None
        """The call; None before it is known, and when this was left."""
        # None when it was left: contexts keep this object for long, those of tasks that outlive the call, and those of
        # cancelled timers (test_calls_of_earlier_responses_are_not_kept).
        self._home = home
        self._open: dict[SubRun, None] = {}
        self._token: Token[CallRuns | None] | None = None  # while this is entered

    def __enter__(self) -> None:
        self._token = _current.set(self)

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self._token = None
        call, self.call = self.call, None
        if call is None:
            return  # no call came
        is_given_up = call.result is None or (call.response is not None and call.response.code == ToolErrorCode.TIMEOUT)
        for sub_run in self._open:
            if is_given_up:
                sub_run.cancel()
            sub_run.tell_stop(call)
        self._open.clear()

    @staticmethod
    def here() -> CallRuns | None:
        """Return the runs of the call that executes in this task or thread; None if there is none."""
        return _current.get()

    def begin(self, sub_run: SubRun) -> None:
        """Take a run as a child of the call. Callable in any thread."""
        self._home.do_soon(partial(self._begun, sub_run))

    def end(self, sub_run: SubRun) -> None:
        """Take the end of a child. Callable in any thread."""
        self._home.do_soon(partial(self._ended, sub_run))

    def _begun(self, sub_run: SubRun) -> None:
        if self.call is not None:
            self._open[sub_run] = None
            sub_run.tell_start(self.call)

    def _ended(self, sub_run: SubRun) -> None:
        if self.call is not None and sub_run in self._open:
            del self._open[sub_run]
            sub_run.tell_stop(self.call)


_current: ContextVar[CallRuns | None] = ContextVar("eagerstream_call_runs", default=None)
