"""What is in the rows: JSON, or what only the key opens; and no secrets where nothing needs them."""

from __future__ import annotations

import base64
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from packages.durable.tests.journal.test_journal import BEGIN, entry

from eagerstream.errors import JournalError
from eagerstream_durable.journal import Journal

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


ENTRIES = "eagerstream_entries"
MOVED = f"UPDATE {ENTRIES} SET seq = seq + 100 WHERE run_id = 'a' AND seq IN (3, 4)"
ATTACKS = {
    "the last entry removed": f"DELETE FROM {ENTRIES} WHERE run_id = 'a' AND seq = 4",
    "the last entries removed": f"DELETE FROM {ENTRIES} WHERE run_id = 'a' AND seq >= 3",
    "a settled entry removed": f"DELETE FROM {ENTRIES} WHERE run_id = 'a' AND seq = 2",
    "the first entry removed": f"DELETE FROM {ENTRIES} WHERE run_id = 'a' AND seq = 0",
    "an entry in the middle removed": f"DELETE FROM {ENTRIES} WHERE run_id = 'a' AND seq = 3",
    "all entries removed": f"DELETE FROM {ENTRIES} WHERE run_id = 'a'",
    "numbers swapped": f"{MOVED}; UPDATE {ENTRIES} SET seq = 107 - seq WHERE seq > 100",
    "contents swapped": f"UPDATE {ENTRIES} SET content = (SELECT content FROM {ENTRIES} AS other WHERE other.run_id = 'a'"
    f" AND other.seq = 7 - {ENTRIES}.seq) WHERE run_id = 'a' AND seq IN (3, 4)",
    "another turn": f"UPDATE {ENTRIES} SET turn = turn + 1 WHERE run_id = 'a' AND seq = 3",
    "another number": f"UPDATE {ENTRIES} SET seq = 9 WHERE run_id = 'a' AND seq = 4",
    "an entry doubled": f"INSERT INTO {ENTRIES} SELECT run_id, 5, turn, content FROM {ENTRIES} WHERE run_id = 'a' AND seq = 4",
    "doubled, and counted": f"INSERT INTO {ENTRIES} SELECT run_id, 5, turn, content FROM {ENTRIES} WHERE run_id = 'a' AND seq = 4;"
    " UPDATE eagerstream_runs SET next_seq = 6",
    "one of another run": f"UPDATE {ENTRIES} SET content = (SELECT content FROM {ENTRIES} WHERE run_id = 'b') WHERE seq = 0",
    "zeros": f"UPDATE {ENTRIES} SET content = zeroblob(60) WHERE seq = 3",
    "cut": f"UPDATE {ENTRIES} SET content = substr(content, 1, 12) WHERE seq = 3",
    "a text": f"UPDATE {ENTRIES} SET content = 'abc' WHERE seq = 3",
    "plain JSON": f'UPDATE {ENTRIES} SET content = CAST(\'{{"kind": "x", "turn": 1}}\' AS BLOB) WHERE seq = 3',
    "the number of a settled entry taken": f"INSERT INTO {ENTRIES} SELECT run_id, 1, turn, content FROM {ENTRIES} WHERE seq = 3",
    "another seal": "UPDATE eagerstream_runs SET entries_seal = zeroblob(200) WHERE run_id = 'a'",
    "the seal of another run": "UPDATE eagerstream_runs SET entries_seal = (SELECT entries_seal FROM eagerstream_runs WHERE run_id = 'b')",
    "the seal of the inbox": "UPDATE eagerstream_runs SET entries_seal = inbox_seal",
    "a seal that is a text": "UPDATE eagerstream_runs SET entries_seal = '[5]'",
    "one more counted": "UPDATE eagerstream_runs SET next_seq = next_seq + 1",
}
INBOX_ATTACKS = {
    "the last message removed": "DELETE FROM eagerstream_inbox WHERE number = 3",
    "removed, and not counted": "DELETE FROM eagerstream_inbox WHERE number = 3; UPDATE eagerstream_runs SET next_message = 3",
    "the first message removed": "DELETE FROM eagerstream_inbox WHERE number = 2",
    "all messages removed": "DELETE FROM eagerstream_inbox",
    "numbers swapped": "UPDATE eagerstream_inbox SET number = 10 - number; UPDATE eagerstream_inbox SET number = number - 5",
    "a message doubled": "INSERT INTO eagerstream_inbox SELECT run_id, 4, token, content FROM eagerstream_inbox WHERE number = 3",
    "doubled, and counted": "INSERT INTO eagerstream_inbox SELECT run_id, 4, token, content FROM eagerstream_inbox WHERE"
    " number = 3; UPDATE eagerstream_runs SET next_message = 5",
}


async def attacked(path: Path, key: bytes | None) -> None:
    """Make a journal with a run of entries 0, 2, 3, 4, of which 2 is settled, and messages 2 and 3 in its inbox."""
    async with Journal(path, key=key) as journal:
        log = await journal.create("a", BEGIN)
        for n in range(3):
            await journal.leave("a", {"say": n})
        await log.append(entry(1, inbox=1))
        await log.settle(entry(1, 1))
        await log.append(entry(2, 0), entry(2, 1))
        await log.release("waiting", {})
        await (await journal.create("b", {**BEGIN, "text": "b"})).release("waiting", {})


@pytest.mark.anyio
@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
async def test_entries_that_somebody_changed(tmp_path: Path, key: bytes | None) -> None:
    """They can be neither changed, removed, added, swapped nor moved to another run: no reader and no owner gets them."""
    await attacked(tmp_path / "runs.db", key)
    for name, attack in ATTACKS.items():
        path = Path(shutil.copy(tmp_path / "runs.db", tmp_path / "attacked.db"))
        changed(path, *attack.split(";"))
        async with Journal(path, key=key) as journal:
            for use in (journal.open, *([] if "counted" in name else [journal.read, journal.view])):
                with pytest.raises(JournalError):
                    await use("a")
                    pytest.fail(f"{name}: {use.__name__}")


@pytest.mark.anyio
@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
async def test_messages_that_somebody_changed(tmp_path: Path, key: bytes | None) -> None:
    """A refusal that is taken away would let a call run, so the owner gets nothing of such an inbox."""
    await attacked(tmp_path / "runs.db", key)
    for name, attack in INBOX_ATTACKS.items():
        path = Path(shutil.copy(tmp_path / "runs.db", tmp_path / "attacked.db"))
        changed(path, *attack.split(";"))
        async with Journal(path, key=key) as journal:
            log = await journal.open("a")
            for reading in (log.inbox(1), journal.messages("a")):
                with pytest.raises(JournalError):
                    await reading
                    pytest.fail(name)
            if "counted" in name:
                with pytest.raises(JournalError):
                    await journal.leave("a", {"say": "x"})
            await log.release("waiting", {})


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


from eagerstream_durable.journal._jobs import Undo  # noqa: E402


class _Newer(Undo):
    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        from eagerstream_durable.journal._receipts import Receipt

        self.receipt: Any = Receipt()

    def statements(self) -> Any:
        return [("UPDATE eagerstream_journal SET version = 9", ())]
