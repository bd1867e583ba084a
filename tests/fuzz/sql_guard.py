"""The guard of the SQL tool: it refuses a statement, or the statement is one SELECT that calls only what it may."""

from __future__ import annotations

import time
from typing import Final

from eagerstream.builtin._sql.guard import checked_read
from eagerstream.errors import ToolError
from tests.builtin.postgres_parser import check_one_read

from .choices import Choices
from .sql_text import sql_text

_DIALECTS: Final = (
    "postgres",
    "postgres",
    "postgres",
    "postgres",
    "duckdb",
    "mysql",
    "tsql",
    "oracle",
    "spark",
    "snowflake",
)
_LONGEST_S: Final = 5.0
"""A hundred times what the largest inputs take."""


def check(data: bytes) -> None:
    """Nothing but its own refusal comes out, soon; what passes passes again, and PostgreSQL's parser agrees."""
    choices = Choices(data)
    dialect = choices.pick(_DIALECTS)
    structured = choices.below(2)
    check_statement(sql_text(choices) if structured else choices.rest().decode("utf-8", "surrogateescape"), dialect)


def check_statement(sql: str, dialect: str) -> bool:
    """Check one statement; returns whether it passed the guard."""
    start = time.process_time()
    try:
        written = checked_read(sql, dialect)
    except ToolError as refused:
        assert refused.code == "PERMISSION_DENIED"
        return False
    finally:
        assert time.process_time() - start < _LONGEST_S
    if dialect == "postgres":
        check_one_read(written)
    checked_read(written, dialect)
    return True
