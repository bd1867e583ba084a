"""`RunLog`: the records of one run, for any number of watchers, who may come late and read as slowly as they like."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, cycle, takewhile
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from ..errors import LimitError, UsageError
from ._exact import json_pieces
from ._merge import DELTA_TEXTS, OVERHEAD_CHARS, MergedRecords, merge_records, size
from ._notifier import Notifier, event_loop
from ._record import Record

MAX_RECENT: Final = 10_000
"""Records that are kept as they were."""
MAX_RECENT_CHARS: Final = 16 * 2**20
"""What these may come to, roughly."""
MAX_KEPT_CHARS: Final = 64 * 2**20
"""What all records of a run may come to, their deltas merged."""
_MERGED_AT_ONCE: Final = 200  # records that are merged once they are no longer kept as they were; it takes 0.2 ms
_phases: Final = cycle((0, 1 / 8, 2 / 8, 3 / 8, 4 / 8, 5 / 8, 6 / 8, 7 / 8))
"""Watchers are served in groups: those of one share their batches, and all in one go would hold up everything else."""
_MUCH: Final = 16_384  # characters of deltas that some watcher may not want to wait for
_MAX_BATCH: Final = 2**20  # characters that a watcher gets at a time, roughly: what it may hold if it reads no further
_LARGE: Final = 262_144  # characters of records whose snapshot, or JSON, takes some milliseconds


class WatcherDropped(LimitError):
    """A watcher did not read for so long that what comes next for it is no longer kept; it may come again."""


@dataclass(frozen=True)
class Batch:
    """Records for a watcher.

    Attributes:
        records: In order; of each block there is one delta at most.
        seq: The number of the last record among them: what to give as `after` to go on behind it.
        is_snapshot: They do not continue what came before: forget it, they build up the state of the run from nothing.
    """

    records: list[Record]
    seq: int
    is_snapshot: bool
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _pieces: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def is_large(self) -> bool:
        """Whether `encode` takes so long that it belongs into a thread."""
        chars = 0
        return any((chars := chars + size(record)) > _LARGE for record in self.records)

    def encode(self) -> Sequence[bytes]:
        """Return `{"snapshot": ..., "records": [...]}` on one line, in ASCII, in pieces; the first call makes them.

        Numbers that JavaScript would round are marked, see `record_schema`.
        """
        with self._lock:
            if not self._pieces:
                self._pieces.extend(json_pieces({"snapshot": self.is_snapshot, "records": self.records}))
            return self._pieces

    @property
    def json(self) -> str:
        """All that `encode` gives, as one text."""
        return b"".join(self.encode()).decode("ascii")


class RunLog:
    """The records of one run, and who watches them.

    The newest records are kept as they were, so that a watcher can go on where it was. For those who come later there
    is a merged form of all of them, in which each block has one delta. Both are bounded; the merged form leaves out its
    oldest texts (`omitted_chars`). A record is merged when it is no longer kept as it was, or somebody comes late.

    All who come late get the same snapshot, for as long as one of them still reads it and the records after it are
    kept. However many watchers there are and however slowly they read, together they hold one snapshot of a log, and
    beside it each holds one batch, which is bounded.

    Everything here may be called from any thread, and nothing waits for a watcher.

    Args:
        id: Of the run.
        name: For people.
        max_recent, max_recent_chars: Of the records that are kept as they were.
        max_kept_chars: Of the merged form.
    """

    def __init__(
        self,
        id: str,
        *,
        name: str | None = None,
        max_recent: int = MAX_RECENT,
        max_recent_chars: int = MAX_RECENT_CHARS,
        max_kept_chars: int = MAX_KEPT_CHARS,
    ) -> None:
        self.id = id
        self.name = name
        self._max_recent = max_recent
        self._max_recent_chars = max_recent_chars
        self._lock = threading.Lock()  # held for moments, also by those who read
        self._recent: deque[Record] = deque()
        self._recent_chars = 0
        self._waiting_chars = 0  # since watchers were last asked not to wait
        self._seq = 0
        self._is_closed = False
        self._dropped: list[Record] = []  # no longer kept as they were, and not merged yet
        self._merged_seq = 0
        self._notifiers: dict[object, _Notifiers] = {}  # by event loop
        self._merge_lock = threading.Lock()  # held for as long as it takes to copy everything
        self._merged = MergedRecords(max_kept_chars)
        self._first: Record | None = None
        self._last_batch: tuple[tuple[int, int], Batch] | None = None  # watchers in step get the same one
        self._first_snapshot: weakref.ref[Batch] | None = None  # of those who come late: kept by whoever reads it

    @property
    def seq(self) -> int:
        """The number of the last record; 0 where there is none."""
        return self._seq

    @property
    def ends(self) -> tuple[Record | None, Record | None]:
        """The first record and the last one, as they were."""
        return self._first, self._recent[-1] if self._recent else None

    @property
    def is_closed(self) -> bool:
        """Nothing more comes."""
        return self._is_closed

    def append(self, records: Sequence[Record]) -> None:
        """Add records, whose numbers must rise; nothing once the log is closed."""
        with self._lock:
            is_urgent = self._is_closed
            if self._is_closed:
                records = ()
            chars = 0
            for record in records:
                fields: Mapping[str, Any] = record
                text = DELTA_TEXTS.get(fields["type"])
                if text is None:
                    is_urgent = True
                    chars += size(record)
                else:  # what `size` gives for a delta, which nearly all records are
                    chars += OVERHEAD_CHARS + 2 * len(fields[text])
            if records:
                # Not `to_seq`: where deltas were merged before they came here, other records may be in between.
                self._seq = records[-1]["seq"]
                self._first = self._first or records[0]
            self._recent += records
            self._recent_chars += chars
            while len(self._recent) > self._max_recent or (
                self._recent_chars > self._max_recent_chars and len(self._recent) > 1
            ):
                oldest = self._recent.popleft()
                self._recent_chars -= size(oldest)
                if oldest["seq"] > self._merged_seq:
                    self._dropped.append(oldest)
            notifiers = list(self._notifiers.values()) if self._notifiers else None
        if notifiers:
            self._waiting_chars += chars
            if is_urgent := is_urgent or self._waiting_chars > _MUCH:
                self._waiting_chars = 0
            for pair in notifiers:
                pair.any.notify()
                if is_urgent:
                    pair.urgent.notify()
        if len(self._dropped) >= _MERGED_AT_ONCE and self._merge_lock.acquire(blocking=False):
            try:
                self._merge([])
            finally:
                self._merge_lock.release()

    def close(self) -> None:
        """Nothing more comes: watchers get what is left, and end."""
        with self._lock:
            self._is_closed = True
        self.append(())

    def records(self) -> list[Record]:
        """All records as they were; where they were too many to keep, with the deltas of each block merged."""
        with self._lock:
            if not self._recent or self._recent[0]["seq"] == 1:
                return list(self._recent)
        return self.snapshot().records

    def snapshot(self) -> Batch:
        """The state of the run: all records, with the deltas of each block merged, and nothing that is void."""
        with self._merge_lock:
            seq = self._merge(self._recent)
            return Batch(self._merged.records(), seq, is_snapshot=True)

    def _shared_snapshot(self) -> Batch:
        """The snapshot that others who came late still read, if it leads on to the newest records; else a new one."""
        with self._merge_lock:
            shared = self._first_snapshot() if self._first_snapshot is not None else None
            if shared is None or not self.keeps(shared.seq):
                seq = self._merge(self._recent)
                shared = Batch(self._merged.records(), seq, is_snapshot=True)
                self._first_snapshot = weakref.ref(shared)
            return shared

    def _merge(self, kept: Iterable[Record]) -> int:
        """Merge the dropped records, and those of `kept` that were not; return the number of the last record."""
        with self._lock:
            unmerged, self._dropped = self._dropped, []
            unmerged += (record for record in kept if record["seq"] > self._merged_seq)
            seq = self._seq
            if unmerged:
                self._merged_seq = unmerged[-1]["seq"]
        for record in merge_records(unmerged):  # a patch of many fragments is applied in a fraction of the time
            self._merged.add(record)
        return seq

    def watch(
        self, *, after: int = 0, min_interval_s: float = 0.05, max_bytes: int = 65_536, merges: bool = True
    ) -> Watcher:
        """A watcher, to be entered with `async with` and iterated over; on asyncio or trio, in any thread.

        Args:
            after: The number up to which the records are known; where they are no longer kept from there on, the first
                batch is a snapshot, as it is for 0.
            min_interval_s: Deltas wait for others, as long as this at most; all other records are handed out at once.
                With 0 nothing waits.
            max_bytes: Deltas that come to so much, roughly, wait no longer.
            merges: Off, a watcher gets each record as it was, but for the snapshot that it may begin with.

        Raises:
            UsageError: A setting is out of range.
        """
        if not (after >= 0 and 0 <= min_interval_s <= 3600 and max_bytes > 0):
            raise UsageError("a watcher needs after >= 0, min_interval_s from 0 to 3600, and max_bytes > 0")
        return Watcher(self, after=after, min_interval_s=min_interval_s, max_chars=max_bytes, merges=merges)

    # --- for watchers -------------------------------------------------------------------------------------------------

    def join(self) -> _Notifiers:
        """The notifiers of this event loop, for one more watcher."""
        loop = event_loop()
        with self._lock:
            notifiers = self._notifiers.get(loop)
            if notifiers is None:
                notifiers = self._notifiers[loop] = _Notifiers(loop)
            notifiers.watchers += 1
            return notifiers

    def leave(self, notifiers: _Notifiers) -> None:
        """A watcher less."""
        with self._lock:
            notifiers.watchers -= 1
            if not notifiers.watchers:
                self._notifiers.pop(notifiers.loop, None)
            if not self._notifiers:
                self._last_batch = None

    @property
    def is_large(self) -> bool:
        """Whether a snapshot takes so long to make that it belongs into a thread."""
        return self._recent_chars + self._merged.chars > _LARGE

    def keeps(self, after: int) -> bool:
        """Whether all records after a number are kept as they were."""
        with self._lock:
            return self._keeps(after)

    def _keeps(self, after: int) -> bool:
        return bool(self._recent) and self._recent[0]["seq"] <= after + 1 and after <= self._seq

    def take(self, after: int, *, joins: bool, merges: bool) -> Batch:
        """What came after a number."""
        with self._lock:
            seq = self._seq
            is_kept = self._keeps(after)
            newest: list[Record] = []
            if is_kept and (after or not merges):
                last_place, last = self._last_batch or (None, None)  # looked at once: other threads replace it
                if merges and last is not None and last_place == (after, seq):
                    return last
                newest = list(takewhile(lambda record: record["seq"] > after, reversed(self._recent)))
        if joins and not newest:
            return self._shared_snapshot()
        if not is_kept:
            raise self.dropped()
        newest.reverse()
        count = next(
            (place for place, chars in enumerate(accumulate(map(size, newest)), 1) if chars > _MAX_BATCH), None
        )
        taken = newest[:count]
        to_seq = seq if count is None else taken[-1]["seq"]
        if not merges:
            return Batch(taken, to_seq, is_snapshot=not after)
        batch = Batch(merge_records(taken), to_seq, is_snapshot=False)
        self._last_batch = (after, seq), batch
        return batch

    def dropped(self) -> WatcherDropped:
        """Why a watcher cannot go on."""
        return WatcherDropped("max_recent", self._max_recent, "what a watcher has not read")

    def is_due(self, after: int, max_chars: int) -> bool:
        """Something came after a number that should not wait for more."""
        chars = 0
        with self._lock:
            for record in reversed(self._recent):
                if record["seq"] <= after:
                    return False
                chars += size(record)
                if record["type"] not in DELTA_TEXTS or chars >= max_chars:
                    return True
        return True


class _Notifiers:
    """For the watchers in one event loop: one for all records, one for those that should not wait."""

    def __init__(self, loop: object) -> None:
        self.loop = loop
        self.any = Notifier()
        self.urgent = Notifier()
        self.watchers = 0
        self.threads = anyio.CapacityLimiter(1)  # all who come at once wait for one thread, and do not take one each


class Watcher:
    """Batches of the records of a run, as they come; ends after the last.

    An async context manager and an async iterator, for one task. A watcher keeps nothing but its place: one that does
    not read costs nothing, and gets `WatcherDropped` once its place is lost. Cancelling it loses nothing: `seq` is
    where the last batch ended. Let go of a batch before you wait for the next one: the first may be large.
    """

    def __init__(self, log: RunLog, *, after: int, min_interval_s: float, max_chars: int, merges: bool) -> None:
        self.seq = after
        """Up to where it has read."""
        self._log = log
        self._min_interval_s = min_interval_s
        self._max_chars = max_chars
        self._merges = merges
        self._joins = True
        self._phase = next(_phases)
        self._notifiers: _Notifiers | None = None

    async def __aenter__(self) -> Self:
        if self._notifiers is not None:
            raise UsageError("a watcher can be entered once")
        self._notifiers = self._log.join()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._notifiers is not None:
            self._log.leave(self._notifiers)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """The next batch.

        Raises:
            WatcherDropped: What comes next is no longer kept.
        """
        if self._notifiers is None:
            raise UsageError("enter the watcher first: async with log.watch() as watcher")
        await anyio.lowlevel.checkpoint()
        while True:
            is_closed = self._log.is_closed  # before the number is looked at
            if self._log.seq != self.seq:
                break
            if is_closed:
                raise StopAsyncIteration
            await self._wait_for(self._notifiers.any, lambda: self._log.seq != self.seq or self._log.is_closed)
        if not self._joins and self._min_interval_s:
            since_s = time.monotonic() - self._phase * self._min_interval_s
            with anyio.move_on_after(self._min_interval_s - since_s % self._min_interval_s):
                await self._wait_for(self._notifiers.urgent, self._is_due)
        batch = await self._take(self._notifiers)
        self._joins = False
        self.seq = batch.seq
        return batch

    async def _take(self, notifiers: _Notifiers) -> Batch:
        def take() -> Batch:
            return self._log.take(self.seq, joins=self._joins, merges=self._merges)

        if self._joins and self._log.is_large:
            return await anyio.to_thread.run_sync(take, limiter=notifiers.threads)
        return take()

    async def encoded(self, batch: Batch) -> Iterator[bytes]:
        """Return the pieces of `Batch.encode`, which are made once for all watchers; large ones in a thread.

        Hold the batch while you send them: then whoever comes in the meantime gets the same one.

        Raises:
            WatcherDropped: By the iterator. What comes after the batch is no longer kept: what is left of it is of no
                use, and other watchers have a newer one.
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
        """Wait for the notifier until something holds."""
        while True:
            woken = notifier.listen()
            try:
                if holds():
                    return
                await woken.wait()
            finally:
                notifier.ignore(woken)
