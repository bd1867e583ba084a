"""The two threads of a journal: one commits all changes in groups, one reads."""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar
from weakref import WeakSet

from eagerstream.errors import EagerStreamError, JournalError

from ._database import Database, DatabaseFault, Rows, Statement
from ._receipts import Receipt, Wakes

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0
_LAST_S: Final = 10.0
"""Longest wait at the end of the program for entries that nobody awaited."""

_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME" if sys.platform != "darwin" else "CLOCK_MONOTONIC", None)


def awake_s() -> float:
    """Return the seconds of a clock that continues while the machine sleeps, if the system has one.

    An owner measures its lease with it. A contender measures with `time.monotonic`, which may stop meanwhile: each of
    them errs on the safe side.
    """
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Job(ABC):
    """A change of one run.

    Attributes:
        run_id: Jobs are executed in the order of their run ids, so that two processes cannot wait for each other.
        forgets: It deletes a run.
    """

    run_id: str
    forgets = False

    @abstractmethod
    def statements(self) -> list[Statement]:
        """Return the statements. The writer asks once, and may execute them several times."""

    @abstractmethod
    def finish(self, rows: list[Rows], begun_s: float, wakes: Wakes) -> None:
        """Take the rows of each statement, once they are durable.

        Args:
            rows: The rows of each statement.
            begun_s: The `awake_s` before the first attempt.
            wakes: The coroutines to wake.
        """

    @abstractmethod
    def fail(self, error: EagerStreamError, wakes: Wakes) -> None:
        """Take the reason why they could not be executed."""

    def beats_at_s(self) -> float:
        """Return the `awake_s` at which it comes again, to show that an owner is alive; infinity for never."""
        return math.inf


class Writer:
    """A thread that commits all jobs that wait, as one transaction, and then the next ones.

    An idle writer commits a job at once. While it commits, the next group gathers.
    """

    def __init__(self, database: Database, retry_for_s: float) -> None:
        self._database = database
        self._retry_for_s = retry_for_s
        self._ready = threading.Condition()  # reentrant, as the garbage collector may call `close` anywhere
        self._jobs: deque[Job] = deque()
        self._beating: WeakSet[Job] = WeakSet()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._beats_at_s = math.inf
        self._process = os.getpid()
        self.closed: Receipt[None] = Receipt()

    def put(self, job: Job) -> None:
        """Add a job, from any thread.

        Raises:
            JournalError: The journal is closed, or belongs to the process from which this one was forked.
        """
        with self._ready:
            _check_process(self._process)
            if self._is_closing:
                raise JournalError("the journal is closed")
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="eagerstream-journal", daemon=True)
                self._thread.start()
                atexit.register(self._end)
            self._ready.notify()

    def keep_alive(self, beating: Job) -> None:
        """Execute a job whenever its beat is due, as long as somebody else holds it."""
        with self._ready:
            self._beating.add(beating)
            self._beats_at_s = min(self._beats_at_s, beating.beats_at_s())
            self._ready.notify()

    def close(self) -> None:
        """Let the thread end after all jobs that wait. Do nothing in a forked process: the lock may be held there."""
        if os.getpid() != self._process:
            return
        with self._ready:
            self._is_closing = True
            if self._thread is None:
                self.closed.done(None, Wakes())
            self._ready.notify()

    @property
    def is_closing(self) -> bool:
        """True if it takes no more jobs."""
        return self._is_closing

    def _end(self) -> None:
        self.close()
        if self._thread is not None and os.getpid() == self._process:
            self._thread.join(_LAST_S)

    def _work(self) -> None:
        while jobs := self._next():
            self._commit(jobs)
            del jobs  # an owner that nobody holds any more must not live on here
        self._database.close()
        wakes = Wakes()
        self.closed.done(None, wakes)
        wakes.send()
        atexit.unregister(self._end)

    def _next(self) -> list[Job]:
        """Wait for jobs or a beat. Return nothing at the end."""
        with self._ready:
            while True:
                # A log that beats may be queued already, or again: each job comes once in a group.
                jobs = list(dict.fromkeys([*self._jobs, *self._due_beats()]))
                if jobs or self._is_closing:
                    self._jobs.clear()
                    return jobs
                wait_s = self._beats_at_s - awake_s()
                self._ready.wait(min(max(wait_s, 0.0), threading.TIMEOUT_MAX))

    def _due_beats(self) -> list[Job]:
        now_s = awake_s()
        if self._is_closing or now_s < self._beats_at_s:
            return []
        beats = [(beating.beats_at_s(), beating) for beating in self._beating]
        due = [beating for at_s, beating in beats if at_s <= now_s]
        # Commits only make beats later, so looking at the earliest of them is early enough.
        self._beats_at_s = min((at_s for at_s, _ in beats if at_s > now_s), default=math.inf)
        return due

    def _commit(self, jobs: list[Job]) -> None:
        wakes = Wakes()
        ready: list[tuple[Job, list[Statement]]] = []
        for job in sorted(jobs, key=lambda job: job.run_id):
            try:
                ready.append((job, job.statements()))
            except Exception as fault:
                job.fail(as_known_error(fault), wakes)
        self._commit_group(ready, wakes)
        wakes.send()
        self._beats_at_s = min(self._beats_at_s, *(job.beats_at_s() for job in jobs))

    def _commit_group(self, ready: list[tuple[Job, list[Statement]]], wakes: Wakes) -> None:
        begun_s = awake_s()
        statements = [statement for _, own in ready for statement in own]
        try:
            rows = retrying(lambda: self._database.commit(statements), self._retry_for_s)
        except Exception as fault:
            is_passing = isinstance(fault, DatabaseFault) and fault.is_passing
            if len(ready) > 1 and not is_passing:  # one of them may be the reason
                for one in ready:
                    self._commit_group([one], wakes)
                return
            for job, _ in ready:
                job.fail(as_known_error(fault), wakes)
            return
        if any(job.forgets for job, _ in ready):
            self._database.forget()
        at = 0
        for job, own in ready:
            try:
                job.finish(rows[at : at + len(own)], begun_s, wakes)
            except Exception as fault:
                job.fail(as_known_error(fault), wakes)
            at += len(own)


class Reader:
    """A thread that reads, beside the writer, so that reading a long run delays no commit and no beat."""

    def __init__(self, database: Database, retry_for_s: float) -> None:
        self._database = database
        self._retry_for_s = retry_for_s
        self._jobs: SimpleQueue[tuple[Callable[[Database], Any], Receipt[Any]] | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._process = os.getpid()
        self.closed: Receipt[None] = Receipt()

    def read(self, query: Callable[[Database], T]) -> Receipt[T]:
        """Call a function with the connection, in the thread, and return the receipt of its value.

        Raises:
            JournalError: The journal is closed.
        """
        receipt: Receipt[T] = Receipt()
        with self._lock:
            _check_process(self._process)
            if self._is_closed:
                raise JournalError("the journal is closed")
            self._jobs.put((query, receipt))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="eagerstream-journal-reader", daemon=True)
                self._thread.start()
        return receipt

    def close(self) -> None:
        """Let the thread end after the queries that wait. Do nothing in a forked process."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._jobs.put(None)
            if self._thread is None:
                self.closed.done(None, Wakes())

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            query, receipt = job
            wakes = Wakes()
            try:
                receipt.done(retrying(partial(query, self._database), self._retry_for_s), wakes)
            except Exception as fault:
                receipt.failed(as_known_error(fault), wakes)
            wakes.send()
            del job, query, receipt
        self._database.close()
        wakes = Wakes()
        self.closed.done(None, wakes)
        wakes.send()


def _check_process(process: int) -> None:
    if os.getpid() != process:  # threads and connections do not survive a fork
        raise JournalError("a journal cannot be used in a forked process: make another one there")


def retrying(attempt: Callable[[], T], for_s: float) -> T:
    """Return the value of a function. Call it again while the database fails in a way that may pass.

    Raises:
        DatabaseFault: It failed in another way, or for longer than `for_s`.
    """
    begun_s = time.monotonic()
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return attempt()
        except DatabaseFault as fault:
            if not fault.is_passing or time.monotonic() - begun_s > for_s:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def as_known_error(fault: Exception) -> EagerStreamError:
    """Return the error that a caller gets for an exception in a thread."""
    if isinstance(fault, EagerStreamError):
        return fault
    # The text of an unexpected exception could contain an entry.
    error = JournalError(fault.reason if isinstance(fault, DatabaseFault) else f"unexpected {type(fault).__name__}")
    error.__cause__ = fault
    return error
