"""What is in the rows: JSON, or what only the key opens; and no secrets where nothing needs them."""

from __future__ import annotations

import base64
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eagerstream.errors import JournalError
from eagerstream.journal import Journal
from tests.journal.test_journal import BEGIN, entry

KEY, OTHER = os.urandom(32), os.urandom(32)


def changed(path: Path, *statements: str) -> None:
    """Change the file as an attacker could, while nobody uses it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for sql in statements:
            connection.execute(sql)


@pytest.mark.anyio
async def test_encrypted_contents(where: str) -> None:
    """No word of an entry or of a message is in the database, and a key of any form reads them."""
    text = base64.urlsafe_b64encode(KEY).decode()
    async with Journal(where, key=KEY) as journal:
        log = await journal.create("r", {**BEGIN, "word": "Schnabeltier"})
        await log.append(entry(1, word="Schnabeltier"))
        await journal.leave("r", {"say": "Schnabeltier"})
        await log.release("waiting", {"model": "m"})
        if "://" not in where:
            for name in (where, f"{where}-wal"):
                assert b"Schnabeltier" not in Path(name).read_bytes()  # noqa: ASYNC240
    for key in (text, text.rstrip("="), text.encode(), [OTHER, KEY]):
        async with Journal(where, key=key) as journal:
            assert (await journal.read("r"))[1] == entry(1, word="Schnabeltier")
            opened = await journal.open("r")
            assert (await opened.inbox(0)) == [(1, {"say": "Schnabeltier"})]
            await opened.release("waiting", {})


@pytest.mark.anyio
async def test_a_wrong_key(where: str) -> None:
    """It is found before anything is written with it, as is a key that lacks, or is one too many."""
    async with Journal(where, key=KEY) as journal:
        await journal.create("r", BEGIN)
    for key, told in ((OTHER, "not the one"), (None, "needs its key")):
        with pytest.raises(JournalError, match=told):
            async with Journal(where, key=key):
                pass
        with pytest.raises(JournalError, match=told):
            await Journal(where, key=key).create("x", BEGIN)


@pytest.mark.anyio
async def test_a_journal_is_encrypted_from_its_beginning(where: str) -> None:
    """Otherwise some of its entries would be secret, and others not."""
    async with Journal(where) as journal:
        await journal.create("r", BEGIN)
    with pytest.raises(JournalError, match="not encrypted"):
        async with Journal(where, key=KEY):
            pass


@pytest.mark.anyio
@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE eagerstream_entries SET seq = 3 - seq WHERE seq IN (1, 2)",
        "UPDATE eagerstream_entries SET turn = 7 WHERE seq = 1",
        "UPDATE eagerstream_entries SET content = (SELECT content FROM eagerstream_entries WHERE run_id = 'b') WHERE seq = 0",
        "UPDATE eagerstream_entries SET content = zeroblob(60)",
        "UPDATE eagerstream_entries SET content = substr(content, 1, 12)",
        'UPDATE eagerstream_entries SET content = CAST(\'{"kind": "x", "turn": 1}\' AS BLOB) WHERE seq = 1',
    ],
)
async def test_rows_that_somebody_changed(tmp_path: Path, attack: str) -> None:
    """With a key, entries can be neither changed, nor swapped, nor moved to another run."""
    path = tmp_path / "runs.db"
    async with Journal(path, key=KEY) as journal:
        await (await journal.create("a", BEGIN)).append(entry(1), entry(1, 1))
        await journal.create("b", BEGIN)
    changed(path, "CREATE TABLE old AS SELECT * FROM eagerstream_entries", "DROP TABLE eagerstream_entries",
            "ALTER TABLE old RENAME TO eagerstream_entries", attack)  # fmt: skip  # without its primary key
    async with Journal(path, key=KEY) as journal:
        with pytest.raises(JournalError):
            await journal.read("a")


@pytest.mark.anyio
async def test_notes_are_masked(where: str) -> None:
    """Resuming does not need them. What it needs stays as it was, secrets or not."""
    secret = "sk-ant-" + "api03-abcdefghijklmnopqrstuvwxyz0123456789"
    async with Journal(where) as journal:
        log = await journal.create("r", entry(0, headers={"x": secret}, notes={"headers": {"authorization": secret}}))
        await log.append(entry(1, notes=[f"failed with {secret}"], text=secret))
        first, second = await journal.read("r")
        assert secret not in repr((first["notes"], second["notes"]))
        assert (first["headers"]["x"], second["text"]) == (secret, secret)


@pytest.mark.anyio
async def test_damaged_rows(tmp_path: Path) -> None:
    """Without a key, only what is no JSON can be noticed. The texts of the errors show no contents."""
    path = tmp_path / "runs.db"
    for content in ("{broken", "[1]", '{"n": 1e999}'):
        async with Journal(path) as journal:
            await journal.create(content[:2], BEGIN)
        changed(path, f"UPDATE eagerstream_entries SET content = CAST('{content}' AS BLOB)")
        async with Journal(path, lease_s=0.2) as journal:
            with pytest.raises(JournalError, match="damaged") as caught:
                await journal.read(content[:2])
            assert "broken" not in str(caught.value)


@pytest.mark.anyio
async def test_tables_of_a_newer_version(where: str) -> None:
    """They are left alone."""
    async with Journal(where) as journal:
        await journal.create("r", BEGIN)
        await journal._do(_Newer("r"))
    with pytest.raises(JournalError, match=r"newer version of eagerstream.*version 9"):
        async with Journal(where):
            pass


from eagerstream.journal._jobs import Undo  # noqa: E402


class _Newer(Undo):
    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        from eagerstream.journal._receipts import Receipt

        self.receipt: Any = Receipt()

    def statements(self) -> Any:
        return [("UPDATE eagerstream_journal SET version = 9", ())]
