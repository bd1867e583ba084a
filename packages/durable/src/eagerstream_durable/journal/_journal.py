"""`Journal`: runs in a SQLite file or in a PostgreSQL database."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, get_args

import anyio

from eagerstream import JSONObject, validate_history
from eagerstream._support.checks import check_choice, check_count, check_positive, check_seconds
from eagerstream.calls import RunStatus
from eagerstream.errors import JournalError, RunNotFoundError, RunOwnedError, UsageError
from eagerstream.loop import RunLog, When
from eagerstream.tools import Decision

from . import _sql as sql
from ._contents import Contents
from ._database import Database
from ._jobs import LONGEST_LEASE_S, Begin, Bounds, Claim, Create, Delete, Held, Leave, Owned, Single, Undo
from ._log import Log, Parts, bounded, checked_turn
from ._reading import Entries, next_message
from ._seals import Seal, sealed_entry, stored_inbox
from ._sqlite import SQLite
from ._summaries import RunSummary, summaries
from ._threads import Reader, Writer
from ._view import RunView, view_of

T = TypeVar("T")

_MAX_ID_CHARS: Final = 255
_LARGEST_ENTRY_BYTES: Final = 512 * 1024 * 1024  # PostgreSQL and SQLite accept about 1 GB in a row
_LOOKS: Final = 8  # at an owner, in each lease


class Journal:
    """A journal of runs. It implements `eagerstream.loop.RunJournal`.

    It opens the database when it is first used. All runs of a process share one journal: everything that they write at
    the same time is one transaction, in a thread of the journal. It serves any number of event loops, asyncio and trio.
    Leaving the `async with` block waits for the entries that are queued, and closes the database; `aclose` does the
    same. A program that ends without either loses nothing that was awaited.

    Other processes may use the same journal. A run has one owner at a time. The owner shows that it is alive by a beat
    in each quarter of its lease, from the thread, so that a busy event loop does not lose the run. Another process may
    own the run if it has seen no beat for the time of a lease, by its own clock.

    Args:
        where: Path of a SQLite file, which is created if it is missing, readable for its owner only. It is an error if
            another user owns it, may write it, or may replace it in its folder. SQLite files belong on a local disk:
            network drives have no reliable locks. Or the URL of a PostgreSQL database, `postgresql://user@host/name`,
            whose tables `eagerstream_...` are created; it needs the extra `postgres`.
        key: Encrypts entries and messages with AES-256-GCM: 32 random bytes, or the same in URL-safe Base64. Of a
            sequence of keys, the first encrypts and all decrypt. The journal must be new, or encrypted with one of
            them. It needs the extra `encryption`. Run ids, statuses and summaries are not encrypted.
        lease_s: Seconds without a sign of life after which another process may own a run of this one, at most 86,400.
        create: If false, a SQLite file that is missing or is no journal is an error.
        max_entry_bytes: Maximum size of an entry as JSON, and of all messages in the inbox of a run.
        max_run_bytes: Maximum size of the entries of a run.
        max_inbox_messages: Maximum number of messages in the inbox of a run.
        retry_for_s: Seconds to retry while the file is locked by another process, or while the connection is lost.

    Raises:
        UsageError: An argument is unusable.
        MissingExtraError: A package is not installed.
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        *,
        key: bytes | str | Sequence[bytes | str] | None = None,
        lease_s: float = 30.0,
        create: bool = True,
        max_entry_bytes: int = 64 * 1024 * 1024,
        max_run_bytes: int = 1024 * 1024 * 1024,
        max_inbox_messages: int = 1_000,
        retry_for_s: float = 60.0,
    ) -> None:
        check_positive("lease_s", lease_s)
        if lease_s > LONGEST_LEASE_S:
            raise UsageError(f"lease_s: at most {LONGEST_LEASE_S:,}")
        if not isinstance(create, bool):
            raise UsageError(f"create must be True or False, not {create!r:.80}")
        check_seconds("retry_for_s", retry_for_s)
        check_count("max_entry_bytes", max_entry_bytes)
        check_count("max_run_bytes", max_run_bytes)
        check_count("max_inbox_messages", max_inbox_messages)
        if max_entry_bytes > _LARGEST_ENTRY_BYTES:
            raise UsageError(f"max_entry_bytes: at most {_LARGEST_ENTRY_BYTES:,}")
        given: object = where
        text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
        if not isinstance(text, str) or text in ("", ":memory:") or "\0" in text:
            raise UsageError("where: must be the path of a file, or a URL that starts with postgresql://")
        scheme, is_url, _ = text.partition("://")
        written: Database
        read: Database
        if not is_url:
            self._name = text
            path = Path(text).absolute()
            written = file = SQLite(path, create=create)
            read = SQLite(path, beside=file)
        elif scheme in ("postgresql", "postgres"):
            from ._postgres import Postgres, name_of

            self._name = name_of(text)  # without a password
            written, read = Postgres(text, lease_s), Postgres(text, lease_s)
        else:
            raise UsageError("where: of all URLs, only postgresql://... names a journal; give a SQLite file as a path")
        writer, reader = Writer(written, retry_for_s), Reader(read, retry_for_s)
        bounds = Bounds(max_entry_bytes, max_run_bytes, max_inbox_messages)
        self._parts = Parts(writer, reader, Contents(key), bounds, lease_s)
        self._logs: weakref.WeakValueDictionary[str, Log] = weakref.WeakValueDictionary()
        self._is_prepared = False
        self._ends = weakref.finalize(self._parts, _close, writer, reader)
        self._ends.atexit = False  # the writer does it itself

    def __repr__(self) -> str:
        return f"Journal({self._name!r})"

    async def __aenter__(self) -> Self:
        await self._prepare()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait for all entries that are queued, and close the database. Runs that are not released keep their lease.

        If it is cancelled, the entries are written all the same.
        """
        try:
            self._parts.reader.close()
            await self._parts.reader.closed  # two connections that close at once would both leave the WAL to the other
        finally:
            self._ends()
        await self._parts.writer.closed

    # --- for runs -----------------------------------------------------------------------------------------------------

    async def create(self, run_id: str, entry: JSONObject) -> RunLog:
        """Create a run with its first entry, and own it. If it is cancelled, no run remains.

        Raises:
            RunExistsError: There is such a run.
            JournalError: It cannot be written.
            LimitError: The entry is larger than `max_entry_bytes`.
            UsageError: The id or the entry is unusable.
        """
        _check_id(run_id)
        turn = checked_turn(entry)
        content = bounded(entry, f"an entry of run {run_id!r}", self._parts.bounds)
        await self._prepare()
        contents = self._parts.contents
        stored = sealed_entry(contents, run_id, content, Seal())
        seal = Seal().with_entry(stored).settled()
        seals = seal.stored(contents, run_id), stored_inbox(contents, run_id, 1)
        owned = await self._ownership(Create(run_id, turn, stored, seals, self._parts.lease_s))
        log = self._logs[run_id] = Log(self._parts, owned)
        log.load(Entries([entry], seal, len(content), len(content)))
        return log

    async def open(self, run_id: str) -> RunLog:
        """Own an existing run, if no living process does. If it is cancelled, the run has no owner.

        If an owner holds it, wait for at most the length of its lease to see whether the owner is alive.

        Raises:
            RunNotFoundError: There is no such run.
            RunOwnedError: Another owner has it, and lives; it may be in this process.
            JournalError: The run cannot be read, for example with this key.
        """
        job, owned = await self._claimed(run_id)
        log = Log(self._parts, owned)  # it beats from now on, however long reading takes
        try:
            log.load(await self._parts.reader.read(self._parts.entries_of(run_id)))
        except BaseException:
            self._undo(job)
            raise
        self._logs[run_id] = log
        return log

    async def _claimed(self, run_id: str) -> tuple[Claim, Owned]:
        _check_id(run_id)
        await self._prepare()
        job = Claim(run_id, self._parts.lease_s)
        held = await self._ownership(job)
        if isinstance(held, Owned):
            return job, held
        own = self._logs.get(run_id)
        if (own is not None and own.is_owner) or await self._is_alive(run_id, held):
            raise RunOwnedError("its owner is alive", run_id=run_id)
        job = Claim(run_id, self._parts.lease_s, held.seen)
        taken = await self._ownership(job)
        if isinstance(taken, Held):
            raise RunOwnedError("another owner has just taken it", run_id=run_id)
        return job, taken

    async def _is_alive(self, run_id: str, held: Held) -> bool:
        """Watch an owner for the time of its lease, by the clock of this process, or until it gives the run up."""
        ends_s = time.monotonic() + held.lease_s
        while (left_s := ends_s - time.monotonic()) > 0:
            await anyio.sleep(min(left_s, held.lease_s / _LOOKS))
            rows = await self._parts.reader.read(lambda database: database.read(sql.OWNER, (run_id,)))
            if not rows or rows[0][2] is None:
                return False
            if tuple(rows[0][:2]) != held.seen:
                return True
        return False

    async def _ownership(self, job: Create | Claim) -> Any:
        self._parts.writer.put(job)
        try:
            return await job.receipt
        except BaseException:
            self._undo(job)
            raise

    def _undo(self, *jobs: Create | Claim) -> None:
        try:
            for job in jobs:
                self._parts.writer.put(Undo(job))
        except JournalError:
            pass  # closed: the lease ends by itself

    # --- for tools and people -----------------------------------------------------------------------------------------

    async def runs(self, status: str | Sequence[str] = (), *, limit: int = 1_000) -> list[RunSummary]:
        """Return summaries of runs, the last changed one first. Cancelling it loses nothing.

        Args:
            status: Only runs with this status, or with one of these. All if empty.
            limit: Maximum number of runs.

        Raises:
            JournalError: The journal cannot be read.
            UsageError: There is no such status, or the limit is no positive number.
        """
        check_count("limit", limit)
        given: object = status
        is_one = isinstance(given, str) or not isinstance(given, Iterable)
        statuses = [status] if is_one else [*status]
        for each in statuses:
            check_choice("status", each, RunStatus)
        query = sql.list_runs(len(statuses))
        return await self._read(lambda database: summaries(database.read(query, (*statuses, min(limit, sys.maxsize)))))

    async def summary(self, run_id: str) -> RunSummary:
        """Return the summary of a run. Cancelling it loses nothing.

        Raises:
            RunNotFoundError: There is no such run.
            JournalError: The journal cannot be read.
        """
        found = await self._read(lambda database: summaries(database.read(sql.SUMMARY, (run_id,))))
        if not found:
            raise RunNotFoundError("there is no such run", run_id=run_id)
        return found[0]

    async def read(self, run_id: str) -> list[JSONObject]:
        """Return the entries of a run, in order, without owning it. Cancelling it loses nothing.

        Raises:
            RunNotFoundError: There is no such run.
            JournalError: The run cannot be read, for example with this key.
        """
        return (await self._read(self._parts.entries_of(run_id))).entries

    async def view(self, run_id: str) -> RunView:
        """Return the history and the open calls of a run, without owning it. Cancelling it loses nothing.

        Raises:
            RunNotFoundError: There is no such run.
            JournalError: The run cannot be read, for example with this key.
        """
        messages = await self.messages(run_id)  # before the entries, into which a run under way moves them
        return view_of(await self.summary(run_id), await self.read(run_id), messages)

    async def messages(self, run_id: str, after: int = 0) -> list[tuple[int, JSONObject]]:
        """Return the messages in the inbox of a run, with their numbers. Cancelling it loses nothing.

        Raises:
            JournalError: They cannot be read, for example with this key.
        """
        return await self._read(self._parts.inbox_of(run_id, after))

    async def leave(self, run_id: str, message: JSONObject) -> int:
        """Leave a message for the owner of a run, or for the next one. Return its number, which is at least 1.

        It is durable when this returns. Cancelling it only stops the wait.

        Raises:
            RunNotFoundError: There is no such run.
            LimitError: The inbox is full.
            JournalError: It cannot be written.
            UsageError: The message has no JSON form.
        """
        _check_id(run_id)
        content = bounded(message, f"a message for run {run_id!r}", self._parts.bounds)
        contents = self._parts.contents
        while True:
            number, seal = await self._read(lambda database: next_message(database, contents, run_id))
            stored = contents.sealed(content, "message", run_id, number)
            seals = seal, stored_inbox(contents, run_id, number + 1)
            if await self._do(Leave(run_id, number, stored, seals, self._parts.bounds)):
                return number

    async def say(self, run_id: str, message: str | Mapping[str, Any], when: When = "when_idle") -> int:
        """Say something to the model of a run, from any process. Return the number of the message in the inbox.

        The run takes it within seconds if it is active. Otherwise the process takes it that resumes the run; for a
        worker (`work`), the message makes the run due. A run that has ended continues with the message, unless the
        model refused or the run has no turns left. It is durable when this returns. Cancelling it only stops the wait.

        Args:
            run_id: The run.
            message: A text, or a message with the role `user`.
            when: See `When`. A run that ends by itself never drops a message with `"when_idle"` (default).

        Raises:
            UsageError: The message is not one of the user, or the API would refuse it.
            RunNotFoundError, LimitError, JournalError: As for `leave`.
        """
        check_choice("when", when, get_args(When))
        said: Any = {"role": "user", "content": message} if isinstance(message, str) else message
        if not isinstance(said, Mapping) or said.get("role") != "user":
            raise UsageError("a message to a run is a text, or a message with the role 'user'")
        if faults := validate_history([said := dict(said)], first_party=True):
            raise UsageError(f"the API would refuse this message: {faults[0]}")
        return await self.leave(run_id, {"kind": "say", "message": said, "when": when})

    async def decide(self, run_id: str, call_id: str, decision: Decision) -> int:
        """Decide about a call that waits for approval (`ask_elsewhere`). Return the number of the message in the inbox.

        The first decision that the run takes counts for the call. `approvals` of the summary and of `RunView` have the
        calls that wait. It is durable when this returns. Cancelling it only stops the wait.

        Args:
            run_id: The run.
            call_id: The id of the call.
            decision: True approves it. False or a text denies it; the model gets the text.

        Raises:
            UsageError: The decision is neither a boolean nor a text, or the id is none. Or no owner has the run, and no
                such call waits in it. If an owner has it, the call may be about to ask, so the decision is taken.
            RunNotFoundError, LimitError, JournalError: As for `leave`. `JournalError` also if the run cannot be read.
        """
        if not isinstance(decision, bool | str):
            raise UsageError("decision: must be True, False or a text")
        given: object = call_id
        if not isinstance(given, str) or not given:
            raise UsageError("call_id: must be the id of a call")
        _check_id(run_id)
        summary = await self.summary(run_id)
        if summary.owner == "none" and not any(
            isinstance(each, Mapping) and each.get("call") == call_id for each in summary.approvals
        ):
            calls = (await self.view(run_id)).calls
            if not any(call.id == call_id and call.state in ("written", "asked", "decided") for call in calls):
                raise UsageError(f"run {run_id!r:.200}: this call does not wait for a decision; see `approvals`")
        return await self.leave(run_id, {"kind": "decision", "call": call_id, "decision": decision})

    async def cancel(self, run_id: str) -> int:
        """Cancel a run, from any process, as `Run.cancel` does. Return the number of the message in the inbox.

        An active run takes it within seconds. Otherwise, the process that resumes the run ends it before anything is
        sent. It does nothing to a run that has ended. Cancelling the call of this only stops the wait.

        Raises:
            RunNotFoundError, LimitError, JournalError: As for `leave`.
        """
        return await self.leave(run_id, {"kind": "cancel"})

    async def cancel_call(self, run_id: str, call_id: str, reason: str = "") -> int:
        """Cancel one call of a run, from any process, as `Run.cancel_call` does.

        An active run takes it within seconds. It does nothing if the call has ended by then, or if its turn has: with
        its process, too, since a call that was under way is not continued. Cancelling this only stops the wait.

        Args:
            run_id: The run.
            call_id: The id of the call, as the API gave it.
            reason: Told to the model, in the result of the call.

        Returns:
            The number of the message in the inbox.

        Raises:
            UsageError: The id or the reason is no text.
            RunNotFoundError, LimitError, JournalError: As for `leave`.
        """
        given: object = call_id
        if not isinstance(given, str) or not given:
            raise UsageError("call_id: must be the id of a call")
        if not isinstance(reason, str):
            raise UsageError("reason: must be a text")
        return await self.leave(run_id, {"kind": "cancel_call", "call": call_id, "reason": reason})

    async def due(self, *, limit: int = 1_000) -> list[RunSummary]:
        """Return summaries of the runs that a worker should continue (`is_due`), the longest unchanged one first.

        Cancelling it loses nothing.

        Raises:
            JournalError: The journal cannot be read.
        """
        check_count("limit", limit)
        return await self._read(lambda database: summaries(database.read(sql.DUE, (min(limit, sys.maxsize),))))

    async def delete(self, run_id: str) -> None:
        """Delete a run. If it has an owner, wait as `open` does. If it is cancelled, the run may or may not remain.

        Its contents are overwritten in a SQLite file, and removed from its WAL; if another process is reading at that
        moment, at the next write. A PostgreSQL server keeps them until it vacuums the tables.

        Raises:
            RunNotFoundError: There is no such run.
            RunOwnedError: An owner has it, and lives.
            JournalError: It cannot be written.
        """
        job, owned = await self._claimed(run_id)
        try:
            await self._do(Delete(owned))
        except BaseException:
            self._undo(job)  # if the run is still there
            raise

    async def prune(self, *, ended_for_s: float) -> int:
        """Delete the runs that ended so long ago, by the clock of the database. Return their number.

        The clock of a SQLite file is that of this machine. What `delete` says about copies holds here, too. If it is
        cancelled, a part of them is deleted.

        Raises:
            JournalError: It cannot be written.
        """
        check_seconds("ended_for_s", ended_for_s)
        deleted = 0
        while rows := await self._read(lambda database: database.read(sql.ENDED, (ended_for_s,))):
            changed_s: dict[str, float] = dict(rows)
            claims = [Claim(run_id, self._parts.lease_s) for run_id in changed_s]
            deletes: list[Delete] = []
            try:
                for claim in claims:
                    self._parts.writer.put(claim)
                for claim in claims:
                    owned = await claim.receipt
                    if isinstance(owned, Owned) and owned.changed_s == changed_s[owned.run_id]:
                        deletes.append(Delete(owned))
                for delete in deletes:
                    self._parts.writer.put(delete)
                for delete in deletes:
                    await delete.receipt
            finally:
                self._undo(*claims)
            if not deletes:
                break
            deleted += len(deletes)
        return deleted

    # --- the rest -----------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        if not self._is_prepared:
            job = Begin(self._parts.contents)
            self._parts.writer.put(job)
            await job.receipt
            self._is_prepared = True

    async def _do(self, job: Single[T]) -> T:
        await self._prepare()
        self._parts.writer.put(job)
        return await job.receipt

    async def _read(self, query: Callable[[Database], T]) -> T:
        await self._prepare()
        return await self._parts.reader.read(query)


def _close(writer: Writer, reader: Reader) -> None:
    writer.close()
    reader.close()


def _check_id(run_id: str) -> None:
    given: object = run_id
    if not isinstance(given, str) or not 0 < len(given) <= _MAX_ID_CHARS or not given.isprintable():
        raise UsageError(f"run_id: must be 1 to {_MAX_ID_CHARS} printable characters")
