"""`RunLog`: the records of one run for any number of watchers. They may join late and read slowly."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, Final

from eagerstream._support.event_loops import event_loop
from eagerstream.errors import LimitError, UsageError

from ._exact import json_pieces
from ._merge import DELTA_TEXTS, OVERHEAD_CHARS, MergedRecords, merge_records, size
from ._record import Record
from ._watcher import Notifiers, Watcher

MAX_RECENT: Final = 10_000
"""Maximum number of records to keep unmerged."""
MAX_RECENT_CHARS: Final = 16 * 2**20
"""Maximum size of the unmerged records, roughly."""
MAX_KEPT_CHARS: Final = 64 * 2**20
"""Maximum size of all records of a run after their deltas are merged."""
_MERGED_AT_ONCE: Final = 200  # dropped records to merge at once; it takes 0.2 ms
_MUCH: Final = 16_384  # characters of deltas after which watchers check whether they are due
_MAX_BATCH: Final = 2**20  # characters of one batch, roughly: the most that a watcher holds if it stops reading
_LARGE: Final = 262_144  # characters of records whose snapshot or JSON takes several milliseconds


class WatcherDropped(LimitError):
    """A watcher read too slowly: its next records are no longer kept. It may join again."""


@dataclass(frozen=True)
class Batch:
    """Records for a watcher.

    Attributes:
        records: The records in order, with at most one delta for each block, unless the watcher has `merges=False`.
        seq: The number of the last record in the batch. Pass it as `after` to continue from there.
        is_snapshot: The records do not continue the earlier ones. Discard those; these build the state of the run.
    """

    records: list[Record] = field(repr=False)
    seq: int
    is_snapshot: bool
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _pieces: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def is_large(self) -> bool:
        """True if `encode` takes so long that it should run in a thread."""
        chars = 0
        return any((chars := chars + size(record)) > _LARGE for record in self.records)

    def encode(self) -> Sequence[bytes]:
        """Return `{"snapshot": ..., "records": [...]}` on one line, in ASCII, in pieces. The first call makes them.

        Numbers that JavaScript would round are marked, see `record_schema`.
        """
        with self._lock:
            if not self._pieces:
                self._pieces.extend(json_pieces({"snapshot": self.is_snapshot, "records": self.records}))
            return self._pieces

    @property
    def json(self) -> str:
        """The text of `encode` as one string."""
        return b"".join(self.encode()).decode("ascii")


class RunLog:
    """The records of one run, and its watchers.

    The newest records are kept unmerged, so that a watcher can continue from its position. Watchers that join later get
    all records in a merged form, with one delta for each block. Both are bounded: the merged form omits its oldest
    texts (`omitted_chars`). A record is merged when it is no longer kept unmerged, or when a watcher joins late.

    All late watchers share one snapshot while one of them still reads it and the records after it are kept. Together,
    the watchers of a log hold one snapshot, and each of them holds one bounded batch.

    All methods may be called from any thread. None waits for a watcher.

    Args:
        id: The id of the run.
        name: A name for people.
        max_recent, max_recent_chars: Number and size of the records that are kept unmerged.
        max_kept_chars: Size of the merged form.
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
        self._max_kept_chars = max_kept_chars
        self._lock = threading.Lock()  # held for moments, also by readers
        self._recent: deque[Record] = deque()
        self._recent_chars = 0
        self._waiting_chars = 0  # since the last urgent notification
        self._seq = 0
        self._is_closed = False
        self._dropped: list[Record] = []  # no longer kept unmerged, and not merged yet
        self._merged_seq = 0
        self._notifiers: dict[object, Notifiers] = {}  # by event loop
        self._merge_lock = threading.Lock()  # held while all records are copied
        self._merged = MergedRecords(max_kept_chars)
        self._first: Record | None = None
        self._resumed: Record | None = None
        self._last_batch: tuple[tuple[int, int], Batch] | None = None  # watchers at the same position share it
        self._first_snapshot: weakref.ref[Batch] | None = None  # for late watchers: kept by its readers

    @property
    def seq(self) -> int:
        """The number of the last record; 0 if there is none."""
        return self._seq

    @property
    def ends(self) -> tuple[Record | None, Record | None]:
        """The first record and the last one, unmerged. Each is None if there is none."""
        return self._first, self._recent[-1] if self._recent else None

    @property
    def is_watched(self) -> bool:
        """True if there is a watcher."""
        return bool(self._notifiers)

    @property
    def is_closed(self) -> bool:
        """True if no more records come."""
        return self._is_closed

    @property
    def latest_start(self) -> Record | None:
        """The record with which the run started, or was resumed for the last time; None if there is none."""
        return self._resumed or self._first

    def reopen(self) -> None:
        """Let records of another process follow, which continues the run. Watchers that have ended may join again."""
        with self._lock:
            self._is_closed = False

    def append(self, records: Sequence[Record]) -> None:
        """Add records. Their numbers must rise. If the log is closed, they are ignored."""
        with self._lock:
            is_urgent = False
            if self._is_closed:
                records = ()
            chars = 0
            for record in records:
                fields: Mapping[str, Any] = record
                text = DELTA_TEXTS.get(fields["type"])
                if text is None:
                    is_urgent = True
                    chars += size(record)
                    if fields["type"] == "run_resumed":
                        self._resumed = record
                else:  # the result of `size` for a delta, inlined: nearly all records are deltas
                    chars += OVERHEAD_CHARS + 2 * len(fields[text])
            if records:
                # Not `to_seq`: if deltas were merged before, other records may lie between them.
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

    def load(self, records: Sequence[Record], seq: int) -> None:
        """Put the records of a snapshot in the place of all records. Watchers that were at an earlier one are dropped.

        Args:
            records: The records, with the first one of the run.
            seq: The number of the last record that is in them.
        """
        merged = MergedRecords(self._max_kept_chars)
        for record in records:
            merged.add(record)
        with self._merge_lock, self._lock:
            self._merged, self._merged_seq, self._seq = merged, seq, seq
            self._recent.clear()
            self._recent_chars = 0
            self._dropped = []
            self._first = records[0]
            self._resumed = next((record for record in reversed(records) if record["type"] == "run_resumed"), None)
            self._last_batch = self._first_snapshot = None
            self._is_closed = False
        self._wake()

    def close(self) -> None:
        """End the log. Watchers get the remaining records and end."""
        with self._lock:
            self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        """Wake all watchers."""
        with self._lock:
            notifiers = list(self._notifiers.values())
        for pair in notifiers:
            pair.any.notify()
            pair.urgent.notify()

    def records(self) -> list[Record]:
        """Return all records, unmerged. If they were too many to keep, return a snapshot's records."""
        with self._lock:
            if self._first is None or (self._recent and self._recent[0] is self._first):
                return list(self._recent)
        return self.snapshot().records

    def snapshot(self) -> Batch:
        """Return the state of the run: all records, with the deltas of each block merged, without void blocks."""
        with self._merge_lock:
            seq = self._merge(self._recent)
            return Batch(self._merged.records(), seq, is_snapshot=True)

    def _merge(self, kept: Iterable[Record]) -> int:
        """Merge the dropped records and the unmerged ones of `kept`. Return the number of the last record."""
        with self._lock:
            unmerged, self._dropped = self._dropped, []
            unmerged += (record for record in kept if record["seq"] > self._merged_seq)
            seq = self._seq
            if unmerged:
                self._merged_seq = unmerged[-1]["seq"]
        # Merging first makes it much faster to apply the patches of many fragments.
        for record in merge_records(unmerged):
            self._merged.add(record)
        return seq

    def watch(
        self, *, after: int = 0, min_interval_s: float = 0.05, max_bytes: int = 65_536, merges: bool = True
    ) -> Watcher:
        """Return a watcher to enter with `async with` and to iterate over, on asyncio or trio, in any thread.

        Args:
            after: Number of the last known record. The first batch is a snapshot if it is 0, or if the records after it
                are no longer kept.
            min_interval_s: Maximum time that deltas wait for more, in seconds. 0 disables waiting. All other records
                are sent at once.
            max_bytes: Size of waiting deltas, roughly, above which they are sent at once.
            merges: If false, the watcher gets each record unmerged, except in a snapshot at its start.

        Raises:
            UsageError: A setting is out of range.
        """
        if not (after >= 0 and 0 <= min_interval_s <= 3600 and max_bytes > 0):
            raise UsageError("a watcher needs after >= 0, min_interval_s from 0 to 3600, and max_bytes > 0")
        return Watcher(
            self,
            self._join,
            self._leave,
            after=after,
            min_interval_s=min_interval_s,
            max_chars=max_bytes,
            merges=merges,
        )

    # --- for watchers -------------------------------------------------------------------------------------------------

    def _join(self) -> Notifiers:
        """Return the notifiers of this event loop for one more watcher."""
        loop = event_loop()
        with self._lock:
            notifiers = self._notifiers.get(loop)
            if notifiers is None:
                notifiers = self._notifiers[loop] = Notifiers(loop)
            notifiers.watchers += 1
            return notifiers

    def _leave(self, notifiers: Notifiers) -> None:
        """Remove one watcher."""
        with self._lock:
            notifiers.watchers -= 1
            if not notifiers.watchers:
                self._notifiers.pop(notifiers.loop, None)
            if not self._notifiers:
                self._last_batch = None

    @property
    def is_large(self) -> bool:
        """True if a snapshot takes so long that it should be made in a thread."""
        return self._recent_chars + self._merged.chars > _LARGE

    def keeps(self, after: int) -> bool:
        """Return True if all records after a number are kept unmerged."""
        with self._lock:
            return self._keeps(after)

    def _keeps(self, after: int) -> bool:
        return (self._recent[0]["seq"] <= after + 1 and after <= self._seq) if self._recent else after == self._seq

    def take(self, after: int, *, joins: bool, merges: bool) -> Batch:
        """Return the records after a number.

        Raises:
            WatcherDropped: They are no longer kept, and the watcher does not join.
        """
        with self._lock:
            seq = self._seq
            is_kept = self._keeps(after)
            newest: list[Record] = []
            if is_kept and (after or not merges):
                last_place, last = self._last_batch or (None, None)  # read once: other threads replace it
                if merges and last is not None and last_place == (after, seq):
                    return last
                newest = list(takewhile(lambda record: record["seq"] > after, reversed(self._recent)))
        if joins and not newest:
            with self._merge_lock:
                # Late watchers read the same snapshot as long as the records after it are kept.
                shared = self._first_snapshot() if self._first_snapshot is not None else None
                if shared is None or not self.keeps(shared.seq):
                    seq = self._merge(self._recent)
                    shared = Batch(self._merged.records(), seq, is_snapshot=True)
                    self._first_snapshot = weakref.ref(shared)
                return shared
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
        """Return the error for a watcher that cannot continue."""
        return WatcherDropped("max_recent", self._max_recent, "the backlog of a watcher")

    def is_due(self, after: int, max_chars: int) -> bool:
        """Return True if something came after a number that should not wait for more records."""
        chars = 0
        with self._lock:
            for record in reversed(self._recent):
                if record["seq"] <= after:
                    return False
                chars += size(record)
                if record["type"] not in DELTA_TEXTS or chars >= max_chars:
                    return True
        return True
