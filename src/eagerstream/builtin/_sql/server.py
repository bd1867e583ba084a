"""Databases other than SQLite, by a DB-API connection or SQLAlchemy: what only reads is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...errors import ToolError, UsageError
from .guard import check_one_statement, checked_read, sqlglot_dialect
from .stop import Stop, Turn
from .table import RowBounds, Table, read_table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_BEGIN_READING: Final = {
    "postgres": "SET TRANSACTION READ ONLY",
    "redshift": "SET TRANSACTION READ ONLY",
    "mysql": "START TRANSACTION READ ONLY",
    "oracle": "SET TRANSACTION READ ONLY",
    "duckdb": "BEGIN TRANSACTION READ ONLY",
}
"""By sqlglot's name of the dialect: what makes the database itself refuse to write until the transaction ends."""
_BEGIN_WRITING: Final = {"duckdb": "BEGIN TRANSACTION"}
"""What no driver sends by itself."""
_MAX_TABLES: Final = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """What a statement gave.

    Attributes:
        columns: Their names; empty where it gives no rows.
        affected: Rows that were changed; negative where nobody knows.
        rows: Taken from the driver one by one.
    """

    columns: list[str]
    affected: int
    rows: Iterator[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Session:
    """A connection as one query needs it, whatever is behind it.

    Attributes:
        begin: Runs a statement that has no result.
        execute: Runs a statement without parameters; no character of it stands for one.
        interrupt: Ends what runs, from another thread; does nothing where the driver cannot.
        commit, rollback: End the transaction.
        commits_itself: What is written cannot be rolled back.
    """

    begin: Callable[[str], object]
    execute: Callable[[str], Rows]
    interrupt: Callable[[], object]
    commit: Callable[[], object]
    rollback: Callable[[], object]
    commits_itself: bool


Sessions = Callable[[Stop], AbstractContextManager[Session]]
"""A session for one query, in the thread that runs it."""


class Server:
    """Runs queries in sessions of one dialect.

    Args:
        sessions: Where they come from.
        dialect: Any name of it.
        functions: Names of functions that a statement may call, besides those that are known to be safe.

    Raises:
        UsageError: sqlglot does not know the dialect.
        MissingExtraError: sqlglot is not installed.
    """

    def __init__(self, sessions: Sessions, dialect: str, functions: frozenset[str] = frozenset()) -> None:
        self._sessions = sessions
        self._dialect = sqlglot_dialect(dialect)
        self._functions = functions | {name.lower() for name in functions}  # as a call without quotes is looked up

    def run_query(self, sql: str, bounds: RowBounds, stop: Stop, *, read_only: bool) -> Table:
        """Run one statement. With `read_only` it is rolled back, otherwise committed.

        Raises:
            ToolError: It is not one statement, or not one that only reads.
            Exception: Those of the driver.
            Stopped: Nobody waits for it any more.
        """
        if read_only:
            sql = checked_read(sql, self._dialect, self._functions)
        else:
            check_one_statement(sql, self._dialect)
        with self._sessions(stop) as session, stop.by(session.interrupt):
            if read_only and session.commits_itself:
                raise ToolError("The connection commits each statement by itself: nothing could be taken back.")
            try:
                begin = (_BEGIN_READING if read_only else _BEGIN_WRITING).get(self._dialect)
                if begin is not None:
                    session.begin(begin)
                table = _table(session.execute(sql), bounds, read_only=read_only)
                stop.check()
            except BaseException:
                with suppress(Exception):  # the connection may be lost, which is told already
                    session.rollback()
                raise
            if read_only:
                session.rollback()
            else:
                session.commit()
            return table


def _table(result: Rows, bounds: RowBounds, *, read_only: bool) -> Table:
    table = read_table(result.columns, result.rows if result.columns else (), bounds)
    if not read_only and not result.columns and result.affected >= 0:
        table.affected = result.affected
    return table


# --- DB-API -----------------------------------------------------------------------------------------------------------


def dbapi_sessions(connection: Any) -> Sessions:
    """Sessions on one connection of a driver, for one thread at a time."""
    turn = Turn.on(connection)

    @contextmanager
    def session(stop: Stop) -> Iterator[Session]:
        with turn.taken(stop), closing(connection.cursor()) as cursor:
            owner = cursor if hasattr(cursor, "rollback") else connection  # DuckDB's cursors are connections themselves
            yield Session(
                begin=cursor.execute,
                execute=partial(_executed, cursor),
                interrupt=partial(_interrupt_driver, owner),
                commit=owner.commit,
                rollback=owner.rollback,
                commits_itself=getattr(connection, "autocommit", None) is True,
            )

    return session


def _executed(cursor: Any, sql: str) -> Rows:
    cursor.execute(sql)
    return Rows([str(column[0]) for column in cursor.description or ()], cursor.rowcount, _fetched(cursor))


def _fetched(cursor: Any) -> Iterator[Sequence[Any]]:
    while (row := cursor.fetchone()) is not None:
        yield row


def _interrupt_driver(connection: Any) -> None:
    """Ask a driver to end what it does: psycopg, psycopg2 and oracledb call it cancel, DuckDB interrupt."""
    for name in ("cancel", "interrupt"):
        interrupt = getattr(connection, name, None)
        if callable(interrupt):
            interrupt()
            return


# --- SQLAlchemy -------------------------------------------------------------------------------------------------------


def engine_sessions(engine: Engine) -> Sessions:
    """Sessions on connections of the pool, one for each query."""

    @contextmanager
    def session(_: Stop) -> Iterator[Session]:
        with engine.connect() as connection:
            yield _session_on(connection)

    return session


def connection_sessions(connection: Connection) -> Sessions:
    """Sessions on one connection, for one thread at a time, while its owner has no transaction open on it."""
    turn = Turn.on(connection)

    @contextmanager
    def session(stop: Stop) -> Iterator[Session]:
        with turn.taken(stop):
            if connection.in_transaction():
                raise ToolError("The database is in use: its owner has a transaction open.", code="CONFLICT")
            yield _session_on(connection)

    return session


def _session_on(connection: Connection) -> Session:
    driver = connection.connection.driver_connection

    def execute(sql: str, *, streams: bool = True) -> Rows:
        # Rows stay on the server until they are asked for, where the driver can; `%` and `:` mean themselves.
        options = {"stream_results": streams, "no_parameters": True}
        result = connection.exec_driver_sql(sql, execution_options=options)
        if not result.returns_rows:
            return Rows([], result.rowcount, iter(()))
        return Rows(list(map(str, result.keys())), -1, _fetched(result))

    return Session(
        begin=partial(execute, streams=False),
        execute=execute,
        interrupt=partial(_interrupt_driver, driver),
        commit=connection.commit,
        rollback=connection.rollback,
        commits_itself=getattr(driver, "autocommit", None) is True,
    )


def inspected_schema(bind: Engine | Connection) -> str:
    """The tables with their columns, as SQLAlchemy's inspector finds them; at most 200 tables.

    Raises:
        UsageError: The database cannot be reached, or does not tell.
    """
    from sqlalchemy import Connection, inspect
    from sqlalchemy.exc import SQLAlchemyError

    began = isinstance(bind, Connection) and not bind.in_transaction()
    try:
        inspector = inspect(bind)
        tables = [*inspector.get_table_names(), *inspector.get_view_names()]
        return ";\n".join(_described(table, inspector.get_columns(table)) for table in tables[:_MAX_TABLES])
    except SQLAlchemyError:
        # Its words may hold the address and the user.
        raise UsageError("the schema could not be read from the database: give it as schema=...") from None
    finally:
        if began and isinstance(bind, Connection):
            with suppress(SQLAlchemyError):
                bind.rollback()


def _described(table: str, columns: Sequence[Any]) -> str:
    described = ", ".join(f"{column['name']} {column['type']}" for column in columns)
    return f"{table} ({described})"


# --- DuckDB -----------------------------------------------------------------------------------------------------------

_SETTINGS: Final = ("enable_external_access = false", "lock_configuration = true")


def confine(connection: Any) -> None:
    """Turn off a database's access to files, the network, extensions and Python's variables, and lock that.

    It holds for all connections to the database. Files that are attached can be used as before. If the owner has locked
    the configuration before, it stays as it is: that is the way to keep the access.

    Raises:
        UsageError: The connection is closed, or not one to DuckDB.
    """
    try:
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT current_setting('lock_configuration')")
            if not cursor.fetchone()[0]:
                for setting in _SETTINGS:
                    cursor.execute(f"SET {setting}")
    except Exception as error:
        raise UsageError(f"DuckDB does not take the settings that confine it: {type(error).__name__}") from error
