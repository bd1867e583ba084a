"""The changes of a run that are not entries: create it, own it, release it, delete it, leave it a message."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from uuid import uuid4

from eagerstream.errors import (
    EagerStreamError,
    JournalError,
    LimitError,
    OwnershipLostError,
    RunExistsError,
    RunNotFoundError,
)

from . import _sql as sql
from ._contents import Contents
from ._database import Rows, Statement
from ._receipts import Receipt, Wakes
from ._seals import message_token
from ._threads import Job

T = TypeVar("T")

LONGEST_LEASE_S: Final = 86_400
"""So long do others wait for the run of a dead owner."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a journal. See `Journal`."""

    max_entry_bytes: int
    max_run_bytes: int
    max_inbox_messages: int


@dataclass(frozen=True, slots=True)
class Owned:
    """The ownership of a run.

    Attributes:
        run_id: The run.
        fence: Its number, which is larger than those of all earlier owners.
        token: Its unique name, which also differs from that of an owner of a deleted run with the same id.
        next_seq: The number of the next entry.
        begun_s: The `awake_s` before it began.
        changed_s: The time of the last change before it, by the clock of the database.
    """

    run_id: str
    fence: int
    token: str
    next_seq: int
    begun_s: float
    changed_s: float = 0.0

    @property
    def guard(self) -> tuple[object, ...]:
        """The parameters of `GUARD` of the SQL."""
        return self.run_id, self.fence, self.token


@dataclass(frozen=True, slots=True)
class Held:
    """A run that has an owner.

    Attributes:
        seen: Its fence and its beat: if neither changes for the time of its lease, the owner is gone.
        lease_s: The lease.
    """

    seen: tuple[int, int]
    lease_s: float


class Single(Job, Generic[T]):
    """A job with one receipt.

    Attributes:
        receipt: Its result.
        begun_s: The `awake_s` before it was executed.
    """

    begun_s = 0.0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.receipt: Receipt[T] = Receipt()

    def finish(self, rows: list[Rows], begun_s: float, wakes: Wakes) -> None:
        """See `Job`."""
        self.begun_s = begun_s
        self.receipt.done(self.result(rows), wakes)

    def fail(self, error: EagerStreamError, wakes: Wakes) -> None:
        """See `Job`."""
        self.receipt.failed(error, wakes)

    @abstractmethod
    def result(self, rows: list[Rows]) -> T:
        """Return the result, or raise a `JournalError`."""


class Begin(Single[None]):
    """Compare the key with that of the journal, and give a new journal its key."""

    def __init__(self, contents: Contents) -> None:
        super().__init__("")
        self._contents = contents

    def statements(self) -> list[Statement]:
        """See `Job`."""
        return [(sql.SET_ENCRYPTION, (self._contents.check(),)), (sql.ENCRYPTION, ())]

    def result(self, rows: list[Rows]) -> None:
        """See `Single`."""
        self._contents.fit(rows[-1][0][0])


class Create(Single[Owned]):
    """Create a run with its first entry, and own it. The seals say which entries and which messages it has.

    Attributes:
        token: The name of the ownership, if there will be one.
    """

    def __init__(self, run_id: str, turn: int, content: bytes, seals: tuple[bytes, bytes], lease_s: float) -> None:
        super().__init__(run_id)
        self._turn = turn
        self._content = content
        self._seals = seals
        self._lease_s = lease_s
        self.token = uuid4().hex

    def statements(self) -> list[Statement]:
        """See `Job`."""
        run_id, token, content, (entries, inbox) = self.run_id, self.token, self._content, self._seals
        return [
            (sql.CREATE_RUN, (run_id, token, self._lease_s, entries, len(content), inbox)),
            (sql.FIRST_FENCE, (run_id, token)),
            (sql.CREATE_ENTRY, (run_id, self._turn, content, run_id, token)),
            (sql.OWNER, (run_id,)),
        ]

    def result(self, rows: list[Rows]) -> Owned:
        """See `Single`."""
        fence, _, owner, _, _ = rows[-1][0]
        if owner != self.token:
            raise RunExistsError("it exists already", run_id=self.run_id)
        return Owned(self.run_id, fence, self.token, 1, self.begun_s)


class Claim(Single[Owned | Held]):
    """Own a run if it was released, or if its owner has given no sign of life: its fence and beat are still as `seen`.

    Attributes:
        token: The name of the ownership, if there will be one.
    """

    def __init__(self, run_id: str, lease_s: float, seen: tuple[int, int] | None = None) -> None:
        super().__init__(run_id)
        self._lease_s = lease_s
        self._seen = seen or (-1, -1)
        self.token = uuid4().hex

    def statements(self) -> list[Statement]:
        """See `Job`."""
        return [
            (sql.CHANGED_S, (self.run_id,)),
            (sql.CLAIM, (self.token, self._lease_s, self.run_id, *self._seen)),
            (sql.OWNER, (self.run_id,)),
        ]

    def result(self, rows: list[Rows]) -> Owned | Held:
        """See `Single`."""
        if not rows[-1]:
            raise RunNotFoundError("there is no such run", run_id=self.run_id)
        fence, beat, owner, lease_s, next_seq = rows[-1][0]
        if owner != self.token:
            if not isinstance(lease_s, float) or not 0 < lease_s <= LONGEST_LEASE_S:
                raise JournalError("it is damaged: its lease has no length", run_id=self.run_id)
            return Held((fence, beat), lease_s)
        return Owned(self.run_id, fence, self.token, next_seq, self.begun_s, rows[0][0][0])


class Undo(Single[None]):
    """Give up the ownership that a job of the writer may have got before nobody waited for it any more."""

    def __init__(self, job: Create | Claim) -> None:
        super().__init__(job.run_id)
        self._owner = (job.run_id, job.token)
        self.forgets = isinstance(job, Create)

    def statements(self) -> list[Statement]:
        """See `Job`."""
        if not self.forgets:
            return [(sql.UNDO_CLAIM, self._owner)]
        entries, run = sql.UNDO_CREATE
        return [(entries, (self.run_id, *self._owner)), (run, self._owner)]

    def result(self, rows: list[Rows]) -> None:
        """See `Single`. If there was no such ownership, nothing happened."""


class Delete(Single[None]):
    """Delete a run that this process owns."""

    forgets = True

    def __init__(self, owned: Owned) -> None:
        super().__init__(owned.run_id)
        self._owned = owned

    def statements(self) -> list[Statement]:
        """See `Job`."""
        guard = self._owned.guard
        count, entries, messages, run = sql.DELETE
        return [
            (count, (self._owned.fence, self._owned.fence, *guard)),  # a later run with the id continues to count
            (entries, (self.run_id, *guard)),
            (messages, (self.run_id, *guard)),
            (run, guard),
        ]

    def result(self, rows: list[Rows]) -> None:
        """See `Single`. A run that somebody created since under the same id is another one."""


class Leave(Single[bool]):
    """Leave a message under a number, and return True. Return False if another message has the number.

    The number is chosen before, because the encrypted message contains it. The two seals say which number the next
    message gets: as they are, and after this message.
    """

    def __init__(self, run_id: str, number: int, content: bytes, seals: tuple[bytes, bytes], bounds: Bounds) -> None:
        super().__init__(run_id)
        self._number = number
        self._content = content
        self._before, self._after = seals
        self._max_messages = bounds.max_inbox_messages
        self._max_bytes = bounds.max_entry_bytes
        self._token = message_token(number, content)

    def statements(self) -> list[Statement]:
        """See `Job`."""
        run_id, number = self.run_id, self._number
        fits = (run_id, self._max_messages, run_id, self._max_bytes - len(self._content))
        return [
            (sql.ADD_MESSAGE, (run_id, number, self._token, self._content, run_id, number, self._before, *fits)),
            (sql.COUNT_MESSAGE, (self._after, run_id, number, run_id, number, self._token)),
            (sql.MESSAGE_NAME, (run_id, number)),
            (sql.INBOX, (run_id, run_id)),
        ]

    def result(self, rows: list[Rows]) -> bool:
        """See `Single`."""
        tokens, runs = rows[2:]
        if tokens == [(self._token,)]:
            return True
        if not runs:
            raise RunNotFoundError("there is no such run", run_id=self.run_id)
        _, seal, messages = runs[0]
        if seal != self._before:
            return False
        what = "the inbox of the run"
        if messages >= self._max_messages:
            raise LimitError("max_inbox_messages", self._max_messages, what)
        raise LimitError("max_entry_bytes", self._max_bytes, what)


def ownership_lost(run_id: str) -> OwnershipLostError:
    """Return the error of an owner whose run has another one now, or was deleted."""
    return OwnershipLostError("another process owns it now, or deleted it", run_id=run_id)
