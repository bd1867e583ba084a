"""`SQL` against statements that write, or reach out of the database: each in turn, and the file compared byte for byte."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.databases import made

from eagerstream.errors import ToolError
from eagerstream_toolkit import SQL

SQLITE_ATTACKS = {
    "insert": "INSERT INTO t VALUES (2)",
    "replace": "REPLACE INTO t VALUES (1)",
    "update": "UPDATE t SET x = 2",
    "delete": "DELETE FROM t",
    "delete with returning": "DELETE FROM t RETURNING x",
    "delete behind a with": "WITH a AS (SELECT 1) DELETE FROM t WHERE x IN (SELECT * FROM a)",
    "insert behind a with": "WITH a AS (SELECT 5) INSERT INTO t SELECT * FROM a",
    "upsert": "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET x = 2",
    "stacked": "SELECT 1; DELETE FROM t",
    "stacked behind a comment": "SELECT 1; -- only a look\nDELETE FROM t",
    "hidden by a comment": "/* SELECT */ DELETE FROM t",
    "cut comment": "DELETE FROM t /* SELECT 1",
    "explain": "EXPLAIN DELETE FROM t",
    "create": "CREATE TABLE u (x)",
    "create as": "CREATE TABLE u AS SELECT * FROM t",
    "temporary table": "CREATE TEMP TABLE u (x)",
    "virtual table": "CREATE VIRTUAL TABLE u USING fts5(x)",
    "view": "CREATE VIEW w AS SELECT 1",
    "trigger": "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "index": "CREATE INDEX i ON t (x)",
    "write through a view": "INSERT INTO v VALUES (1)",
    "drop": "DROP TABLE t",
    "alter": "ALTER TABLE t ADD COLUMN y",
    "reindex": "REINDEX",
    "analyze": "ANALYZE",
    "vacuum": "VACUUM",
    "vacuum into": "VACUUM INTO '{folder}/copy.db'",
    "attach": "ATTACH '{folder}/other.db' AS other",
    "attach the same": "ATTACH '{file}' AS other",
    "attach a URI": "ATTACH 'file:{file}?mode=rw' AS other",
    "detach": "DETACH main",
    "begin": "BEGIN IMMEDIATE",
    "commit": "COMMIT",
    "savepoint": "SAVEPOINT s",
    "writable schema": "PRAGMA writable_schema = ON",
    "writable schema called": "PRAGMA writable_schema(1)",
    "schema table": "UPDATE sqlite_master SET sql = 'CREATE TABLE t (y)'",
    "schema row": "DELETE FROM sqlite_schema",
    "query_only off": "PRAGMA query_only = OFF",
    "user_version": "PRAGMA user_version = 7",
    "application_id": "PRAGMA application_id = 7",
    "journal_mode": "PRAGMA journal_mode = WAL",
    "journal_mode that tells": "PRAGMA journal_mode",
    "checkpoint": "PRAGMA wal_checkpoint",
    "incremental_vacuum": "PRAGMA incremental_vacuum",
    "temp_store_directory": "PRAGMA temp_store_directory = '{folder}'",
    "heap limit of the process": "PRAGMA hard_heap_limit = 1",
    "optimize": "PRAGMA optimize",
    "file name": "PRAGMA database_list",
    "file name as a table": "SELECT file FROM pragma_database_list",
    "load_extension": "SELECT load_extension('{folder}/evil')",
    "load_extension in a condition": "SELECT 1 FROM t WHERE load_extension('{folder}/evil')",
    "readfile": "SELECT readfile('/etc/passwd')",
    "writefile": "SELECT writefile('{folder}/out', 'x')",
    "fts3_tokenizer": "SELECT fts3_tokenizer('simple', x'0000000000000000')",
    "rebuild of a full text index": "INSERT INTO words(words) VALUES ('rebuild')",
    "shadow table": "DELETE FROM words_data",
    "null byte": "SELECT 1\0; DELETE FROM t",
    "half a surrogate": "SELECT '\ud800'; DELETE FROM t",
    "empty": "",
    "comment only": "-- nothing",
    "semicolon only": ";",
}


MADE = """
CREATE TABLE t (x UNIQUE);
INSERT INTO t VALUES (1);
CREATE VIEW v AS SELECT x FROM t;
CREATE TRIGGER w INSTEAD OF INSERT ON v BEGIN DELETE FROM t; END;
CREATE VIRTUAL TABLE words USING fts5(word);
INSERT INTO words VALUES ('hello');
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with what can be attacked."""
    path = tmp_path / "t.db"
    path.write_bytes(made(MADE))
    return path


def folder(path: Path) -> dict[str, bytes]:
    """Every file beside the database, with what is in it."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


async def says(tool: SQL, query: str) -> str:
    """What the tool says to a query that it must not run; empty where it gave rows."""
    with anyio.fail_after(50):
        try:
            response = await tool.call({"sql_query": query})
        except ToolError as error:
            return str(error)
    return str(response.text) if response.status == "error" or not response.data["rows"] else ""


# --- SQLite -----------------------------------------------------------------------------------------------------------


WAYS: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "connection": lambda path: sqlite3.connect(path, check_same_thread=False),
    "engine": lambda path: sqlalchemy.create_engine(f"sqlite:///{path}"),
}


def test_sqlite(path: Path) -> None:
    """Nothing is written, nothing told, and the tool works on; also where the connection itself could write."""
    anyio.run(attack_readers, path)  # on one backend: what is tried is SQLite


async def attack_readers(path: Path) -> None:
    for make in WAYS.values():
        database = make(path)
        if isinstance(database, sqlite3.Connection):
            database.create_function("readfile", 1, lambda _: "read")
        tool = SQL(database)
        before = folder(path)
        for name, attack in SQLITE_ATTACKS.items():
            query = attack.format(folder=path.parent, file=path)
            with case(database, name):
                said = await says(tool, query)
                assert said
                assert str(path.parent) not in said.replace(query, "")
                assert (await tool.call({"sql_query": "SELECT x FROM t"})).data["rows"] == [[1]]
                if isinstance(database, sqlite3.Connection):
                    assert database.execute("PRAGMA query_only").fetchone() == (0,)
                    assert not database.in_transaction
                assert folder(path) == before
        if isinstance(database, sqlite3.Connection):
            database.close()
        if isinstance(database, sqlalchemy.Engine):
            database.dispose()


WRITING_ATTACKS = [
    name
    for name in SQLITE_ATTACKS
    if name.startswith(("attach", "stacked", "writable", "schema", "load_", "readfile", "writefile", "file name"))
    or name in ("vacuum into", "begin", "commit", "savepoint", "detach", "heap limit of the process", "query_only off")
]


def test_sqlite_that_may_write(path: Path) -> None:
    """Whoever may write, writes to this database only, by one statement, and not to its schema as a table."""
    anyio.run(attack_writer, path)


async def attack_writer(path: Path) -> None:
    before = folder(path)
    for name in WRITING_ATTACKS:
        with case(name), closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            connection.create_function("readfile", 1, lambda _: "read")
            tool = SQL(connection, read_only=False)
            assert await says(tool, SQLITE_ATTACKS[name].format(folder=path.parent, file=path))
            assert not connection.in_transaction
        assert folder(path) == before, name


@pytest.mark.anyio
async def test_wal(path: Path) -> None:
    """A database with a write-ahead log is read as well; the file itself stays as it is."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = folder(path)["t.db"]
    tool = SQL(path)
    assert (await tool.call({"sql_query": "SELECT x FROM t"})).data["rows"] == [[1]]
    assert await says(tool, "DELETE FROM t")
    assert folder(path)["t.db"] == before
