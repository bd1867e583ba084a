"""The guard of `SQL` against the databases themselves: what they say of its lists, and what attacks do to them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from eagerstream.builtin import SQL
from eagerstream.builtin._sql.allowed import allowed_functions, allowed_table_functions
from eagerstream.builtin._sql.guard import checked_read
from eagerstream.errors import ToolError, UsageError
from tests.builtin.sql_queries import DUCKDB, GENERIC, POSTGRES, SHOP
from tests.fuzz.sql_text import CORPUS

pytestmark = pytest.mark.slow

ATTACKS = {file.stem: file.read_text("utf-8").splitlines() for file in CORPUS.glob("*.sql")}


async def says(tool: SQL, query: str) -> Any:
    """The rows of a query, or the words that refuse it."""
    with anyio.fail_after(30):
        try:
            response = await tool.call({"sql_query": query})
        except ToolError as error:
            return str(error)
    return response.data["rows"] if response.status != "error" else response.text


def same_rows(before: list[Any], after: list[Any]) -> bool:
    return sorted(map(repr, before)) == sorted(map(repr, after))


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a server of its own, with the shop, and a role `reader` that may only read it."""
    pgserver = pytest.importorskip("pgserver")
    psycopg = pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no XDG_RUNTIME_DIR in containers
        server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
        uri = server.get_uri()
    try:
        with psycopg.connect(uri, autocommit=True) as owner:
            owner.execute(SHOP)
            owner.execute("CREATE TABLE t (a int)")
            owner.execute("INSERT INTO t VALUES (1)")
            owner.execute("CREATE SEQUENCE s")
            owner.execute("CREATE ROLE reader LOGIN")
            owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        yield uri
    finally:
        server.cleanup()


def as_reader(uri: str) -> str:
    return uri.replace("//postgres:", "//reader:")


def test_postgres_knows_the_functions(postgres: str) -> None:
    """None of them may be called by the owner only, and all those that are not mere computations are known here."""
    psycopg = pytest.importorskip("psycopg")
    names = sorted(allowed_functions("postgres"))
    with psycopg.connect(postgres) as connection:
        query = "SELECT DISTINCT proname FROM pg_proc WHERE proname = ANY(%s) AND "
        restricted = connection.execute(query + "proacl IS NOT NULL", [names]).fetchall()
        volatile = connection.execute(query + "provolatile = 'v'", [names]).fetchall()
    assert restricted == []
    assert {name for (name,) in volatile} == {
        *(
            "random",
            "random_normal",
            "gen_random_uuid",
            "array_sample",
            "array_shuffle",
            "clock_timestamp",
            "timeofday",
        ),
        *("pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size"),
    }


def test_postgres_calls_nothing_with_a_row(postgres: str) -> None:
    """`table.function` is let through, as nobody can tell it from a column: so no function of a row has an effect."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres) as connection:
        found = connection.execute(
            "SELECT proname FROM pg_proc WHERE provolatile = 'v' AND pronargs >= 1 AND pronargs - pronargdefaults <= 1 "
            "AND format_type(proargtypes[0], NULL) IN ('record', 'any', '\"any\"', 'anyelement', 'anynonarray', "
            "'anycompatible', 'anycompatiblenonarray')"
        ).fetchall()
    assert found == []


def test_postgres_gives_the_same_rows(postgres: str) -> None:
    """What is sent means what was written."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres, autocommit=True) as connection:
        for query in GENERIC + POSTGRES:
            before = connection.execute(query).fetchall()
            assert same_rows(before, connection.execute(checked_read(query, "postgres")).fetchall()), query


def test_postgres_gives_functions_the_names_that_are_sent(postgres: str) -> None:
    """A function behind FROM gives the same columns with the alias that is written for it as without one."""
    psycopg = pytest.importorskip("psycopg")
    sources = (
        *("unnest(ARRAY[1, 2])", "Generate_Series(1, 2)", "pg_catalog.generate_series(1, 2)", "left('abc', 1)"),
        *("json_each_text('{\"a\": 1}')", "json_array_elements('[1]')", "unnest(ARRAY[1]) WITH ORDINALITY"),
        *("ROWS FROM (unnest(ARRAY[1]), generate_series(1, 2))", "json_to_recordset('[{\"a\": 1}]') AS (a int)"),
        *("t, LATERAL generate_series(1, a)", "t CROSS JOIN LATERAL unnest(ARRAY[a])", "coalesce(1, 2)"),
        *("generate_series(1, 2), unnest(ARRAY[1])", "nullif(1, 2)", "greatest(1, 2)"),
    )
    with psycopg.connect(postgres, autocommit=True) as connection:
        for source in sources:
            query = f"SELECT * FROM {source}"
            before = connection.execute(query)
            after = connection.execute(checked_read(query, "postgres"))
            assert [column.name for column in before.description] == [column.name for column in after.description]
            assert same_rows(before.fetchall(), after.fetchall()), query


@pytest.mark.anyio
async def test_postgres_attacked(postgres: str) -> None:
    """As a role that may only read: no session ends, no lock stays, nothing is written or read from a file."""
    psycopg = pytest.importorskip("psycopg")
    with (
        closing(psycopg.connect(as_reader(postgres))) as reader,
        closing(psycopg.connect(as_reader(postgres), autocommit=True)) as application,
        closing(psycopg.connect(postgres, autocommit=True)) as owner,
        closing(psycopg.connect(postgres)) as superuser,
    ):
        tool = SQL(reader)
        owners = SQL(superuser)  # whom nothing but the guard holds back
        for attack in ATTACKS["postgres"]:
            assert "The statement was not run" in await says(tool, attack), attack
            assert "The statement was not run" in await says(owners, attack), attack
        assert await says(tool, "SELECT a FROM t") == [[1]]
        assert application.execute("SELECT 1").fetchone() == (1,)
        assert owner.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
        assert owner.execute("SELECT last_value, is_called FROM s").fetchone() == (1, False)


@pytest.mark.anyio
async def test_postgres_with_escapes_in_texts(postgres: str) -> None:
    """A connection that reads backslashes in texts in another way reads the same statement."""
    psycopg = pytest.importorskip("psycopg")
    with closing(psycopg.connect(postgres)) as connection:
        connection.execute("SET standard_conforming_strings = off")
        connection.commit()
        rows = await says(SQL(connection), "SELECT '\\' AS a, ' , pg_sleep(9) --' AS b")
        assert rows == [["\\", " , pg_sleep(9) --"]]


# --- DuckDB -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def duckdb() -> Any:
    return pytest.importorskip("duckdb")


def test_duckdb_knows_the_functions(duckdb: Any) -> None:
    """Those with side effects are random numbers; each one behind FROM is a function for tables."""
    with closing(duckdb.connect()) as database:
        effects = database.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE has_side_effects AND list_contains(?, function_name)",
            [sorted(allowed_functions("duckdb"))],
        ).fetchall()
    assert {name for (name,) in effects} <= {"random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid"}
    assert not {name for name in allowed_table_functions("duckdb") if name.startswith(("read_", "parquet_", "sniff"))}


def test_duckdb_gives_the_same_rows(duckdb: Any) -> None:
    """What is sent means what was written."""
    with closing(duckdb.connect()) as database:
        database.execute(SHOP)
        for query in GENERIC + DUCKDB:
            before = database.execute(query).fetchall()
            assert same_rows(before, database.execute(checked_read(query, "duckdb")).fetchall()), query


@pytest.mark.anyio
async def test_duckdb_attacked(duckdb: Any, tmp_path: Path) -> None:
    """No file of the host is read, through the guard or past it."""
    secret = tmp_path / "users.csv"
    secret.write_text("user,password\nroot,hunter2\n")
    with closing(duckdb.connect()) as database:
        database.execute("CREATE TABLE t (a INT)")
        tool = SQL(database)
        for attack in ATTACKS["duckdb"]:
            said = await says(tool, attack.replace("/etc/users.csv", str(secret)))
            assert "The statement was not run" in said, attack
        for past in (f"FROM '{secret}'", f"SUMMARIZE '{secret}'", "FROM read_text('/etc/hostname')", "INSTALL httpfs"):
            with pytest.raises(duckdb.Error):
                database.execute(past)
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
        tool = SQL(database)
        assert await says(tool, "SELECT a FROM v") == [[7]]
        assert database.execute("SELECT current_setting('enable_external_access')").fetchone() == (True,)
        for attack in ATTACKS["duckdb"]:  # the guard is still there
            assert "The statement was not run" in await says(tool, attack), attack


def test_duckdb_that_is_closed(duckdb: Any) -> None:
    """A connection that cannot be confined is not used."""
    database = duckdb.connect()
    database.close()
    with pytest.raises(UsageError, match="confine"):
        SQL(database)
