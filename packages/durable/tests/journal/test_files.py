"""Files that cannot be used, or no more: clear errors, and nothing half-written."""

from __future__ import annotations

import os
import resource
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from packages.durable.tests.journal.test_journal import BEGIN, entry
from tests.support import until
from tests.tables import rows

from eagerstream._support import files
from eagerstream.errors import JournalError, OwnershipLostError
from eagerstream_durable.journal import Journal, _sqlite
from eagerstream_durable.journal._database import DatabaseFault

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
    await fails(tmp_path, "no ordinary file")
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


AS_ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
POSIX = pytest.mark.skipif(os.name == "nt", reason="rights of POSIX")


@pytest.fixture
async def made(tmp_path: Path) -> Path:
    """A journal with a run, in a folder of its own, with an empty file of each name that SQLite opens beside it."""
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    async with Journal(folder / "runs.db") as journal:
        await (await journal.create("r", BEGIN)).release("waiting", {})
    return folder / "runs.db"


@AS_ROOT
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
async def test_files_of_another_user(made: Path, suffix: str) -> None:
    """He could read what is written there, and have our tools run what he has written."""
    path = made.with_name(made.name + suffix)
    path.touch(0o600)
    os.chown(path, 1000, 1000)
    await fails(made, rf"{path.name} belongs to another user \(uid 1000\)")


@AS_ROOT
async def test_a_folder_or_a_link_of_another_user(made: Path) -> None:
    """He could put another file in the place of ours. Root could do that anyhow."""
    link = made.parent.parent / "link.db"
    link.symlink_to(made)
    os.chown(link, 1000, 1000, follow_symlinks=False)
    await fails(link, "link of another user")
    above = made.parent.parent / "above"
    above.symlink_to(made.parent)
    os.chown(above, 1000, 1000, follow_symlinks=False)
    await fails(above / made.name, "link of another user")
    os.chown(made.parent, 1000, 1000)
    await fails(made, "folder belongs to another user")


@POSIX
async def test_files_that_others_may_write(made: Path) -> None:
    """Also those beside it, and those beside the file to which a link of ours leads."""
    link = made.parent.parent / "link.db"
    link.symlink_to(made)
    for suffix in ("", "-wal", "-shm", "-journal"):
        path = made.with_name(made.name + suffix)
        path.touch(0o600)
        for mode in (0o620, 0o602):
            path.chmod(mode)
            for name in (made, link):
                await fails(name, f"other users may write {path.name}")
        path.chmod(0o600)
        if suffix:
            path.unlink()
    made.with_name("runs.db-wal").symlink_to(made)
    await fails(made, "runs.db-wal is a link")


@POSIX
async def test_folders_that_others_may_write(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one with the sticky bit, nobody may rename the files of others. A group of one user is the user."""
    for mode, is_safe in ((0o777, False), (0o770, False), (0o1777, True), (0o750, True)):
        made.parent.chmod(mode)
        monkeypatch.setattr(files, "_has_group_of_its_own", lambda *_: False)
        if not is_safe:
            await fails(made, "other users may write to its folder")
        monkeypatch.setattr(files, "_has_group_of_its_own", lambda *_: True)
        if is_safe or mode == 0o770:
            async with Journal(made) as journal:
                assert await journal.read("r") == [BEGIN]
        else:
            await fails(made, "other users may write to its folder")


@POSIX
async def test_a_file_that_others_may_read(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody may want that, so it is a warning."""
    os.chmod(made, 0o644)  # noqa: PTH101
    async with Journal(made) as journal:
        assert await journal.read("r") == [BEGIN]
    assert "other users may read runs.db: mode 644" in caplog.text


async def test_a_link_of_ours(made: Path) -> None:
    """The files beside the journal are where the journal is, and a file that is made through a link is private, too."""
    link, dangling = made.parent.parent / "link.db", made.parent.parent / "dangling.db"
    link.symlink_to(made)
    dangling.symlink_to(made.parent / "new.db")
    async with Journal(link) as journal, Journal(dangling) as other:
        await (await journal.open("r")).append(entry(1))
        await other.create("x", BEGIN)
        assert made.with_name("runs.db-wal").stat().st_size > 0
        if os.name != "nt":
            assert made.with_name("new.db").stat().st_mode & 0o777 == 0o600


@rows(
    "statement",
    [
        "CREATE TRIGGER t AFTER UPDATE ON eagerstream_runs BEGIN DELETE FROM eagerstream_entries; END",
        "CREATE TRIGGER t AFTER INSERT ON diary BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT * FROM eagerstream_runs",
        "CREATE INDEX i ON eagerstream_entries (abs(seq))",
        "ALTER TABLE eagerstream_runs ADD COLUMN more TEXT DEFAULT (abs(1))",
        "CREATE TABLE eagerstream_more (x)",
        "UPDATE eagerstream_journal SET version = 1",
        "DELETE FROM eagerstream_journal",
    ],
)
def test_a_schema_that_somebody_changed(tmp_path_factory: pytest.TempPathFactory, statement: str) -> None:
    """Nothing that is in the file runs with our statements."""
    path = tmp_path_factory.mktemp("changed") / "runs.db"

    async def main() -> None:
        async with Journal(path):
            pass
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE diary (day)")  # tables of somebody else are no fault
            connection.execute(statement)
        before = path.read_bytes()
        await fails(path, "somebody changed this journal|another version")
        assert path.read_bytes() == before

    anyio.run(main)


async def test_what_was_deleted(tmp_path: Path) -> None:
    """No file has a copy of it, while the journal is open and afterwards; also if somebody read at that moment."""
    path = tmp_path / "runs.db"

    def found() -> list[str]:
        return [file.name for file in tmp_path.iterdir() if b"Schnabeltier" in file.read_bytes()]

    async with Journal(path) as journal:
        for run_id in ("a", "b", "c"):
            log = await journal.create(run_id, {**BEGIN, "word": "Schnabeltier"})
            await log.append(entry(1, word="Schnabeltier" * 10_000))
            await log.settle(entry(1, 1, word="Schnabeltier"))
            await log.release("completed", {})
        assert found()
        await journal.delete("a")
        with closing(sqlite3.connect(path, isolation_level=None)) as reading:
            reading.execute("BEGIN")
            reading.execute("SELECT * FROM eagerstream_runs").fetchall()
            assert await journal.prune(ended_for_s=0) == 2
        await (await journal.create("d", BEGIN)).release("waiting", {})
        assert not found()
    assert not found()


async def test_runs_are_pruned_by_their_end(made: Path) -> None:
    """Somebody who opens a run to read its result, or tries to, does not make it younger."""
    async with Journal(made) as journal:
        await (await journal.open("r")).release("completed", {})
        with closing(sqlite3.connect(made)) as connection, connection:
            connection.execute("UPDATE eagerstream_runs SET ended_s = ended_s - 100")
        await (await journal.open("r")).release(None, {})
        await (await journal.open("r")).release("completed", {})
        assert await journal.prune(ended_for_s=200) == 0
        assert await journal.prune(ended_for_s=90) == 1


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
        path.chmod(0o444)
        for name in (path, folder):
            os.chown(name, 65534, 65534)
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
