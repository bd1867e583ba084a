"""Commits whose outcome nobody knows, lost connections and killed programs: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import anyio
import pytest
from packages.durable.tests.journal.test_journal import BEGIN, entry
from tests import sampling
from tests.source_tree import ROOT

from eagerstream.errors import JournalError
from eagerstream_durable.journal import Journal, _threads
from eagerstream_durable.journal._database import DatabaseFault


class Forgetful:
    """A database that commits, and then loses the connection before it can say so; or loses it before the commit."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._losses = 0
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def commit(self, statements: Any) -> Any:
        self._losses = (self._losses + 1) % 3
        if self._losses == 0:
            return self._database.commit(statements)
        self.lost += 1
        if self._losses == 1:
            self._database.commit(statements)
        raise DatabaseFault("lost", is_passing=True)


@pytest.mark.anyio
async def test_commits_of_unknown_outcome(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job is executed up to three times, and done once."""
    monkeypatch.setattr(_threads, "_FIRST_PAUSE_S", 0.001)
    async with Journal(where) as journal:
        forgetful = Forgetful(journal._parts.writer._database)
        journal._parts.writer._database = forgetful
        log = await journal.create("r", BEGIN)
        for n in range(4):
            await log.append(entry(1, n), entry(2, n))
        await log.settle({"kind": "turn", "turn": 1})
        assert [await journal.leave("r", {"n": n}) for n in range(3)] == [1, 2, 3]
        await log.append(entry(3, inbox=1))
        await log.release("waiting", {"model": "m"})
        assert await journal.read("r") == [
            BEGIN,
            {"kind": "turn", "turn": 1},
            entry(3, inbox=1),
        ]
        assert [number for number, _ in await journal.messages("r")] == [2, 3]
        opened = await journal.open("r")
        assert opened.fence == 2
        await opened.append(entry(4))
        await opened.release("completed", {})
        await journal.delete("r")
        assert await journal.runs() == []
        assert forgetful.lost > 20


class Broken:
    """A database that fails at a statement."""

    def __init__(self, database: Any, at: str) -> None:
        self._database = database
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def commit(self, statements: Any) -> Any:
        if any(self._at in sql for sql, _ in statements):
            raise DatabaseFault("the disk is full")
        return self._database.commit(statements)

    def read(self, sql: str, parameters: Any = ()) -> Any:
        if self._at in sql:
            raise DatabaseFault("the disk cannot be read")
        return self._database.read(sql, parameters)


@pytest.mark.anyio
async def test_a_step_that_fails_keeps_no_run(where: str) -> None:
    """A run whose entries cannot be read, or that cannot be deleted, is free at once: nobody waits for its lease."""
    async with Journal(where) as journal:
        log = await journal.create("r", BEGIN)
        await log.release("completed", {})
        parts = journal._parts
        whole = parts.reader._database, parts.writer._database
        parts.reader._database = Broken(whole[0], "FROM eagerstream_entries")
        parts.writer._database = Broken(whole[1], "DELETE FROM eagerstream_runs")
        with pytest.raises(JournalError, match="cannot be read"):
            await journal.open("r")
        with pytest.raises(JournalError, match="full"):
            await journal.delete("r")
        parts.reader._database, parts.writer._database = whole
        with anyio.fail_after(25):  # the lease has 30 s
            assert list((await journal.open("r")).entries) == [BEGIN]


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_server_that_ends_connections(postgres: str, postgres_server: str) -> None:
    """Again and again, at any moment."""
    import psycopg

    is_over = threading.Event()
    ended = 0

    def end_connections() -> None:
        nonlocal ended
        chance = random.Random(sampling.SEED)
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            while not is_over.wait(chance.random() * 0.05):
                sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
                ended += len(connection.execute(sql).fetchall())

    async with Journal(postgres) as journal:
        logs = [await journal.create(f"r{n}", BEGIN) for n in range(5)]
        thread = threading.Thread(target=end_connections)
        thread.start()
        try:
            for n in range(100):
                receipts = [log.append(entry(1, n), entry(1, -n)) for log in logs]
                for receipt in receipts:
                    await receipt
        finally:
            is_over.set()
            thread.join()
        for log in logs:
            await log.append(entry(2))
            expected = [BEGIN, *(entry(1, m) for n in range(100) for m in (n, -n)), entry(2)]
            assert await journal.read(log.run_id) == expected
    assert ended > 2


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_server_that_is_not_there() -> None:
    """The error comes at once, and shows no password."""
    journal = Journal("postgresql://somebody:hunter2@localhost:1/nothing")
    with pytest.raises(JournalError, match="cannot be reached") as caught:
        await journal.create("r", BEGIN)
    assert "hunter2" not in f"{caught.value} {journal!r} {caught.value.__cause__}"


PROGRAM = textwrap.dedent("""
    import os, sys, anyio
    from eagerstream_durable.journal import Journal
    from eagerstream.errors import RunExistsError

    async def drive(journal, run_id):
        log = await journal.open(run_id)
        os.write(1, f"{run_id} {len(log.entries) - 1}\\n".encode())
        n = len(log.entries)
        while True:
            log.append({"kind": "result", "turn": 1, "n": n})
            await log.append({"kind": "result", "turn": 1, "n": n + 1, "text": "x" * (n % 7000)})
            n += 2
            os.write(1, f"{run_id} {n - 1}\\n".encode())

    async def main():
        async with Journal(sys.argv[1], lease_s=0.1) as journal:
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(drive, journal, f"run-{number}")
    anyio.run(main)
""")


async def verify(where: str, awaited: dict[str, int]) -> int:
    async with Journal(where) as journal:
        entries = 0
        for run in await journal.runs():
            numbers = [found["n"] for found in await journal.read(run.run_id)]
            assert numbers == list(range(len(numbers)))
            assert numbers[-1] >= awaited[run.run_id]
            entries += len(numbers)
        return entries


async def create(where: str) -> None:
    async with Journal(where) as journal:
        for number in range(3):
            log = await journal.create(f"run-{number}", {"kind": "begin", "turn": 0, "n": 0})
            await log.release("running", {})


@pytest.mark.slow
def test_programs_that_are_killed(where: str) -> None:
    """At seeded moments. Each entry that was awaited is there, none is there twice, and the order is kept."""
    chance = random.Random(sampling.SEED)
    anyio.run(create, where)
    awaited = {f"run-{number}": 0 for number in range(3)}
    entries = 0
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, where], cwd=ROOT, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            told = program.stdout.readline()
            time.sleep(chance.random() * 0.3)
            program.kill()
            told += program.stdout.read()
        for line in told.decode().splitlines():
            run_id, number = line.split()
            awaited[run_id] = max(awaited[run_id], int(number))
        entries = anyio.run(verify, where, awaited)
    assert entries > 200
