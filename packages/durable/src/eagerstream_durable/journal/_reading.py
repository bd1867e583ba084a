"""Reads the entries and the messages of a run, and checks that they are those that were written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from eagerstream import JSONObject
from eagerstream.errors import JournalError, LimitError, RunNotFoundError

from . import _sql as sql
from ._contents import Contents, decoded
from ._database import Database
from ._jobs import Bounds
from ._seals import Seal, is_token_of, opened_entry, read_inbox_seal

_CHANGED: Final = "the journal is damaged: entries of the run were changed, removed, added or moved"
_CHANGED_INBOX: Final = "the journal is damaged: messages in the inbox of the run were changed, removed, added or moved"


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a run, in order. `settled_bytes` is the size of those up to the settled one."""

    entries: list[JSONObject]
    seal: Seal
    size_bytes: int
    settled_bytes: int


def read_entries(database: Database, contents: Contents, bounds: Bounds, run_id: str) -> Entries:
    """Return the entries of a run.

    Raises:
        RunNotFoundError: There is no such run.
        JournalError: They cannot be read with this key, or are not those that were written.
        LimitError: They are larger than `max_run_bytes`.
    """
    _check_sizes(database, bounds, run_id)
    rows = database.read(sql.ENTRIES, (run_id,))
    if not rows:
        raise RunNotFoundError("there is no such run", run_id=run_id)
    seal = Seal.read(contents, run_id, rows[0][0])
    entries: list[JSONObject] = []
    found = Seal(taken=seal.taken)
    size_bytes = settled_bytes = 0
    for _, seq, turn, stored in rows:
        # The steps of a turn leave a gap in the numbers when the turn takes their place.
        if type(seq) is not int or seq < found.next_seq:
            raise JournalError(_CHANGED, run_id=run_id)
        found = found.up_to(seq)
        content = opened_entry(contents, run_id, stored, found)
        found = found.with_entry(stored)
        size_bytes += len(content)
        if seq == seal.settled_seq:
            found, settled_bytes = found.settled(), size_bytes
        entry = decoded(content)
        if not isinstance(entry.get("kind"), str) or type(turn) is not int or entry.get("turn") != turn:
            raise JournalError("the journal is damaged: an entry has no kind, or another turn", run_id=run_id)
        entries.append(entry)
    if found != seal:
        raise JournalError(_CHANGED, run_id=run_id)
    return Entries(entries, seal, size_bytes, settled_bytes)


def read_inbox(
    database: Database, contents: Contents, bounds: Bounds, run_id: str, after: int
) -> list[tuple[int, JSONObject]]:
    """Return the messages of a run with numbers above `after`, in order; nothing if there is no such run.

    Raises:
        JournalError: They cannot be read with this key, or are not those that were left.
        LimitError: They are larger than `max_entry_bytes`.
    """
    _check_sizes(database, bounds, run_id)
    rows = database.read(sql.MESSAGES, (after, run_id))
    if not rows:
        return []
    entries_seal, inbox_seal, *_ = rows[0]
    first = max(after, Seal.read(contents, run_id, entries_seal).taken) + 1
    left = [(number, token, stored) for _, _, number, token, stored in rows if number is not None]
    if [number for number, _, _ in left] != [*range(first, read_inbox_seal(contents, run_id, inbox_seal))]:
        raise JournalError(_CHANGED_INBOX, run_id=run_id)
    messages: list[tuple[int, JSONObject]] = []
    for number, token, stored in left:
        content = contents.opened(stored, "message", run_id, number)
        if not is_token_of(token, number, stored):
            raise JournalError(_CHANGED_INBOX, run_id=run_id)
        messages.append((number, decoded(content)))
    return messages


def next_message(database: Database, contents: Contents, run_id: str) -> tuple[int, bytes]:
    """Return the number that the next message of a run gets, and the bytes that say so.

    Raises:
        RunNotFoundError: There is no such run.
        JournalError: They do not agree.
    """
    rows: Any = database.read(sql.INBOX, (run_id, run_id))
    if not rows:
        raise RunNotFoundError("there is no such run", run_id=run_id)
    number, seal, _ = rows[0]
    if read_inbox_seal(contents, run_id, seal) != number:
        raise JournalError(_CHANGED_INBOX, run_id=run_id)
    return number, seal


def _check_sizes(database: Database, bounds: Bounds, run_id: str) -> None:
    """Check sizes before anything is read. Somebody else may have written more than this process would accept."""
    ((entries, messages),) = database.read(sql.SIZES, (run_id, run_id))
    if entries > bounds.max_run_bytes:
        raise LimitError("max_run_bytes", bounds.max_run_bytes, f"the journal of run {run_id!r}")
    if messages > bounds.max_entry_bytes:
        raise LimitError("max_entry_bytes", bounds.max_entry_bytes, f"the inbox of run {run_id!r}")
