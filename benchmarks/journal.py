"""A journal on one SQLite file: milliseconds per append for one run, and appends per second for many.

Each append has about 400 bytes, and is on the disk before the next one of its run. The first line is a plain `fsync` of
a file after a write of 400 bytes, in the same folder: the least that durability costs on this disk. If several runs
append at the same time, the journal commits everything that waits as one transaction.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table

from eagerstream.loop import RunLog
from eagerstream_durable.journal import Journal

_ENTRY: Final = {"kind": "result", "turn": 1, "text": "x" * 350}
_RUNS: Final = 1_000


class Counted:
    """A database that counts its transactions."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def commit(self, statements: Sequence[Any]) -> Any:
        """Count, and commit."""
        self.commits += 1
        return self._database.commit(statements)


def fsync_ms(folder: Path, rounds: int) -> list[float]:
    """Return the milliseconds of each write of 400 bytes with an `fsync`."""
    times = []
    with (folder / "plain").open("wb", buffering=0) as file:
        for _ in range(rounds):
            start = time.perf_counter()
            file.write(b"x" * 400)
            os.fsync(file.fileno())
            times.append((time.perf_counter() - start) * 1e3)
    return times


async def alone_ms(folder: Path, rounds: int) -> list[float]:
    """Return the milliseconds of each append of one run."""
    times = []
    async with Journal(folder / "alone.db") as journal:
        log = await journal.create("run", {"kind": "begin", "turn": 0})
        for _ in range(rounds):
            start = time.perf_counter()
            await log.append(_ENTRY)
            times.append((time.perf_counter() - start) * 1e3)
    return times


async def together(folder: Path, runs: int, rounds: int) -> tuple[float, float, float]:
    """Return appends per second, appends per transaction, and the median milliseconds of an append."""
    times: list[float] = []

    async def append(log: RunLog) -> None:
        for _ in range(rounds):
            start = time.perf_counter()
            await log.append(_ENTRY)
            times.append((time.perf_counter() - start) * 1e3)

    async with Journal(folder / f"{runs}.db") as journal:
        counted = Counted(journal._parts.writer._database)  # noqa: SLF001
        journal._parts.writer._database = counted  # noqa: SLF001
        logs = [await journal.create(f"run-{number}", {"kind": "begin", "turn": 0}) for number in range(runs)]
        counted.commits = 0
        start = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for log in logs:
                tasks.start_soon(append, log)
        took_s = time.perf_counter() - start
        for log in logs:
            assert len(await journal.read(log.run_id)) == 1 + rounds
        return runs * rounds / took_s, runs * rounds / counted.commits, statistics.median(times)


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure, print the table, and return the figures."""
    rounds = 100 if quick else 500
    table = Table("work", "appends/s", "ms per append, median", "ms, 99th", "appends per transaction")
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        for work, times in {
            "write and fsync of a plain file": fsync_ms(folder, rounds),
            "1 run": anyio.run(alone_ms, folder, rounds),
        }.items():
            median, last = statistics.median(times), statistics.quantiles(times, n=100)[98]
            table.add_row(work, f"{1e3 / statistics.mean(times):,.0f}", f"{median:.2f}", f"{last:.2f}", "1")
            figures[work] = {"median_ms": median, "p99_ms": last}
        for runs in (10, 100, _RUNS):
            per_s, group, median = anyio.run(together, folder, runs, 10 if quick else 30)
            table.add_row(f"{runs:,} runs", f"{per_s:,.0f}", f"{median:.2f}", "", f"{group:,.0f}")
            figures[f"{runs} runs"] = {"appends_per_s": per_s, "appends_per_transaction": group, "median_ms": median}
    console.print(table)
    return {"journal": figures, "targets": []}
