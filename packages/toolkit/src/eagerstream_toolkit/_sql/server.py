"""Databases other than SQLite, by a DB-API connection or SQLAlchemy. Queries that read are rolled back.

Nothing here parses statements: what a database makes of a text, only the database knows. What a statement may do is for
the role of the connection to say. The read-only transaction is the second line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eagerstream.errors import ToolError, UsageError

from .stop import Stop, Turn
from .table import RowBounds, Table, read_table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_BEGIN_READING: Final = {
    **dict.fromkeys(("postgres", "postgresql", "psycopg", "psycopg2", "redshift"), "SET TRANSACTION READ ONLY"),
    **dict.fromkeys(("mysql", "mariadb", "pymysql", "mysqldb"), "START TRANSACTION READ ONLY"),
    **dict.fromkeys(("oracle", "oracledb", "cx_oracle"), "SET TRANSACTION READ ONLY"),
    "duckdb": "BEGIN TRANSACTION READ ONLY",
}
"""Statements by dialects and drivers that start a read-only transaction: the database itself then refuses to write."""
_BEGIN_WRITING: Final = {"duckdb": "BEGIN TRANSACTION"}
"""Statements that start a transaction, for drivers that do not send one themselves."""
_READING: Final = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "SUMMARIZE")
"""The first words of statements that read."""
_CONTROLLING: Final = (
    *("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "SET", "PREPARE", "XA"),
)
"""The first words of statements that control transactions."""
_FIRST_WORD: Final = re.compile(r"[\s(]*(\w*)")
_MAX_TABLES: Final = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """The result of a statement.

    Attributes:
        columns: The columns' names. Empty if the statement returns no rows.
        affected: Number of changed rows. Negative if it is unknown.
        rows: An iterator that fetches the rows one by one.
    """

    columns: list[str]
    affected: int
    rows: Iterator[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Session:
    """A connection in a common form, for one query.

    Attributes:
        begin: Runs a statement without a result.
        execute: Runs a statement without parameters. No character of it is a placeholder.
        interrupt: Ends the running statement, from another thread. It does nothing if the driver cannot.
        commit, rollback: End the transaction.
        commits_itself: True if writes cannot be rolled back.
    """

    begin: Callable[[str], object]
    execute: Callable[[str], Rows]
    interrupt: Callable[[], object]
    commit: Callable[[], object]
    rollback: Callable[[], object]
    commits_itself: bool


Sessions = Callable[[Stop], AbstractContextManager[Session]]
"""A source of sessions. Each is for one query, in the thread that runs it."""


def run_in_session(
    sessions: Sessions, dialect: str, sql: str, bounds: RowBounds, stop: Stop, *, read_only: bool
) -> Table:
    """Run one statement. With `read_only` it is rolled back, otherwise committed.

    Raises:
        ToolError: The text is not one statement, or begins as none that reads. The connection commits each statement
            itself, or its owner has a transaction open.
        Exception: Any exception of the driver.
        Stopped: The caller no longer waits.
    """
    sql = sql.strip().rstrip(";").rstrip()
    if ";" in sql:  # another statement could end the transaction
        raise _not_run("it must be one statement, without a semicolon in it, also in texts and comments")
    found = _FIRST_WORD.match(sql)
    word = found[1].upper() if found else ""
    if read_only and word not in _READING:
        raise _not_run("only statements that read are allowed, such as SELECT, and no comment before the first word")
    if word in _CONTROLLING:
        raise _not_run("each statement is committed by itself")
    with sessions(stop) as session, stop.by(session.interrupt):
        if read_only and session.commits_itself:
            raise ToolError("The connection commits each statement by itself: nothing could be taken back.")
        try:
            begin = (_BEGIN_READING if read_only else _BEGIN_WRITING).get(dialect.lower())
            if begin is not None:
                session.begin(begin)
            result = session.execute(sql)
            table = read_table(result.columns, result.rows if result.columns else (), bounds)
            if not read_only and not result.columns and result.affected >= 0:
                table.affected = result.affected
            stop.check()
        except BaseException:
            with suppress(Exception):  # the connection may be lost; the first error is raised
                session.rollback()
            raise
        if read_only:
            session.rollback()
        else:
            session.commit()
        return table


def _not_run(why: str) -> ToolError:
    return ToolError(f"The statement was not run: {why}.", code="PERMISSION_DENIED")


# --- DB-API -----------------------------------------------------------------------------------------------------------


def dbapi_sessions(connection: Any) -> Sessions:
    """Return sessions on one connection of a driver, for one thread at a time."""
    turn = Turn.on(connection)

    @contextmanager
    def session(stop: Stop) -> Iterator[Session]:
        with turn.taken(stop), closing(connection.cursor()) as cursor:
            owner = cursor if hasattr(cursor, "rollback") else connection  # DuckDB's cursors are connections
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
    """Ask a driver to end its statement. psycopg, psycopg2 and oracledb call it cancel, DuckDB interrupt."""
    for name in ("cancel", "interrupt"):
        interrupt = getattr(connection, name, None)
        if callable(interrupt):
            interrupt()
            return


# --- SQLAlchemy -------------------------------------------------------------------------------------------------------


def engine_sessions(engine: Engine) -> Sessions:
    """Return sessions that take a connection of the pool for each query."""

    @contextmanager
    def session(_: Stop) -> Iterator[Session]:
        with engine.connect() as connection:
            yield _session_on(connection)

    return session


def connection_sessions(connection: Connection) -> Sessions:
    """Return sessions on one connection, for one thread at a time. If its owner has a transaction open, they fail."""
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
        # If the driver can, rows stay on the server until they are fetched. `%` and `:` have no special meaning.
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
    """Return the tables and their columns from SQLAlchemy's inspector, at most 200 tables.

    Raises:
        UsageError: The database cannot be reached, or the inspector fails.
    """
    from sqlalchemy import Connection, inspect
    from sqlalchemy.exc import SQLAlchemyError

    began = isinstance(bind, Connection) and not bind.in_transaction()
    try:
        inspector = inspect(bind)
        tables = [*inspector.get_table_names(), *inspector.get_view_names()]
        described: list[str] = []
        for table in tables[:_MAX_TABLES]:
            columns = (f"{column['name']} {column['type']}" for column in inspector.get_columns(table))
            described.append(f"{table} ({', '.join(columns)})")
        return ";\n".join(described)
    except SQLAlchemyError:
        # SQLAlchemy's text may contain the address and the user.
        raise UsageError("the schema could not be read from the database: give it as schema=...") from None
    finally:
        if began and isinstance(bind, Connection):
            with suppress(SQLAlchemyError):
                bind.rollback()


# --- DuckDB -----------------------------------------------------------------------------------------------------------

_SETTINGS: Final = ("enable_external_access = false", "lock_configuration = true")


def confine(connection: Any) -> None:
    """Disable a database's access to files, the network, extensions and Python's variables, and lock the settings.

    This applies to all connections to the database. Attached files stay usable. If the owner has locked the
    configuration before, it stays unchanged: owners can keep the access this way.

    Raises:
        UsageError: The connection is closed, or does not belong to DuckDB.
    """
    try:
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT current_setting('lock_configuration')")
            if not cursor.fetchone()[0]:
                for setting in _SETTINGS:
                    cursor.execute(f"SET {setting}")
    except Exception as error:
        raise UsageError(f"DuckDB refused the settings that confine it: {type(error).__name__}") from error
