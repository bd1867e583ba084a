"""`SQL` on databases other than SQLite: what is sent to a driver, in which transaction, and what is left of it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import anyio
import pytest
import sqlalchemy
from packages.toolkit.tests.databases import ask

from eagerstream.errors import ToolError
from eagerstream_toolkit import SQL


class Cursor:
    """A cursor that notes what it is told, and has SQLite answer it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.cursor = connection.sqlite.cursor()

    def execute(self, sql: str) -> None:
        self.connection.told.append(sql)
        if self.connection.broken:
            raise RuntimeError("connection to postgresql://ann:hunter2@host lost: password=hunter2")
        if sql.startswith("SELECT wait"):
            self.connection.waiting.set()
            assert self.connection.cancelled.wait(50)
            raise RuntimeError("cancelled by the user")
        if "TRANSACTION" not in sql:
            self.cursor.execute(sql)

    def __getattr__(self, name: str) -> Any:
        if name not in ("description", "rowcount"):  # what else every driver has would fetch too much
            raise AttributeError(name)
        return getattr(self.cursor, name)

    def fetchone(self) -> Any:
        self.connection.fetched += 1
        return self.cursor.fetchone()

    def close(self) -> None:
        self.connection.told.append("close")


class Connection:
    """A connection of a driver that follows PEP 249, and can be cancelled as psycopg's."""

    def __init__(self) -> None:
        self.sqlite = sqlite3.connect(":memory:", check_same_thread=False)
        self.sqlite.execute("CREATE TABLE t (x)")
        self.sqlite.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(1000)])
        self.sqlite.commit()
        self.told: list[str] = []
        self.fetched = 0
        self.autocommit = False
        self.broken = False
        self.waiting = threading.Event()
        self.cancelled = threading.Event()

    def cursor(self) -> Cursor:
        return Cursor(self)

    def commit(self) -> None:
        self.told.append("commit")
        self.sqlite.commit()

    def rollback(self) -> None:
        self.told.append("rollback")
        self.sqlite.rollback()

    def cancel(self) -> None:
        self.cancelled.set()


@pytest.fixture
def connection() -> Iterator[Connection]:
    connection = Connection()
    with closing(connection.sqlite):
        yield connection


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("dialect", "begin"),
    [
        ("postgresql", "SET TRANSACTION READ ONLY"),
        ("pymysql", "START TRANSACTION READ ONLY"),
        ("oracle", "SET TRANSACTION READ ONLY"),
        ("snowflake", None),
    ],
)
async def test_reading(connection: Connection, dialect: str, begin: str | None) -> None:
    """A transaction that cannot write, the statement, and a roll-back; no more rows than shown."""
    response = await ask(SQL(connection, dialect=dialect, max_rows=3), "SELECT x /* all */ FROM t;")
    assert response.data == {"columns": ["x"], "rows": [[0], [1], [2]], "row_count": 3, "truncated": True}
    assert connection.told == [*([begin] if begin else []), "SELECT x /* all */ FROM t", "rollback", "close"]
    assert connection.fetched == 4


@pytest.mark.anyio
async def test_refused(connection: Connection) -> None:
    """Of what begins as no read, or could end the transaction, the driver never hears."""
    tool = SQL(connection, dialect="postgres")
    for query in (
        *("DELETE FROM t", "/* SELECT */ DELETE FROM t", "-- SELECT\nDROP TABLE t", "", " ; ", "SET ROLE x"),
        *("SELECT 1; DELETE FROM t", "SELECT 1;COMMIT", "SELECT ';'", "COMMIT", "BEGIN", "CALL f()", "selective 1"),
    ):
        with pytest.raises(ToolError, match="not run"):
            await ask(tool, query)
    assert connection.told == []
    assert (await ask(tool, "\n select x FROM t LIMIT 1 ;\n")).data["rows"] == [[0]]


@pytest.mark.anyio
async def test_commits_by_itself(connection: Connection) -> None:
    """What could not be rolled back is not run."""
    connection.autocommit = True
    with pytest.raises(ToolError, match="commits each statement by itself"):
        await ask(SQL(connection, dialect="postgres"), "SELECT 1")
    assert connection.told == ["close"]


@pytest.mark.anyio
async def test_writing(connection: Connection) -> None:
    """A statement is committed; several of them, and those that end transactions, are refused."""
    tool = SQL(connection, dialect="postgres", read_only=False)
    response = await ask(tool, "DELETE FROM t WHERE x < 10")
    assert (response.text, response.data["affected_rows"]) == ("10 rows affected.", 10)
    assert connection.told == ["DELETE FROM t WHERE x < 10", "commit", "close"]
    for query in ("COMMIT", "ROLLBACK", "DELETE FROM t; COMMIT", "SET TRANSACTION READ ONLY"):
        with pytest.raises(ToolError, match="not run"):
            await ask(tool, query)
    assert len(connection.told) == 3


@pytest.mark.anyio
async def test_errors(connection: Connection) -> None:
    """A driver's words without what is secret in them; the transaction is rolled back."""
    connection.broken = True
    response = await ask(SQL(connection, dialect="postgres"), "SELECT 1")
    assert response.code == "EXECUTION_ERROR"
    assert "lost" in response.text
    assert "hunter2" not in response.text
    assert connection.told[-2:] == ["rollback", "close"]
    connection.broken = False
    assert (await ask(SQL(connection, dialect="postgres"), "SELECT 1 AS x")).data["rows"] == [[1]]


@pytest.mark.anyio
async def test_cancelled(connection: Connection) -> None:
    """The driver is told to cancel, and the connection can be used afterwards."""
    tool = SQL(connection, dialect="postgres")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, tool, "SELECT wait FROM t")
        assert await anyio.to_thread.run_sync(connection.waiting.wait, 50)
        tasks.cancel_scope.cancel()
    assert connection.cancelled.is_set()
    assert (await ask(tool, "SELECT 1 AS x")).data["rows"] == [[1]]


@pytest.mark.anyio
async def test_too_slow(connection: Connection) -> None:
    """As it is after the time limit; a query that had not begun by then never does, or is cancelled at once."""
    tool = SQL(connection, dialect="postgres", timeout_s=0.05)
    assert (await ask(tool, "SELECT wait FROM t")).code == "TIMEOUT"
    assert (await ask(SQL(connection, dialect="postgres"), "SELECT 1 AS x")).data["rows"] == [[1]]
    assert connection.cancelled.is_set() or not connection.waiting.is_set()


# --- SQLAlchemy, with a driver that is not Python's sqlite3 -------------------------------------------------------------


@pytest.fixture
def engine(connection: Connection) -> Iterator[sqlalchemy.Engine]:
    """An engine for SQLite whose connections are not those of `sqlite3`, as with SQLCipher."""

    engine = sqlalchemy.create_engine(
        "sqlite://", creator=lambda: _Foreign(connection.sqlite), poolclass=sqlalchemy.StaticPool
    )
    yield engine
    engine.dispose()


class _Foreign:
    """Hands everything on to a connection, and is none of its class."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def close(self) -> None: ...


@pytest.mark.anyio
async def test_engine(engine: sqlalchemy.Engine, connection: Connection) -> None:
    """The same by way of an engine, with the schema from its inspector."""
    tool = SQL(engine, max_rows=2)
    assert "<schema>\nt (x NULL)\n</schema>" in tool.description
    assert (await ask(tool, "SELECT x FROM t WHERE ':a' <> '%s'")).data["rows"] == [[0], [1]]
    with pytest.raises(ToolError, match="not run"):
        await ask(tool, "DELETE FROM t")
    writing = SQL(engine, read_only=False)
    assert (await ask(writing, "DELETE FROM t WHERE x > 4")).text == "995 rows affected."
    assert connection.sqlite.execute("SELECT count(*) FROM t").fetchone() == (5,)
    assert (await ask(tool, "SELECT y FROM t")).text == "no such column: y"


@pytest.mark.anyio
async def test_connection_in_a_transaction(engine: sqlalchemy.Engine) -> None:
    """What the owner of a connection has not committed yet is not rolled back under his hands."""
    with engine.connect() as used:
        tool = SQL(used)
        assert (await ask(tool, "SELECT 1 AS x")).data["rows"] == [[1]]
        used.exec_driver_sql("DELETE FROM t")
        with pytest.raises(ToolError, match="transaction open"):
            await ask(tool, "SELECT 1")
        used.commit()
        assert (await ask(tool, "SELECT count(*) FROM t")).data["rows"] == [[0]]


# --- DuckDB -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.slow
async def test_duckdb() -> None:
    """A real driver with transactions of its own kind: reading, writing, and a query that is stopped."""
    duckdb = pytest.importorskip("duckdb")
    with closing(duckdb.connect(":memory:")) as database:
        writing = SQL(database, read_only=False)
        await ask(writing, "CREATE TABLE t AS SELECT range AS x FROM range(1000)")
        reading = SQL(database, max_rows=2, timeout_s=0.3)
        assert (await ask(reading, "SELECT x FROM t ORDER BY x")).data["rows"] == [[0], [1]]
        with pytest.raises(ToolError, match="not run"):
            await ask(reading, "DROP TABLE t")
        slow = "SELECT count(*) FROM t a, t b, t c, t d WHERE a.x * b.x + c.x * d.x = 7"
        assert (await ask(reading, slow)).code == "TIMEOUT"
        assert (await ask(writing, "SELECT count(*) FROM t")).data["rows"] == [[1000]]
