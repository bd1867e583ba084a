"""`Publisher`: writes the log of a run into Redis, as one more watcher of the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal

from .._joined import time_of
from .._log import Batch, RunLog, WatcherDropped
from .._run_summary import RunSummary
from ._connection import Connection, cancel
from ._stored import WRITE_RUN, Entry, Keys, Seal, entries_of

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
        keep_s: float,
        max_bytes: int,
    ) -> None:
        self.log = log
        self._summary = summary
        self._connection = connection
        self._seal = seal
        self._process = process
        self._keep_ms = int(keep_s * 1000)
        self._max_bytes = max_bytes
        self._keys = [keys.run(log.id), keys.records(log.id), keys.runs, keys.changes]
        self._script = connection.client.register_script(WRITE_RUN)
        self._lock = asyncio.Lock()
        self._has_changed = asyncio.Event()
        self._has_written = asyncio.Event()
        self.has_ended: bool = False
        """True if it has written the end of the log."""
        self._generation = 0  # unknown before the first record
        self._position = 0  # the number of the last record that was written
        self._head = b""  # as it was written last
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
        if self._lock.locked() or not self._generation:
            return  # it is writing, which does the same
        client = self._connection.client
        async with self._lock:
            run, records, runs, _ = self._keys
            kept = [await self._connection.do(partial(client.pexpire, key, self._keep_ms)) for key in (run, records)]
            if not all(kept) or await self._connection.do(partial(client.zscore, runs, self.log.id)) is None:
                with suppress(_Superseded):
                    await self._write_snapshot(self.log.snapshot(), "claim", self._position)

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
                await self._write([self._sealed(Entry(self._generation, self._position, self._position, ends=True))])
        self.has_ended = True

    async def _write_summaries(self) -> None:
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            with suppress(_Superseded):
                async with self._lock:
                    if self._generation and self._made_head()[0] != self._head:
                        await self._write([])

    async def _write_batch(self, batch: Batch) -> None:
        """Write the next records. The lock is held until the position is right again."""
        if batch.is_snapshot:
            await self._write_snapshot(batch, "claim", batch.seq)
        else:
            entries = list(map(self._sealed, entries_of(batch, self._generation, self._position)))
            while not await self._write(entries):
                await self._write_snapshot(self.log.snapshot(), "claim", self._position)
        self._position = batch.seq
        self._has_written.set()
        if self._new_bytes > max(self._max_bytes, 2 * self._snapshot_bytes):
            await self._write_snapshot(self.log.snapshot(), "add", batch.seq)

    async def _write_snapshot(self, snapshot: Batch, how: Literal["claim", "add"], position: int) -> None:
        """Write a snapshot, after which the entries from a position on follow. It may have some of them already."""
        first: Any = self.log.ends[0]
        self._generation = first["seq"]
        entries = [self._sealed(entry) for entry in entries_of(snapshot, self._generation, position)]
        written = await self._write(entries, how=how, min_id=self._snapshot_id if how == "add" else "")
        if written:
            self._snapshot_id = written
            self._snapshot_bytes = sum(map(len, entries))
            self._new_bytes = 0

    async def _write(
        self, entries: Sequence[bytes], *, how: Literal["claim", "add"] = "add", min_id: str = ""
    ) -> str | None:
        """Write entries, and the summary if it has changed. Return the id of the first one; None if Redis lost the run.

        Raises:
            _Superseded: Another process has claimed the run.
        """
        head, started_s = self._made_head()
        new_head = b"" if head == self._head and how == "add" else head
        arguments = [how, self._process, self._generation, self._keep_ms, new_head, started_s, self.log.id, min_id]
        written = await self._connection.do_at_last(lambda: self._script(keys=self._keys, args=[*arguments, *entries]))
        if written == -1:
            raise _Superseded
        if written == 0:
            return None
        self._head = head
        self._new_bytes += sum(map(len, entries))
        return str(written, "ascii") if isinstance(written, bytes) else ""

    def _made_head(self) -> tuple[bytes, float]:
        summary = self._summary()
        text = json.dumps([self._process, self._generation, summary], separators=(",", ":"))
        started = time_of(summary["started_at"] or "")
        head = self._seal.close(f"run:{self.log.id}", text.encode("ascii"))
        return head, started.timestamp() if started is not None else 0.0

    def _sealed(self, entry: Entry) -> bytes:
        return self._seal.close(f"records:{self.log.id}", entry.encode())
