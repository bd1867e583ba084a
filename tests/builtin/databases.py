"""Databases for tests, as files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache


@cache
def made(script: str) -> bytes:
    """The file of the database that a script makes; made once, which takes longer than a test."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()
