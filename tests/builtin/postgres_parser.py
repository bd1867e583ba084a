"""A second opinion on what a statement does: PostgreSQL's own parser, and lists that the guard does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pglast import ast, parse_sql
from pglast.parser import ParseError

from eagerstream.builtin._sql.allowed import allowed_functions

_FUNCTIONS: Final = allowed_functions("postgres")
_NODES: Final = {
    *(
        "RawStmt",
        "SelectStmt",
        "ResTarget",
        "ColumnRef",
        "A_Star",
        "String",
        "Integer",
        "Float",
        "Boolean",
        "BitString",
    ),
    *("A_Const", "A_Expr", "BoolExpr", "NullTest", "BooleanTest", "TypeCast", "TypeName", "CaseExpr", "CaseWhen"),
    *("CoalesceExpr", "MinMaxExpr", "SubLink", "A_ArrayExpr", "RowExpr", "A_Indices", "A_Indirection", "FuncCall"),
    *("SQLValueFunction", "CollateClause", "SortBy", "WindowDef", "RangeVar", "RangeSubselect", "RangeFunction"),
    *("JoinExpr", "Alias", "WithClause", "CommonTableExpr", "GroupingSet", "GroupingFunc", "NamedArgExpr", "ColumnDef"),
    *("RangeTableSample", "JsonKeyValue", "JsonValueExpr", "JsonFormat", "JsonReturning", "JsonOutput", "NullIfExpr"),
    *("JsonObjectConstructor", "JsonArrayConstructor", "JsonArrayQueryConstructor", "JsonObjectAgg", "JsonArrayAgg"),
    *("JsonAggConstructor", "JsonFuncExpr", "JsonArgument", "JsonBehavior", "JsonIsPredicate"),
}
"""No statement but SELECT, no FOR UPDATE, no INTO, no operator by its schema, no XML, no parameter."""
_OWN_OUTPUTS: Final = {"key", "value", "ordinality"}


class NotOneReadError(AssertionError):
    """A statement is no SELECT, or calls what is not on the list."""


def check_one_read(sql: str) -> bool:
    """Check that PostgreSQL takes a statement for one SELECT that calls only allowed functions.

    Returns:
        False if PostgreSQL does not take it for a statement at all: then nothing of it runs.

    Raises:
        NotOneReadError: It does more.
    """
    try:
        statements = parse_sql(sql)
    except (ParseError, ValueError):  # a null character is a ValueError
        return False
    _require(len(statements) == 1 and isinstance(statements[0].stmt, ast.SelectStmt), "one SELECT", sql)
    nodes = list(_nodes(statements[0]))
    results = _results(nodes)
    relations = _relations(nodes)
    for node in nodes:
        kind = _kind(node)
        _require(kind in _NODES, kind, sql)
        match kind:
            case "SelectStmt":
                _require(not node.intoClause and not node.lockingClause, "INTO or FOR UPDATE", sql)
            case "FuncCall":
                *schema, name = (part.sval for part in node.funcname)
                _require(schema in ([], ["pg_catalog"]) and name in _FUNCTIONS, f"{schema} {name}", sql)
            case "RangeFunction":
                _check_source(node, sql)
            case "A_Indirection":
                _require(all(_kind(part) in ("A_Indices", "A_Star") for part in node.indirection), "a dot", sql)
            case "ColumnRef" if len(node.fields) > 1:
                _check_column(node, results, relations, sql)
            case "A_Expr":
                _require(len(node.name) == 1, "an operator of a schema", sql)
            case "SortBy":
                _require(not node.useOp, "an operator to sort by", sql)
            case "RangeTableSample":
                _require(node.method[-1].sval in ("bernoulli", "system"), "a way to sample", sql)
            case _:
                pass
    return True


def _check_source(node: Any, sql: str) -> None:
    """An alias and plain calls: nobody needs to know how PostgreSQL calls the result of anything else."""
    _require(node.alias is not None, "a function behind FROM without an alias", sql)
    kinds = {_kind(function) for function, _ in node.functions}
    _require("TypeCast" not in kinds, "a cast behind FROM", sql)


def _check_column(node: Any, results: dict[str, set[str]], relations: set[tuple[str, ...]], sql: str) -> None:
    names = [part.sval for part in node.fields if _kind(part) == "String"]
    is_star = _kind(node.fields[-1]) == "A_Star"
    base = tuple(names if is_star else names[:-1])
    if len(base) == 1 and base[0] in results:
        allowed = results[base[0]] | _OWN_OUTPUTS | _FUNCTIONS
        _require(is_star or names[-1] in allowed, f"attribute notation {names}", sql)
    else:
        _require(base in relations, f"{names} has no such table", sql)


def _relations(nodes: list[Any]) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for node in nodes:
        if _kind(node) == "RangeVar" and node.alias is None:
            path = tuple(part for part in (node.catalogname, node.schemaname, node.relname) if part)
            found.update(path[start:] for start in range(len(path)))
        elif _kind(node) in ("RangeVar", "RangeSubselect", "JoinExpr") and node.alias is not None:
            found.add((node.alias.aliasname,))
    return found


def _results(nodes: list[Any]) -> dict[str, set[str]]:
    """The functions behind FROM, with the columns that all of that name declare."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        if _kind(node) != "RangeFunction":
            continue
        if node.alias is None:  # refused in any case
            continue
        name = node.alias.aliasname
        columns = {name} | {column.sval for column in node.alias.colnames or ()}
        columns |= {column.colname for column in node.coldeflist or ()}
        found[name] = found.get(name, columns) & columns
    return found


def _kind(node: Any) -> str:
    return type(node).__name__


def _nodes(root: Any) -> Iterator[Any]:
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Node):
            yield node
            pending.extend(getattr(node, slot) for slot in node)
        elif isinstance(node, tuple | list):
            pending.extend(node)


def _require(holds: bool, what: str, sql: str) -> None:
    if not holds:
        raise NotOneReadError(f"{what}: {sql[:2_000]}")
