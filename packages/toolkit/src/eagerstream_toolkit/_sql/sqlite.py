"""SQLite: read-only connections, queries that can be stopped, and no access to anything but the one database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from eagerstream.errors import ToolError, UsageError

from .stop import Stop, Turn
from .table import RowBounds, Table, read_table

Opener = Callable[[Stop], AbstractContextManager[sqlite3.Connection]]
"""A source of connections. Each is for one query, in the thread that runs it."""

_MAX_COPY_BYTES: Final = 64 * 1024 * 1024
_BUSY_S: Final = 5.0
_STEPS: Final = 1_000
"""Virtual machine instructions between two checks for a stop request: about 10 microseconds."""
_LIMITS: Final = {
    # LENGTH and COLUMN together bound a row to 256 MiB (default: 2 TB). A row is in memory completely, more than once.
    # A function call on one value cannot be stopped, either: instr() takes 6 s for 1 MB, and 35 s for 2 MB.
    sqlite3.SQLITE_LIMIT_LENGTH: 1024 * 1024,
    sqlite3.SQLITE_LIMIT_COLUMN: 256,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

# --- where connections come from --------------------------------------------------------------------------------------


def path_opener(path: Path, *, read_only: bool) -> Opener:
    """Return an opener that opens a database file for each query."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"

    @contextmanager
    def opened(_: Stop) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_S)) as connection:
            connection.text_factory = _text
            yield connection

    return opened


def shared_opener(connection: sqlite3.Connection) -> Opener:
    """Return an opener that provides one connection to one thread at a time."""
    turn = Turn.on(connection)

    @contextmanager
    def opened(stop: Stop) -> Iterator[sqlite3.Connection]:
        with turn.taken(stop):
            yield connection

    return opened


def copy_opener(connection: sqlite3.Connection) -> Opener:
    """Copy the current content of a database that only the calling thread can use.

    Raises:
        ToolError: The connection belongs to another thread, or the database is larger than 64 MiB.
    """
    try:
        pages = _number(connection, "PRAGMA page_count")
        if pages * _number(connection, "PRAGMA page_size") > _MAX_COPY_BYTES:
            raise ToolError("The database is too large to be read from another thread.")
        content = connection.serialize() if pages else b""
    except sqlite3.ProgrammingError:
        raise ToolError("The database cannot be reached from this thread.") from None

    @contextmanager
    def opened(_: Stop) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            copy.text_factory = _text
            if content:
                copy.deserialize(content)
            yield copy

    return opened


def file_of(connection: sqlite3.Connection) -> Path | None:
    """Return the file of a connection's database, or `None` for one in memory. Call it in the connection's thread."""
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        _, _, file = cursor.execute("PRAGMA database_list").fetchone()
    return Path(file) if file else None


def path_of_url(database: str) -> Path | None:
    """Return the file of a path or an `sqlite:///` URL, or `None` for a database in memory.

    Raises:
        UsageError: It is the URL of another kind of database.
    """
    if database.startswith("sqlite://"):
        database = database.removeprefix("sqlite://").removeprefix("/").partition("?")[0]
    elif "://" in database or database.startswith("file:"):
        raise UsageError("SQL takes only sqlite:///... URLs; for others give it sqlalchemy.create_engine(url)")
    return None if database in ("", ":memory:") else Path(database)


# --- queries ----------------------------------------------------------------------------------------------------------


def run_query(opener: Opener, sql: str, bounds: RowBounds, stop: Stop, *, read_only: bool) -> Table:
    """Run one statement. Without `read_only`, it is committed, or on any error rolled back.

    Raises:
        sqlite3.Error: SQLite refuses the statement.
        Stopped: The caller no longer waits.
    """
    with opener(stop) as connection, stop.by(connection.interrupt):
        # Make SQLite open its virtual tables, which it opens only once. Later, the limits would refuse a database with
        # a wide table, and R*Trees prepare statements that write. This is done before BEGIN: SQLite waits for other
        # writers only before the first read.
        virtual = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
        with closing(connection.cursor()) as cursor:
            cursor.row_factory = None
            for (name,) in cursor.execute(virtual).fetchmany(1_000):
                with suppress(sqlite3.Error):  # its module is not installed
                    cursor.execute('PRAGMA table_info("{}")'.format(str(name).replace('"', '""')))
        if read_only:
            return _run_guarded(connection, sql, bounds, stop, read_only=True)
        own = not connection.in_transaction
        if own:
            connection.execute("BEGIN")  # here, because the guard refuses statements that control transactions
        try:
            table = _run_guarded(connection, sql, bounds, stop, read_only=False)
            stop.check()
            if own:
                connection.execute("COMMIT")  # the effect of `commit` depends on the connection's settings
            else:
                connection.commit()
        except BaseException:
            if own and connection.in_transaction:  # some errors make SQLite end it
                connection.execute("ROLLBACK")
            raise
        return table


def read_schema(opener: Opener) -> str:
    """Return the statements that made the tables, views and indexes."""
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    with opener(Stop()) as connection, closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        return ";\n".join(sql for (sql,) in cursor.execute(query).fetchmany(1_000))


def _run_guarded(connection: sqlite3.Connection, sql: str, bounds: RowBounds, stop: Stop, *, read_only: bool) -> Table:
    with _guarded(connection, stop, read_only=read_only), closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        cursor.execute(sql)
        names = [column[0] for column in cursor.description or ()]
        table = read_table(names, cursor, bounds)
        if not read_only and cursor.rowcount >= 0:
            table.affected = cursor.rowcount
        return table


@contextmanager
def _guarded(connection: sqlite3.Connection, stop: Stop, *, read_only: bool) -> Iterator[None]:
    """Restrict the connection to permitted actions during the block."""
    query_only = _number(connection, "PRAGMA query_only")
    limits = {limit: connection.getlimit(limit) for limit in _LIMITS}
    try:
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        for limit, bound in _LIMITS.items():
            connection.setlimit(limit, min(bound, limits[limit]))
        connection.set_authorizer(_may_read if read_only else _may_write)
        connection.set_progress_handler(stop.is_asked, _STEPS)
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_authorizer(None)
        for limit, bound in limits.items():
            connection.setlimit(limit, bound)
        if read_only and not query_only:
            connection.execute("PRAGMA query_only = OFF")


def _number(connection: sqlite3.Connection, query: str) -> int:
    """Return the single number of a query. The connection's row factory is not used."""
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        (number,) = cursor.execute(query).fetchone()
        return int(number)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


# --- what a statement may do ------------------------------------------------------------------------------------------

# `database_list` is missing here, because it returns the file's path.
_PRAGMAS_WITH_ARGUMENT: Final = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)
_PRAGMAS: Final = _PRAGMAS_WITH_ARGUMENT | {
    *("application_id", "collation_list", "data_version", "encoding", "foreign_keys", "freelist_count"),
    *("function_list", "page_count", "page_size", "schema_version", "user_version"),
}
"""Pragmas that only report values. With an argument, those missing above would set something."""
_FORBIDDEN_FUNCTIONS: Final = frozenset(
    {"edit", "eval", "fts3_tokenizer", "load_extension", "readfile", "sqlite_compileoption_get", "writefile"}
)
_READS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_NOT_ONE_STATEMENT: Final = frozenset(
    # ATTACH would reach any file of the host. VACUUM INTO requires it, too.
    {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}
)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None, read_only: bool) -> int:
    """Allow or deny an action of a statement that SQLite compiles. For reads, unknown actions are denied."""
    allowed = action in _READS if read_only else action not in _NOT_ONE_STATEMENT
    match action:
        case sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() not in _FORBIDDEN_FUNCTIONS
        case sqlite3.SQLITE_PRAGMA:
            name = (first or "").lower()
            allowed = name in (_PRAGMAS if second is None else _PRAGMAS_WITH_ARGUMENT)
        case sqlite3.SQLITE_UPDATE if first == "sqlite_master":
            # json_each and similar tables declare their columns this way. SQLite itself refuses real updates.
            allowed = True
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


_may_read: Final = partial(_authorize, read_only=True)
_may_write: Final = partial(_authorize, read_only=False)
