"""`SQL`: one query at a time for the model, against a database that it can only read unless it is told otherwise."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Unpack

import anyio
from pydantic import Field

from ..._support.redaction import redact_excerpt, without_middle
from ...errors import EagerStreamError, UsageError
from ...tools import Tool, ToolErrorCode, ToolOptions, ToolResponse
from ...wire import check_count
from .._tool_options import take_time_limit_s, with_defaults
from .source import source_of
from .table import RowBounds, response_of_table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_MAX_SCHEMA_CHARS: Final = 20_000
_GROUPS: Final = count(1)


class DBAPIConnection(Protocol):
    """What PEP 249 says of a connection, as far as it is needed."""

    def cursor(self) -> Any:
        """A new cursor."""

    def commit(self) -> Any:
        """Make lasting what was done since the last commit or rollback."""

    def rollback(self) -> Any:
        """Take it back."""


class SQL(Tool):
    """Runs SQL statements of the model, one in each call.

        run(client, tools=[SQL("shop.db")], ...)

    Reading only, by default, and in depth. SQLite: the file is opened for reading, `query_only` is on, and each action
    of a statement is checked against a list of those that read (no ATTACH, no pragma that sets, no access to files).
    Other databases: sqlglot must understand the statement as one SELECT. It may consist only of constructs that are
    known to read tables, and call only functions that are known to compute a value. Anything else is refused, and the
    model is told its name. The statement that is sent is rewritten from what sqlglot understood. It runs in a read-only
    transaction if the dialect has one, and is always rolled back. Views, operators and casts of your own run whatever
    they were made to run: **give the tool a user who has no other rights than to read**. That bounds what can be read,
    too.

    DuckDB: the tool sets `enable_external_access = false` and `lock_configuration = true`. Both hold for all
    connections to that database in the process, and cannot be undone while it is open. Attached databases can be used
    as before. If views of yours read files, set `allowed_directories` or `allowed_paths` before you create the tool. If
    you lock the configuration before, the tool changes nothing: so you keep external access, if you need it.

    The data of a result is `{"columns": [str], "rows": [[JSON]], "row_count": int, "truncated": bool}`, and
    `affected_rows` after a statement that wrote. Dates, decimals and the like are texts; short binary data is
    `x'0a1b'`, as SQL writes it. A result of which something was left out is a `PARTIAL` that says what.

    A query that takes too long is stopped, and one whose call is cancelled. SQLite, DuckDB, psycopg and oracledb end it
    at once; other drivers finish it in their thread, and later calls on the same connection wait for that. Whether
    a statement that wrote took effect is then not known. Some drivers (psycopg2, PyMySQL) fetch a whole result before
    they hand out its first row; by way of SQLAlchemy they do not. Of SQLite, no value of more than 1 MiB is read: an
    error, where a query touches one; `instr` and `LIKE` on such values take seconds in which nothing can stop them.

    Args:
        database: A path, `":memory:"` or `sqlite:///` URL; an `Engine` or a `Connection` of SQLAlchemy; or a connection
            of any DB-API driver. A connection is used by nobody else while the tool is: its transaction is
            rolled back or committed, and of a `sqlite3.Connection` the authorizer and the progress handler
            are replaced. A SQLite database in memory that is bound to its thread (`check_same_thread`) is read from
            a copy, made for each query in that thread, up to 64 MiB.
        read_only: False lets the model write: one statement, committed.
        schema: What tables there are, for the description; read from the database where it is None and the database is
            SQLite or comes by way of SQLAlchemy, which blocks until it is read.
        dialect: Of a DB-API connection whose driver does not tell it, by sqlglot's name.
        allowed_functions: Functions of your own that a statement may call as well, as `"area"` or `"app.area"`. Each of
            them must have no effect that the model should not have. Not for SQLite, where you register functions.
        max_rows: Rows of a result.
        max_cell_chars: Characters of one value.
        max_result_chars: Characters of all rows.
        options: See `ToolOptions`. `timeout_s` is what one statement may take, with the time that it waits for the
            connection; 30 seconds by default. A `description` stands in the place of the first sentences; dialect and
            schema follow. Calls that share a connection, or write, run one at a time unless there is a `group`.

    Raises:
        UsageError: The database is not there or of no known kind, or an option is wrong.
        MissingExtraError: It is not SQLite, and sqlglot is not installed.
    """

    def __init__(
        self,
        database: str | Path | Engine | Connection | DBAPIConnection,
        *,
        read_only: bool = True,
        schema: str | None = None,
        dialect: str | None = None,
        allowed_functions: Collection[str] = (),
        max_rows: int = 100,
        max_cell_chars: int = 2_000,
        max_result_chars: int = 50_000,
        **options: Unpack[ToolOptions],
    ) -> None:
        bounds = {"max_rows": max_rows, "max_cell_chars": max_cell_chars, "max_result_chars": max_result_chars}
        for name, bound in bounds.items():
            check_count(name, bound)
        if isinstance(allowed_functions, str) or not all(isinstance(name, str) for name in allowed_functions):
            raise UsageError(f"allowed_functions must be names of functions, not {allowed_functions!r:.80}")
        source = source_of(database, dialect, read_only=read_only, functions=frozenset(allowed_functions))
        if allowed_functions and source.dialect == "SQLite":
            raise UsageError("allowed_functions is not for SQLite: it calls what was registered on the connection")
        self._source = source
        self._read_only = read_only
        self._bounds = RowBounds(**bounds)
        self._limit_s = take_time_limit_s(options)
        if schema is None:
            schema = source.read_schema()
        base = options.get("description") or (_READS if read_only else _WRITES)
        options["description"] = _description(base, source.dialect, schema)
        options = with_defaults(options, name="sql")
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


def _description(base: str, dialect: str, schema: str) -> str:
    text = f"{base}\nThe dialect is {dialect}."
    if schema:
        text += f"\n<schema>\n{without_middle(schema, _MAX_SCHEMA_CHARS)}\n</schema>"
    return text


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
    """Whether the statement was wrong, was not allowed, or the database failed: only the last is not the model's doing.

    SQLite says it by its result codes (https://sqlite.org/rescode.html), others by the exception's class (PEP 249).
    """
    origin = getattr(error, "orig", None) or error
    result_code = getattr(origin, "sqlite_errorcode", None)
    if result_code is not None:
        return _BY_RESULT_CODE.get(result_code & 0xFF, ToolErrorCode.EXECUTION_ERROR)
    if {base.__name__ for base in type(origin).__mro__} & _MISTAKES:
        return ToolErrorCode.INVALID_PARAM
    return ToolErrorCode.EXECUTION_ERROR


def words_of(error: Exception) -> str:
    """What the database says, for the model: a driver's own message, without what SQLAlchemy adds to it."""
    message = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    return redact_excerpt(message, _MAX_ERROR_CHARS)
