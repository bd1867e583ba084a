"""From the text of a statement to sqlglot's tree and back: within bounds, and with every call by its own name."""

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
"""Calls whose arguments are no list of expressions."""
_MAX_CHARS: Final = 100_000
_MAX_TOKENS: Final = 10_000
"""Reading, checking and writing so many, up to four times, takes a second, in which nothing can stop it."""
_MAX_DEPTH: Final = 100
_MAX_NESTED_TYPES: Final = 6
_WITHOUT_ARROW: Final = frozenset({"tsql", "fabric"})


def only_statement(sql: str, dialect: str) -> list[Token]:
    """Return the tokens of a text that has one statement.

    Raises:
        NotAllowedError: It is too long, or there are more, or none.
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
        NotAllowedError: Reading it would take too long, or a text stands in the place of a table.
        Exception: Whatever sqlglot raises.
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
        Exception: Whatever sqlglot raises.
    """
    sqlglot = load_sqlglot()
    if dialect == "postgres":
        _spell_backslashes_out(query)
    options = {"comments": False, "normalize_functions": False, "unsupported_level": sqlglot.ErrorLevel.RAISE}
    return query.sql(dialect=dialect, **options)


def _spell_backslashes_out(query: exp.Expr) -> None:
    """Write texts with a backslash as E'...': what they are then depends on no setting of the connection."""
    from sqlglot import exp

    for escape in list(query.find_all(exp.Escape)):
        if escape.expression.is_string and escape.expression.name == "\\":
            escape.replace(escape.this)  # it is PostgreSQL's own, and sqlglot cannot read ESCAPE E'\\\\'
    for literal in list(query.find_all(exp.Literal, exp.RawString)):
        if "\\" in literal.name and (isinstance(literal, exp.RawString) or literal.is_string):
            literal.replace(exp.ByteString(this=literal.name))


def load_sqlglot() -> Any:
    """Return the module.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import sqlglot
    except ImportError:
        raise MissingExtraError("sql", "sqlglot") from None
    return sqlglot


def _check_size(tokens: list[Token], dialect: str) -> None:
    """Check that sqlglot reads the statement in time; nothing could stop it.

    There are bounds on the number of tokens and on the depth of brackets. Besides, sqlglot reads `decimal(...)` and
    `array[...]` as a type first and then again as an expression: each one inside another takes twice as long. In T-SQL,
    which has no `->`, each of those does.
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
    """The parser of a dialect without its own ideas of functions: they rename, and one list of names is to decide."""
    sqlglot = load_sqlglot()
    base: Any = sqlglot.Dialect.get_or_raise(dialect).parser_class

    class PlainParser(base):  # type: ignore[misc]  # the base is known at run time only
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parse for name, parse in base.FUNCTION_PARSERS.items() if name in _SPECIAL_SYNTAX
        }
        # A copy, as sqlglot changes the shared one while it parses CONNECT BY. Without `IF`: if it has no parentheses,
        # it is read twice, and each one inside another takes twice as long.
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
    """While the block runs, sqlglot logs nothing in this thread."""
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
    """Return False in a thread that is inside `without_logs`; the log of other threads is theirs."""
    return threading.get_ident() not in _quiet_threads
