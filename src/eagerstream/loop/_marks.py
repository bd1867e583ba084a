"""`RunMarks`: what of a run came when, its requests and its tools."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..streaming import Clock, FeedEnd, ReplyMarks
from ..tools._call import ToolCall
from ..tools._definition import Tool
from ._events import Restarted, RunEvent, ToolProgress, ToolStart, ToolStop, TurnStart

_TAKEN: Final = frozenset({TurnStart, Restarted, ToolStart, ToolProgress, ToolStop})


@dataclass(slots=True)
class CallMarks:
    """When a call ran. Times are of the clock of the run; None: has not happened.

    Attributes:
        call: The call.
        group: Of its tool; calls of one run one after the other.
        approved: Somebody is asked before it runs.
        admitted_s: It was given to the executor: from here on it waits for its turn, or for approval.
        start_s: Its tool was called.
        progress_s: The tool said for the first time how far it is.
        end_s: The call had its result.
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
    """One request of a run, and the calls of its reply.

    Attributes:
        turn: From 1. A request that is sent again has the number of the one before it.
        reply: When the parts of the reply came.
        calls: In the order in which they were admitted.
        discarded: Nothing of it stays: it was sent again.
        settled_s: Every call had its result: the next request could be sent.
        runs_held: The reply ended in such a way that calls that waited for its end have run.
    """

    turn: int
    reply: ReplyMarks
    calls: dict[ToolCall, CallMarks] = field(default_factory=dict)
    discarded: bool = False
    settled_s: float | None = None
    runs_held: bool = False


class RunMarks:
    """When the parts of a run came: an observer of its events. The run tells it the little that no event says.

    Args:
        clock: Tells the time.
        max_concurrency: Tools that run at once.

    Attributes:
        requests: In the order in which they were sent.
    """

    wants_deltas = False

    def __init__(self, *, clock: Clock = time.monotonic, max_concurrency: int = 16) -> None:
        self.clock = clock
        self.max_concurrency = max_concurrency
        self.requests: list[RequestMarks] = []
        self._turn = 0
        self._calls: dict[ToolCall, CallMarks] = {}

    def sending(self, request: Mapping[str, Any]) -> None:
        """See `RequestObserver`."""
        self.requests.append(RequestMarks(self._turn, ReplyMarks(self.clock)))
        self.requests[-1].reply.sending(request)

    def take(self, events: Sequence[RunEvent]) -> None:
        """See `Observer`."""
        if self.requests:
            self.requests[-1].reply.take(events)
        for event in events:
            if type(event) in _TAKEN:
                self._take(event)

    def _take(self, event: RunEvent) -> None:
        match event:
            case TurnStart(turn=turn):
                self._turn = turn
            case Restarted():
                self.requests[-1].discarded = True
            case ToolStart(call=call) if call in self._calls:
                self._calls[call].start_s = self.clock()
            case ToolProgress(call=call) if call in self._calls and self._calls[call].progress_s is None:
                self._calls[call].progress_s = self.clock()
            case ToolStop(call=call) if call in self._calls:
                self._calls[call].end_s = self.clock()
            case _:
                pass

    def end(self, end: FeedEnd) -> None:
        """See `Observer`: nothing is left to do."""

    # --- what no event says -------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The response to the last request has begun."""
        self.requests[-1].reply.opened()

    def ended(self) -> None:
        """Nothing more of the response is read."""
        self.requests[-1].reply.ended()

    def settle(self, *, runs_held: bool) -> None:
        """Every call of the last request has its result."""
        self.requests[-1].settled_s = self.clock()
        self.requests[-1].runs_held = runs_held

    def admit(self, call: ToolCall, tool: Tool | None) -> None:
        """A call is given to the executor."""
        marks = CallMarks(call, admitted_s=self.clock())
        if tool is not None:
            marks.group = tool.group.name if tool.group else None
            marks.approved = tool.approve is not None
        self._calls[call] = self.requests[-1].calls[call] = marks
