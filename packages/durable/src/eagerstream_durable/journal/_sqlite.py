"""A journal in one SQLite file, in WAL mode, with each commit on the disk before it is reported."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from eagerstream._support.files import NotOwnedError, check_folder, check_link, check_owned, open_private, sync_folder

from ._database import DatabaseFault, Rows, Statement, check_version
from ._sql import SCHEMA, VERSION

_NOW_S: Final = "((julianday('now') - 2440587.5) * 86400.0)"
_TABLES: Final = {sql.split()[5]: sql.replace("IF NOT EXISTS ", "") for sql in SCHEMA if sql.startswith("CREATE")}
"""The definitions of the tables, as SQLite stores them."""

_CHECKPOINT_S: Final = 0.02
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

    The file may contain what another user wrote, so it is used only if nobody else can have written it, or can put
    another one in its place. That is checked by name, before and after SQLite opens it: to open it here as well would
    remove the locks of the other connections of this process when it is closed. In a folder where nobody else can
    rename the file, the name stays the same file.

    Args:
        path: The file, absolute.
        create: Create the file if it is missing; only its owner may read it then.
        beside: For a connection that only reads: the one that writes, which was used before.

    Attributes:
        file: The file, without links once it was opened.
        files: The identity of each file that was opened.
    """

    def __init__(self, path: Path, *, create: bool = False, beside: SQLite | None = None) -> None:
        self._path = path
        self._beside = beside
        self._creates = self._makes_tables = create
        self._forgets = False
        self._connection: sqlite3.Connection | None = None
        self.file = path
        self.files: dict[Path, tuple[int, int]] = {} if beside is None else beside.files

    def commit(self, statements: Sequence[Statement]) -> list[Rows]:
        """See `Database`."""
        with self._translated() as connection:
            connection.execute("BEGIN IMMEDIATE")
            rows = [connection.execute(_adapted(sql), parameters).fetchall() for sql, parameters in statements]
            connection.execute("COMMIT")
            # SQLite does not notice if somebody removes the file, and writes to a file without a name.
            self._check_files()
            if self._forgets:
                self.forget()
            return rows

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """See `Database`."""
        with self._translated() as connection:
            return connection.execute(_adapted(sql), parameters).fetchall()

    def forget(self) -> None:
        """See `Database`. The WAL has copies of what was deleted. If others read, the next commit cuts it off."""
        connection = self._connection
        if connection is None:
            return
        connection.execute(f"PRAGMA busy_timeout = {int(_CHECKPOINT_S * 1000)}")
        try:
            is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError:  # another process has the lock
            is_busy = True
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}")
        self._forgets = bool(is_busy)

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
        if self._beside is not None:
            self.file = self._beside.file
        else:
            # Nobody else may have made the links to the file, or be able to replace them or the file.
            for link in (self._path, *self._path.parents):
                check_link(link)
            check_folder(self._path.parent)
            file = Path(os.path.realpath(self._path))
            check_folder(file.parent)
            self.file = file
            for path in self._named("", "-wal", "-shm", "-journal"):  # SQLite opens what is there by these names
                check_owned(path, may_miss=True)
            if self._creates:
                with suppress(FileExistsError):  # SQLite gives its other files the rights of this one
                    os.close(open_private(str(self.file), os.O_RDWR))
                sync_folder(self.file.parent)  # SQLite does so for its other files only
                self._creates = False  # from now on, a file that is missing was removed
        self.file.stat()
        connection = sqlite3.connect(self.file, timeout=_BUSY_S, isolation_level=None, cached_statements=64)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            if self._beside is not None:
                connection.execute("PRAGMA query_only = 1")
            else:
                _prepare(connection, may_create=self._makes_tables)
                for path in self._named("", "-wal", "-shm"):
                    check_owned(path)
                self.files.update({path: _identity(path) for path in self._named("", "-wal")})
        except BaseException:
            connection.close()
            raise
        return connection

    def _named(self, *suffixes: str) -> list[Path]:
        return [self.file.with_name(f"{self.file.name}{suffix}") for suffix in suffixes]

    def _check_files(self) -> None:
        for path, known in self.files.items():
            try:
                is_same = _identity(path) == known
            except FileNotFoundError:
                is_same = False
            if not is_same:  # and it stays so: a new file in its place would not have the runs
                raise DatabaseFault(f"somebody removed or replaced the file {path.name} while it was in use")

    def _fault(self, error: sqlite3.Error | OSError) -> DatabaseFault:
        if isinstance(error, NotOwnedError):
            return DatabaseFault(f"it is not safe to use {self._path.name} as a journal: {error}")
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
    objects = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    if any(kind == "table" and name == "eagerstream_journal" for kind, name, _, _ in objects):
        check_version(connection.execute(VERSION).fetchall())
    elif not may_create:
        raise DatabaseFault("this SQLite file is no journal")  # and it stays as it is
    if not all(_is_known(*each) for each in objects):
        raise DatabaseFault("somebody changed this journal: it has triggers, views, or other tables than a journal has")
    connection.execute("PRAGMA secure_delete = ON")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise DatabaseFault("SQLite cannot use a WAL for this file: is it on a network drive?")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for sql in SCHEMA:
            connection.execute(sql)
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _is_known(kind: str, name: str, table: str, sql: str | None) -> bool:
    """Return True if an object of a database cannot change what the statements of a journal do."""
    if kind in ("trigger", "view"):
        return False
    if not table.lower().startswith("eagerstream_"):
        return True  # of somebody who keeps his own tables in the same file
    return sql is None if kind == "index" else _TABLES.get(name) == sql


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


@cache
def _adapted(sql: str) -> str:
    return sql.replace("NOW_S", _NOW_S)
