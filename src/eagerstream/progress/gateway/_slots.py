"""`RunSlots`: the number of runs that a process holds at once, and the number that may wait for a place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from ...errors import LimitError
from ...wire import check_count, check_positive


class RunsFull(LimitError):
    """There is no place for another run, nor in the queue, or the wait was too long.

    Attributes:
        retry_after_s: Seconds after which to ask again.
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

    Waiting runs get a place in the order of asking. Use it in one event loop, on asyncio or trio.

    Args:
        max_runs: Maximum number of runs held at once.
        max_waiting: Maximum number of runs that wait for a place. Others are refused at once.
        max_wait_s: Maximum time that a run waits before it is refused, in seconds.
        retry_after_s: Seconds after which a refused client should ask again.

    Raises:
        UsageError: `max_runs` is not a whole number from 1, or `max_waiting` not one from 0; or a time is not positive
            and finite.
    """

    def __init__(
        self, max_runs: int, *, max_waiting: int = 0, max_wait_s: float = 10.0, retry_after_s: float = 1.0
    ) -> None:
        check_count("max_runs", max_runs)
        check_count("max_waiting", max_waiting, least=0)
        check_positive("max_wait_s", max_wait_s, is_finite=True)
        check_positive("retry_after_s", retry_after_s, is_finite=True)
        self.max_runs = max_runs
        self.max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._retry_after_s = retry_after_s
        self._limiter = anyio.CapacityLimiter(max_runs)

    @property
    def held(self) -> int:
        """Number of runs that have a place."""
        return int(self._limiter.borrowed_tokens)

    @property
    def waiting(self) -> int:
        """Number of runs that wait for a place."""
        return self._limiter.statistics().tasks_waiting

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a place for the time of the block. If it is cancelled while it waits, it leaves the queue.

        Raises:
            RunsFull: No place is free and the queue is full, or the wait was too long.
        """
        place = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(place)
        except anyio.WouldBlock:
            await self._wait_for(place)
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(place)

    async def _wait_for(self, place: object) -> None:
        if self.waiting < self.max_waiting:
            with anyio.move_on_after(self._max_wait_s):
                await self._limiter.acquire_on_behalf_of(place)
                return
        raise RunsFull(self.max_runs, self._retry_after_s)
