"""`Publisher`: writes the log of a run into Redis, as one more watcher of the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, cast

from .._joined import time_of
from .._log import Batch, RunLog, WatcherDropped
from .._run_summary import RunSummary
from ._connection import Connection, cancel
from ._stored import WRITE_RUN, Entry, Head, Keys, Seal, entries_of

_logger = logging.getLogger("eagerstream")

_INTERVAL_S: Final = 0.05
"""Seconds that deltas wait for more, so that they share an entry."""


class _Superseded(Exception):
    """Another process has claimed the run."""


class Publisher:
    """Writes records until the log is closed, and the summary whenever it has changed.

    While Redis does not answer, it waits, and the log keeps what comes. If that is more than the log keeps, it goes on
    with a snapshot.

    The stream begins with a snapshot. When it has grown by `max_bytes` since the last one, another one is added, and
    what comes before the last but one is removed. So readers have time for all of it, and the size is bounded.
    """

    def __init__(
        self,
        log: RunLog,
        summary: Callable[[], RunSummary],
        *,
        connection: Connection,
        keys: Keys,
        seal: Seal,
        process: str,
        numbers: Iterator[int],
        keep_s: float,
        max_bytes: int,
    ) -> None:
        self.log = log
        self._summary = summary
        self._connection = connection
        self._seal = seal
        self._process = process
        self._numbers = numbers
        self._owner_key = keys.owner
        self._keep_ms = int(keep_s * 1000)
        self._max_bytes = max_bytes
        self._keys = [keys.run(log.id), keys.records(log.id), keys.runs, keys.changes]
        self._script = connection.client.register_script(WRITE_RUN)
        self._lock = asyncio.Lock()
        self._has_changed = asyncio.Event()
        self._has_written = asyncio.Event()
        self.has_ended: bool = False
        """True if it has written the end of the log."""
        self._is_superseded = False
        self._generation = 0  # unknown before the first record
        self._position = 0  # the number of the last record that was written
        self._number = 0  # of the last write
        self._head = b""  # as it was written last
        self._written: RunSummary | None = None  # the summary in the head
        self._snapshot_id = ""  # of the last snapshot's first entry
        self._snapshot_bytes = 0
        self._new_bytes = 0  # since the last snapshot

    async def catch_up(self) -> None:
        """Return when all records of now are written."""
        last = self.log.seq
        while self._position < last:
            self._has_written.clear()
            await self._has_written.wait()

    def touch(self) -> None:
        """Write the summary again if it has changed."""
        self._has_changed.set()

    async def run(self) -> None:
        """Write the log to its end. It returns earlier if another process claims the run."""
        summaries = asyncio.create_task(self._write_summaries())
        try:
            await self._write_log()
        except _Superseded:
            pass
        finally:
            await cancel(summaries)

    async def keep(self) -> None:
        """Keep the run from expiring. If Redis has lost it, write it again.

        Raises:
            ConnectionError: Redis does not answer.
        """
        if self._lock.locked() or not self._generation or self._is_superseded:
            return  # it is writing, which does the same
        run, records, runs, _ = self._keys
        async with self._lock:
            pipeline = self._connection.client.pipeline(transaction=False)
            pipeline.pexpire(run, self._keep_ms).pexpire(records, self._keep_ms).zscore(runs, self.log.id)
            pipeline.hmget(run, "owner", "number", "head")
            answers = await self._connection.do(partial(pipeline.execute, raise_on_error=False))
            facts = [self._process.encode(), b"%d" % self._number, self._head]
            if answers[:2] == [True, True] and isinstance(answers[2], float) and answers[3] == facts:
                return
            if isinstance(answers[3], list) and answers[3][0] not in (None, facts[0]) and await self._is_claimed("add"):
                self._is_superseded = True
                return
            with suppress(_Superseded):
                await self._connection.do(partial(self._connection.client.delete, run))
                await self._write_snapshot(self.log.snapshot(), "claim", self._position)
                if self.has_ended:
                    await self._write_end()

    async def _write_log(self) -> None:
        while True:
            try:
                async with self.log.watch(after=self._position, min_interval_s=_INTERVAL_S, merges=False) as watcher:
                    async for batch in watcher:
                        async with self._lock:
                            await self._write_batch(batch)
                break
            except WatcherDropped:
                self._position = 0
        async with self._lock:
            if self._generation:
                await self._write_end()
        self.has_ended = True

    async def _write_summaries(self) -> None:
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            with suppress(_Superseded):
                async with self._lock:
                    if self._generation and self._summary() != self._written:
                        await self._write([])

    async def _write_batch(self, batch: Batch) -> None:
        """Write the next records. The lock is held until the position is right again."""
        if batch.is_snapshot:
            await self._write_snapshot(batch, "claim", batch.seq)
        else:
            while await self._write(self._sealed(entries_of(batch, self._generation, self._position))) is None:
                await self._write_snapshot(self.log.snapshot(), "claim", self._position)
        self._position = batch.seq
        self._has_written.set()
        if self._new_bytes > max(self._max_bytes, 2 * self._snapshot_bytes):
            await self._write_snapshot(self.log.snapshot(), "add", batch.seq)

    async def _write_end(self) -> None:
        await self._write(self._sealed([Entry(self._generation, self._position, self._position, ends=True)]))

    async def _write_snapshot(self, snapshot: Batch, how: Literal["claim", "add"], position: int) -> None:
        """Write a snapshot, after which the entries from a position on follow. It may have some of them already."""
        self._generation = self._generation or _generation_of(self.log.ends[0])
        entries = self._sealed(entries_of(snapshot, self._generation, position))
        min_id = self._snapshot_id if how == "add" else ""
        while (written := await self._write(entries, how=how, min_id=min_id)) is None:
            if how == "add":
                return  # the next entries find it out
            await asyncio.sleep(_INTERVAL_S)
            entries = self._sealed(entries_of(snapshot, self._generation, position))
        self._snapshot_id = written
        self._snapshot_bytes = sum(map(len, entries))
        self._new_bytes = 0

    async def _write(
        self, entries: Sequence[bytes], *, how: Literal["claim", "add"] = "add", min_id: str = ""
    ) -> str | None:
        """Write entries, and the summary if it has changed. Return the id of the first one, if it is known.

        None: Redis has lost the run, so that it must be claimed again.

        Raises:
            _Superseded: Another process has claimed the run.
        """
        self._number = number = next(self._numbers)
        summary = self._summary()
        started = time_of(summary["started_at"] or "")
        head = b""
        if summary != self._written or how == "claim":
            text = Head(self._process, self._generation, number, summary).encode()
            head = self._seal.close(f"run:{self.log.id}", text)
        facts = [how, self._process, self._generation, number, self._keep_ms, head]
        place = [started.timestamp() if started is not None else 0.0, self.log.id, min_id]
        written = await self._connection.do_at_last(
            lambda: self._script(keys=self._keys, args=[*facts, *place, *entries])
        )
        if written == -1 and await self._is_claimed(how):
            self._is_superseded = True
            raise _Superseded
        if written in (0, -1):
            return None
        self._written = summary
        self._head = head or self._head
        self._new_bytes += sum(map(len, entries))
        return str(written, "ascii") if isinstance(written, bytes) else ""

    async def _is_claimed(self, how: Literal["claim", "add"]) -> bool:
        """Return True if another process has claimed the run. Otherwise, make way for a claim."""
        run = self._keys[0]
        client = self._connection.client
        sealed = await self._connection.do_at_last(partial(client.hget, run, "head"))
        try:
            head = Head.decode(self._seal.open(f"run:{self.log.id}", sealed or b""))
        except (ValueError, RecursionError):
            head = None  # of somebody without the secret
        if head is not None and head.owner != self._process and head.generation >= self._generation:
            if how == "add":
                return True
            # The clock of the other process is ahead. A run that was resumed is of this one all the same.
            is_alive = await self._connection.do_at_last(partial(client.exists, self._owner_key(head.owner)))
            first: Any = self.log.ends[0]
            if is_alive and "resumed_after" not in first:
                _logger.warning("a run is not relayed: a process that lives has one with the same id")
                return True
            self._generation = head.generation + 1
            return False
        await self._connection.do_at_last(partial(client.delete, run))
        return False

    def _sealed(self, entries: Iterable[Entry]) -> list[bytes]:
        return [self._seal.close(f"records:{self.log.id}", entry.encode()) for entry in entries]


def _generation_of(first: Any) -> int:
    started = time_of(first.get("started_at") or "")
    return int(started.timestamp() * 1000) if started is not None else cast("int", first["seq"])
