"""`Watcher`: reads the records of a log as they come, in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from eagerstream.errors import UsageError

from ._notifier import Notifier

if TYPE_CHECKING:
    from ._log import Batch, RunLog

_phases: Final = cycle((0, 1 / 8, 2 / 8, 3 / 8, 4 / 8, 5 / 8, 6 / 8, 7 / 8))
"""Delays of groups of watchers. The watchers of a group share their batches. One group for all would block the event
loop.
"""


class Notifiers:
    """The notifiers for the watchers in one event loop: one for all records, one for urgent records."""

    def __init__(self, loop: object) -> None:
        self.loop = loop
        self.any: Notifier = Notifier()
        self.urgent: Notifier = Notifier()
        self.watchers = 0
        self.threads: anyio.CapacityLimiter = anyio.CapacityLimiter(1)  # late watchers share one thread


class Watcher:
    """The batches of a run's records, as they come. The iteration ends after the last.

    It is an async context manager and an async iterator for one task. A watcher stores only its position. If it stops
    reading and loses its position, the next read raises `WatcherDropped`. Cancelling it loses no records: `seq` is the
    end of the last batch. Release each batch before you wait for the next: the first may be large.

    Raises:
        UsageError: It is entered a second time.
    """

    def __init__(
        self,
        log: RunLog,
        join: Callable[[], Notifiers],
        leave: Callable[[Notifiers], None],
        *,
        after: int,
        min_interval_s: float,
        max_chars: int,
        merges: bool,
    ) -> None:
        self.seq: int = after
        """The number of the last record that was read."""
        self._log = log
        self._join = join
        self._leave = leave
        self._min_interval_s = min_interval_s
        self._max_chars = max_chars
        self._merges = merges
        self._joins = True
        self._phase = next(_phases)
        self._notifiers: Notifiers | None = None

    async def __aenter__(self) -> Self:
        if self._notifiers is not None:
            raise UsageError("a watcher can be entered once")
        self._notifiers = self._join()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._notifiers is not None:
            self._leave(self._notifiers)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """Return the next batch. If it is cancelled, call it again: no record is lost.

        Raises:
            StopAsyncIteration: The log is closed, and all records were read.
            UsageError: The watcher was not entered.
            WatcherDropped: The next records are no longer kept.
        """
        if self._notifiers is None:
            raise UsageError("enter the watcher first: async with log.watch() as watcher")
        await anyio.lowlevel.checkpoint()
        while True:
            is_closed = self._log.is_closed  # read before the number
            if self._log.seq != self.seq:
                break
            if is_closed:
                raise StopAsyncIteration
            await self._wait_for(self._notifiers.any, lambda: self._log.seq != self.seq or self._log.is_closed)
        if not self._joins and self._min_interval_s and not self._is_due():
            since_s = time.monotonic() - self._phase * self._min_interval_s
            with anyio.move_on_after(self._min_interval_s - since_s % self._min_interval_s):
                await self._wait_for(self._notifiers.urgent, self._is_due)
        take = partial(self._log.take, self.seq, joins=self._joins, merges=self._merges)
        is_slow = self._joins and self._log.is_large
        batch = await anyio.to_thread.run_sync(take, limiter=self._notifiers.threads) if is_slow else take()
        self._joins = False
        self.seq = batch.seq
        return batch

    async def encoded(self, batch: Batch) -> Iterator[bytes]:
        """Return the pieces of `Batch.encode`, which are made once for all watchers. Large ones are made in a thread.

        Keep the batch while you send the pieces, so that watchers that join meanwhile get the same one. If it is
        cancelled, it returns after the thread's work, and the pieces stay in the batch.

        Raises:
            WatcherDropped: By the iterator. The records after the batch are no longer kept, so the rest is useless:
                other watchers have a newer batch.
        """
        if self._notifiers is not None and batch.is_large:
            await anyio.to_thread.run_sync(batch.encode, limiter=self._notifiers.threads)
        return self._while_kept(batch)

    def _while_kept(self, batch: Batch) -> Iterator[bytes]:
        for piece in batch.encode():
            if not self._log.keeps(batch.seq):
                raise self._log.dropped()
            yield piece

    def _is_due(self) -> bool:
        return self._log.is_closed or self._log.is_due(self.seq, self._max_chars)

    async def _wait_for(self, notifier: Notifier, holds: Callable[[], bool]) -> None:
        """Wait for the notifier until a condition holds."""
        while True:
            woken = notifier.listen()
            try:
                if holds():
                    return
                await woken.wait()
            finally:
                notifier.ignore(woken)
