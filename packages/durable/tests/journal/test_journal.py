"""The journal through its API, on SQLite and PostgreSQL."""

from __future__ import annotations

import gc
import os
import stat
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import pytest
from tests.tables import rows

from eagerstream.errors import (
    JournalError,
    LimitError,
    MissingExtraError,
    OwnershipLostError,
    RunExistsError,
    RunNotFoundError,
    RunOwnedError,
    UsageError,
)
from eagerstream.loop import RunJournal, RunLog
from eagerstream_durable.journal import Journal
from eagerstream_durable.journal._contents import encoded
from eagerstream_durable.journal._database import DatabaseFault

pytestmark = pytest.mark.anyio

BEGIN: dict[str, Any] = {"kind": "begin", "turn": 0, "text": "Größe \ud83d \x00 \U0001f600"}


def entry(turn: int, n: int = 0, **more: Any) -> dict[str, Any]:
    return {"kind": "result", "turn": turn, "n": n, **more}


async def test_it_is_a_run_journal(where: str) -> None:
    """The type checker compares it with the interface that the loop uses."""
    async with Journal(where) as journal:
        as_journal: RunJournal = journal
        log: RunLog = await as_journal.create("r", BEGIN)
        assert (log.run_id, log.entries) == ("r", [BEGIN])
        log.check()


async def test_entries_come_back_in_order(where: str) -> None:
    """Whatever is in their texts, from another connection, after the first one has ended."""
    async with Journal(where) as journal:
        log = await journal.create("r", BEGIN)
        for n in range(5):
            log.append(entry(1, n), entry(1, -n))
        await log.append(entry(2))
        await log.release("running", {})
    async with Journal(where) as journal:
        log = await journal.open("r")
        expected = [BEGIN, *(entry(1, m) for n in range(5) for m in (n, -n)), entry(2)]
        assert log.entries == expected == await journal.read("r")
        await log.append(entry(2, 1))
        assert await journal.read("r") == [*expected, entry(2, 1)]


async def test_leaving_the_journal_waits(where: str) -> None:
    """Entries that nobody awaited are written before the block ends."""
    async with Journal(where) as journal:
        log = await journal.create("r", BEGIN)
        for n in range(100):
            log.append(entry(1, n))
    async with Journal(where) as journal:
        assert len(await journal.read("r")) == 101


async def test_it_needs_no_block(where: str) -> None:
    """`run(journal=Journal(path))`: the database is opened when it is used, and closed with the object."""
    journal = Journal(where)
    await (await journal.create("r", BEGIN)).append(entry(1))
    await journal.aclose()
    with pytest.raises(JournalError, match="closed"):
        await journal.read("r")
    journal = Journal(where)
    assert await journal.read("r") == [BEGIN, entry(1)]
    closed = journal._parts.writer.closed
    del journal
    gc.collect()
    with anyio.fail_after(30):
        await closed


async def test_settling_replaces_the_steps_of_a_turn(where: str) -> None:
    """A settled entry takes the place of all since the one before. What is settled stays."""
    async with Journal(where) as journal:
        log = await journal.create("r", BEGIN)
        log.append(entry(1), entry(2), entry(1, 1))
        log.settle({"kind": "turn", "turn": 1})
        await log.append(entry(1, 2))
        assert await journal.read("r") == [BEGIN, {"kind": "turn", "turn": 1}, entry(1, 2)]
        log.settle({"kind": "end", "turn": 1})
        await log.settle({"kind": "turn", "turn": 2})
        assert [found["kind"] for found in await journal.read("r")] == ["begin", "turn", "end", "turn"]
        sizes = (await journal.summary("r")).size_bytes
        assert sizes == sum(len(encoded(found, "an entry")) for found in await journal.read("r"))
        await log.release("waiting", {})
        await (await journal.open("r")).append(entry(3))  # the next owner goes on behind the settled entry
        assert [found["kind"] for found in await journal.read("r")] == ["begin", "turn", "end", "turn", "result"]


async def test_new_and_missing_runs(where: str) -> None:
    """Each has its error, with the id of the run."""
    async with Journal(where) as journal:
        await journal.create("r", BEGIN)
        with pytest.raises(RunExistsError, match="run 'r'"):
            await journal.create("r", entry(5))
        assert await journal.read("r") == [BEGIN]
        for missing in (
            journal.open("x"),
            journal.read("x"),
            journal.summary("x"),
            journal.delete("x"),
            journal.leave("x", {}),
        ):
            with pytest.raises(RunNotFoundError) as caught:
                await missing
            assert caught.value.run_id == "x"


async def test_one_owner(where: str) -> None:
    """The next one comes when the first gives the run up, with a larger fence; the first then has nothing to say."""
    async with Journal(where, lease_s=0.4) as journal, Journal(where) as other:
        log = await journal.create("r", BEGIN)
        with pytest.raises(RunOwnedError):
            await journal.open("r")
        with pytest.raises(RunOwnedError), anyio.fail_after(30):
            await other.open("r")
        await log.release("waiting", {"approvals": ["a"]})
        for use in (lambda: log.append(entry(1)), log.check):
            with pytest.raises(JournalError):
                use()
        taken = await other.open("r")
        assert taken.fence == log.fence + 1
        await taken.append(entry(1))
        assert (await journal.summary("r")).status == "running"


async def test_an_owner_that_is_gone(where: str) -> None:
    """Its run can be had after its lease. If it was only asleep, nothing that it writes is accepted."""
    async with Journal(where, lease_s=0.2) as journal, Journal(where) as other:
        log = await journal.create("r", BEGIN)
        journal._parts.writer._beating.clear()  # it sleeps
        taken = await other.open("r")
        assert taken.fence == log.fence + 1
        with pytest.raises(OwnershipLostError):
            log.check()
        await taken.append(entry(1, 1))
        with pytest.raises(OwnershipLostError):
            await log.append(entry(1, 2))
        with pytest.raises(OwnershipLostError):
            log.append(entry(1, 3))
        with pytest.raises(OwnershipLostError):
            await log.release("completed", {})
        assert await other.read("r") == [BEGIN, entry(1, 1)]
        taken.check()


async def test_an_owner_gives_signs_of_life_again_and_again(where: str) -> None:
    """As long as its program lives, and without any entry."""
    async with Journal(where, lease_s=0.2) as journal:
        log = await journal.create("r", BEGIN)
        beats: set[int] = set()
        with anyio.fail_after(30):
            while len(beats) < 4:
                beats.add((await journal.summary("r")).beat)
                await anyio.sleep(0.01)
        log.check()


async def test_a_log_that_nobody_holds_gives_no_sign_of_life(where: str) -> None:
    """Otherwise a run whose task is gone could not be continued as long as its process lives."""
    async with Journal(where, lease_s=0.2) as journal:
        await journal.create("r", BEGIN)
        gc.collect()
        with anyio.fail_after(30):
            assert (await journal.open("r")).fence == 2


async def test_a_stale_run_fails_alone(where: str) -> None:
    """Runs whose entries are in the same transaction are not concerned."""
    async with Journal(where, lease_s=0.2) as journal, Journal(where) as other:
        stale, fine = await journal.create("a", BEGIN), await journal.create("b", BEGIN)
        journal._parts.writer._beating.clear()
        await other.open("a")
        first, second = stale.append(entry(1)), fine.append(entry(1))
        await second
        with pytest.raises(OwnershipLostError, match="run 'a'"):
            await first


async def test_cancelling(where: str) -> None:
    """A run whose creation is cancelled is not there, and one whose opening is cancelled has no owner."""
    async with Journal(where) as journal:
        await (await journal.create("old", BEGIN)).release("waiting", {})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.create, "new", BEGIN)
            tasks.start_soon(journal.open, "old")
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await (await journal.create("last", BEGIN)).release("waiting", {})  # is behind them in the queue
        assert {found.run_id: found.owner for found in await journal.runs()} == {"old": "none", "last": "none"}


async def test_cancelling_an_append_only_stops_the_wait(where: str) -> None:
    """The entry is written all the same."""
    async with Journal(where) as journal:
        log = await journal.create("r", BEGIN)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await log.append(entry(1))
        await log.append(entry(2))
        assert await journal.read("r") == [BEGIN, entry(1), entry(2)]


async def test_the_inbox(where: str) -> None:
    """Messages are numbered, and leave it with the entry that contains them."""
    async with Journal(where) as journal, Journal(where) as other:
        log = await journal.create("r", BEGIN)
        assert await log.inbox(0) == []
        assert [await other.leave("r", {"say": n}) for n in range(3)] == [1, 2, 3]
        assert await log.inbox(1) == [(2, {"say": 1}), (3, {"say": 2})]
        await log.append(entry(1, inbox=2))
        assert await log.inbox(0) == [(3, {"say": 2})] == await other.messages("r")
        await log.release("waiting", {})
        assert await other.leave("r", {"say": 3}) == 4
        assert (await other.summary("r")).is_due
        assert [number for number, _ in await (await other.open("r")).inbox(2)] == [3, 4]


async def test_many_leave_messages_at_once(where: str) -> None:
    """Each has its number."""
    async with Journal(where) as journal, Journal(where) as other:
        await journal.create("r", BEGIN)
        numbers: list[int] = []

        async def leave(by: Journal, n: int) -> None:
            numbers.append(await by.leave("r", {"n": n}))

        async with anyio.create_task_group() as tasks:
            for n in range(6):
                tasks.start_soon(leave, journal if n % 2 else other, n)
        assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
        assert sorted(message["n"] for _, message in await other.messages("r")) == [0, 1, 2, 3, 4, 5]


async def test_bounds(where: str) -> None:
    """Nothing of what is too large is written, and the run continues."""
    async with Journal(where, max_entry_bytes=200, max_run_bytes=300, max_inbox_messages=2) as journal:
        with pytest.raises(LimitError, match="max_entry_bytes=200"):
            await journal.create("r", entry(0, text="x" * 200))
        log = await journal.create("r", entry(0))
        with pytest.raises(LimitError, match="max_entry_bytes=200"):
            log.append(entry(1), entry(1, text="x" * 200))
        await log.append(entry(1, text="x" * 100))
        with pytest.raises(LimitError, match="max_run_bytes=300"):
            log.append(entry(1, text="x" * 100))
        await log.settle(entry(1, text="x" * 100))  # takes the place of the other one
        await log.append(entry(2))
        assert len(await journal.read("r")) == 3
        with pytest.raises(LimitError, match="max_entry_bytes=200"):
            await journal.leave("r", {"text": "x" * 200})
        await journal.leave("r", {"text": "x" * 150})
        with pytest.raises(LimitError, match="max_entry_bytes=200"):
            await journal.leave("r", {"text": "x" * 50})
        await journal.leave("r", {})
        with pytest.raises(LimitError, match="max_inbox_messages=2"):
            await journal.leave("r", {})
        with pytest.raises(LimitError, match="65536"):
            await log.release("completed", {"model": "x" * 70_000})
        log.check()


async def test_a_run_may_fill_its_bound(where: str) -> None:
    """Its entries may have `max_run_bytes` together, and no byte more."""
    size = sum(len(encoded(each, "an entry")) for each in (entry(0), entry(1)))
    async with Journal(where, max_run_bytes=size) as journal:
        log = await journal.create("r", entry(0))
        with pytest.raises(LimitError, match="max_run_bytes"):
            log.append(entry(1, 10))
        await log.append(entry(1))


async def test_lists(where: str) -> None:
    """They show what tools need, the last changed run first."""
    async with Journal(where) as journal:
        log = await journal.create("a", BEGIN)
        await log.release("waiting", {"approvals": ["call_1"], "note": "password=hunter2-hunter2"})
        b = await journal.create("b", BEGIN)
        (await journal.open("a"),)
        first, second = await journal.runs()
        assert (first.run_id, first.owner, first.status, first.is_due) == ("a", "alive", "waiting", False)
        assert first.approvals == ["call_1"]
        assert "hunter2" not in repr(first)
        assert (second.run_id, second.owner, second.fence, second.approvals) == ("b", "alive", 1, ())
        assert 0 <= second.idle_s <= second.age_s < 60
        assert [found.run_id for found in await journal.runs("waiting")] == ["a"]
        assert [found.run_id for found in await journal.runs(["waiting", "running"], limit=1)] == ["a"]
        assert len(await journal.runs(limit=10**30)) == 2
        await b.release("completed", {})
        assert not (await journal.summary("b")).is_due


async def test_deleting(where: str) -> None:
    """An ended run stays until then. A new one with its id has a larger fence than the old one had."""
    async with Journal(where) as journal:
        for run_id, status in (("a", "completed"), ("b", "waiting"), ("c", "error")):
            log = await journal.create(run_id, BEGIN)
            await journal.leave(run_id, {"say": "x"})
            await log.release(status, {})
        await (await journal.open("a")).release("completed", {})
        held = await journal.open("c")
        assert await journal.prune(ended_for_s=3_600) == 0
        assert await journal.prune(ended_for_s=0) == 1
        assert {found.run_id for found in await journal.runs()} == {"b", "c"}
        await journal.delete("b")
        assert await journal.messages("b") == []
        with pytest.raises(RunOwnedError):
            await journal.delete("c")
        held.check()
        assert (await journal.create("a", BEGIN)).fence > 2


@rows(
    "options",
    [
        {"lease_s": 0},
        {"max_entry_bytes": 0},
        {"max_entry_bytes": 2**30},
        {"retry_for_s": -1},
        {"key": b"short"},
        {"key": "x" * 42},
        {"key": []},
        {"where": ""},
        {"where": ":memory:"},
        {"where": "sqlite:///x"},
        {"where": None},
        {"where": b"runs.db"},
        {"where": "a\0b"},
        {"create": "no"},
        {"key": 5},
        {"key": [5]},
        {"lease_s": float("inf")},
        {"lease_s": 1e9},
    ],
)
def test_unusable_arguments(options: Any) -> None:
    """Found before anything is opened."""
    with pytest.raises(UsageError):
        Journal(**{"where": "never.db", **options})


@pytest.mark.parametrize(
    ("module", "extra", "options"),
    [
        ("psycopg", "postgres", {"where": "postgresql://localhost/x"}),
        ("cryptography.hazmat.primitives.ciphers.aead", "encryption", {"key": b"k" * 32}),
    ],
)
async def test_packages_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str, options: dict[str, Any]
) -> None:
    """The error names the extra that installs them."""
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "eagerstream_durable.journal._postgres", raising=False)
    with pytest.raises(MissingExtraError, match=extra):
        Journal(**{"where": "never.db", **options})


async def test_unusable_entries(where: str) -> None:
    """The caller gets the error, and the run continues."""
    async with Journal(where) as journal:
        for run_id in ("", "x" * 256, "a\n", "\0", 5):
            with pytest.raises(UsageError, match="run_id"):
                await journal.create(run_id, BEGIN)  # type: ignore[arg-type]
        log = await journal.create("r", BEGIN)
        for wrong in (
            {},
            {"kind": "x"},
            {"kind": 1, "turn": 1},
            {"kind": "x", "turn": True},
            entry(1, x=object()),
            entry(1, x=float("nan")),
        ):
            with pytest.raises(UsageError):
                log.append(wrong)
        await log.append(entry(1))
        assert await journal.read("r") == [BEGIN, entry(1)]


async def test_several_event_loops(tmp_path: Path) -> None:
    """The same journal, in a thread with a loop of its own."""
    async with Journal(tmp_path / "runs.db") as journal:
        await journal.create("a", BEGIN)

        def other() -> None:
            async def main() -> None:
                await (await journal.create("b", BEGIN)).append(entry(1))

            anyio.run(main, backend="trio")

        await anyio.to_thread.run_sync(other)
        assert len(await journal.read("b")) == 2


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
async def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    """The WAL has the same contents."""
    async with Journal(tmp_path / "runs.db") as journal:
        await journal.create("a", BEGIN)
        files = [tmp_path / name for name in ("runs.db", "runs.db-wal", "runs.db-shm")]
        assert [stat.S_IMODE(os.stat(file).st_mode) for file in files] == [0o600] * 3  # noqa: PTH116


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
async def test_a_forked_process(tmp_path: Path) -> None:
    """Its threads are gone, and it must not use the connection: each call says so, and none waits forever."""
    async with Journal(tmp_path / "runs.db") as journal:
        log = await journal.create("r", BEGIN)
        await journal.read("r")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads, on newer Pythons
            child = os.fork()
        if child == 0:
            failures = 0
            try:
                uses: list[Callable[[], object]] = [
                    lambda: log.append(entry(1)),
                    lambda: journal._parts.reader.read(lambda _: None),
                ]
                for use in uses:
                    try:
                        use()
                    except JournalError:
                        failures += 1
                journal._ends()
            finally:
                os._exit(failures)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2  # noqa: ASYNC222
        await log.append(entry(1))


async def test_a_group_is_one_transaction(tmp_path: Path) -> None:
    """What comes while one is committed is committed together: a thousand runs do not need a thousand syncs."""
    async with Journal(tmp_path / "runs.db") as journal:
        logs = [await journal.create(f"r{n}", BEGIN) for n in range(3)]
        commit = Mock(wraps=journal._parts.writer._database.commit)
        journal._parts.writer._database.commit = commit  # type: ignore[method-assign]
        with journal._parts.writer._ready:  # it is busy
            receipts = [log.append(entry(1, n)) for n in range(10) for log in logs]
        for receipt in receipts:
            await receipt
        assert commit.call_count == 1


async def test_a_change_that_the_database_refuses_fails_alone(tmp_path: Path) -> None:
    """The other run of its transaction is written all the same."""
    async with Journal(tmp_path / "runs.db") as journal:
        refused, fine = await journal.create("a", BEGIN), await journal.create("b", BEGIN)
        commit = journal._parts.writer._database.commit

        def refusing(statements: Any) -> Any:
            if any("a" in parameters for _, parameters in statements):
                raise DatabaseFault("an entry is larger than SQLite accepts")
            return commit(statements)

        journal._parts.writer._database.commit = refusing  # type: ignore[method-assign]
        with journal._parts.writer._ready:  # so both are in one group
            first, second = refused.append(entry(1)), fine.append(entry(1))
        await second
        with pytest.raises(JournalError, match="larger than SQLite accepts"):
            await first
        assert await journal.read("b") == [BEGIN, entry(1)]


async def test_entries_that_come_during_a_failure(tmp_path: Path) -> None:
    """They are queued before it is known, and fail with it. The next owner finds the run as it was."""
    async with Journal(tmp_path / "runs.db", lease_s=0.2) as journal:
        log = await journal.create("r", BEGIN)
        commit = journal._parts.writer._database.commit
        behind: list[Any] = []

        def failing(statements: Any) -> Any:
            journal._parts.writer._database.commit = commit  # type: ignore[method-assign]
            behind.append(log.append(entry(2)))
            raise DatabaseFault("the disk is full")

        journal._parts.writer._database.commit = failing  # type: ignore[method-assign]
        for receipt in (log.append(entry(1)), behind):
            with pytest.raises(JournalError, match="the disk is full"):
                await (receipt[0] if isinstance(receipt, list) else receipt)
        await journal.aclose()
    async with Journal(tmp_path / "runs.db", lease_s=0.2) as journal:
        assert (await journal.open("r")).entries == [BEGIN]
