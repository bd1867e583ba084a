"""`SQL`: what a query gives, what it costs at most, and that nothing writes unless it may."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from traceback import walk_stack
from typing import Any

import anyio
import pytest
import sqlalchemy
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.databases import ask, made
from packages.toolkit.tests.support import conversation, results
from sqlalchemy.pool import StaticPool
from tests.support import until
from tests.tables import rows

from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import ToolResponse
from eagerstream_toolkit import SQL
from eagerstream_toolkit._sql.sqlite import run_query

FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


MADE = """
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL, picture BLOB);
INSERT INTO items VALUES (1, 'tea', 2.5, x'0a1b'), (2, 'a | b
c', NULL, NULL), (3, 'Käse', 1e999, zeroblob(100));
CREATE TABLE numbers (n INTEGER);
INSERT INTO numbers WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i LIMIT 1000) SELECT n FROM i;
CREATE VIRTUAL TABLE words USING fts5(word);
INSERT INTO words VALUES ('hello world');
CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);
INSERT INTO places VALUES (1, 2, 3);
CREATE TABLE log (what TEXT);
CREATE VIEW noted AS SELECT what FROM log;
CREATE TRIGGER note INSTEAD OF INSERT ON noted BEGIN INSERT INTO log VALUES (new.what); END;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of a shop."""
    path = tmp_path / "shop.db"
    path.write_bytes(made(MADE))
    return path


def content(path: Path) -> bytes:
    """What is in a database's file."""
    return path.read_bytes()


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_rows(path: Path) -> None:
    """Rows are JSON, one a line: an empty value, a text that says so, and a line break in a cell stay apart."""
    response = await ask(SQL(path), "SELECT * FROM items ORDER BY id")
    lines = response.text.splitlines()
    assert json.loads(lines[0]) == ["id", "name", "price", "picture"]
    assert [json.loads(line) for line in lines[1:-1]] == response.data["rows"]
    assert response.data["rows"][0] == [1, "tea", 2.5, "x'0a1b'"]
    assert response.data["rows"][1][2:] == [None, None]
    assert response.data["rows"][2] == [3, "Käse", "inf", "<100 bytes>"]
    assert lines[-1] == "(3 rows)"
    assert response.data["row_count"] == 3
    json.dumps(response.data, allow_nan=False)


_WHAT_READS: list[tuple[str, list[Any]]] = [
    ("SELECT count(*) FROM numbers;", [[1000]]),  # semicolon
    ("-- how many?\nSELECT max(n) FROM numbers", [[1000]]),  # comment
    ("SELECT word FROM words WHERE words MATCH 'hello'", [["hello world"]]),  # full text
    ("SELECT id FROM places WHERE x0 < 5", [[1]]),  # r-tree
    ("SELECT value FROM json_each('[1, 2]')", [[1], [2]]),  # table-valued function
    ("SELECT name FROM pragma_table_info('numbers')", [["n"]]),  # pragma as a table
    ("PRAGMA user_version", [[0]]),  # pragma that tells
    ("SELECT name FROM sqlite_master WHERE type = 'view'", [["noted"]]),  # schema
    ("SELECT name FROM items WHERE name LIKE '%e%' AND id = 1", [["tea"]]),  # percent
    ("SELECT ':x', '?'", [[":x", "?"]]),  # signs of parameters
    ("WITH a AS (SELECT 1 AS x) SELECT x FROM a", [[1]]),  # with
    ("VALUES (1, 2)", [[1, 2]]),  # values
]


@pytest.mark.anyio
async def test_what_reads(path: Path) -> None:
    """What reads is not in the way of what keeps the rest out."""
    for query, found in _WHAT_READS:
        with case(query):
            assert (await ask(SQL(path), query)).data["rows"] == found


@pytest.mark.anyio
async def test_no_rows(path: Path) -> None:
    """A query that finds nothing says so, with its columns."""
    response = await ask(SQL(path), "SELECT id FROM items WHERE id > 5")
    assert (response.status, response.text) == ("success", '["id"]\n(0 rows)')


def test_description(path: Path) -> None:
    """The model is told the dialect and the tables, in words that can be replaced."""
    definition = SQL(path).to_dict()
    assert definition["name"] == "sql"
    assert "can only be read" in definition["description"]
    assert "The dialect is SQLite." in definition["description"]
    assert "CREATE TABLE numbers (n INTEGER)" in definition["description"]
    assert definition["input_schema"]["required"] == ["sql_query"]
    own = SQL(path, name="shop", description="The shop.", schema="items(id)").to_dict()
    assert own["name"] == "shop"
    assert own["description"] == "The shop.\nThe dialect is SQLite.\n<schema>\nitems(id)\n</schema>"


def test_description_of_a_large_schema() -> None:
    """A thousand tables do not fill the context."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("".join(f"CREATE TABLE t{n} (a, b, c, d, e, f, g, h, i, j);" for n in range(1000)))
        assert len(SQL(connection).description) < 21_000


@pytest.mark.anyio
async def test_run(path: Path) -> None:
    """In a run, the model reads the rows; a query that fails is an error with SQLite's own words."""
    result = await conversation(SQL(path), {"sql_query": "SELECT 1 AS x"}, {"sql_query": "SELECT * FROM missing"})
    assert results(result) == [
        ('["x"]\n[1]\n(1 row)', False),
        ("[INVALID_PARAM] no such table: missing", True),
    ]


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_too_many_rows(path: Path) -> None:
    """The first ones are shown, and the model is told that there are more."""
    response = await ask(SQL(path, max_rows=3), "SELECT n FROM numbers ORDER BY n")
    assert (response.status, response.reason) == ("partial", "only the first 3 rows of more are shown")
    assert response.data == {"columns": ["n"], "rows": [[1], [2], [3]], "row_count": 3, "truncated": True}
    exact = await ask(SQL(path, max_rows=1000), "SELECT n FROM numbers")
    assert (exact.status, exact.data["truncated"]) == ("success", False)


@pytest.mark.anyio
async def test_endless_rows(path: Path) -> None:
    """A result without an end is never read to its end."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    assert len((await ask(SQL(path), endless)).data["rows"]) == 100


@pytest.mark.anyio
async def test_long_cells(path: Path) -> None:
    """A long value is cut, and a result is within its bound whatever its rows are."""
    tool = SQL(path, max_cell_chars=10, max_result_chars=100)
    response = await ask(tool, "SELECT printf('%.*c', 1000, 'x') AS x")
    assert response.data["rows"] == [["x" * 10 + "..."]]
    assert response.reason == "1 long value cut"
    response = await ask(tool, "SELECT n, 'abcdefgh' FROM numbers")
    assert sum(len(json.dumps(row)) for row in response.data["rows"]) <= 100
    assert response.status == "partial"


_MEMORY = [
    "SELECT " + ", ".join(["randomblob(4000000)"] * 1000),  # wide row
    "SELECT randomblob(1000000000)",  # large value
    "SELECT instr(zeroblob(2000000), zeroblob(1000000) || x'01')",  # search in a large value
    "SELECT hex(zeroblob(500000)) LIKE '%" + "0" * 990 + "1'",  # long pattern
    "SELECT replace(hex(zeroblob(1000000)), '0', hex(zeroblob(1000000)))",  # product
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,  # nesting
    "SELECT 1" + " UNION ALL SELECT 1" * 500,  # compound
    "SELECT '" + "x" * 200_000 + "'",  # long statement
]


@pytest.mark.anyio
async def test_memory(path: Path) -> None:
    """What would take gigabytes is refused at once, and the tool still works."""
    for query in _MEMORY:
        with case(query):
            tool = SQL(path)
            assert (await ask(tool, query)).status == "error"
            assert (await ask(tool, "SELECT 1")).data["rows"] == [[1]]


# --- time -------------------------------------------------------------------------------------------------------------


def shared(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, check_same_thread=False)


@pytest.mark.anyio
@pytest.mark.parametrize("is_shared", [False, True], ids=["a connection for each call", "one connection"])
async def test_too_slow(path: Path, is_shared: bool) -> None:
    """A query without an end is stopped, its thread ends, and the connection can be used afterwards."""
    with closing(shared(path)) as connection:
        tool = SQL(connection if is_shared else path, timeout_s=0.05)
        response = await ask(tool, FOREVER)
        assert response.code == "TIMEOUT"
        assert response.text == "The statement did not finish within 0.05 seconds and was stopped."
        usable = SQL(connection) if is_shared else tool
        assert (await ask(usable, "SELECT 1")).data["rows"] == [[1]]
        await until(no_query_runs)


@pytest.mark.anyio
async def test_cancelled(path: Path) -> None:
    """While a query runs, the event loop goes on; cancelling the call stops it, and the next one has its turn."""
    with closing(shared(path)) as connection:
        tool = SQL(connection)
        started = threading.Event()
        connection.set_trace_callback(lambda statement: started.set() if statement == FOREVER else None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, tool, FOREVER)
            assert await anyio.to_thread.run_sync(started.wait, 50)
            tasks.cancel_scope.cancel()
        assert (await ask(tool, "SELECT 1")).data["rows"] == [[1]]
        await until(no_query_runs)


@pytest.mark.anyio
async def test_waiting_for_a_turn(path: Path) -> None:
    """A call that waits for the connection is not waited for longer than its time."""
    with closing(shared(path)) as connection:
        tool = SQL(connection, timeout_s=0.05)
        responses: list[ToolResponse] = []

        async def query(sql: str) -> None:
            responses.append(await ask(tool, sql))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(query, FOREVER)
        assert [response.code for response in responses] == ["TIMEOUT"] * 3
        assert (await ask(SQL(connection), "SELECT 1")).data["rows"] == [[1]]


def no_query_runs() -> bool:
    """No thread is inside a query any more."""
    stacks = [walk_stack(frame) for frame in sys._current_frames().values()]
    return not any(frame.f_code is run_query.__code__ for stack in stacks for frame, _ in stack)


# --- writing, where it may ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_writes(path: Path) -> None:
    """Each statement is committed, and the model is told how many rows it changed."""
    tool = SQL(path, read_only=False)
    response = await ask(tool, "UPDATE numbers SET n = 0 WHERE n <= 10")
    assert (response.text, response.data["affected_rows"]) == ("10 rows affected.", 10)
    response = await ask(tool, "INSERT INTO log VALUES ('a') RETURNING what")
    assert response.data["rows"] == [["a"]]
    assert (await ask(tool, "CREATE TABLE made (x)")).text == "Done."
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers WHERE n = 0").fetchone() == (10,)
        assert connection.execute("SELECT what FROM log").fetchall() == [("a",)]
        assert connection.execute("SELECT * FROM made").fetchall() == []


@pytest.mark.anyio
async def test_new_file(tmp_path: Path) -> None:
    """A tool that may write makes its database."""
    tool = SQL(tmp_path / "new ?#.db", read_only=False)
    await ask(tool, "CREATE TABLE t (x)")
    assert (tmp_path / "new ?#.db").stat().st_size > 0


@pytest.mark.anyio
async def test_failed_write(path: Path) -> None:
    """A statement that fails in its middle has changed nothing."""
    before = content(path)
    response = await ask(SQL(path, read_only=False), "INSERT INTO items SELECT n, 'x', 0, NULL FROM numbers")
    assert response.code == "INVALID_PARAM"
    assert content(path) == before


_WHOSE_FAULT_IT_WAS = [
    ("SELEC 1", "INVALID_PARAM", "syntax error"),
    ("SELECT nope FROM items", "INVALID_PARAM", "no such column"),
    ("DELETE FROM items", "PERMISSION_DENIED", "the database can only be read"),
    ("", "INVALID_PARAM", "There is no query in it."),
    (" ; -- nothing", "INVALID_PARAM", "There is no query in it."),
]


@pytest.mark.anyio
async def test_whose_fault_it_was(path: Path) -> None:
    """A statement that is wrong, or not allowed, says nothing of the database: a circuit breaker does not count it."""
    for query, code, told in _WHOSE_FAULT_IT_WAS:
        with case(query, code, told):
            response = await ask(SQL(path), query)
            assert response.code == code
            assert told in response.text


@pytest.mark.anyio
async def test_a_write_waits_for_another(path: Path) -> None:
    """Another program's write is over in a moment: it is no reason to fail."""
    tool = SQL(path, read_only=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO log VALUES ('theirs')")
        async with anyio.create_task_group() as tasks:

            async def write() -> None:
                response = await ask(tool, "INSERT INTO log VALUES ('ours')")
                assert response.data["affected_rows"] == 1

            tasks.start_soon(write)
            await anyio.sleep(0.2)  # it would have failed by now; where it has not begun, it has nothing to wait for
            other.execute("COMMIT")
    assert (await ask(SQL(path), "SELECT what FROM log")).data["rows"] == [["theirs"], ["ours"]]


@pytest.mark.anyio
async def test_slow_write(path: Path) -> None:
    """A statement that writes for too long is taken back, and the model is told to look."""
    tool = SQL(path, read_only=False, timeout_s=0.05)
    response = await ask(
        tool, "INSERT INTO log WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    )
    assert response.code == "TIMEOUT"
    assert "look before you repeat it" in response.text
    assert (await ask(SQL(path), "SELECT count(*) FROM log")).data["rows"] == [[0]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "isolation_level", [pytest.param("", id="that begins transactions itself"), pytest.param(None, id="that commits")]
)
async def test_writes_to_a_connection(path: Path, isolation_level: Any) -> None:
    """The settings of a connection make no difference: each statement is lasting."""
    with closing(sqlite3.connect(path, check_same_thread=False, isolation_level=isolation_level)) as connection:
        response = await ask(SQL(connection, read_only=False), "DELETE FROM numbers WHERE n > 5")
        assert response.data["affected_rows"] == 995
    assert (await ask(SQL(path), "SELECT count(*) FROM numbers")).data["rows"] == [[5]]


def test_groups(path: Path) -> None:
    """What writes runs in call order, and so does what shares a connection; what only reads a file does not wait."""
    writing, other = SQL(path, read_only=False), SQL(path, read_only=False)
    assert writing.group is not None
    assert other.group is not None
    assert writing.group != other.group
    assert SQL(path).group is None
    with closing(shared(path)) as connection:
        assert SQL(connection).group is not None
        own = SQL(connection, group="mine").group
        assert own is not None
        assert own.name == "mine"


# --- what is taken for a database -------------------------------------------------------------------------------------


def memory(**options: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = sqlite3.connect(":memory:", **options)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (7)")
    return connection


@pytest.mark.anyio
async def test_memory_connection() -> None:
    """A database in memory is read, also where only the thread of the event loop can, and as it is now."""
    for bound in [True, False]:
        with case(bound):
            with closing(memory(check_same_thread=bound)) as connection:
                connection.row_factory = sqlite3.Row
                tool = SQL(connection)
                assert (await ask(tool, "SELECT x FROM t")).data["rows"] == [[7]]
                connection.execute("INSERT INTO t VALUES (8)")
                assert (await ask(tool, "SELECT x FROM t")).data["rows"] == [[7], [8]]
                assert (await ask(tool, "DELETE FROM t")).status == "error"
                connection.execute("DELETE FROM t WHERE x = 8")  # its owner may
                assert (await ask(tool, "SELECT x FROM t")).data["rows"] == [[7]]
                assert "CREATE TABLE t (x)" in tool.description


def test_memory_that_cannot_be_written() -> None:
    """A copy cannot be written to: that is said when the tool is made."""
    with closing(memory()) as connection:
        with pytest.raises(UsageError, match="check_same_thread=False"):
            SQL(connection, read_only=False)


@pytest.mark.anyio
async def test_memory_of_another_thread() -> None:
    """A connection that only another thread can use is an error in words."""
    with closing(memory()) as connection:
        tool = SQL(connection)

        async def elsewhere() -> None:
            with pytest.raises(ToolError, match="cannot be reached"):
                await ask(tool, "SELECT 1")

        await anyio.to_thread.run_sync(anyio.run, elsewhere)


@pytest.mark.anyio
async def test_memory_of_its_own() -> None:
    """Without a file, the tool has a database of its own, as long as there is the tool."""
    for name in [":memory:", "sqlite://", "sqlite:///:memory:"]:
        with case(name):
            tool = SQL(name, read_only=False)
            await ask(tool, "CREATE TABLE t (x)")
            assert (await ask(tool, "INSERT INTO t VALUES (1), (2)")).data["affected_rows"] == 2
            assert (await ask(tool, "SELECT x FROM t")).data["rows"] == [[1], [2]]


@pytest.mark.anyio
async def test_other_forms_of_a_file(path: Path) -> None:
    """A URL as SQLAlchemy writes it, and a connection that is bound to its thread: its file is opened anew."""
    with closing(sqlite3.connect(path)) as connection:
        for database in (f"sqlite:///{path}", connection):
            assert (await ask(SQL(database), "SELECT count(*) FROM numbers")).data["rows"] == [[1000]]


@pytest.mark.anyio
async def test_connection_is_given_back(path: Path) -> None:
    """Afterwards its owner can do all that he could before."""
    with closing(shared(path)) as connection:
        limit = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        tool = SQL(connection)
        await ask(tool, "SELECT 1")
        await ask(tool, "DROP TABLE numbers")
        assert connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == limit
        connection.execute("ATTACH ':memory:' AS other")
        connection.execute("CREATE TABLE other.t (x)")
        connection.execute("DELETE FROM numbers")
        connection.commit()


_SQLALCHEMY: list[Any] = [None, sqlalchemy.NullPool, sqlalchemy.SingletonThreadPool, StaticPool]


@pytest.mark.anyio
async def test_sqlalchemy(path: Path) -> None:
    """An engine or a connection, with any pool; the same guard is on."""
    for pool in _SQLALCHEMY:
        for connected in [False, True]:
            with case(pool, connected):
                options = {} if pool is None else {"poolclass": pool}
                engine = sqlalchemy.create_engine(f"sqlite:///{path}", **options)
                before = content(path)
                try:
                    with engine.connect() as connection:
                        tool = SQL(connection if connected else engine)
                        assert (await ask(tool, "SELECT n FROM numbers WHERE n = 3")).data["rows"] == [[3]]
                        assert (await ask(tool, "DELETE FROM numbers")).status == "error"
                        assert "CREATE TABLE numbers" in tool.description
                finally:
                    engine.dispose()
                assert content(path) == before


@pytest.mark.anyio
async def test_sqlalchemy_memory() -> None:
    """A database in memory, which has one connection, or one for each thread."""
    pools: list[Any] = [None, StaticPool]
    for pool in pools:
        with case(pool):
            options: dict[str, Any] = (
                {} if pool is None else {"poolclass": pool, "connect_args": {"check_same_thread": False}}
            )
            engine = sqlalchemy.create_engine("sqlite://", **options)
            try:
                with engine.begin() as connection:
                    connection.exec_driver_sql("CREATE TABLE t (x)")
                    connection.exec_driver_sql("INSERT INTO t VALUES (7)")
                tool = SQL(engine)
                assert (await ask(tool, "SELECT x FROM t")).data["rows"] == [[7]]
                assert (await ask(tool, "DROP TABLE t")).status == "error"
                assert (await ask(tool, "SELECT x FROM t")).data["rows"] == [[7]]
            finally:
                engine.dispose()


@rows(
    "database, options, told",
    [
        ("nothing.db", {}, "no database to read"),  # missing
        ("postgresql://ann:secret@host/db", {}, "create_engine"),  # another URL
        ("file:x?mode=rwc", {}, "sqlite:///"),  # URI
        (7, {}, "SQL takes a path"),  # number
        (":memory:", {"max_rows": 0}, "max_rows"),  # no rows
        (":memory:", {"max_rows": 1.5}, "max_rows"),  # half a row
        (":memory:", {"max_cell_chars": "9"}, "max_cell_chars"),  # characters as text
        (":memory:", {"max_result_chars": -1}, "max_result_chars"),  # no characters
        (":memory:", {"timeout_s": -1.0}, "timeout_s"),  # no time
        (":memory:", {"timeout_s": "9"}, "timeout_s"),  # time as text
        (":memory:", {"nonsense": 1}, "nonsense"),  # unknown option
        (Path(__file__), {}, "cannot be read"),  # no database
    ],
)
def test_unusable(database: Any, options: Any, told: str) -> None:
    """What cannot be used is told when the tool is made; a password is not repeated."""
    with pytest.raises(UsageError, match=told) as caught:
        SQL(database, **options)
    assert "secret" not in str(caught.value)


@pytest.mark.anyio
async def test_errors_name_no_file(path: Path) -> None:
    """An error says nothing of the host."""
    tool = SQL(path)
    await anyio.Path(path).unlink()
    response = await ask(tool, "SELECT 1")
    assert response.code == "EXECUTION_ERROR"
    assert str(path.parent) not in response.text
