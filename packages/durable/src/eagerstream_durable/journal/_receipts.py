"""`Receipt`: the result of a job that a thread does for coroutines of any event loop."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeVar, cast

import anyio
import anyio.lowlevel

from eagerstream._support.event_loops import soon_of_loop

T = TypeVar("T")

_LOCK: Final = threading.Lock()  # one for all: each holds it for some steps only


class Receipt(Generic[T]):
    """The result of a job, to be awaited any number of times, or never, in any event loop.

    Cancelling a wait does not cancel the job.
    """

    __slots__ = ("_error", "_is_done", "_value", "_waiters")

    def __init__(self) -> None:
        self._is_done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._waiters: list[tuple[Callable[..., object], anyio.Event]] = []

    def done(self, value: T, wakes: Wakes) -> None:
        """Set the result."""
        self._end(value, None, wakes)

    def failed(self, error: Exception, wakes: Wakes) -> None:
        """Set the exception that each wait raises."""
        self._end(None, error, wakes)

    def _end(self, value: T | None, error: Exception | None, wakes: Wakes) -> None:
        with _LOCK:
            if self._is_done:
                return
            self._value, self._error, self._is_done = value, error, True
            waiters, self._waiters = self._waiters, []
        for soon, event in waiters:
            wakes.add(soon, event)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        event = anyio.Event()
        soon = soon_of_loop()
        with _LOCK:
            is_done = self._is_done
            if not is_done:
                self._waiters.append((soon, event))
        await (anyio.lowlevel.checkpoint() if is_done else event.wait())
        if self._error is not None:
            raise again(self._error)
        return cast("T", self._value)  # there is no error, so there is a value


def again(error: Exception) -> Exception:
    """Return a copy of an exception that is raised several times: each has its own traceback."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin


class Wakes:
    """The coroutines to wake after a commit: with one call for each event loop, as each call writes to a pipe."""

    def __init__(self) -> None:
        self._events: dict[Callable[..., object], list[anyio.Event]] = {}

    def add(self, soon: Callable[..., object], event: anyio.Event) -> None:
        """Add a coroutine that waits for an event in the event loop of `soon`."""
        self._events.setdefault(soon, []).append(event)

    def send(self) -> None:
        """Wake them. Coroutines of an event loop that has ended are ignored."""
        for soon, events in self._events.items():
            try:
                soon(_setting(events))
            except RuntimeError:  # closed; includes trio's RunFinishedError
                pass


def _setting(events: list[anyio.Event]) -> Callable[[], None]:
    def set_all() -> None:
        for event in events:
            event.set()

    return set_all
