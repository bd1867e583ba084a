"""`EngineLog`: the log of a run whose entries a workflow engine keeps."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final

from eagerstream import JSONObject
from eagerstream._support.redaction import printable, redact
from eagerstream.errors import JournalError, LimitError, UsageError

_SETTLED: Final = ("begin", "turn", "end")
"""The kinds of the first entry, and of those that take the place of others."""

Commit = Callable[[JSONObject], Awaitable[None]]


class _Write(Awaitable[None]):
    """Entries on their way to the engine; awaiting waits until they are durable."""

    def __init__(self, added: JSONObject) -> None:
        self.added = added
        self._over = asyncio.Event()
        self._error: JournalError | None = None

    def end(self, error: JournalError | None = None) -> None:
        self._error = error
        self._over.set()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        await self._over.wait()
        if self._error is not None:
            raise copy.copy(self._error)


class EngineLog:
    """A `RunLog` on a workflow engine. Everything that is added during one commit is committed together, by the next.

    Args:
        fence: The number of this ownership.
        entries: The entries that the engine has.
        commit: Makes a record durable, if this process still owns the run; see `applied`. None to drop the records: the
            engine has them already. Raises a `JournalError`.
        inbox: Returns the messages with numbers above the given one.
        max_run_bytes: Maximum size of everything that is added, as JSON.
    """

    def __init__(
        self,
        run_id: str,
        fence: int,
        entries: Sequence[JSONObject],
        commit: Commit | None,
        inbox: Callable[[int], Awaitable[list[tuple[int, JSONObject]]]],
        *,
        max_run_bytes: int,
    ) -> None:
        self.run_id = run_id
        self.fence = fence
        self.entries = entries
        self._commit = commit
        self._read_inbox = inbox
        self._max_run_bytes = max_run_bytes
        self._size_bytes = sum(map(_size_bytes, entries))
        self._queued: list[_Write] = []
        self._error: JournalError | None = None
        self._writer: asyncio.Task[None] | None = None
        # A tool may have changed the context in which the engine finds its workflow.
        self._context = contextvars.copy_context()

    def append(self, *entries: JSONObject) -> Awaitable[None]:
        """See `RunLog`."""
        return self._add({"entries": [*entries]})

    def settle(self, entry: JSONObject) -> Awaitable[None]:
        """See `RunLog`."""
        return self._add({"entries": [entry], "settles": True})

    def check(self) -> None:
        """See `RunLog`. No clock is needed: a commit fails if another owner has opened the run, who sees all before."""
        if self._error is not None:
            raise copy.copy(self._error)

    async def inbox(self, after: int) -> list[tuple[int, JSONObject]]:
        """See `RunLog`."""
        return await self._read_inbox(after)

    async def release(self, status: str | None, summary: JSONObject) -> None:
        """See `RunLog`."""
        if status is not None:
            await self._add({"release": status, "summary": summary})

    def _add(self, added: JSONObject) -> Awaitable[None]:
        self.check()
        entries = [
            {**entry, "notes": redact(entry["notes"])} if entry.get("notes") else entry
            for entry in added.get("entries", [])
        ]
        masked = {**added, "entries": entries}
        write = _Write(masked)
        if self._commit is None:
            write.end()
            return write
        size_bytes = self._size_bytes + _size_bytes(masked)
        if size_bytes > self._max_run_bytes:
            raise LimitError("max_run_bytes", self._max_run_bytes, f"the journal of run {self.run_id!r}")
        self._size_bytes = size_bytes
        self._queued.append(write)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(self._commit), context=self._context)
        return write

    async def _write(self, commit: Commit) -> None:
        while self._queued:
            writes, self._queued = self._queued, []
            try:
                await commit({"run_id": self.run_id, "writes": [write.added for write in writes]})
            except JournalError as error:
                self._error = error
            except asyncio.CancelledError:
                self._error = JournalError("the event loop ended", run_id=self.run_id)
            if self._error is not None:
                writes, self._queued = [*writes, *self._queued], []
            for write in writes:
                write.end(self._error)


def applied(entries: Sequence[JSONObject], record: Mapping[str, Any]) -> list[JSONObject]:
    """Return the entries after a record: its entries are added, and a settled turn takes the place of its steps."""
    after = [*entries]
    for write in record["writes"]:
        if "settles" in write:
            while after and after[-1]["kind"] not in _SETTLED:
                del after[-1]
        after += write["entries"]
    return after


def released(record: Mapping[str, Any]) -> str | None:
    """Return the status with which a record gives the run up; None if it does not."""
    statuses = [write["release"] for write in record["writes"] if "release" in write]
    return statuses[-1] if statuses else None


def summary_of(record: Mapping[str, Any]) -> JSONObject:
    """Return the facts for lists of a record that gives the run up."""
    summary: JSONObject = next(write["summary"] for write in record["writes"] if "release" in write)
    return summary


def name_of(record: Mapping[str, Any]) -> str:
    """Return a name of a record for people: the kinds of its entries, with the names of the tools of calls."""
    names = [_name(entry) for write in record["writes"] for entry in write["entries"]]
    names += ["release" for write in record["writes"] if "release" in write]
    unique = [*dict.fromkeys(names)]
    return "+".join(unique[:3]) + ("+..." if len(unique) > 3 else "")


def _name(entry: Mapping[str, Any]) -> str:
    match entry:
        case {"kind": kind, "call": {"input": {"name": str(tool)}}}:  # a model may call a tool that is none
            return " ".join([kind, *printable(tool[:64]).split()])
        case _:
            return str(entry["kind"])


def _size_bytes(value: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"an entry of a journal has no JSON form: {type(error).__name__}") from error
