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

from eagerstream.builtin import SQL
from eagerstream.builtin._sql.guard import checked_read
from eagerstream.errors import ToolError
from tests.builtin.cases import case
from tests.builtin.databases import made
from tests.tables import rows

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


# --- what sqlglot reads -------------------------------------------------------------------------------------------------

PARSED_ATTACKS: list[tuple[str, str]] = [
    ("postgres", "DELETE FROM t"),
    ("postgres", "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x"),
    ("postgres", "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x"),
    ("postgres", "WITH a AS (WITH b AS (UPDATE t SET x = 1 RETURNING *) SELECT * FROM b) SELECT * FROM a"),
    ("postgres", "SELECT * FROM (WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x) AS y"),
    ("postgres", "SELECT 1; DROP TABLE t"),
    ("postgres", "SELECT 1; -- two\nDROP TABLE t"),
    ("postgres", "/* SELECT */ DROP TABLE t"),
    ("postgres", "SELECT * INTO n FROM t"),
    ("postgres", "SELECT * FROM t FOR UPDATE"),
    ("postgres", "SELECT * FROM t FOR SHARE"),
    ("postgres", "EXPLAIN ANALYZE DELETE FROM t"),
    ("postgres", "EXPLAIN (ANALYZE) DELETE FROM t"),
    ("postgres", "CALL f()"),
    ("postgres", "DO $$ BEGIN DELETE FROM t; END $$"),
    ("postgres", "COPY t TO '/tmp/x'"),
    ("postgres", "COPY t FROM PROGRAM 'rm -rf /'"),
    ("postgres", "COMMIT"),
    ("postgres", "BEGIN; DELETE FROM t; COMMIT"),
    ("postgres", "SET TRANSACTION READ WRITE"),
    ("postgres", "SET ROLE postgres"),
    ("postgres", "RESET ALL"),
    ("postgres", "LOCK TABLE t"),
    ("postgres", "VACUUM"),
    ("postgres", "TRUNCATE t"),
    ("postgres", "GRANT ALL ON t TO public"),
    ("postgres", "MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE"),
    ("postgres", "PREPARE p AS DELETE FROM t"),
    ("postgres", "EXECUTE p"),
    ("postgres", "LISTEN c"),
    ("postgres", "NOTIFY c"),
    ("postgres", "SELECT set_config('transaction_read_only', 'off', false)"),
    ("postgres", "SELECT pg_catalog.set_config('transaction_read_only', 'off', false)"),
    ("postgres", "SELECT \"set_config\"('transaction_read_only', 'off', false)"),
    ("postgres", "SELECT pg_read_file('/etc/passwd')"),
    ("postgres", "SELECT * FROM pg_ls_dir('/')"),
    ("postgres", "SELECT lo_export(1, '/tmp/x')"),
    ("postgres", "SELECT * FROM dblink('host=x', 'DELETE FROM t') AS d(x int)"),
    ("postgres", "SELECT query_to_xml('DELETE FROM t', true, true, '')"),
    ("postgres", "SELECT nextval('s')"),
    ("postgres", "SELECT pg_terminate_backend(1)"),
    ("postgres", "SELECT 1 WHERE EXISTS (SELECT pg_sleep(1000))"),
    ("mysql", "SELECT 1 /*! ; DELETE FROM t */"),
    ("mysql", "SELECT /*!50000 1 INTO OUTFILE '/tmp/x' */"),
    ("mysql", "/*M!100100 DELETE FROM t */"),
    ("mysql", "SELECT * FROM t INTO OUTFILE '/tmp/x'"),
    ("mysql", "SELECT 1 INTO @x"),
    ("mysql", "SELECT @x := 1"),
    ("mysql", "SELECT LOAD_FILE('/etc/passwd')"),
    ("mysql", "SELECT SLEEP(1000)"),
    ("mysql", "SELECT BENCHMARK(1000000000, MD5('x'))"),
    ("mysql", "HANDLER t OPEN"),
    ("mysql", "LOAD DATA INFILE '/etc/passwd' INTO TABLE t"),
    ("mysql", "KILL 1"),
    ("mysql", "SELECT 1 -- \n; DELETE FROM t"),
    ("mysql", "SELECT '\\'; DELETE FROM t; -- '; DELETE FROM t"),
    ("tsql", "EXEC xp_cmdshell 'dir'"),
    ("tsql", "SELECT * FROM OPENROWSET('a', 'b', 'c')"),
    ("tsql", "SELECT 1 EXEC('DROP TABLE t')"),
    ("tsql", "SELECT * INTO n FROM t"),
    ("tsql", "WITH x AS (SELECT 1 AS a) DELETE FROM x"),
    ("tsql", "SELECT NEXT VALUE FOR s"),
    ("oracle", "SELECT * FROM t FOR UPDATE NOWAIT"),
    ("oracle", "BEGIN DELETE FROM t; END;"),
    ("oracle", "SELECT UTL_HTTP.REQUEST('http://x') FROM dual"),
    ("duckdb", "COPY t TO 'x.csv'"),
    ("duckdb", "SELECT * FROM '/etc/passwd'"),
    ("duckdb", "SELECT * FROM 'https://host/x.parquet'"),
    ("duckdb", "FROM 'x.csv'"),
    ("duckdb", "SELECT * FROM read_csv('/etc/passwd')"),
    ("duckdb", "SELECT * FROM read_text('/etc/passwd')"),
    ("duckdb", "SELECT * FROM glob('/*')"),
    ("duckdb", "SELECT * FROM query('DELETE FROM t')"),
    ("duckdb", 'SELECT * FROM "/etc/users".csv'),
    ("duckdb", 'SELECT * FROM "/etc"."users".csv'),
    ("duckdb", "SELECT * FROM users.CSV"),
    ("duckdb", "SELECT * FROM a.b.parquet"),
    ("duckdb", "SELECT * FROM t WHERE x IN (FROM t JOIN users.json USING (x))"),
    ("duckdb", "SELECT * FROM json_execute_serialized_sql('{}')"),
    ("duckdb", "SELECT * FROM system.main.json_execute_serialized_sql('{}')"),
    ("duckdb", "SELECT * FROM t, LATERAL enable_logging('QueryLog', storage = 'file', storage_path = '/tmp')"),
    ("duckdb", "SELECT * FROM (FROM enable_profiling('json'))"),
    ("duckdb", "SELECT * FROM checkpoint()"),
    ("duckdb", "SELECT * FROM arrow_scan(1, 2, 3)"),
    ("duckdb", "SELECT * FROM sqlite_query('x', 'DELETE FROM t')"),
    ("duckdb", "SELECT write_log('x')"),
    ("duckdb", "SELECT sleep_ms(1000000)"),
    ("duckdb", "ATTACH 'x.db'"),
    ("duckdb", "INSTALL httpfs"),
    ("duckdb", "LOAD httpfs"),
    ("duckdb", "PRAGMA enable_external_access"),
    ("duckdb", "SET enable_external_access = true"),
    ("clickhouse", "SELECT * FROM url('http://host', 'CSV')"),
    ("clickhouse", "SELECT * FROM file('/etc/passwd')"),
    ("clickhouse", "SELECT * FROM urlCluster('c', 'http://host', 'CSV')"),
    ("tsql", "SELECT * FROM sys.fn_xe_file_target_read_file('\\\\host\\x', NULL, NULL, NULL)"),
    ("postgres", "SELECT pg_backup_start('x')"),
    ("postgres", "SELECT pg_logfile_rotate()"),
    ("postgres", "SELECT '" + "x" * 100_000 + "'"),
    ("snowflake", "SELECT SYSTEM$CANCEL_QUERY('x')"),
    ("sqlite", "ATTACH 'x.db' AS x"),
    ("postgres", ""),
    ("postgres", "-- nothing"),
    ("postgres", "not SQL at all"),
    ("postgres", "SELECT 'open"),
    ("postgres", "SELECT " + "(" * 3_000 + "1" + ")" * 3_000),
]


@rows("dialect, attack", PARSED_ATTACKS)
def test_parsed(dialect: str, attack: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of what is not one statement that reads nothing is sent; nothing of it is in a log."""
    with pytest.raises(ToolError, match="The statement was not run") as refused:
        checked_read(attack, dialect)
    assert refused.value.code == "PERMISSION_DENIED"
    assert caplog.text == ""


@rows(
    "dialect, query, sent",
    [
        ("postgres", "SELECT 1;", "SELECT 1"),
        ("postgres", "SELECT a /* why */ FROM t -- end", "SELECT a FROM t"),
        ("postgres", "TABLE t", "SELECT * FROM t"),
        ("postgres", "VALUES (1, 'a')", "VALUES (1, 'a')"),
        ("postgres", "(SELECT 1) UNION ALL (SELECT 2)", "(SELECT 1) UNION ALL (SELECT 2)"),
        ("postgres", 'SELECT "lower"(x) FROM t', 'SELECT "lower"(x) FROM t'),
        ("postgres", r"SELECT '\d'", r"SELECT e'\\d'"),
        ("postgres", "SELECT x FROM t WHERE x LIKE 'DELETE %'", "SELECT x FROM t WHERE x LIKE 'DELETE %'"),
        ("postgres", "SELECT ';'", "SELECT ';'"),
        ("mysql", "SELECT `update` FROM `delete`", "SELECT `update` FROM `delete`"),
        ("duckdb", "FROM t", "SELECT * FROM t"),
        ("duckdb", "FROM main.t, csv", "SELECT * FROM main.t, csv"),
        ("duckdb", "SELECT * FROM range(3)", "SELECT * FROM range(3)"),
        ("duckdb", "SELECT name FROM duckdb_tables()", "SELECT name FROM duckdb_tables()"),
        ("postgres", r"SELECT x FROM t WHERE x LIKE '5\%' ESCAPE '\'", r"SELECT x FROM t WHERE x LIKE e'5\\%'"),
        ("postgres", "SELECT x FROM t WHERE x LIKE '5!%' ESCAPE '!'", "SELECT x FROM t WHERE x LIKE '5!%' ESCAPE '!'"),
        ("tsql", "SELECT TOP 5 * FROM t", "SELECT TOP 5 * FROM t"),
        ("tsql", "SELECT a FROM t WITH (NOLOCK)", "SELECT a FROM t WITH (NOLOCK)"),
    ],
)
def test_parsed_reads(dialect: str, query: str, sent: str) -> None:
    """What reads is sent as it was understood; words in texts and names are no reason to refuse it."""
    assert checked_read(query, dialect) == sent


@rows("dialect", ["postgres", "mysql", "oracle", "tsql", "duckdb", "snowflake"])
@rows("words", ["decimal(", "struct(", "f(decimal(", "array[", "array[array(", "(int["])
def test_costly(dialect: str, words: str) -> None:
    """A statement that sqlglot would read for hours is refused at once."""
    closing_them = "".join({"(": ")", "[": "]"}.get(character, "") for character in reversed(words))
    with pytest.raises(ToolError, match="The statement was not run"):
        checked_read("SELECT " + words * 30 + "1" + closing_them * 30, dialect)


@rows("dialect", ["tsql", "fabric"])
def test_costly_arrows(dialect: str) -> None:
    """Where there are none, sqlglot would read each of them twice."""
    with pytest.raises(ToolError, match="another dialect"):
        checked_read("SELECT " + "x -> " * 30 + "1", dialect)


@rows(
    "query",
    [
        "SELECT CAST(ARRAY[ARRAY[CAST(x AS DECIMAL(10, 2))]] AS DECIMAL(10, 2)[])",
        "SELECT " + ", ".join(["DATE(x)"] * 50),
        "SELECT " + "COALESCE(" * 30 + "1" + ")" * 30,
    ],
)
def test_not_costly(query: str) -> None:
    """What people write is not nested like that."""
    assert checked_read(query, "postgres").startswith("SELECT ")
