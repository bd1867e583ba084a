"""The interface of a database that keeps a journal.

Every change is a list of statements that are conditional in themselves. So a transaction needs one round trip, and the
rows of its last statement tell what happened. The same list, executed again after a lost connection, changes nothing
more: nobody has to know whether the first attempt was committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from ._sql import SCHEMA_VERSION

Statement: TypeAlias = tuple[str, Sequence[object]]
"""SQL with `?` for parameters and `NOW_S` for the time of the database, and the parameters."""

Rows: TypeAlias = list[tuple[Any, ...]]


class DatabaseFault(Exception):
    """A failure of the database.

    Attributes:
        reason: The description, for people.
        is_passing: True if the same statements may succeed soon.
    """

    def __init__(self, reason: str, *, is_passing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_passing = is_passing


class Database(Protocol):
    """A connection, which is made when it is first used, and again after it was lost. For one thread."""

    def commit(self, statements: Sequence[Statement]) -> list[Rows]:
        """Execute the statements in one transaction, and return the rows of each once all is durable.

        Raises:
            DatabaseFault: It failed. If `is_passing`, it may have been committed all the same.
        """
        ...

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Return the rows of a query.

        Raises:
            DatabaseFault: It failed.
        """
        ...

    def forget(self) -> None:
        """Keep no copy of what was deleted, as far as the database can do that. It never raises."""
        ...

    def close(self) -> None:
        """Close the connection. It never raises."""
        ...


def check_version(rows: Rows) -> None:
    """Check that this version of the library can read the tables.

    Raises:
        DatabaseFault: Another version made them, or they have none.
    """
    version = rows[0][0] if rows else None
    if version != SCHEMA_VERSION:
        which = "a newer" if isinstance(version, int) and version > SCHEMA_VERSION else "another"
        raise DatabaseFault(
            f"{which} version of eagerstream made this journal: its tables have version {version!r:.20}, and this one "
            f"knows version {SCHEMA_VERSION}"
        )
