"""Conversion of a statement to sqlglot's tree and back, within bounds. Every call keeps its own name."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ...errors import MissingExtraError
from .references import NotAllowedError

if TYPE_CHECKING:
    from sqlglot import Token, exp


_SPECIAL_SYNTAX: Final = frozenset(
    {
        *("CAST", "TRY_CAST", "SAFE_CAST", "CONVERT", "TRY_CONVERT", "EXTRACT", "TRIM", "SUBSTRING", "POSITION"),
        *("OVERLAY", "GROUP_CONCAT", "MATCH", "JSON_TABLE", "OPENJSON"),
    }
)
"""Calls with their own argument syntax instead of a list of expressions."""
_MAX_CHARS: Final = 100_000
_MAX_TOKENS: Final = 10_000
"""Maximum number of tokens. Parsing, checking and writing them up to four times takes 1 s and cannot be stopped."""
_MAX_DEPTH: Final = 100
_MAX_NESTED_TYPES: Final = 6
_WITHOUT_ARROW: Final = frozenset({"tsql", "fabric"})


def only_statement(sql: str, dialect: str) -> list[Token]:
    """Return the tokens of a text with exactly one statement.

    Raises:
        NotAllowedError: The text is too long, cannot be tokenized, has a `/*! */` comment, or has no statement or
            several.
    """
    sqlglot = load_sqlglot()
    if len(sql) > _MAX_CHARS:
        raise NotAllowedError(f"it is longer than {_MAX_CHARS} characters")
    if "/*!" in sql or "/*M!" in sql:  # comments that MySQL and MariaDB run
        raise NotAllowedError("comments of the kind /*! */ are not allowed")
    try:
        tokens: list[Token] = sqlglot.tokenize(sql, dialect=dialect)
    except Exception:
        raise NotAllowedError("it could not be read") from None
    kinds = [token.token_type for token in tokens]
    while kinds and kinds[-1] is sqlglot.TokenType.SEMICOLON:
        kinds.pop()
    if not kinds:
        raise NotAllowedError("it is empty")
    if sqlglot.TokenType.SEMICOLON in kinds:
        raise NotAllowedError("only one statement at a time is allowed")
    return tokens


def parsed(sql: str, tokens: list[Token], dialect: str) -> exp.Expr:
    """Return the tree of one statement.

    Raises:
        NotAllowedError: Parsing it would take too long, or a string is in the place of a table.
        Exception: Any exception of sqlglot.
    """
    _check_size(tokens, dialect)
    sqlglot = load_sqlglot()
    parser = _parser_class(dialect)(error_level=sqlglot.ErrorLevel.IMMEDIATE, dialect=dialect)
    statements: list[exp.Expr] = [statement for statement in parser.parse(tokens, sql) if statement is not None]
    (query,) = statements
    return query


def written(query: exp.Expr, dialect: str) -> str:
    """Return the text of a tree, in the same dialect.

    Raises:
        Exception: Any exception of sqlglot.
    """
    sqlglot = load_sqlglot()
    if dialect == "postgres":
        _spell_backslashes_out(query)
    options = {"comments": False, "normalize_functions": False, "unsupported_level": sqlglot.ErrorLevel.RAISE}
    return query.sql(dialect=dialect, **options)


def _spell_backslashes_out(query: exp.Expr) -> None:
    """Write texts with a backslash as E'...'. Their value then depends on no setting of the connection."""
    from sqlglot import exp

    for escape in list(query.find_all(exp.Escape)):
        if escape.expression.is_string and escape.expression.name == "\\":
            escape.replace(escape.this)  # it is PostgreSQL's default, and sqlglot cannot read ESCAPE E'\\\\'
    for literal in list(query.find_all(exp.Literal, exp.RawString)):
        if "\\" in literal.name and (isinstance(literal, exp.RawString) or literal.is_string):
            literal.replace(exp.ByteString(this=literal.name))


def load_sqlglot() -> Any:
    """Return the module `sqlglot`.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import sqlglot
    except ImportError:
        raise MissingExtraError("sql", "sqlglot") from None
    return sqlglot


def _check_size(tokens: list[Token], dialect: str) -> None:
    """Check that sqlglot can parse the statement in bounded time, because parsing cannot be stopped.

    The number of tokens and the depth of brackets are bounded. sqlglot also parses `decimal(...)` and `array[...]`
    twice: first as a type, then as an expression. Each nested one doubles the time. T-SQL has no `->`, and there each
    `->` doubles it, too.

    Raises:
        NotAllowedError: The statement exceeds a bound.
    """
    sqlglot = load_sqlglot()
    kinds = sqlglot.TokenType
    types = sqlglot.Dialect.get_or_raise(dialect).parser_class.TYPE_TOKENS
    if len(tokens) > _MAX_TOKENS:
        raise NotAllowedError(f"it has more than {_MAX_TOKENS} words and signs")
    opened: list[bool] = []
    depth = 0
    before = None
    for token in tokens:
        kind = token.token_type
        if kind in (kinds.L_PAREN, kinds.L_BRACKET):
            opened.append(before in types)
            depth += opened[-1]
            if len(opened) > _MAX_DEPTH:
                raise NotAllowedError(f"more than {_MAX_DEPTH} brackets are open in it")
        elif kind in (kinds.R_PAREN, kinds.R_BRACKET) and opened:
            depth -= opened.pop()
        if depth > _MAX_NESTED_TYPES or (kind is kinds.ARROW and dialect in _WITHOUT_ARROW):
            raise NotAllowedError("types are nested too deeply in it, or it is of another dialect")
        before = kind


@cache
def _parser_class(dialect: str) -> type[Any]:
    """Return a dialect's parser without its function classes. They rename calls, but one list of names must decide."""
    sqlglot = load_sqlglot()
    base: Any = sqlglot.Dialect.get_or_raise(dialect).parser_class

    class PlainParser(base):  # type: ignore[misc]  # the base class is known only at run time
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parse for name, parse in base.FUNCTION_PARSERS.items() if name in _SPECIAL_SYNTAX
        }
        # A copy: sqlglot changes the shared one while it parses CONNECT BY. Without `IF`: sqlglot parses an `IF`
        # without parentheses twice, so each nested one doubles the time.
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: parse for name, parse in base.NO_PAREN_FUNCTION_PARSERS.items() if name != "IF"
        }

        def _parse_table_part(self, *args: Any, **options: Any) -> Any:
            if self._curr is not None and self._curr.token_type is sqlglot.TokenType.STRING:
                raise NotAllowedError("a text stands in the place of a table")
            return super()._parse_table_part(*args, **options)

    return PlainParser


# --- without sqlglot's log, which would repeat parts of the model's statements ----------------------------------------

_quiet_threads: Final[set[int]] = set()


@contextmanager
def without_logs() -> Iterator[None]:
    """Silence sqlglot's log in this thread during the block."""
    _install_filter()
    thread = threading.get_ident()
    _quiet_threads.add(thread)
    try:
        yield
    finally:
        _quiet_threads.discard(thread)


@cache
def _install_filter() -> None:
    logging.getLogger("sqlglot").addFilter(_may_be_logged)


def _may_be_logged(_record: logging.LogRecord) -> bool:
    """Return False in a thread that is inside `without_logs`. Other threads log as usual."""
    return threading.get_ident() not in _quiet_threads
