"""`SQL`: a tool that runs one statement per call on a database. It is read-only by default."""

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
    - Other databases: sqlglot must parse the statement as one SELECT. It may consist only of constructs that are known
      to read tables, and call only functions that are known to compute a value. Anything else is refused, and the model
      gets its name. The statement that is sent is rewritten from sqlglot's tree. If the dialect supports it, the
      statement runs in a read-only transaction. It is always rolled back. Your own views, operators and casts run any
      code that they contain: **connect as a user with read rights only**. This also limits the data that can be read.

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
        dialect: sqlglot's name of the dialect, for a DB-API connection whose driver's name does not show it.
        allowed_functions: Your own functions that a statement may call, as `"area"` or `"app.area"`. Each of them must
            have no effect that the model should not have. With SQLite, register functions on the connection instead.
        max_rows: Maximum number of rows of a result.
        max_cell_chars: Maximum number of characters of one value.
        max_result_chars: Maximum number of characters of all rows.
        options: See `ToolOptions`. `timeout_s`, 30 by default, limits one statement, including its wait for the
            connection. A `description` replaces the first sentences of the default one. Dialect and schema follow it.
            Calls that share a connection, or may write, run one at a time, unless you set a `group`. `read_only` is
            True by default. False lets the model write: each statement is committed.

    Raises:
        UsageError: The database is missing, cannot be read, or is of an unknown kind, or an option is wrong.
        MissingExtraError: The database is not SQLite, and sqlglot is not installed.
    """

    def __init__(
        self,
        database: str | Path | Engine | Connection | DBAPIConnection,
        *,
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
            raise UsageError(f"allowed_functions must be a collection of function names, not {allowed_functions!r:.80}")
        options = with_defaults(options, name="sql", read_only=True)
        read_only = options["read_only"]
        source = source_of(database, dialect, read_only=read_only, functions=frozenset(allowed_functions))
        if allowed_functions and source.dialect == "SQLite":
            raise UsageError("allowed_functions does not work with SQLite: register functions on the connection")
        self._source = source
        self._read_only = read_only
        self._bounds = RowBounds(**bounds)
        self._limit_s = take_time_limit_s(options)
        if schema is None:
            schema = source.read_schema()
        base = options.get("description") or (_READS if read_only else _WRITES)
        options["description"] = _description(base, source.dialect, schema)
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
