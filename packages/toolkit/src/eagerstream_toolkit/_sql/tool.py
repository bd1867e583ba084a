"""`SQL`: a tool that runs one statement per call on a database. It is read-only by default."""

from __future__ import annotations

import sqlite3
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Unpack

import anyio
from pydantic import Field

from eagerstream._support.checks import check_count
from eagerstream._support.inspecting import without_middle
from eagerstream._support.options import with_defaults
from eagerstream._support.redaction import redact_excerpt
from eagerstream.errors import EagerStreamError
from eagerstream.tools import Tool, ToolErrorCode, ToolOptions, ToolResponse

from .._tool_options import take_time_limit_s
from .source import source_of
from .table import RowBounds, response_of_table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_MAX_SCHEMA_CHARS: Final = 20_000
_GROUPS: Final = count(1)


class DBAPIConnection(Protocol):
    """The used part of a PEP 249 connection."""

    def cursor(self) -> Any:
        """Return a new cursor."""

    def commit(self) -> Any:
        """Commit the changes since the last commit or rollback."""

    def rollback(self) -> Any:
        """Roll them back."""


class SQL(Tool):
    """A tool that runs the model's SQL statements, one per call.

        run(client, tools=[SQL("shop.db")], ...)

    By default it only reads.

    - SQLite: the file is opened read-only, and `query_only` is on. Each action of a statement is checked against a list
      of reading actions (no ATTACH, no pragma that sets, no access to files).
    - Other databases: **connect as a user who may only read, and only what the model may see. That user is the
      boundary.** Beside it, the statement must begin as one that reads, and may contain no further one. In PostgreSQL,
      MySQL, Oracle and DuckDB it runs in a read-only transaction, and it is always rolled back. A function that ends
      sessions, reads files of the server or calls other systems runs nevertheless, if the user may call it.

    For DuckDB, the tool sets `enable_external_access = false` and `lock_configuration = true`. Both apply to all
    connections to that database in the process, and cannot be undone while it is open. Attached databases stay usable.
    If your views read files, set `allowed_directories` or `allowed_paths` before you create the tool. To keep external
    access, lock the configuration before: then the tool changes nothing.

    The data of a result is `{"columns": [str], "rows": [[JSON]], "row_count": int, "truncated": bool}`. If a statement
    wrote, it also has `affected_rows`. Dates, decimals and similar values are texts. Short binary data is written as in
    SQL, `x'0a1b'`. If a result is incomplete, the response is `PARTIAL` and gives the reason.

    A query is stopped after its time limit, and if its call is cancelled. SQLite, DuckDB, psycopg and oracledb end it
    at once. Other drivers finish it in their thread, and later calls on the same connection wait for that. For a
    stopped statement that writes, it is unknown whether it took effect. Some drivers (psycopg2, PyMySQL) fetch a
    complete result before they return its first row, unless they are used through SQLAlchemy. SQLite values of more
    than 1 MiB cannot be read: a query that touches one fails. On values near that size, `instr` and `LIKE` take seconds
    and cannot be stopped.

    Args:
        database: A path, `":memory:"` or an `sqlite:///` URL; an `Engine` or a `Connection` of SQLAlchemy; or a
            connection of any DB-API driver. No other code may use a connection while the tool does. The tool rolls back
            or commits its transaction, and replaces the authorizer and the progress handler of a `sqlite3.Connection`.
            If a SQLite database in memory is bound to its thread (`check_same_thread`), each query reads a copy made in
            that thread, up to 64 MiB.
        schema: The tables, for the description. `None` reads it from SQLite, or through SQLAlchemy. The constructor
            then blocks until it is read.
        dialect: Name of the dialect, for the description and for the read-only transaction, for a DB-API connection
            whose driver's name does not show it: `"postgresql"`, `"mysql"`, `"oracle"`, `"duckdb"`, or another one.
        max_rows: Maximum number of rows of a result.
        max_cell_chars: Maximum number of characters of one value.
        max_result_chars: Maximum number of characters of all rows.
        options: See `ToolOptions`. `timeout_s`, 30 by default, limits one statement, including its wait for the
            connection. A `description` replaces the first sentences of the default one. Dialect and schema follow it.
            Calls that share a connection, or may write, run one at a time, unless you set a `group`. `read_only` is
            True by default. False lets the model write: each statement is committed.

    Raises:
        UsageError: The database is missing, cannot be read, or is of an unknown kind, or an option is wrong.
    """

    def __init__(
        self,
        database: str | Path | Engine | Connection | DBAPIConnection,
        *,
        schema: str | None = None,
        dialect: str | None = None,
        max_rows: int = 100,
        max_cell_chars: int = 2_000,
        max_result_chars: int = 50_000,
        **options: Unpack[ToolOptions],
    ) -> None:
        bounds = {"max_rows": max_rows, "max_cell_chars": max_cell_chars, "max_result_chars": max_result_chars}
        for name, bound in bounds.items():
            check_count(name, bound)
        options = with_defaults(options, name="sql", read_only=True)
        read_only = options["read_only"]
        source = source_of(database, dialect, read_only=read_only)
        self._source = source
        self._read_only = read_only
        self._bounds = RowBounds(**bounds)
        self._limit_s = take_time_limit_s(options)
        if schema is None:
            schema = source.read_schema()
        base = options.get("description") or (_READS if read_only else _WRITES)
        description = f"{base}\nThe dialect is {source.dialect}."
        if schema:
            description += f"\n<schema>\n{without_middle(schema, _MAX_SCHEMA_CHARS)}\n</schema>"
        options["description"] = description
        if source.is_shared or not read_only:
            options = with_defaults(options, group=f"sql {next(_GROUPS)}")
        super().__init__(self._query, **options)

    async def _query(
        self, sql_query: Annotated[str, Field(description="One SQL statement, without parameters")]
    ) -> ToolResponse:
        try:
            with anyio.fail_after(self._limit_s):
                table = await self._source.run_query(sql_query, self._bounds, read_only=self._read_only)
        except TimeoutError:
            text = f"The statement did not finish within {self._limit_s:g} seconds and was stopped."
            if not self._read_only:
                text += " It may have taken effect: look before you repeat it."
            return ToolResponse.error(ToolErrorCode.TIMEOUT, text)
        except EagerStreamError:
            raise
        except Exception as error:
            code, text = code_of(error), words_of(error)
            if code == ToolErrorCode.PERMISSION_DENIED and self._read_only:
                text += ": the database can only be read"
            return ToolResponse.error(code, text)
        if self._read_only and not table.columns:
            return ToolResponse.error(ToolErrorCode.INVALID_PARAM, "There is no query in it.")
        return response_of_table(table)


_READS: Final = (
    "Run one SQL query against a database and read its result. The database can only be read: SELECT, one statement in "
    "each call."
)
_WRITES: Final = (
    "Run one SQL statement against a database. Each call runs one statement, and what it changes is committed at once."
)


# --- statements that failed -------------------------------------------------------------------------------------------

_MAX_ERROR_CHARS: Final = 1_000
_BY_RESULT_CODE: Final = {
    sqlite3.SQLITE_ERROR: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_CONSTRAINT: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_MISMATCH: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_TOOBIG: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_AUTH: ToolErrorCode.PERMISSION_DENIED,
    sqlite3.SQLITE_READONLY: ToolErrorCode.PERMISSION_DENIED,
}
_MISTAKES: Final = frozenset({"DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"})


def code_of(error: Exception) -> str:
    """Return the error code: for a wrong statement, a refused statement, or a failed database (not the model's fault).

    SQLite has result codes (https://sqlite.org/rescode.html). Other drivers use the classes of PEP 249.
    """
    origin = getattr(error, "orig", None) or error
    result_code = getattr(origin, "sqlite_errorcode", None)
    if result_code is not None:
        return _BY_RESULT_CODE.get(result_code & 0xFF, ToolErrorCode.EXECUTION_ERROR)
    if {base.__name__ for base in type(origin).__mro__} & _MISTAKES:
        return ToolErrorCode.INVALID_PARAM
    return ToolErrorCode.EXECUTION_ERROR


def words_of(error: Exception) -> str:
    """Return the database's error text for the model: the driver's own message, without SQLAlchemy's additions."""
    message = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    return redact_excerpt(message, _MAX_ERROR_CHARS)
