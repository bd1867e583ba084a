"""A journal in a PostgreSQL database, for many machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from eagerstream.errors import MissingExtraError

from ._database import DatabaseFault, Rows, Statement, check_version
from ._sql import SCHEMA, VERSION

if TYPE_CHECKING:
    from psycopg import Connection

try:
    import psycopg
    from psycopg.rows import tuple_row
except ImportError as _error:
    raise MissingExtraError("postgres", _error.name or "psycopg", package="eagerstream-durable") from _error

_NOW_S: Final = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"
_SCHEMA_LOCK: Final = 0x6561676572  # two processes that create the same table at once would fail
_CONNECT_S: Final = 10

_SYNCHRONOUS: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)

_PASSING: Final = (
    "40001",  # serialization_failure
    "40P01",  # deadlock_detected
    "55P03",  # lock_not_available: another process holds a row, and may be stopped
    "25P03",  # idle_in_transaction_session_timeout: this process was stopped
    "53300",  # too_many_connections
    *("57P01", "57P02", "57P03", "57P05"),  # the server ends, starts, or ends this connection
)
_REASONS: Final = {
    "53100": "the disk of the server is full",
    "42501": "the user may not do that",
    "25006": "the database is read-only",
}


class Postgres:
    """A connection to a server. After it was lost, the next use connects again.

    Args:
        url: `postgresql://...`
        lease_s: A process that is stopped in a transaction must not hold rows for longer than that.
    """

    def __init__(self, url: str, lease_s: float) -> None:
        self._url = url
        self._connection: Connection[tuple[Any, ...]] | None = None
        self._was_connected = False
        stopped_ms = max(100, min(60_000, int(lease_s * 500)))
        self._begin = (
            "BEGIN ISOLATION LEVEL READ COMMITTED",
            f"SET LOCAL idle_in_transaction_session_timeout = {stopped_ms}",
            f"SET LOCAL lock_timeout = {2 * stopped_ms}",
        )

    def commit(self, statements: Sequence[Statement]) -> list[Rows]:
        """See `Database`. All is sent at once, so a process that is stopped rarely holds a lock."""
        with self._translated() as connection:
            with connection.pipeline():
                for sql in self._begin:
                    connection.execute(sql)
                cursors = [connection.execute(_adapted(sql), parameters) for sql, parameters in statements]
                connection.execute("COMMIT")
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """See `Database`."""
        with self._translated() as connection:
            return connection.execute(_adapted(sql), parameters).fetchall()

    def forget(self) -> None:
        """See `Database`. The files of the server have what was deleted until it vacuums the tables."""

    def close(self) -> None:
        """See `Database`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    @contextmanager
    def _translated(self) -> Iterator[Connection[tuple[Any, ...]]]:
        try:
            if self._connection is None:
                self._connection = self._connect()
                self._was_connected = True
            yield self._connection
        except psycopg.Error as error:
            fault = self._fault(error)
            self._recover()
            raise fault from error
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        """End a transaction that failed. If that is impossible, give up the connection."""
        try:
            if self._connection is not None:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def _connect(self) -> Connection[tuple[Any, ...]]:
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            row_factory=tuple_row,
            connect_timeout=_CONNECT_S,
            keepalives_idle=5,
            keepalives_interval=5,
            keepalives_count=3,
        )
        try:
            connection.execute(_SYNCHRONOUS)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                if not connection.execute("SELECT to_regclass('eagerstream_inbox')").fetchall()[0][0]:
                    for sql in SCHEMA:
                        connection.execute(_adapted(sql))
                check_version(connection.execute(VERSION).fetchall())
        except BaseException:
            connection.close()
            raise
        return connection

    def _fault(self, error: psycopg.Error) -> DatabaseFault:
        state = error.sqlstate
        if isinstance(error, psycopg.OperationalError) and state is None:
            self.close()  # it is about to be lost: an error of this side only follows from that
        is_lost = self._connection is None or self._connection.closed
        if state in _PASSING or (is_lost and self._was_connected):
            return DatabaseFault("the connection to PostgreSQL is lost, or rows are locked", is_passing=True)
        if state is not None:
            # The text of an error may contain parts of a row.
            reason = _REASONS.get(state) or f"{type(error).__name__}, SQLSTATE {state}"
            return DatabaseFault(f"PostgreSQL: {reason}")
        if is_lost:
            return DatabaseFault("PostgreSQL cannot be reached, or refuses the connection")
        return DatabaseFault(f"PostgreSQL: {type(error).__name__}")


def name_of(url: str) -> str:
    """Return the URL without user, password and options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@cache
def _adapted(sql: str) -> str:
    return sql.replace("NOW_S", _NOW_S).replace("BLOB", "BYTEA").replace("?", "%s")
