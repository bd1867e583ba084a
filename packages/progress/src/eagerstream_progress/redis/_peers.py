"""`Peers`: the runs of other processes, for the hub of this one. A thread is connected to Redis."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from eagerstream._support.event_loops import soon_of_loop
from eagerstream.errors import UsageError

from .._actions import Action
from .._log import RunLog
from .._run_summary import RunSummary
from ._session import Session

T = TypeVar("T")


class Peers:
    """Starts the thread at the first use in a process, also in the child after a fork. For any thread.

    All methods but `close` raise a `UsageError` if it is closed.
    """

    def __init__(self, make_session: Callable[[], Session]) -> None:
        self._make_session = make_session
        self._lock = threading.Lock()
        self._started: tuple[int, Session, threading.Thread] | None = None  # with the process in which it runs
        self._is_closed = False

    def start(self) -> None:
        """Start the thread if it does not run in this process."""
        self._session()

    def close(self, timeout_s: float = 5.0) -> None:
        """Write the last records, for so many seconds at most, and end the thread. May be repeated."""
        with self._lock:
            started, self._started, self._is_closed = self._started, None, True
        if started is not None and started[0] == os.getpid():
            _, session, thread = started
            atexit.unregister(self.close)
            session.close_soon(timeout_s)
            thread.join(timeout_s + 5)

    def summaries(self) -> list[RunSummary]:
        """Return the facts about the newest runs in Redis, also those of this process."""
        return self._session().summaries()

    def is_live(self, run_id: str) -> bool:
        """Return True if another process has the run, and it has not ended."""
        return self._session().is_live(run_id)

    def is_elsewhere(self, run_id: str) -> bool:
        """Return True if another process has the run, or had it later than this one, as far as is known here."""
        return self._session().is_elsewhere(run_id)

    async def find(self, run_id: str) -> RunLog | None:
        """Return the log of a run in Redis; None if there is none. If this is cancelled, nothing is left.

        Raises:
            OSError: Redis cannot be reached.
        """
        session = self._session()
        return await _awaited(session, session.find(run_id))

    async def act(self, run_id: str, action: Action) -> bool:
        """Have the process of a run act on it. Return False if there is none.

        Raises:
            Exception: As for `Hub.act`.
        """
        session = self._session()
        return await _awaited(session, session.act(run_id, action))

    def _session(self) -> Session:
        started = self._started
        if started is None or started[0] != os.getpid():
            with self._lock:
                started = self._started
                if started is None or started[0] != os.getpid():
                    started = self._started = self._start()
        return started[1]

    def _start(self) -> tuple[int, Session, threading.Thread]:
        if self._is_closed:
            raise UsageError("the relay is closed")
        session = self._make_session()
        thread = threading.Thread(target=session.run, name="eagerstream relay", daemon=True)
        thread.start()
        session.wait_until_running()
        atexit.register(self.close)
        return os.getpid(), session, thread


async def _awaited(session: Session, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await something in the thread of a session, on asyncio or trio. Cancelling this cancels it."""
    done = anyio.Event()
    soon = soon_of_loop()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the caller's loop has ended
            soon(done.set)

    future = session.submit(coroutine)
    future.add_done_callback(tell)
    try:
        await done.wait()
    except BaseException:
        future.cancel()
        raise
    try:
        return future.result()
    except CancelledError as error:
        raise ConnectionError("the relay is closed") from error
