"""DuckDB: the database itself reaches no file and no network any more, whatever a statement says."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

from ...errors import UsageError

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
