"""`RunMarks`: the times of a run, of its requests and its tools."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ..streaming import FeedEnd, ReplyMarks
from ..streaming._delivery import Delivery
from ..streaming._marks import Clock
from ..tools._call import CallListener, ToolCall
from ._events import (
    MessageDelivered,
    Restarted,
    RunEvent,
    SubRunStart,
    SubRunStop,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)

if TYPE_CHECKING:
    from ._message_thread import MessageThread

# Nearly all events are of other types, which one look into a set leaves out. A `match` would try each case for each.
_OF_THE_RUN: Final = frozenset(
    {TurnStart, MessageDelivered, TurnStop, Restarted, ToolStart, ToolProgress, ToolStop, SubRunStart, SubRunStop}
)


@dataclass(slots=True)
class CallMarks:
    """The times of a call, by the clock of the run. `None`: has not happened.

    Attributes:
        call: The call.
        group: Group of its tool. Calls of one group run one after the other.
        approved: Somebody is asked before it runs.
        admitted_s: Time of its admission by the executor. From then on it waits for its turn, or for approval.
        start_s: Time at which its tool was called.
        progress_s: Time of the first progress that the tool reported.
        end_s: Time of its result.
    """

    call: ToolCall
    group: str | None = None
    approved: bool = False
    admitted_s: float | None = None
    start_s: float | None = None
    progress_s: float | None = None
    end_s: float | None = None


@dataclass(slots=True)
class RequestMarks:
    """One request of a run, and the calls of its response.

    Attributes:
        turn: From 1. A request that is sent again has the number of the one before it.
        reply: The times of the response.
        calls: The calls in the order in which they were admitted.
        discarded: Nothing of it stays: it was sent again.
        settled_s: Time at which every call had its result: the next request could be sent.
        runs_held: The response ended in such a way that calls that waited for its end have run.
        thread, thread_refused: The `form` and the `refused` of the message thread when the request was accepted.
        sent_bytes: Size of the body of the accepted request; None if the client does not say.
    """

    turn: int
    reply: ReplyMarks
    calls: dict[ToolCall, CallMarks] = field(default_factory=dict)
    discarded: bool = False
    settled_s: float | None = None
    runs_held: bool = False
    thread: Literal["create", "continue"] | None = None
    thread_refused: str | None = None
    sent_bytes: int | None = None


class RunMarks(CallListener):
    """The times of a run: an observer of its events. The run reports the few times for which there is no event.

    Args:
        clock: Returns the time in seconds.
        max_concurrency: Tools that run at once.

    Attributes:
        requests: The requests in the order in which they were sent.
        resumed_s: Times at which another process continued the run. Empty for a run under way, which has its own marks.
    """

    # It wants no deltas, since an input knows how much of it has come, but each chunk: the time of those that nobody
    # else wants counts, too.
    wants_deltas = False
    wants_chunks = True

    def __init__(self, *, clock: Clock = time.monotonic, max_concurrency: int = 16) -> None:
        self.clock = clock
        self.max_concurrency = max_concurrency
        self.requests: list[RequestMarks] = []
        self.resumed_s: list[float] = []
        self._turn = 0
        self._calls: dict[ToolCall, CallMarks] = {}

    def sending(self, request: Mapping[str, Any]) -> None:
        """See `RequestObserver`."""
        self.requests.append(RequestMarks(self._turn, ReplyMarks(self.clock)))
        self.requests[-1].reply.sending(request)

    def take(self, events: Sequence[RunEvent]) -> None:
        """See `Observer`."""
        # An event of the run comes alone, and is no part of a response: as one, the end of a tool that outlives its
        # request would be the first byte of the next response.
        if not events or type(events[0]) not in _OF_THE_RUN:
            if self.requests:
                self.requests[-1].reply.take(events)
            return
        match events[0]:
            case TurnStart(turn=turn):
                self._turn = turn
            case Restarted():
                self.requests[-1].discarded = True
            case _:
                pass

    def end(self, end: FeedEnd) -> None:
        """See `Observer`: nothing is left to do."""

    def salvaging(self) -> None:
        """Note a response of an earlier process, of which only the calls have times here."""
        self.requests.append(RequestMarks(self._turn, ReplyMarks(self.clock), discarded=True))

    # --- times without an event ---------------------------------------------------------------------------------------

    def opened(self) -> None:
        """Note that the response to the last request has started."""
        self.requests[-1].reply.opened()

    def accepted(self, thread: MessageThread, sent_bytes: int | None) -> None:
        """Note the form in which the last request was accepted."""
        marks = self.requests[-1]
        marks.thread, marks.thread_refused, marks.sent_bytes = thread.form, thread.refused, sent_bytes

    def ended(self) -> None:
        """Note that nothing more of the response is read."""
        self.requests[-1].reply.ended()

    def settle(self, *, runs_held: bool) -> None:
        """Note that every call of the last request has its result."""
        # `runs_held`, because a run that waits for the end of each response would have run none of the calls of a
        # refused or cut one. Against such a run nothing is won then (test_a_run_that_is_cancelled_wins_nothing).
        self.requests[-1].settled_s = self.clock()
        self.requests[-1].runs_held = runs_held

    def call_admitted(self, call: ToolCall) -> None:
        """See `CallListener`."""
        # Group and approval are copied now. The tools of a run may be others at the next request, and the marks stay
        # longer than the tools.
        marks = CallMarks(call, admitted_s=self.clock())
        if call.tool is not None:
            marks.group = call.tool.group.name if call.tool.group else None
            marks.approved = call.tool.approve is not None
        self._calls[call] = self.requests[-1].calls[call] = marks

    # Not by its events: a tool with `on_cancel="finish"` may end after the observers were told the end of the run. A
    # call is looked for in `_calls`, not in the last request, because it may end after the next one was sent.

    def call_started(self, call: ToolCall) -> None:
        """See `CallListener`."""
        self._calls[call].start_s = self.clock()

    def call_progressed(self, call: ToolCall, _: Any, /) -> None:
        """See `CallListener`."""
        marks = self._calls[call]
        if marks.progress_s is None:
            marks.progress_s = self.clock()

    def call_ended(self, call: ToolCall) -> None:
        """See `CallListener`: nothing is noted of a call that was never admitted."""
        marks = self._calls.get(call)
        if marks is not None:
            marks.end_s = self.clock()


class CallEvents(CallListener):
    """Puts the life of calls among the events of their run.

    Args:
        delivery: Takes the events.
        leaves: Returns True for a call that another process continues: it has no end here.
    """

    # Not the run itself: its users would find these methods.

    def __init__(self, delivery: Delivery[RunEvent], leaves: Callable[[ToolCall], bool]) -> None:
        self._delivery = delivery
        self._leaves = leaves

    def call_started(self, call: ToolCall) -> None:
        """See `CallListener`."""
        self._delivery.put(ToolStart(call))

    def call_progressed(self, call: ToolCall, value: Any, /) -> None:
        """See `CallListener`."""
        self._delivery.put(ToolProgress(call, value))

    def call_ended(self, call: ToolCall) -> None:
        """See `CallListener`."""
        if not self._leaves(call):
            self._delivery.put(ToolStop(call))

    def call_told(self, event: RunEvent) -> None:
        """See `CallListener`."""
        self._delivery.put(event)
