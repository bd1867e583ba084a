"""`RunSlots`: how many runs a process holds at once, and how many may wait for a place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isfinite

import anyio

from ...errors import LimitError, UsageError


class RunsFull(LimitError):
    """As many runs are held as may be, and as many wait; or the wait was too long.

    Attributes:
        retry_after_s: When to ask again, in seconds.
    """

    def __init__(self, max_runs: int, retry_after_s: float) -> None:
        super().__init__("max_runs", max_runs, "one more run")
        self.retry_after_s = retry_after_s


class RunSlots:
    """Places for runs.

    ::

        slots = RunSlots(100, max_waiting=20)

        async with slots.hold():
            async with eagerstream.run(...) as run:
                ...

    Who waits gets a place in the order of asking. For one event loop, asyncio or trio.

    Args:
        max_runs: Held at once.
        max_waiting: More wait for a place; beyond that they are refused at once.
        max_wait_s: How long one waits before it is refused.
        retry_after_s: What those who are refused are told.

    Raises:
        UsageError: A setting is out of its range.
    """

    def __init__(
        self, max_runs: int, *, max_waiting: int = 0, max_wait_s: float = 10.0, retry_after_s: float = 1.0
    ) -> None:
        if max_runs < 1 or max_waiting < 0:
            raise UsageError(f"max_runs must be positive and max_waiting not negative: {max_runs!r}, {max_waiting!r}")
        if not all(isfinite(seconds) and seconds > 0 for seconds in (max_wait_s, retry_after_s)):
            raise UsageError("max_wait_s and retry_after_s must be positive numbers")
        self.max_runs = max_runs
        self.max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._retry_after_s = retry_after_s
        self._limiter = anyio.CapacityLimiter(max_runs)

    @property
    def held(self) -> int:
        """Runs that have a place."""
        return int(self._limiter.borrowed_tokens)

    @property
    def waiting(self) -> int:
        """Runs that wait for one."""
        return self._limiter.statistics().tasks_waiting

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """A place for the time of the block. Cancelled while it waits, it leaves the queue.

        Raises:
            RunsFull: There is no place, and none to wait in; or the wait was too long.
        """
        place = object()
        if not self._take(place):
            if self.waiting >= self.max_waiting:
                raise RunsFull(self.max_runs, self._retry_after_s)
            has_place = False
            with anyio.move_on_after(self._max_wait_s):
                await self._limiter.acquire_on_behalf_of(place)
                has_place = True
            if not has_place:
                raise RunsFull(self.max_runs, self._retry_after_s)
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(place)

    def _take(self, place: object) -> bool:
        try:
            self._limiter.acquire_on_behalf_of_nowait(place)
        except anyio.WouldBlock:
            return False
        return True
