"""`SQL` on real servers: what a read-only transaction refuses, and what is left to the rights of the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.durable.tests.journal.conftest import running_server

from eagerstream.errors import ToolError, UsageError
from eagerstream_toolkit import SQL

pytestmark = pytest.mark.slow


async def says(tool: SQL, query: str) -> Any:
    """The rows of a query, or the words that refuse it."""
    with anyio.fail_after(30):
        try:
            response = await tool.call({"sql_query": query})
        except ToolError as error:
            return str(error)
    return response.data["rows"] if response.status != "error" else response.text


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URI of a server of its own, and a role `reader` that may only read one table."""
    pytest.importorskip("pgserver")
    psycopg = pytest.importorskip("psycopg")
    with running_server() as uri:
        with psycopg.connect(uri, autocommit=True) as owner:
            owner.execute("CREATE TABLE t (a int)")
            owner.execute("INSERT INTO t VALUES (1)")
            owner.execute("CREATE TABLE secret (a int)")
            owner.execute("CREATE SEQUENCE s")
            owner.execute("CREATE FUNCTION add() RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (2) RETURNING a'")
            owner.execute("CREATE ROLE reader LOGIN")
            owner.execute("GRANT SELECT ON t TO reader")
        yield uri


WRITES = (
    "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
    "WITH x AS (INSERT INTO t VALUES (3) RETURNING *) SELECT * FROM x",
    "SELECT * INTO n FROM t",
    "SELECT * FROM t FOR UPDATE",
    "EXPLAIN ANALYZE DELETE FROM t",
    "SELECT nextval('s')",
    "SELECT add()",
    "SELECT set_config('transaction_read_only', 'off', false), add()",
    "SELECT lo_create(0)",
)


@pytest.mark.anyio
async def test_postgres_writes_nothing(postgres: str) -> None:
    """Not even for an owner whom no rights hold back. A statement that has others behind it is not sent."""
    psycopg = pytest.importorskip("psycopg")
    with closing(psycopg.connect(postgres)) as owner, closing(psycopg.connect(postgres, autocommit=True)) as other:
        tool = SQL(owner)
        for write in WRITES:
            assert "read" in str(await says(tool, write)), write  # "in a read-only transaction", "mode must be set ..."
        for several in ("SELECT 1; COMMIT; DELETE FROM t; COMMIT", "SELECT 1; SET TRANSACTION READ WRITE", "COMMIT"):
            assert "The statement was not run" in await says(tool, several)
        assert await says(tool, "SELECT a FROM t") == [[1]]
        assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)
        assert other.execute("SELECT last_value, is_called FROM s").fetchone() == (1, False)
        assert other.execute("SELECT to_regclass('n')").fetchone() == (None,)


@pytest.mark.anyio
async def test_postgres_rights_are_the_boundary(postgres: str) -> None:
    """What a user may not do, the model may not do: other tables, files of the server, other sessions."""
    psycopg = pytest.importorskip("psycopg")
    reader = postgres.replace("//postgres:", "//reader:")
    with closing(psycopg.connect(reader)) as connection, closing(psycopg.connect(postgres)) as owner:
        tool = SQL(connection)
        pid = owner.execute("SELECT pg_backend_pid()").fetchone()[0]
        for attack in (
            "SELECT * FROM secret",
            "SELECT pg_read_file('/etc/hostname')",
            "SELECT * FROM pg_ls_dir('/')",
            f"SELECT pg_terminate_backend({pid})",
            "SELECT rolpassword FROM pg_authid",
        ):
            assert "denied" in str(await says(tool, attack)), attack
        assert await says(tool, "SELECT a FROM t") == [[1]]
        assert owner.execute("SELECT 1").fetchone() == (1,)


# --- DuckDB -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def duckdb() -> Any:
    return pytest.importorskip("duckdb")


FILES = (
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM glob('/etc/*')",
    "FROM '{secret}'",
    "SUMMARIZE '{secret}'",
    "SELECT * FROM read_parquet('https://example.com/x.parquet')",
)


@pytest.mark.anyio
async def test_duckdb_attacked(duckdb: Any, tmp_path: Path) -> None:
    """No file of the host is read, nothing is written, and the settings stay as they are."""
    secret = tmp_path / "users.csv"
    secret.write_text("user,password\nroot,hunter2\n")
    with closing(duckdb.connect()) as database:
        database.execute("CREATE TABLE t (a INT)")
        tool = SQL(database)
        for attack in FILES:
            said = str(await says(tool, attack.format(secret=secret)))
            assert "disabled" in said, (attack, said)
            assert "hunter2" not in said
        for write in ("INSERT INTO t VALUES (1)", "COPY t TO '/x'", "ATTACH '/x'", "SET threads = 1", "INSTALL httpfs"):
            assert "The statement was not run" in await says(tool, write)
        assert "read" in await says(tool, "EXPLAIN ANALYZE INSERT INTO t VALUES (1)")
        assert await says(tool, "SELECT count(*) FROM t") == [[0]]
        with pytest.raises(duckdb.Error, match="locked"):
            database.execute("SET enable_external_access = true")


@pytest.mark.anyio
async def test_duckdb_that_may_write(duckdb: Any, tmp_path: Path) -> None:
    """Whoever may write, writes to this database only."""
    with closing(duckdb.connect()) as database:
        tool = SQL(database, read_only=False)
        await says(tool, "CREATE TABLE t AS SELECT 1 AS a")
        for attack in (f"COPY t TO '{tmp_path}/x.csv'", f"ATTACH '{tmp_path}/x.db'", f"EXPORT DATABASE '{tmp_path}/x'"):
            assert "disabled" in await says(tool, attack)
        assert await says(tool, "SELECT a FROM t") == [[1]]
    assert [file async for file in anyio.Path(tmp_path).iterdir()] == []


@pytest.mark.anyio
async def test_duckdb_keeps_what_is_attached(duckdb: Any, tmp_path: Path) -> None:
    """The database's own file and attached ones are read, written and checkpointed as before, by other connections too."""
    with closing(duckdb.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE o AS SELECT 42 AS a")
    with closing(duckdb.connect(tmp_path / "main.db")) as database:
        database.execute("CREATE TABLE t (a INT)")
        database.execute(f"ATTACH '{tmp_path}/other.db' AS other")
        tool = SQL(database)
        assert await says(tool, "SELECT o.a FROM other.o AS o") == [[42]]
        with closing(database.cursor()) as cursor:
            for statement in (
                "INSERT INTO t VALUES (1)",
                "INSERT INTO other.o VALUES (2)",
                "CHECKPOINT",
                "CHECKPOINT other",
            ):
                cursor.execute(statement)
        assert await says(tool, "SELECT count(*) FROM t, other.o") == [[2]]
        assert await says(SQL(database), "SELECT 1") == [[1]]  # a second tool finds the configuration locked


@pytest.mark.anyio
async def test_duckdb_of_who_needs_files(duckdb: Any, tmp_path: Path) -> None:
    """Views on files work in directories that the owner allows; a configuration that he locked is left alone."""
    (tmp_path / "x.csv").write_text("a\n7\n")
    view = f"CREATE VIEW v AS FROM '{tmp_path}/x.csv'"
    with closing(duckdb.connect()) as database:
        database.execute(view)
        database.execute(f"SET allowed_directories = ['{tmp_path}']")
        assert await says(SQL(database), "SELECT a FROM v") == [[7]]
    with closing(duckdb.connect()) as database:
        database.execute(view)
        database.execute("SET lock_configuration = true")
        assert await says(SQL(database), "SELECT a FROM v") == [[7]]
        assert database.execute("SELECT current_setting('enable_external_access')").fetchone() == (True,)


def test_duckdb_that_is_closed(duckdb: Any) -> None:
    """A connection that cannot be confined is not used."""
    database = duckdb.connect()
    database.close()
    with pytest.raises(UsageError, match="confine"):
        SQL(database)
