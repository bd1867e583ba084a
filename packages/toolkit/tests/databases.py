"""Databases for tests, as files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

from packages.toolkit.tests.files_calls import answer_of

from eagerstream.tools import ToolResponse
from eagerstream_toolkit import SQL


@cache
def made(script: str) -> bytes:
    """The file of the database that a script makes; made once, which takes longer than a test."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


async def ask(tool: SQL, query: str) -> ToolResponse:
    """What the tool answers to a query."""
    return await answer_of(tool, sql_query=query)
