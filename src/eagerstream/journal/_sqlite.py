"""A journal in one SQLite file, in WAL mode, with each commit on the disk before it is reported."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from .._support.files import open_private, sync_folder
from ._database import DatabaseFault, Rows, Statement, check_version
from ._sql import SCHEMA, VERSION

_NOW_S: Final = "((julianday('now') - 2440587.5) * 86400.0)"
_HAS_TABLES: Final = "SELECT 1 FROM sqlite_master WHERE name = 'eagerstream_journal'"
_BUSY_S: Final = 5.0  # SQLite itself waits so long for other processes; the writer then tries again

_REASONS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database, or is damaged",
    sqlite3.SQLITE_IOERR: "the file cannot be read or written",
    sqlite3.SQLITE_TOOBIG: "an entry is larger than SQLite accepts",
}


class SQLite:
    """A connection to a file.

    Args:
        path: The file, absolute.
        create: Create the file if it is missing; only its owner may read it then.
        beside: For a connection that only reads: the one that writes, which was used before.

    Attributes:
        files: The identity of each file that was opened.
    """

    def __init__(self, path: Path, *, create: bool = False, beside: SQLite | None = None) -> None:
        self._path = path
        self._creates = self._makes_tables = create
        self._only_reads = beside is not None
        self._connection: sqlite3.Connection | None = None
        self.files: dict[Path, tuple[int, int]] = {} if beside is None else beside.files

    def commit(self, statements: Sequence[Statement]) -> list[Rows]:
        """See `Database`."""
        with self._translated() as connection:
            connection.execute("BEGIN IMMEDIATE")
            rows = [connection.execute(_adapted(sql), parameters).fetchall() for sql, parameters in statements]
            connection.execute("COMMIT")
            # SQLite does not notice if somebody removes the file, and writes to a file without a name.
            self._check_files()
            return rows

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """See `Database`."""
        with self._translated() as connection:
            return connection.execute(_adapted(sql), parameters).fetchall()

    def close(self) -> None:
        """See `Database`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def _translated(self) -> Iterator[sqlite3.Connection]:
        try:
            self._check_files()
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except (sqlite3.Error, OSError) as error:
            raise self._fault(error) from error
        finally:
            if self._connection is not None and self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.rollback()

    def _connect(self) -> sqlite3.Connection:
        if self._creates:
            with suppress(FileExistsError):  # SQLite gives its other files the rights of this one
                os.close(open_private(str(self._path), os.O_RDWR))
            sync_folder(self._path.parent)  # SQLite does so for its other files only
            self._creates = False  # from now on, a file that is missing was removed
        else:
            self._path.stat()
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, cached_statements=64)
        try:
            if self._only_reads:
                connection.execute("PRAGMA query_only = 1")
            else:
                _prepare(connection, may_create=self._makes_tables)
                self.files.update({path: _identity(path) for path in (self._path, self._wal)})
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def _wal(self) -> Path:
        return self._path.with_name(f"{self._path.name}-wal")

    def _check_files(self) -> None:
        for path, known in self.files.items():
            try:
                is_same = _identity(path) == known
            except FileNotFoundError:
                is_same = False
            if not is_same:  # and it stays so: a new file in its place would not have the runs
                raise DatabaseFault(f"somebody removed or replaced the file {path.name} while it was in use")

    def _fault(self, error: sqlite3.Error | OSError) -> DatabaseFault:
        if isinstance(error, OSError):
            return DatabaseFault(f"the file {self._path.name} cannot be opened: {error.strerror}")
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return DatabaseFault(f"another process keeps {self._path.name} locked", is_passing=True)
        reason = _REASONS.get(primary, str(error)) if primary is not None else str(error)
        name = getattr(error, "sqlite_errorname", "")
        return DatabaseFault(f"{self._path.name}: {reason}{f' ({name})' if name else ''}")


def _prepare(connection: sqlite3.Connection, *, may_create: bool) -> None:
    """Set the connection up, and make the tables.

    Raises:
        sqlite3.Error: SQLite refuses it, for example as the file is no database.
        DatabaseFault: The tables are newer than this code, or the file system allows no WAL.
    """
    if not may_create and connection.execute(_HAS_TABLES).fetchone() is None:
        raise DatabaseFault("this SQLite file is no journal")  # and it stays as it is
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise DatabaseFault("SQLite cannot use a WAL for this file: is it on a network drive?")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for sql in SCHEMA:
            connection.execute(sql)
        check_version(connection.execute(VERSION).fetchall())
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


@cache
def _adapted(sql: str) -> str:
    return sql.replace("NOW_S", _NOW_S)
