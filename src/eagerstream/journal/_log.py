"""`Log`: the journal of one run, in the hands of its owner."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import EagerStreamError, JournalError, LimitError, OwnershipLostError, UsageError
from ..wire import JSONObject
from . import _sql as sql
from ._contents import Contents, decoded, encoded
from ._database import Database, Rows, Statement
from ._jobs import Bounds, Owned, ownership_lost
from ._receipts import Receipt, Wakes, again
from ._summaries import encoded_summary
from ._threads import Beating, Reader, Writer, awake_s

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


@dataclass(slots=True)
class _Write:
    """Entries that were added by one call."""

    rows: list[tuple[int, int, bytes]]  # the number, the turn, the content
    receipt: Receipt[None] = field(default_factory=Receipt[None])
    settles: int | None = None  # the turn
    read_to: int | None = None  # the number of the last message that is in the entries
    release: tuple[str | None, str] | None = None  # the status and the summary; without a status, neither changes


class Log(Beating):
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
        self._sizes: dict[int, int] = defaultdict(int)  # by turn
        self._size_bytes = 0
        self._next_seq = self._written_seq = self._writing_to = owned.next_seq
        self._confirmed_s = owned.begun_s
        parts.writer.keep_alive(self)

    def __repr__(self) -> str:
        return f"<Log of run {self.run_id!r}, fence {self.fence}>"

    def load(self, entries: Sequence[JSONObject], sizes: Mapping[int, int]) -> None:
        """Take the entries that are there, and their bytes in each turn. Call it once, before anything is added."""
        with self._lock:
            self.entries = entries
            self._sizes.update(sizes)
            self._size_bytes = sum(sizes.values())

    # --- for the owner ------------------------------------------------------------------------------------------------

    def append(self, *entries: JSONObject) -> Awaitable[None]:
        """See `RunLog`."""
        return self._add(entries)

    def settle(self, entry: JSONObject) -> Awaitable[None]:
        """See `RunLog`."""
        return self._add([entry], settles=checked_turn(entry))

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
        return await self._parts.reader.read(
            lambda database: read_inbox(database, self._parts.contents, self.run_id, after)
        )

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

    def _add(self, entries: Sequence[JSONObject], settles: int | None = None) -> Receipt[None]:
        bounds = self._parts.bounds
        what = f"an entry of run {self.run_id!r}"
        contents = [(checked_turn(entry), bounded(entry, what, bounds)) for entry in entries]
        with self._lock:
            self._check_usable()
            freed = 0 if settles is None else self._sizes[settles]
            size = self._size_bytes + sum(len(content) for _, content in contents) - freed
            if size > bounds.max_run_bytes:
                raise LimitError("max_run_bytes", bounds.max_run_bytes, f"the journal of run {self.run_id!r}")
            rows = [(seq, turn, content) for seq, (turn, content) in enumerate(contents, self._next_seq)]
            write = _Write(rows, settles=settles, read_to=_last_read(entries))
            self._queue(write)
            self._next_seq += len(rows)
            if settles is not None:
                self._sizes[settles] = 0
            for turn, content in contents:
                self._sizes[turn] += len(content)
            self._size_bytes = size
        return write.receipt

    @property
    def is_owner(self) -> bool:
        """False if it is known that this process does not own the run any more."""
        return self._error is None and not self._is_released

    # --- for the writer -----------------------------------------------------------------------------------------------

    def beats_at_s(self) -> float:
        """See `Beating`."""
        if self._error is not None or self._is_released:
            return math.inf
        return self._confirmed_s + self._parts.lease_s / _BEATS

    def statements(self) -> list[Statement]:
        """See `Job`."""
        with self._lock:
            self._writing, self._added = self._added, []
            next_seq, size_bytes = self._next_seq, self._size_bytes
        guard = self._owned.guard
        done = (*guard, next_seq)
        if any(write.rows for write in self._writing):
            statements: list[Statement] = [(sql.ADVANCE, (next_seq, size_bytes, *guard, self._written_seq))]
        else:
            statements = [(sql.BEAT, done)]
        for write in self._writing:
            statements += self._statements_of(write, done)
        self._writing_to = next_seq
        return [*statements, (sql.PROGRESS, (self.run_id,))]

    def _statements_of(self, write: _Write, done: Sequence[object]) -> Iterator[Statement]:
        run_id = self.run_id
        if write.settles is not None:
            yield sql.SETTLE, (run_id, write.settles, write.rows[0][0], *done)
        if write.read_to is not None:
            yield sql.DROP_MESSAGES, (run_id, write.read_to, *done)
        for seq, turn, content in write.rows:
            sealed = self._parts.contents.sealed(content, "entry", run_id, seq, turn)
            yield sql.ADD_ENTRY, (run_id, seq, turn, sealed, *done)
        if write.release is not None:
            status, summary = write.release
            if status is None:
                yield sql.RELEASE_UNCHANGED, done
            else:
                yield sql.RELEASE, (status, summary, *done)

    def finish(self, rows: list[Rows], begun_s: float, wakes: Wakes) -> None:
        """See `Job`."""
        if rows[-1] != [(self.fence, self._writing_to)]:
            self.fail(ownership_lost(self.run_id), wakes)
            return
        self._written_seq = self._writing_to
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


def _last_read(entries: Sequence[JSONObject]) -> int | None:
    numbers = [number for entry in entries if type(number := entry.get("inbox")) is int]
    return max(numbers, default=None)


def read_entries(database: Database, contents: Contents, run_id: str) -> tuple[list[JSONObject], dict[int, int]]:
    """Return the entries of a run in order, and their bytes in each turn.

    Raises:
        JournalError: They cannot be read with this key, or are damaged.
    """
    entries: list[JSONObject] = []
    sizes: dict[int, int] = defaultdict(int)
    for seq, turn, stored in database.read(sql.ENTRIES, (run_id,)):
        content = contents.opened(stored, "entry", run_id, seq, turn)
        sizes[turn] += len(content)
        entries.append(decoded(content))
    return entries, sizes


def read_inbox(database: Database, contents: Contents, run_id: str, after: int) -> list[tuple[int, JSONObject]]:
    """Return the messages of a run with numbers above `after`, in order.

    Raises:
        JournalError: They cannot be read with this key, or are damaged.
    """
    rows = database.read(sql.MESSAGES, (run_id, after))
    return [(number, decoded(contents.opened(stored, "message", run_id, number))) for number, stored in rows]
