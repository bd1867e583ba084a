"""What stands behind FROM in PostgreSQL: tables, queries, values and listed functions, each function with an alias.

PostgreSQL has names of its own for the results of functions without an alias. `trim('x')` is called `btrim` there, and
`CAST(1 AS int)` is called `int4`. With an alias in the text that is sent, the name that was checked is the one that
PostgreSQL uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .references import NotAllowedError, ascii_lower

if TYPE_CHECKING:
    from sqlglot import exp


def name_functions(query: exp.Expr) -> None:
    """Give every function behind FROM that has no alias its own name as the alias."""
    from sqlglot import exp

    for source in list(query.find_all(exp.Table, exp.Unnest, exp.Lateral)):
        name = _function_name(source)
        is_inside = isinstance(source.parent, exp.Lateral) or source.arg_key == "rows_from"
        if name is None or is_inside:
            continue
        alias = source.args.get("alias") or exp.TableAlias()
        if not alias.this:
            alias.set("this", exp.to_identifier(name, quoted=True))
        source.set("alias", alias)


def check_source(node: exp.Expr) -> None:
    """Check that only a table, a query, values or a plain call of a function stands behind FROM.

    Raises:
        NotAllowedError: It is another expression, such as `CAST(...)`, which PostgreSQL also takes for a function.
    """
    from sqlglot import exp

    if isinstance(node, exp.From | exp.Join):
        allowed = isinstance(node.this, exp.Table | exp.Subquery | exp.Values | exp.Unnest | exp.Lateral)
    elif isinstance(node, exp.Table):
        functions = node.args.get("rows_from") or ()
        allowed = isinstance(node.this, exp.Identifier | exp.Anonymous) or bool(functions)
        allowed &= all(isinstance(function, exp.Table | exp.Unnest) for function in functions)
    elif isinstance(node, exp.Lateral):
        allowed = isinstance(node.this, exp.Anonymous | exp.Unnest | exp.Subquery)
    else:
        return
    if not allowed:
        raise NotAllowedError("only tables, queries, VALUES and functions with plain arguments can stand behind FROM")


def _function_name(source: exp.Expr) -> str | None:
    """The name of the function that a source calls, or nothing if it calls none."""
    from sqlglot import exp

    if isinstance(source, exp.Unnest):
        return "unnest"
    functions = source.args.get("rows_from")
    called = functions[0] if functions else source.this
    if isinstance(called, exp.Table | exp.Unnest):
        return _function_name(called)
    if not isinstance(called, exp.Anonymous):
        return None
    is_quoted = isinstance(called.this, exp.Identifier) and called.this.args.get("quoted")
    return str(called.name) if is_quoted else ascii_lower(called.name)
