"""`SQLTool`: the builtin `SQL` behind the constructor of anthropic-tools."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import anyio
import duckdb
import pytest
import sqlalchemy
from packages.toolkit.tests.databases import made
from packages.toolkit.tests.support import conversation, results

from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import Tool
from eagerstream_compat.anthropic_tools import SQLTool

MADE: Final = """CREATE TABLE employee_data (
          id INTEGER PRIMARY KEY,
          name TEXT NOT NULL,
          age INTEGER NOT NULL
          )"""
ROWS: Final = "INSERT INTO employee_data VALUES (1, 'John', 42), (2, 'Jane', 36)"
PARAMETERS: Final = [{"name": "sql_query", "type": "str", "description": "The query to run."}]
OLDEST: Final = "SELECT name, age FROM employee_data ORDER BY age DESC"
FOREVER: Final = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def sql_tool(connection: Any, dialect: str = "SQLite", kind: type[SQLTool] = SQLTool, **options: Any) -> SQLTool:
    """A tool as the example of anthropic-tools makes it."""
    return kind("execute_sqlite3_query", "Run a query.", PARAMETERS, MADE, connection, dialect, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The database of that example."""
    path = tmp_path / "test.db"
    path.write_bytes(made(f"{MADE};{ROWS};"))
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is bound to its thread."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def answered(path: Path) -> list[Any]:
    """What is in the database."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name FROM employee_data ORDER BY id").fetchall()


def test_use_tool(connection: sqlite3.Connection) -> None:
    """Rows as `fetchall()` gives them."""
    tool = sql_tool(connection)
    assert tool.use_tool(OLDEST) == connection.execute(OLDEST).fetchall() == [("John", 42), ("Jane", 36)]
    assert tool.use_tool(sql_query="SELECT count(1) FROM employee_data") == [(2,)]
    assert tool.use_tool("SELECT 1 FROM employee_data WHERE age > 99") == []
    assert (tool.db_schema, tool.db_conn, tool.db_dialect) == (MADE, connection, "SQLite")


@pytest.mark.anyio
async def test_ause_tool(connection: sqlite3.Connection) -> None:
    """The same in an event loop, where the other form says what to do."""
    tool = sql_tool(connection)
    assert await tool.ause_tool({"sql_query": OLDEST}) == [("John", 42), ("Jane", 36)]
    with pytest.raises(UsageError, match="ause_tool"):
        tool.use_tool(OLDEST)


@pytest.mark.anyio
async def test_in_a_run(connection: sqlite3.Connection) -> None:
    """The model reads a table, and each mistake of it as an error."""
    asked = [OLDEST, "SELECT nam FROM employee_data", "DROP TABLE employee_data", "SELECT 1; SELECT 2"]
    found = results(await conversation(sql_tool(connection).to_tool(), *({"sql_query": sql} for sql in asked)))
    assert found[0] == ('["name", "age"]\n["John", 42]\n["Jane", 36]\n(2 rows)', False)
    assert [is_error for _, is_error in found[1:]] == [True, True, True]
    assert "no such column: nam" in found[1][0]
    assert "can only be read" in found[2][0]


def test_errors_of_use_tool(connection: sqlite3.Connection, path: Path) -> None:
    """They are raised, for whoever catches them to tell the model."""
    tool = sql_tool(connection)
    with pytest.raises(ToolError, match="no such table: nope") as failed:
        tool.use_tool("SELECT * FROM nope")
    assert failed.value.code == "INVALID_PARAM"
    for sql in ("DELETE FROM employee_data", ROWS, "ATTACH 'other.db' AS other", ""):
        with pytest.raises(ToolError):
            tool.use_tool(sql)
    assert answered(path) == [("John",), ("Jane",)]
    assert [found.name for found in path.parent.iterdir()] == ["test.db"]


def test_writing(connection: sqlite3.Connection, path: Path) -> None:
    """Where a program allows it, a statement is committed, as it was."""
    tool = sql_tool(connection, read_only=False)
    assert tool.use_tool("INSERT INTO employee_data VALUES (3, 'Joe', 50)") == []
    assert answered(path) == [("John",), ("Jane",), ("Joe",)]
    with pytest.raises(ToolError, match="UNIQUE"):
        tool.use_tool("INSERT INTO employee_data VALUES (3, 'Joe', 50)")


def test_calls_that_write_run_one_at_a_time(connection: sqlite3.Connection) -> None:
    """As those of the builtin tool; a group of the program's own stands."""
    group = sql_tool(connection, read_only=False).to_tool().group
    assert group is not None
    assert sql_tool(connection).to_tool().group is None
    named = sql_tool(connection, read_only=False).to_tool(group="mine").group
    assert named is not None
    assert (named.name, group.name == named.name) == ("mine", False)


def test_the_description(connection: sqlite3.Connection) -> None:
    """It tells dialect and schema, where the API reads it and in the old form; the attribute stays what was given."""
    tool = sql_tool(connection)
    text = f"Run a query.\nThe database uses the dialect SQLite. Its schema:\n<schema>\n{MADE}\n</schema>"
    assert tool.description == "Run a query."
    assert tool.to_anthropic()["description"] == text
    assert tool.to_tool().to_dict()["description"] == text
    assert tool.to_tool().to_dict()["input_schema"]["properties"] == {
        "sql_query": {"type": "string", "description": "The query to run."}
    }
    shown = tool.format_tool_for_claude()
    assert f"<description>\n{text}\n</description>\n<parameters>\n<parameter>\n<name>sql_query</name>" in shown


@pytest.mark.anyio
async def test_results_that_are_too_large(connection: sqlite3.Connection) -> None:
    """A program gets all rows or an error, never some of them; the model gets some, and is told."""
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {}) SELECT i FROM n"
    tool = sql_tool(connection)
    assert len(await tool.ause_tool({"sql_query": many.format(10_000)})) == 10_000
    for sql in (many.format(10_001), "SELECT printf('%.200000c', 'a')"):
        with pytest.raises(ToolError, match=r"too large\. Ask for less"):
            await tool.ause_tool({"sql_query": sql})
    changing = f"INSERT INTO employee_data SELECT i + 9, 'Joe', i FROM ({many.format(10_001)}) RETURNING id"
    with pytest.raises(ToolError, match="The changes of the statement are kept"):
        await sql_tool(connection, read_only=False).ause_tool({"sql_query": changing})
    assert await tool.ause_tool({"sql_query": "SELECT count(1) FROM employee_data"}) == [(10_003,)]
    ((said, is_error),) = results(await conversation(tool.to_tool(), {"sql_query": many.format(101)}))
    assert not is_error
    assert "only the first 100 rows" in json.dumps(said)


class Counting(SQLTool):
    """A program that answers in its own way."""

    def use_tool(self, sql_query: str) -> Any:
        return f"{len(self.db_conn)} rows"  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_use_tool_of_its_own(path: Path) -> None:
    """It is what answers."""
    tool = sql_tool(str(path), kind=Counting)
    assert await tool.ause_tool({"sql_query": OLDEST}) == f"{len(str(path))} rows"
    found = await conversation(tool.to_tool(), {"sql_query": OLDEST})
    assert results(found) == [(f"{len(str(path))} rows", False)]


@pytest.mark.anyio
async def test_cancelling_a_query(path: Path) -> None:
    """The statement is stopped: the next one on the same connection has its turn."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        tool = sql_tool(connection)
        with anyio.move_on_after(0.1) as scope:
            await tool.ause_tool({"sql_query": FOREVER})
        assert scope.cancelled_caught
        with anyio.fail_after(20):
            assert await tool.ause_tool({"sql_query": "SELECT 1"}) == [(1,)]


def test_parameters_of_another_name(path: Path) -> None:
    """They would never reach the query."""
    with pytest.raises(ValueError, match="must be sql_query, not query"):
        SQLTool("sql", "x", [{"name": "query", "type": "str", "description": "x"}], "", path, "SQLite")


def test_a_database_in_memory() -> None:
    """Bound to its thread, it is read there."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"{MADE};{ROWS}")
        assert sql_tool(connection).use_tool(OLDEST)[0] == ("John", 42)
        with pytest.raises(UsageError, match="check_same_thread"):
            sql_tool(connection, read_only=False)


@pytest.mark.slow
def test_other_databases(path: Path) -> None:
    """Connections of other drivers, and SQLAlchemy."""
    with closing(duckdb.connect()) as other:
        other.execute(f"{MADE};{ROWS}")
        tool = sql_tool(other, "DuckDB")
        assert tool.use_tool(OLDEST) == [("John", 42), ("Jane", 36)]
        with pytest.raises(ToolError):
            tool.use_tool("DROP TABLE employee_data")
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    assert sql_tool(engine).use_tool(OLDEST)[0] == ("John", 42)
    engine.dispose()
    assert isinstance(sql_tool(path).to_tool(), Tool)
