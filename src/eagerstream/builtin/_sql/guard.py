"""Checks of a statement with sqlglot before it is sent: it is a single statement, and only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...errors import ToolError, UsageError
from .allowed import QUERY_PARTS, allowed_constructs, allowed_functions, allowed_table_functions
from .parsing import load_sqlglot, only_statement, parsed, without_logs, written
from .references import (
    POSTGRES,
    NotAllowedError,
    Scope,
    ascii_lower,
    check_hint,
    check_source,
    check_table,
    check_text,
    name_functions,
)

if TYPE_CHECKING:
    from sqlglot import Token, exp

_DIALECTS: Final = {
    "postgresql": "postgres",
    "psycopg": "postgres",
    "psycopg2": "postgres",
    "mariadb": "mysql",
    "pymysql": "mysql",
    "mysqldb": "mysql",
    "mssql": "tsql",
    "pymssql": "tsql",
    "sqlserver": "tsql",
    "oracledb": "oracle",
    "cx_oracle": "oracle",
}
"""Names of dialects from SQLAlchemy, users and drivers, with sqlglot's names."""

_BEGINNINGS: Final = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
_TRANSACTIONS: Final = frozenset(
    {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "SET", "PREPARE", "XA"}
)

_MAX_REWRITINGS: Final = 3
"""Maximum number of rewrites until the text is stable. Ordinary statements need one."""


def sqlglot_dialect(name: str) -> str:
    """Return sqlglot's name of a dialect.

    Raises:
        UsageError: sqlglot does not know the dialect.
        MissingExtraError: sqlglot is not installed.
    """
    known = load_sqlglot().Dialects
    word = _DIALECTS.get(name.lower(), name.lower())
    if not word or word not in {dialect.value for dialect in known}:
        raise UsageError(f"sqlglot does not know the dialect {name!r}, so its statements cannot be checked")
    return word


def checked_read(sql: str, dialect: str, extra_functions: frozenset[str] = frozenset()) -> str:
    """Return the statement to send instead of `sql`: rewritten from the checked tree, without comments.

    The database then runs the statement as sqlglot understood it, even if it would read the original differently. The
    statement may consist only of the constructs in `allowed.py`. It may call only the functions there and those of
    `extra_functions`.

    Raises:
        ToolError: The text is not one statement, or uses anything that no list allows. The error text is for the model.
    """
    # The sent text must be checked, too: the generator may write other functions and names than the parser read.
    for _ in range(1 + _MAX_REWRITINGS):
        before, sql = sql, _rewritten(sql, dialect, extra_functions)
        if sql == before:
            return sql
    raise _refused("it reads in another way each time that it is written")


def _rewritten(sql: str, dialect: str, extra_functions: frozenset[str]) -> str:
    try:
        with without_logs():
            tokens = only_statement(sql, dialect)
            if _beginning(tokens) not in _BEGINNINGS:
                raise NotAllowedError("only SELECT statements are allowed")
            return written(_checked(parsed(sql, tokens, dialect), dialect, extra_functions), dialect)
    except NotAllowedError as error:
        raise _refused(str(error)) from None
    except Exception:  # sqlglot raises any exception for statements that it does not expect
        raise _refused("it could not be read, or is not one SELECT statement") from None


def check_one_statement(sql: str, dialect: str) -> None:
    """Check that a statement which may write is a single one, and does not control transactions.

    Raises:
        ToolError: It is not. The text is for the model.
    """
    try:
        tokens = only_statement(sql, dialect)
    except NotAllowedError as error:
        raise _refused(str(error)) from None
    if _beginning(tokens) in _TRANSACTIONS:
        raise _refused("each statement is committed by itself")


def _beginning(tokens: list[Token]) -> str:
    return str(tokens[0].text).upper()


def _checked(query: exp.Expr, dialect: str, extra_functions: frozenset[str]) -> exp.Expr:
    """Check each node of a query. Return the query with a name for each of its sources."""
    from sqlglot import exp

    if not isinstance(query, exp.Query | exp.Values):
        raise NotAllowedError("only SELECT statements are allowed")
    constructs = allowed_constructs(dialect)
    functions = allowed_functions(dialect) | extra_functions
    table_functions = allowed_table_functions(dialect) | extra_functions
    if dialect in POSTGRES:
        name_functions(query)
    scope = Scope(query, dialect)
    for node in query.walk():
        construct = type(node).__name__
        if construct not in constructs:
            raise NotAllowedError(f"the construct {construct} is not on the list of what is allowed")
        check_text(node, dialect)
        if dialect in POSTGRES:
            check_source(node)
        if isinstance(node, exp.Query):
            _check_parts(node)
        elif isinstance(node, exp.Table):
            check_table(node, dialect)
        elif isinstance(node, exp.WithTableHint):
            check_hint(node)
        elif isinstance(node, exp.Column):
            scope.check_column(node, functions)
        elif isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Func):
            scope.check_dot(node)
        elif isinstance(node, _anonymous()):
            is_source = isinstance(node.parent, exp.Table | exp.Lateral)
            _check_call(node, dialect, table_functions if is_source else functions)
    return query


def _check_parts(query: exp.Expr) -> None:
    for part, value in query.args.items():
        if value and part not in QUERY_PARTS:
            raise NotAllowedError(f"the clause {part.strip('_').upper()} is not on the list of what is allowed")


def _check_call(call: exp.Expr, dialect: str, allowed: frozenset[str]) -> None:
    name = _called(call)
    if dialect == "postgres":
        name = name.removeprefix("pg_catalog.")
    if name not in allowed:
        raise NotAllowedError(f"the function {name[:80]} is not on the list of what is allowed")


def _called(call: exp.Expr) -> str:
    """Return the name of a call, with its schema. A quoted name keeps its case: it may be another function."""
    from sqlglot import exp

    parts: list[exp.Expr] = []
    parent = call.parent
    if isinstance(parent, exp.Table):
        parts = [part for part in (parent.args.get("catalog"), parent.args.get("db")) if part is not None]
    elif isinstance(parent, exp.Dot) and parent.expression is call:
        parts = list(parent.this.flatten() if isinstance(parent.this, exp.Dot) else [parent.this])
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise NotAllowedError(f"a function is called by its name alone, not as .{call.name[:80]}()")
    own = call.this if isinstance(call.this, exp.Identifier) else exp.Identifier(this=call.name, quoted=False)
    return ".".join(part.name if part.args.get("quoted") else ascii_lower(part.name) for part in (*parts, own))


def _anonymous() -> tuple[type[Any], ...]:
    from sqlglot import exp

    return exp.Anonymous, exp.AnonymousAggFunc, exp.ParameterizedAgg


def _refused(why: str) -> ToolError:
    return ToolError(f"The statement was not run: {why}.", code="PERMISSION_DENIED")
