"""`Places`: a bound on the calls of a registry that run at once."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...tools import Slots
from ...wire import check_count


class Places(threading.local):
    """A number of places for calls, first come, first served.

    Each thread has its own places, because no event loop can wake up a task of another one.

    Raises:
        UsageError: `count` is less than 1.
    """

    def __init__(self, count: int) -> None:
        check_count("max_concurrent_tools", count)
        self._slots = Slots(count)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for a place, and give it back at the end of the block. Cancelling the wait leaves the queue."""
        ticket = self._slots.reserve()
        try:
            await ticket.wait()
            yield
        finally:
            self._slots.give_back(ticket)
