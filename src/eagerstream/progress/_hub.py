"""`Hub`: the runs that are watched, and the calls in them that wait for a person."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import anyio

from ..streaming import EventFeed, on_feed
from ..tools import ToolCall
from ..wire import check_count
from ._log import RunLog
from ._notifier import Notifier
from ._recorder import RunRecorder

MAX_REASON_CHARS: Final = 2_000
"""Of a reason that comes over a network; the model reads it."""


@dataclass(slots=True, frozen=True)
class Decision:
    """What a person says of a call."""

    approved: bool
    reason: str | None = None


class Hub:
    """Observes runs, and keeps a log of each for those who watch.

    ::

        hub = Hub()

        @tool(approve=hub.approve)
        async def delete_file(path: str) -> str: ...

        async with eagerstream.run(...) as run:
            hub.observe(run, name="tidy up")
            ...

    What watchers do never reaches the runs, except by `decide`. All but `approve` may be called from any thread.

    Args:
        max_runs: Logs that are kept; beyond it the oldest goes that has ended.

    Raises:
        UsageError: `max_runs` is less than 1.
    """

    def __init__(self, *, max_runs: int = 100) -> None:
        check_count("max_runs", max_runs)
        self._max_runs = max_runs
        self._lock = threading.Lock()
        self._logs: dict[str, RunLog] = {}
        self._recorders: dict[str, RunRecorder] = {}  # of runs that go on
        self._waiting: dict[tuple[str, int], _Question] = {}
        self._notifiers: set[Notifier] = set()

    @property
    def logs(self) -> list[RunLog]:
        """Of all runs that are kept, the oldest first."""
        with self._lock:
            return list(self._logs.values())

    def log(self, run_id: str) -> RunLog:
        """The log of a run.

        Raises:
            KeyError: No such run is kept.
        """
        return self._logs[run_id]

    def is_live(self, run_id: str) -> bool:
        """Whether this is a run that goes on now: not one that has ended, nor one out of a file that is replayed."""
        return run_id in self._recorders

    def add(self, log: RunLog) -> None:
        """Show a log that somebody else fills: of a saved run, say."""
        with self._lock:
            self._logs[log.id] = log
            ended = [other.id for other in self._logs.values() if other.is_closed and other is not log]
            for run_id in ended[: max(0, len(self._logs) - self._max_runs)]:
                del self._logs[run_id]
                self._recorders.pop(run_id, None)  # of a run whose log was closed by another, and that never began
        self._tell()

    def observe(self, run: EventFeed[Any], *, name: str | None = None) -> RunLog:
        """Keep a log of a run, or of a `stream`, from now on. Before it is entered, or just after, misses nothing."""
        log = RunLog(uuid4().hex, name=name)
        model, turn = getattr(run, "model", None), getattr(run, "turn", None)
        recorder = RunRecorder(log.append, id=log.id, name=name, model=model, turn=turn, close=lambda: self._end(log))
        self._recorders[log.id] = recorder
        self.add(log)
        run.observe(recorder)
        return log

    @contextmanager
    def observing(self, name: str | None = None) -> Iterator[None]:
        """Observe each run that begins within the block, in this task and those that it starts."""
        with on_feed(lambda run: self.observe(run, name=name)):
            yield

    async def changes(self) -> AsyncGenerator[Sequence[RunLog], None]:
        """All logs now, and again whenever a run has begun or ended, or `questions` has changed; never ends.

        What happens between two looks is told once. Close it where you stop (`contextlib.aclosing`).
        """
        notifier = Notifier()
        self._notifiers.add(notifier)
        try:
            while True:
                woken = notifier.listen()
                yield self.logs
                await woken.wait()
        finally:
            self._notifiers.discard(notifier)

    async def approve(self, call: ToolCall) -> bool | str:
        """Wait for a person to decide about a call, for `@tool(approve=hub.approve)`; within `approve_timeout_s`.

        True, or why not. A call of a run that is not observed is refused at once: nobody could see the question.
        Cancelled, as by that bound or the end of the run, it takes the question back.
        """
        for recorder in list(self._recorders.values()):
            block = recorder.block_of(call)
            if block is not None:
                break
        else:
            return "nobody is there to approve it"
        question = _Question()
        key = recorder.id, block
        self._waiting[key] = question  # before anybody learns of it: the answer may come at once
        decision = Decision(approved=False, reason="it was not decided in time")
        try:
            recorder.note(call, "approval_start")
            self._tell()
            await question.woken.wait()
            assert question.decision is not None
            decision = question.decision
        finally:
            del self._waiting[key]
            recorder.note(call, "approval_stop", approved=decision.approved, reason=decision.reason)
            self._tell()
        return decision.approved or decision.reason or False

    @property
    def questions(self) -> list[tuple[str, int]]:
        """The calls that wait for a decision: the run and the block of each, as `decide` takes them."""
        return [key for key, question in list(self._waiting.items()) if question.decision is None]

    def decide(self, run_id: str, block: int, *, approved: bool, reason: str | None = None) -> None:
        """Answer a question: let a call run, or not.

        Raises:
            KeyError: There is no such question, or it was answered.
        """
        with self._lock:
            question = self._waiting[run_id, block]
            if question.decision is not None:
                raise KeyError((run_id, block))
            question.decision = Decision(approved, reason)
        question.notifier.notify()

    def _end(self, log: RunLog) -> None:
        log.close()
        self._recorders.pop(log.id, None)
        self._tell()

    def _tell(self) -> None:
        for notifier in list(self._notifiers):
            notifier.notify()


class _Question:
    """A call waits for a decision."""

    def __init__(self) -> None:
        self.decision: Decision | None = None
        self.notifier = Notifier()
        self.woken: anyio.Event = self.notifier.listen()
