"""`Notifier`: woken in any thread, heard by those who wait in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio


def event_loop() -> Any:
    """The event loop that this runs in: asyncio's own object, or trio's token."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()


class Notifier:
    """Wakes all who wait in the event loop in which it was made; asyncio or trio.

    However many wait, notifying them costs one call.
    """

    def __init__(self) -> None:
        loop = event_loop()
        is_asyncio = isinstance(loop, asyncio.AbstractEventLoop)
        self._call_soon: Callable[[Callable[[], object]], Any] = (
            loop.call_soon_threadsafe if is_asyncio else loop.run_sync_soon
        )
        self._is_notified = False
        self._events: set[anyio.Event] = set()

    def listen(self) -> anyio.Event:
        """Set when the notifier is woken next; `ignore` it when it is not waited for any more."""
        event = anyio.Event()
        self._events.add(event)
        return event

    def ignore(self, event: anyio.Event) -> None:
        """Nobody waits for this any more."""
        self._events.discard(event)

    def notify(self) -> None:
        """Wake all who listen; from any thread. Nothing if nobody does, or if the event loop is gone.

        Say first what has changed, and notify then: whoever begins to listen in between sees the change.
        """
        if self._is_notified or not self._events:
            return
        self._is_notified = True
        try:
            self._call_soon(self._wake)
        except RuntimeError:  # closed; trio's RunFinishedError is one, too
            pass

    def _wake(self) -> None:
        self._is_notified = False
        events, self._events = self._events, set()
        for event in events:
            event.set()
