"""`Hub`: the logs of watched runs, and the calls in them that wait for a person."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

import anyio

from eagerstream._support.checks import check_count
from eagerstream.errors import LimitError, UsageError
from eagerstream.loop import Run, When
from eagerstream.streaming import Observer, on_feed
from eagerstream.tools import ToolCall

from ._actions import Action
from ._joined import RecordsEnd
from ._log import RunLog
from ._notifier import Notifier
from ._recorder import RunRecorder
from ._run_summary import RunSummary, summary_of_log
from ._summary import Formatter, Summaries

if TYPE_CHECKING:
    from .redis import RedisRelay

NOT_DECIDED: Final = "it was not decided in time"
"""The reason of a question that was withdrawn."""

MAX_WAITING_MESSAGES: Final = 100
"""Maximum number of messages over a network that wait for a run."""


class Watchable(Protocol):
    """A run, a `stream`, or a feed of somebody else's. See `EventFeed`."""

    @property
    def id(self) -> str:
        """The id of the log."""
        ...

    @property
    def model(self) -> str:
        """The model of the requests."""
        ...

    @property
    def turn(self) -> int | None:
        """The number of the current turn; None for a single request."""
        ...

    @property
    def has_journal(self) -> bool:
        """True if another process may continue the run, under the same id."""
        ...

    @property
    def resumed_after(self) -> int | None:
        """Number of turns before the run was resumed; None if it was not."""
        ...

    def observe(self, observer: Observer[Any], /) -> None:
        """Show an observer all events from now on, and the end."""
        ...


class Hub:
    """Observes runs and keeps a log of each for watchers.

    ::

        hub = Hub()

        @tool(approve=hub.approve)
        async def delete_file(path: str) -> str: ...

        async with eagerstream.run(...) as run:
            hub.observe(run, name="tidy up")
            ...

    Watchers affect runs only by `decide`, `say`, `cancel` and `cancel_call`, or by `act`, which does the same. All
    methods that are not async, except `observing`, may be called from any thread.

    With a relay, the hubs of several processes show each other's runs: `summaries`, `find` and `act` know the runs of
    all of them. Everything else is about the runs of this process.

    Args:
        max_runs: Number of logs to keep. If there are more, the oldest logs of ended runs are dropped.
        contents: False: the logs, and so every watcher, get nothing that the model or a tool wrote, only a line about
            each call; see `Summaries`.
        formatters: For these lines, see `Summaries`.
        data: True: the logs also get the structured data of results (`ToolResponse.data`), which is for programs, and
            not for the model. Every watcher can read it. Apps of MCP tools need it, see `mcp_apps_app`.
        relay: Carries the runs to the hubs of other processes, and back what people do there. Each hub needs its own.

    Raises:
        UsageError: `max_runs` is not a whole number, or is less than 1. Or there are formatters, and contents. Or there
            are no contents, and data. Or another hub has the relay.
    """

    def __init__(
        self,
        *,
        max_runs: int = 100,
        contents: bool = True,
        formatters: Mapping[str, Formatter] | None = None,
        data: bool = False,
        relay: RedisRelay | None = None,
    ) -> None:
        check_count("max_runs", max_runs)
        if contents and formatters:
            raise UsageError("formatters are for contents=False: with contents, everything is shown")
        if data and not contents:
            raise UsageError("data is a part of the contents: contents=False leaves it out")
        self._summaries = None if contents else Summaries(formatters)
        self._has_data = data
        self._max_runs = max_runs
        self._lock = threading.Lock()
        self._logs: dict[str, RunLog] = {}
        self._recorders: dict[str, RunRecorder] = {}  # of runs that have not ended
        self._runs: dict[str, Run] = {}  # those of them that can be acted on: no single requests
        self._waiting: dict[tuple[str, int], _Question] = {}
        self._notifiers: set[Notifier] = set()
        self._peers = relay.attach(self, max_runs=max_runs, tell=self._tell) if relay is not None else None

    @property
    def logs(self) -> list[RunLog]:
        """The logs of all kept runs, the oldest first."""
        with self._lock:
            return list(self._logs.values())

    @property
    def has_contents(self) -> bool:
        """False if the logs have a line about each call in place of its contents."""
        return self._summaries is None

    def log(self, run_id: str) -> RunLog:
        """Return the log of a run.

        Raises:
            KeyError: No such run is kept.
        """
        return self._logs[run_id]

    def is_live(self, run_id: str) -> bool:
        """Return True if the run is observed, here or behind the relay, and has not ended.

        Runs that are replayed from a file are never live.
        """
        return run_id in self._recorders or (self._peers is not None and self._peers.is_live(run_id))

    def can_act(self, run_id: str) -> bool:
        """Return True if the run takes messages, and can be cancelled: it is live, and no single request."""
        return run_id in self._runs

    def summary(self, log: RunLog) -> RunSummary:
        """Return the facts about a run of this process."""
        asks = any(run_id == log.id for run_id, _ in self.questions)
        return {**summary_of_log(log), "asks": asks, "acts": self.can_act(log.id)}

    def summaries(self) -> list[RunSummary]:
        """Return the facts about all runs, also of those that a relay shows, the oldest first."""
        logs = self.logs
        if self._peers is None:
            return list(map(self.summary, logs))
        found = [summary for summary in self._peers.summaries() if not self._is_here(summary["id"])]
        others = {summary["id"] for summary in found}
        found += [self.summary(log) for log in logs if log.id not in others]
        return sorted(found, key=lambda summary: summary["started_at"] or "~")  # the newest have not started

    async def find(self, run_id: str) -> RunLog:
        """Return the log of a run, also of another process if there is a relay.

        That one then has all records that have come, and goes on as long as it is watched, and half a minute longer. If
        this is cancelled, nothing is left.

        Raises:
            KeyError: No such run is kept.
            OSError: The relay cannot be reached.
        """
        if self._peers is None or self._is_here(run_id):
            return self.log(run_id)
        log = await self._peers.find(run_id)
        if log is None:
            raise KeyError(run_id)
        return log

    async def act(self, run_id: str, action: Action) -> None:
        """Act on a run, also of another process if there is a relay. Return when it is done.

        If this is cancelled, it may be done or not.

        Raises:
            KeyError: Nothing waits there for a decision, or the run or the call is not under way.
            LimitError: Too many messages wait for it.
            OSError: Its process cannot be reached, or has not answered for ten seconds: it may be done or not.
            UsageError: As for `say` and `cancel_call`.
        """
        if self._peers is None or self._is_here(run_id):
            # In a thread, because it waits for the event loop of the run.
            await anyio.to_thread.run_sync(action.do, self, run_id)
        elif not await self._peers.act(run_id, action):
            raise KeyError(run_id)

    def _is_here(self, run_id: str) -> bool:
        """Return True if the run is of this process, and no other one has continued it."""
        log = self._logs.get(run_id)
        return log is not None and not (log.is_closed and self._peers is not None and self._peers.is_elsewhere(run_id))

    def add(self, log: RunLog) -> None:
        """Add a log that other code fills, for example of a saved run."""
        if self._peers is not None:
            self._peers.start()
        with self._lock:
            self._logs[log.id] = log
            ended = [other.id for other in self._logs.values() if other.is_closed and other is not log]
            for run_id in ended[: max(0, len(self._logs) - self._max_runs)]:
                del self._logs[run_id]
                self._forget(run_id)  # a run that never started, if other code closed its log
        self._tell()

    def observe(self, run: Watchable, *, name: str | None = None) -> RunLog:
        """Keep a log of a run or of a `stream` from now on, and return the log.

        Call it before you enter the run, or immediately after. Otherwise earlier events are missing. If the hub has the
        ended log of an earlier part of the run, see `journal`, that log continues: its `name` stays.
        """
        # The run's own id, by which the records of its parent name it; another one if it is observed a second time.
        log, after = self._logs.get(run.id), None
        if log is not None and not self._is_here(run.id):
            log = None
        if log is not None and log.is_closed and run.has_journal and log.seq:
            after = RecordsEnd.of(log.records())
            log.reopen()
        else:
            log = RunLog(run.id if log is None else uuid4().hex, name=name)
        recorder = RunRecorder(
            log.append,
            id=log.id,
            name=name,
            model=run.model,
            turn=run.turn,
            resumed_after=run.resumed_after,
            after=after,
            # Beyond all numbers that an earlier process may have given: none makes a record in each microsecond. Before
            # it begins, a run may be resumed or not.
            seq=time.time_ns() // 1_000 if self._peers is not None and run.has_journal else 0,
            close=lambda: self._end(log),
            summaries=self._summaries,
            data=self._has_data,
            tool_of=run.tool_of if isinstance(run, Run) else None,
        )
        self._recorders[log.id] = recorder
        if isinstance(run, Run):
            self._runs[log.id] = run
        self.add(log)
        run.observe(recorder)
        return log

    @contextmanager
    def observing(self, name: str | None = None) -> Iterator[None]:
        """Observe each run that starts within the block, in this task or in the tasks that it starts."""
        with on_feed(lambda run: self.observe(run, name=name)):
            yield

    async def changes(self) -> AsyncGenerator[Sequence[RunLog], None]:
        """Yield all logs now, and again whenever a run is added or ends, or `questions` changes. It never ends.

        Changes between two steps are reported once. Close it when you stop (`contextlib.aclosing`). Cancellation stops
        it.
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
        """Wait for a person to decide about a call, within `approve_timeout_s`. Use it as `@tool(approve=hub.approve)`.

        If the run is not observed, the call is refused at once: nobody could see the question. If this is cancelled, by
        the timeout or the end of the run, the question is withdrawn.

        Returns:
            True if the call may run. Otherwise the reason, or False if none was given.
        """
        for recorder in list(self._recorders.values()):
            block = recorder.block_of(call)
            if block is not None:
                break
        else:
            return "no person can see the question"
        question = _Question()
        key = recorder.id, block
        self._waiting[key] = question  # before anyone can see the question: the decision may come at once
        approved = False
        reason: str | None = NOT_DECIDED
        try:
            recorder.note(call, "approval_start")
            self._tell()
            await question.woken.wait()
            assert question.decision is not None
            approved, reason = question.decision
        finally:
            del self._waiting[key]
            recorder.note(call, "approval_stop", approved=approved, reason=reason)
            self._tell()
        return approved or reason or False

    @property
    def questions(self) -> list[tuple[str, int]]:
        """The calls that wait for a decision: the run's id and the block's number of each, as `decide` takes them."""
        return [key for key, question in list(self._waiting.items()) if question.decision is None]

    def decide(self, run_id: str, block: int, *, approved: bool, reason: str | None = None) -> None:
        """Decide about a waiting call: let it run or refuse it.

        Args:
            run_id: The id of the run.
            block: The number of the call's block.
            approved: If true, the call may run.
            reason: Given to the model if the call is refused.

        Raises:
            KeyError: No call waits there, or it was decided already.
        """
        with self._lock:
            question = self._waiting[run_id, block]
            if question.decision is not None:
                raise KeyError((run_id, block))
            question.decision = approved, reason
        question.notifier.notify()

    def say(self, run_id: str, message: str, when: When = "next_turn") -> None:
        """Say something to the model of a live run, see `Run.say`.

        Raises:
            KeyError: No such run is live here.
            LimitError: 100 messages wait for it.
            UsageError: As for `Run.say`.
        """
        run = self._runs[run_id]
        if len(run.result.undelivered) >= MAX_WAITING_MESSAGES:
            raise LimitError("max_waiting_messages", MAX_WAITING_MESSAGES, "the messages for this run")
        run.say(message, when)

    def cancel(self, run_id: str) -> None:
        """Cancel a live run, see `Run.cancel`.

        Raises:
            KeyError: No such run is live here.
        """
        self._runs[run_id].cancel()

    def cancel_call(self, run_id: str, block: int, reason: str = "") -> None:
        """Cancel one call of a live run, see `Run.cancel_call`.

        Args:
            run_id: The id of the run.
            block: The number of the call's block.
            reason: Told to the model.

        Raises:
            KeyError: No such run is live here, or it has no such call.
            UsageError: As for `Run.cancel_call`.
        """
        run, recorder = self._runs[run_id], self._recorders[run_id]
        run.cancel_call(recorder.call_id(block), reason)

    def _end(self, log: RunLog) -> None:
        log.close()
        self._forget(log.id)
        self._tell()

    def _forget(self, run_id: str) -> None:
        self._recorders.pop(run_id, None)
        self._runs.pop(run_id, None)

    def _tell(self) -> None:
        for notifier in list(self._notifiers):
            notifier.notify()


class _Question:
    """A call that waits for a decision."""

    def __init__(self) -> None:
        self.decision: tuple[bool, str | None] | None = None  # whether it may run, and the reason
        self.notifier = Notifier()
        self.woken: anyio.Event = self.notifier.listen()
