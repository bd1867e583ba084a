"""How a query that runs in a thread is ended from the event loop: too late, or nobody waits for it any more."""

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
"""Drivers that ask the server to cancel wait for the network."""
_LOOK_S: Final = 0.1
"""How often a thread that waits for its turn looks whether anybody still waits for it."""


class Stopped(Exception):
    """Nobody waits for the query any more."""


class Stop:
    """Asks one query to end, from another thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._interrupt: Callable[[], object] | None = None

    def is_asked(self) -> bool:
        """The query should end."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise `Stopped` where the query should end."""
        if self._asked.is_set():
            raise Stopped

    def ask(self) -> None:
        """End the query: its driver is told, where it can be."""
        self._asked.set()
        with self._lock:  # so that it cannot hit the query of somebody else, on the same connection
            if self._interrupt is not None:
                with suppress(Exception):  # it may have ended by itself
                    self._interrupt()

    @contextmanager
    def by(self, interrupt: Callable[[], object] | None) -> Iterator[None]:
        """While the block runs, `interrupt` is what ends the query; it is called in another thread."""
        with self._lock:
            self._interrupt = interrupt
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._interrupt = None


class Turn:
    """Whose turn it is on a connection that calls share: one thread at a time, however long it was waited for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @classmethod
    def on(cls, connection: object) -> Turn:
        """The turn on this connection, the same for all tools that have it; whoever keeps it keeps the connection.

        Two threads in one connection of SQLite can block each other, and the whole program with them: one has the
        connection and needs the interpreter, to call a handler; the other has that, and waits for the connection.
        """
        return _TURNS.setdefault(id(connection), cls())

    @contextmanager
    def taken(self, stop: Stop) -> Iterator[None]:
        """The turn, for as long as the block runs.

        Raises:
            Stopped: Nobody waited any longer.
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
    """What `work` returns, run in a thread of its own.

    Cancelling it asks `work` to stop, and does not wait for that: a driver may not be able to.
    """
    stop = Stop()
    try:
        return await _run(partial(work, stop))
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_INTERRUPT_S, shield=True):
            await _run(stop.ask)
        raise


async def _run(function: Callable[[], T]) -> T:
    # Not one of the threads that others wait for: one that was given up must not take their place.
    limiter = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
