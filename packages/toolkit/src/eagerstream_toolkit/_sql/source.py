"""Sources of the `SQL` tool: each kind of database in one common form."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from eagerstream.errors import UsageError

from .server import confine, connection_sessions, dbapi_sessions, engine_sessions, inspected_schema, run_in_session
from .sqlite import (
    Opener,
    copy_opener,
    file_of,
    path_of_url,
    path_opener,
    read_schema,
    run_query,
    shared_opener,
)
from .stop import Stop, Turn, in_thread
from .table import RowBounds, Table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


@dataclass(frozen=True, eq=False)
class Source:
    """A database in the tool's form.

    Attributes:
        dialect: The dialect's name for the model.
        is_shared: True if all queries run on one connection, one at a time.
        read_schema: Returns the tables, or an empty text if they are unknown. It blocks, and raises `UsageError` if the
            database cannot be read.
        runner: Called for each query, on the thread of the event loop. It returns the function that runs the query in
            another thread.
    """

    dialect: str
    is_shared: bool
    read_schema: Callable[[], str]
    runner: Callable[[], Callable[..., Table]]

    async def run_query(self, sql: str, bounds: RowBounds, *, read_only: bool) -> Table:
        """Run one statement. Cancelling this stops the statement, if the driver supports it."""
        run = self.runner()
        return await in_thread(lambda stop: run(sql, bounds, stop, read_only=read_only))


def source_of(database: object, dialect: str | None, *, read_only: bool) -> Source:
    """Return the source for a database, from the arguments of `SQL`.

    Raises:
        UsageError: The database is missing, cannot be used this way, or is of an unknown kind.
    """
    if isinstance(database, str | Path):
        path = database if isinstance(database, Path) else path_of_url(database)
        if path is not None:
            return _of_path(path, read_only=read_only)
        # A database in memory, which exists as long as the source.
        connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        source = _of_sqlite(connection, read_only=False)
        weakref.finalize(source, connection.close)  # since Python 3.13, an unclosed connection is a warning
        return source
    if isinstance(database, sqlite3.Connection):
        return _of_sqlite(database, read_only=read_only)
    if type(database).__module__.startswith("sqlalchemy."):
        return _of_sqlalchemy(database, read_only=read_only)
    if not all(callable(getattr(database, name, None)) for name in ("cursor", "commit", "rollback")):
        raise UsageError(f"SQL takes a path, a DB-API connection, or an Engine or Connection, not {type(database)}")
    named = dialect or type(database).__module__.partition(".")[0].lstrip("_")
    run = partial(run_in_session, dbapi_sessions(database), named)
    if named.lower() == "duckdb":
        confine(database)
    return Source(named, is_shared=True, read_schema=lambda: "", runner=lambda: run)


# --- SQLite -----------------------------------------------------------------------------------------------------------


def _sqlite(opener: Callable[[], Opener], *, is_shared: bool) -> Source:
    """Return a SQLite source. `opener` is called for each query, on the thread of the event loop."""

    def schema() -> str:
        try:
            return read_schema(opener())
        except sqlite3.Error as error:
            raise UsageError(f"the database cannot be read: {error}") from error

    return Source("SQLite", is_shared, schema, lambda: partial(run_query, opener()))


def _of_path(path: Path, *, read_only: bool) -> Source:
    if read_only and not path.is_file():
        raise UsageError(f"there is no database to read: {path}")
    return _sqlite(partial(path_opener, path, read_only=read_only), is_shared=False)


def _of_sqlite(connection: sqlite3.Connection, *, read_only: bool) -> Source:
    if not _is_bound_to_thread(connection):
        opener = shared_opener(connection)
        return _sqlite(lambda: opener, is_shared=True)
    if (file := file_of(connection)) is not None:
        return _of_path(file, read_only=read_only)
    _check_copies_do(read_only=read_only)
    return _sqlite(partial(copy_opener, connection), is_shared=False)


def _is_bound_to_thread(connection: sqlite3.Connection) -> bool:
    """Return whether a connection has `check_same_thread` set. Only another thread can find out."""
    refused: list[bool] = []

    def look() -> None:
        try:
            connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        except sqlite3.ProgrammingError:
            refused.append(True)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return bool(refused)


def _check_copies_do(*, read_only: bool) -> None:
    if not read_only:
        raise UsageError(
            "a database in memory that is bound to its thread can only be read: connect with check_same_thread=False"
        )


# --- SQLAlchemy -------------------------------------------------------------------------------------------------------


def _of_sqlalchemy(bind: object, *, read_only: bool) -> Source:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.exc import SQLAlchemyError

    if not isinstance(bind, Engine | Connection):
        raise UsageError(f"SQL takes an Engine or a Connection of SQLAlchemy, not {type(bind).__name__}")
    name = bind.dialect.name
    if name == "sqlite":
        try:
            found = _of_sqlite_bind(bind, read_only=read_only)
        except SQLAlchemyError as error:
            raise UsageError(f"the database cannot be read: {type(error).__name__}") from error
        if found is not None:
            return found
    if name == "duckdb":
        raise UsageError("give SQL DuckDB's own connection instead: it starts transactions in another way")
    sessions = engine_sessions(bind) if isinstance(bind, Engine) else connection_sessions(bind)
    run = partial(run_in_session, sessions, name)
    return Source(name, isinstance(bind, Connection), partial(inspected_schema, bind), lambda: run)


def _of_sqlite_bind(bind: Engine | Connection, *, read_only: bool) -> Source | None:
    """Return a source, or `None` if the driver is not Python's own sqlite3."""
    from sqlalchemy import Connection

    if isinstance(bind, Connection):
        driver = bind.connection.driver_connection
        return _of_sqlite(driver, read_only=read_only) if isinstance(driver, sqlite3.Connection) else None
    with closing(bind.raw_connection()) as pooled:
        driver = pooled.driver_connection
        if not isinstance(driver, sqlite3.Connection):
            return None
        is_bound, file = _is_bound_to_thread(driver), file_of(driver)
        turn = Turn.on(driver) if file is None else None
    if is_bound and file is not None:
        return _of_path(file, read_only=read_only)
    if is_bound:
        _check_copies_do(read_only=read_only)

        def copy() -> Opener:
            with closing(bind.raw_connection()) as pooled:
                return copy_opener(cast("sqlite3.Connection", pooled.driver_connection))

        return _sqlite(copy, is_shared=False)

    @contextmanager
    def opened(stop: Stop) -> Iterator[sqlite3.Connection]:
        with turn.taken(stop) if turn else nullcontext(), closing(bind.raw_connection()) as pooled:
            yield cast("sqlite3.Connection", pooled.driver_connection)

    return _sqlite(lambda: opened, is_shared=file is None)
