"""Files that cannot be used, or no more: clear errors, and nothing half-written."""

from __future__ import annotations

import os
import resource
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eagerstream.errors import JournalError, OwnershipLostError
from eagerstream.journal import Journal, _sqlite
from eagerstream.journal._database import DatabaseFault
from tests.journal.test_journal import BEGIN, entry
from tests.support import until

pytestmark = pytest.mark.anyio


async def fails(path: Path, match: str, **options: object) -> None:
    with pytest.raises(JournalError, match=match):
        async with Journal(path, **options):  # type: ignore[arg-type]
            pass


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """It stays as it was."""
    path = tmp_path / "runs.db"
    path.write_bytes(b"my diary, of 1,000 bytes" * 100)
    await fails(path, r"runs\.db: the file is not a SQLite database")
    assert path.read_bytes() == b"my diary, of 1,000 bytes" * 100


async def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    """It stays as it was, if only an existing journal is wanted."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE diary (day TEXT)")
        other.commit()
    before = path.read_bytes()
    await fails(path, "no journal", create=False)
    assert path.read_bytes() == before


async def test_places_that_cannot_be_a_file(tmp_path: Path) -> None:
    """Each error names the file."""
    await fails(tmp_path, "cannot be opened")
    await fails(tmp_path / "nowhere" / "runs.db", "No such file")
    await fails(tmp_path / "runs.db", "No such file", create=False)
    assert not (tmp_path / "runs.db").exists()


async def test_a_damaged_file(tmp_path: Path) -> None:
    """The pages in its middle are overwritten."""
    path = tmp_path / "runs.db"
    async with Journal(path) as journal:
        log = await journal.create("r", BEGIN)
        await log.append(*(entry(1, n, text="x" * 1_000) for n in range(50)))
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * 30_000 + data[34_096:])
    with pytest.raises(JournalError, match="damaged"):
        async with Journal(path) as journal:
            await journal.read("r")


@pytest.mark.parametrize("name", ["runs.db", "runs.db-wal"])
@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_file_that_somebody_removes(tmp_path: Path, name: str, is_replaced: bool) -> None:
    """SQLite would write to a file without a name; the entries would be gone with the process."""
    async with Journal(tmp_path / "runs.db") as journal:
        log = await journal.create("r", BEGIN)
        (tmp_path / name).unlink()
        if is_replaced:
            (tmp_path / name).write_bytes(b"")
        with pytest.raises(JournalError, match=f"removed or replaced the file {name}"):
            await log.append(entry(1))
        with pytest.raises(JournalError, match="removed or replaced"):
            await journal.read("r")
        with pytest.raises(OwnershipLostError, match="journal failed"):
            log.check()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[None]:
    """No file may become larger than 200,000 bytes: as on a full disk, SQLite gets an error in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("full")
async def test_a_full_disk(tmp_path: Path) -> None:
    """Everything that was awaited is there, and of the entry that did not fit, nothing."""
    async with Journal(tmp_path / "runs.db") as journal:
        log = await journal.create("r", BEGIN)
        written = 0
        with pytest.raises(JournalError, match=r"runs\.db: .*\((SQLITE_FULL|SQLITE_IOERR)"):
            for n in range(100):
                await log.append(entry(1, n, text="x" * 5_000), entry(1, n, text="y" * 5_000))
                written += 1
        with pytest.raises(JournalError):
            log.append(entry(2))
    assert 1 < written < 100
    async with Journal(tmp_path / "runs.db") as journal:
        assert [found.get("n") for found in await journal.read("r")] == [
            None,
            *(n for n in range(written) for _ in "xy"),
        ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_file_that_may_not_be_written(anyio_backend: str) -> None:
    """The user is another one."""
    with tempfile.TemporaryDirectory() as folder:  # other runs of pytest take the rights for its folders away
        path = Path(folder) / "runs.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE x (y)")
        for name, mode in ((path, 0o444), (folder, 0o755)):
            os.chmod(name, mode)  # noqa: PTH101
        os.seteuid(65534)
        try:
            await fails(path, "the file is read-only")
        finally:
            os.seteuid(0)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[DatabaseFault]:
    """What SQLite has reported so far. It waits for a lock for a hundredth of a second, and not for five."""
    found: list[DatabaseFault] = []
    translated = _sqlite.SQLite._fault

    def noted(database: _sqlite.SQLite, error: sqlite3.Error | OSError) -> DatabaseFault:
        found.append(fault := translated(database, error))
        return fault

    monkeypatch.setattr(_sqlite.SQLite, "_fault", noted)
    monkeypatch.setattr(_sqlite, "_BUSY_S", 0.01)
    return found


async def test_a_file_that_somebody_keeps_locked(tmp_path: Path, faults: list[DatabaseFault]) -> None:
    """The append is tried again while another process has the lock, for `retry_for_s`; reading needs no lock."""
    path = tmp_path / "runs.db"
    async with Journal(path) as journal:
        log = await journal.create("r", BEGIN)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            receipt = log.append(entry(1))
            await until(lambda: faults)
            assert await journal.read("r") == [BEGIN]
            other.execute("ROLLBACK")
        await receipt
        assert await journal.read("r") == [BEGIN, entry(1)]
    assert "another process keeps runs.db locked" in str(faults[0])


@pytest.mark.usefixtures("faults")
async def test_a_file_that_stays_locked(tmp_path: Path) -> None:
    """In the end, it is an error."""
    path = tmp_path / "runs.db"
    async with Journal(path, retry_for_s=0) as journal:
        log = await journal.create("r", BEGIN)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalError, match="locked"):
                await log.append(entry(1))
