"""Of a statement that failed: whose fault it was, and what the model is told."""

from __future__ import annotations

import sqlite3
from typing import Final

from ..._support.redaction import redact_excerpt
from ...tools import ToolErrorCode

_MAX_ERROR_CHARS: Final = 1_000
_BY_RESULT_CODE: Final = {
    sqlite3.SQLITE_ERROR: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_CONSTRAINT: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_MISMATCH: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_TOOBIG: ToolErrorCode.INVALID_PARAM,
    sqlite3.SQLITE_AUTH: ToolErrorCode.PERMISSION_DENIED,
    sqlite3.SQLITE_READONLY: ToolErrorCode.PERMISSION_DENIED,
}
_MISTAKES: Final = frozenset({"DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"})


def code_of(error: Exception) -> str:
    """Whether the statement was wrong, was not allowed, or the database failed: only the last is not the model's doing.

    SQLite says it by its result codes (https://sqlite.org/rescode.html), others by the exception's class (PEP 249).
    """
    origin = getattr(error, "orig", None) or error
    result_code = getattr(origin, "sqlite_errorcode", None)
    if result_code is not None:
        return _BY_RESULT_CODE.get(result_code & 0xFF, ToolErrorCode.EXECUTION_ERROR)
    if {base.__name__ for base in type(origin).__mro__} & _MISTAKES:
        return ToolErrorCode.INVALID_PARAM
    return ToolErrorCode.EXECUTION_ERROR


def words_of(error: Exception) -> str:
    """What the database says, for the model: a driver's own message, without what SQLAlchemy adds to it."""
    message = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    return redact_excerpt(message, _MAX_ERROR_CHARS)
