"""`Log`: the journal of one run, in the hands of its owner."""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eagerstream import JSONObject
from eagerstream.errors import EagerStreamError, JournalError, LimitError, OwnershipLostError, UsageError

from . import _sql as sql
from ._contents import Contents, encoded
from ._database import Database, Rows, Statement
from ._jobs import Bounds, Owned, ownership_lost
from ._reading import Entries, read_entries, read_inbox
from ._receipts import Receipt, Wakes, again
from ._seals import Seal, sealed_entry
from ._summaries import encoded_summary
from ._threads import Job, Reader, Writer, awake_s

_CERTAIN: Final = 0.9
"""Part of the lease for which an owner is certain. The rest is for clocks that run at different speeds."""

_BEATS: Final = 4  # in each lease


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Parts:
    """The parts of a journal. They are closed when neither the journal nor a log holds them any more."""

    writer: Writer
    reader: Reader
    contents: Contents
    bounds: Bounds
    lease_s: float

    def entries_of(self, run_id: str) -> Callable[[Database], Entries]:
        """Return a query for the entries of a run."""
        contents, bounds = self.contents, self.bounds
        return lambda database: read_entries(database, contents, bounds, run_id)

    def inbox_of(self, run_id: str, after: int) -> Callable[[Database], list[tuple[int, JSONObject]]]:
        """Return a query for the messages of a run with numbers above `after`."""
        contents, bounds = self.contents, self.bounds
        return lambda database: read_inbox(database, contents, bounds, run_id, after)


@dataclass(slots=True)
class _Write:
    """Entries that were added by one call."""

    rows: list[tuple[int, bytes]]  # the turn, the content
    receipt: Receipt[None] = field(default_factory=Receipt[None])
    settles: bool = False
    read_to: int | None = None  # the number of the last message that is in the entries
    release: tuple[str | None, str] | None = None  # the status and the summary; without a status, neither changes


class Log(Job):
    """The journal of a run that this process owns. See `eagerstream.loop.RunLog`."""

    def __init__(self, parts: Parts, owned: Owned) -> None:
        self.run_id = owned.run_id
        self.fence = owned.fence
        self.entries: Sequence[JSONObject] = ()
        self._parts = parts
        self._owned = owned
        self._lock = threading.Lock()
        self._added: list[_Write] = []
        self._writing: list[_Write] = []
        self._error: EagerStreamError | None = None
        self._is_released = False
        self._size_bytes = self._settled_bytes = 0
        self._seal = Seal(owned.next_seq)  # of what is written, and of what is being written
        self._written_seq = owned.next_seq
        self._confirmed_s = owned.begun_s
        parts.writer.keep_alive(self)

    def __repr__(self) -> str:
        return f"<Log of run {self.run_id!r}, fence {self.fence}>"

    def load(self, found: Entries) -> None:
        """Take the entries that are there. Call it once, before anything is added.

        Raises:
            JournalError: The numbers of the run do not agree.
        """
        if found.seal.next_seq != self._written_seq:
            raise JournalError("the journal is damaged: its next entry has another number", run_id=self.run_id)
        with self._lock:
            self.entries = found.entries
            self._seal = found.seal
            self._size_bytes, self._settled_bytes = found.size_bytes, found.settled_bytes

    # --- for the owner ------------------------------------------------------------------------------------------------

    def append(self, *entries: JSONObject) -> Awaitable[None]:
        """See `RunLog`."""
        return self._add(entries)

    def settle(self, entry: JSONObject) -> Awaitable[None]:
        """See `RunLog`."""
        return self._add([entry], settles=True)

    def check(self) -> None:
        """See `RunLog`."""
        if self._error is not None:
            if isinstance(self._error, OwnershipLostError):
                raise again(self._error)
            raise OwnershipLostError("its journal failed, so its lease ends", run_id=self.run_id) from self._error
        if self._is_released or self._parts.writer.is_closing:
            raise OwnershipLostError("this process has given it up", run_id=self.run_id)
        if awake_s() >= self._confirmed_s + self._parts.lease_s * _CERTAIN:
            raise OwnershipLostError("the lease may have ended", run_id=self.run_id)

    async def inbox(self, after: int) -> list[tuple[int, JSONObject]]:
        """See `RunLog`."""
        return await self._parts.reader.read(self._parts.inbox_of(self.run_id, after))

    async def release(self, status: str | None, summary: JSONObject) -> None:
        """See `RunLog`.

        Raises:
            OwnershipLostError: Another process owns the run now.
            JournalError: It could not be written, or is released already.
            LimitError: The summary is larger than 65,536 bytes.
        """
        text = encoded_summary(summary)
        with self._lock:
            self._check_usable()
            write = _Write([], release=(status, text))
            self._queue(write)
            self._is_released = True
        await write.receipt

    def _check_usable(self) -> None:
        if self._is_released:
            raise JournalError("it was released", run_id=self.run_id)
        if self._error is not None:
            raise again(self._error)

    def _queue(self, write: _Write) -> None:
        if not self._added:
            self._parts.writer.put(self)  # it cannot begin before the lock is free
        self._added.append(write)

    def _add(self, entries: Sequence[JSONObject], *, settles: bool = False) -> Receipt[None]:
        bounds = self._parts.bounds
        what = f"an entry of run {self.run_id!r}"
        rows = [(checked_turn(entry), bounded(entry, what, bounds)) for entry in entries]
        with self._lock:
            self._check_usable()
            before = self._settled_bytes if settles else self._size_bytes
            size = before + sum(len(content) for _, content in rows)
            if size > bounds.max_run_bytes:
                raise LimitError("max_run_bytes", bounds.max_run_bytes, f"the journal of run {self.run_id!r}")
            numbers = [number for entry in entries if type(number := entry.get("inbox")) is int]
            write = _Write(rows, settles=settles, read_to=max(numbers, default=None))
            self._queue(write)
            self._size_bytes = size
            if settles:
                self._settled_bytes = size
        return write.receipt

    @property
    def is_owner(self) -> bool:
        """False if it is known that this process does not own the run any more."""
        return self._error is None and not self._is_released

    # --- for the writer -----------------------------------------------------------------------------------------------

    def beats_at_s(self) -> float:
        """See `Job`."""
        if self._error is not None or self._is_released:
            return math.inf
        return self._confirmed_s + self._parts.lease_s / _BEATS

    def statements(self) -> list[Statement]:
        """See `Job`."""
        with self._lock:
            if self._error is not None:  # it was queued again before the failure was known: the seal has what failed
                raise self._error
            self._writing, self._added = self._added, []
            size_bytes = self._size_bytes
        guard = self._owned.guard
        next_seq = self._seal.next_seq + sum(len(write.rows) for write in self._writing)
        done = (*guard, next_seq)
        statements: list[Statement] = []
        run_id = self.run_id
        for write in self._writing:
            if write.settles:
                statements.append((sql.SETTLE, (run_id, self._seal.settled_seq, self._seal.next_seq, *done)))
                self._seal = self._seal.back_to_settled()
            if write.read_to is not None:
                statements.append((sql.DROP_MESSAGES, (run_id, write.read_to, *done)))
                self._seal = self._seal.with_taken(write.read_to)
            for turn, content in write.rows:
                stored = sealed_entry(self._parts.contents, run_id, content, self._seal)
                statements.append((sql.ADD_ENTRY, (run_id, self._seal.next_seq, turn, stored, *done)))
                self._seal = self._seal.with_entry(stored)
            if write.settles:
                self._seal = self._seal.settled()
            if write.release is not None:
                status, summary = write.release
                if status is None:
                    statements.append((sql.RELEASE_UNCHANGED, done))
                else:
                    statements.append((sql.RELEASE, (status, summary, status, *done)))
        if next_seq > self._written_seq:
            seal = self._seal.stored(self._parts.contents, self.run_id)
            first: Statement = (sql.ADVANCE, (next_seq, seal, size_bytes, *guard, self._written_seq))
        else:
            first = (sql.BEAT, done)
        return [first, *statements, (sql.PROGRESS, (self.run_id,))]

    def finish(self, rows: list[Rows], begun_s: float, wakes: Wakes) -> None:
        """See `Job`."""
        if rows[-1] != [(self.fence, self._seal.next_seq)]:
            self.fail(ownership_lost(self.run_id), wakes)
            return
        self._written_seq = self._seal.next_seq
        self._confirmed_s = begun_s
        writing, self._writing = self._writing, []
        for write in writing:
            write.receipt.done(None, wakes)

    def fail(self, error: EagerStreamError, wakes: Wakes) -> None:
        """See `Job`. The log stays failed, as nobody knows what of the entries is there."""
        with self._lock:
            self._error = self._error or error
            failed = [*self._writing, *self._added]
            self._writing, self._added = [], []
        for write in failed:
            write.receipt.failed(error, wakes)


def checked_turn(entry: Mapping[str, Any]) -> int:
    """Return the turn of an entry.

    Raises:
        UsageError: It has no turn or no kind.
    """
    turn = entry.get("turn")
    if type(turn) is not int or not isinstance(entry.get("kind"), str):
        raise UsageError('an entry of a journal needs a "kind", which is a string, and a "turn", which is an integer')
    return turn


def bounded(entry: Mapping[str, Any], what: str, bounds: Bounds) -> bytes:
    """Return an entry as JSON.

    Raises:
        UsageError: It has no JSON form.
        LimitError: It is larger than `max_entry_bytes`.
    """
    content = encoded(entry, what)
    if len(content) > bounds.max_entry_bytes:
        raise LimitError("max_entry_bytes", bounds.max_entry_bytes, what)
    return content
