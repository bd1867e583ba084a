"""`RunMarks`: what of a run came when, its requests and its tools."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..streaming._marks import Clock, ReplyMarks
from ..tools._call import ToolCall
from ..tools._definition import Tool


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
    """When the parts of a run came.

    Args:
        clock: Tells the time.
        max_concurrency: Tools that run at once.

    Attributes:
        requests: In the order in which they were sent.
    """

    def __init__(self, *, clock: Clock = time.monotonic, max_concurrency: int = 16) -> None:
        self.clock = clock
        self.max_concurrency = max_concurrency
        self.requests: list[RequestMarks] = []
        self._calls: dict[ToolCall, CallMarks] = {}

    def begin(self, turn: int, reply: ReplyMarks) -> None:
        """A request is about to be sent."""
        self.requests.append(RequestMarks(turn, reply))

    def discard(self) -> None:
        """The last request is sent again."""
        self.requests[-1].discarded = True

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

    def start(self, call: ToolCall) -> None:
        """Its tool is called."""
        self._calls[call].start_s = self.clock()

    def progress(self, call: ToolCall) -> None:
        """The tool tells how far it is."""
        marks = self._calls[call]
        if marks.progress_s is None:
            marks.progress_s = self.clock()

    def end(self, call: ToolCall) -> None:
        """It has its result; nothing for a call that was never admitted."""
        marks = self._calls.get(call)
        if marks is not None:
            marks.end_s = self.clock()
