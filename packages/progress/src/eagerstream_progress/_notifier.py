"""`Notifier`: wakes the waiters of one event loop, from any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from eagerstream._support.event_loops import event_loop, is_asyncio


class Notifier:
    """Wakes all waiters in the event loop in which it was made, on asyncio or trio.

    A notification costs one call, for any number of waiters.
    """

    def __init__(self) -> None:
        loop = event_loop()
        self._call_soon: Callable[[Callable[[], object]], Any] = (
            loop.call_soon_threadsafe if is_asyncio(loop) else loop.run_sync_soon
        )
        self._is_notified = False
        self._event: anyio.Event | None = None  # of all listeners
        self._listeners = 0

    def listen(self) -> anyio.Event:
        """Return an event that the next notification sets. Call `ignore` when you no longer wait for it."""
        if self._event is None:
            self._event = anyio.Event()
        self._listeners += 1
        return self._event

    def ignore(self, event: anyio.Event) -> None:
        """Drop an event that is no longer needed."""
        if event is self._event:
            self._listeners -= 1

    def notify(self) -> None:
        """Wake all listeners, from any thread. Do nothing if there are none or the event loop is closed.

        Make the change before the call, so that anyone who starts to listen in between sees it.
        """
        if self._is_notified or not self._listeners:
            return
        self._is_notified = True
        try:
            self._call_soon(self._wake)
        except RuntimeError:  # closed; includes trio's RunFinishedError
            pass

    def _wake(self) -> None:
        self._is_notified = False
        event, self._event = self._event, None
        self._listeners = 0
        if event is not None:
            event.set()
