"""Stops of queries that run in a thread, from the event loop: after a timeout or a cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

R = TypeVar("R")
T = TypeVar("T")

_INTERRUPT_S: Final = 2.0
"""Time for drivers that send the cancellation to the server."""
_LOOK_S: Final = 0.1
"""Interval at which a thread that waits for its turn checks whether it should stop."""


class Stopped(Exception):
    """The stop of a query whose caller no longer waits."""


class Stop:
    """A request to end one query, from another thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._interrupt: Callable[[], object] | None = None

    def is_asked(self) -> bool:
        """Return whether the query should end."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise `Stopped` if the query should end."""
        if self._asked.is_set():
            raise Stopped

    def ask(self) -> None:
        """End the query. If its driver can be interrupted, interrupt it."""
        self._asked.set()
        with self._lock:  # otherwise it could hit the next query on the same connection
            if self._interrupt is not None:
                with suppress(Exception):  # the query may have ended
                    self._interrupt()

    @contextmanager
    def by(self, interrupt: Callable[[], object] | None) -> Iterator[None]:
        """Set the function that interrupts the query during the block. Another thread calls it."""
        with self._lock:
            self._interrupt = interrupt
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._interrupt = None


class Turn:
    """The right to use a shared connection: one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @classmethod
    def on(cls, connection: object) -> Turn:
        """Return the turn of a connection. All tools with that connection share it.

        Keep the connection as long as the turn: the turn is found by the connection's id.

        Two threads on one SQLite connection can deadlock the program. One holds the connection and needs the
        interpreter lock to call a handler. The other holds the interpreter lock and waits for the connection.
        """
        return _TURNS.setdefault(id(connection), cls())

    @contextmanager
    def taken(self, stop: Stop) -> Iterator[None]:
        """Hold the turn during the block.

        Raises:
            Stopped: The query should end.
        """
        while not self._lock.acquire(timeout=_LOOK_S):
            stop.check()
        try:
            stop.check()
            yield
        finally:
            self._lock.release()


_TURNS: Final[WeakValueDictionary[int, Turn]] = WeakValueDictionary()


async def in_thread(work: Callable[[Stop], R]) -> R:
    """Run `work` in a thread of its own, and return its result.

    Cancelling this asks `work` to stop, and does not wait for it: some drivers cannot stop.
    """
    stop = Stop()
    try:
        return await _run(partial(work, stop))
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_INTERRUPT_S, shield=True):
            await _run(stop.ask)
        raise


async def _run(function: Callable[[], T]) -> T:
    # Not a thread of the shared pool: an abandoned one must not occupy a place there.
    limiter = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
