"""Mutations of a syntax tree: each changes one place in a way that a slip of a programmer might."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.LShift: ast.RShift,
    ast.BitOr: ast.BitAnd,
}
_REMOVABLE: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Continue, ast.Break)
"""Statements that a mutation leaves out. Without one of its names, a module does not even run."""
_METHODS: Final = {
    "find": "rfind",
    "partition": "rpartition",
    "removeprefix": "removesuffix",
    "startswith": "endswith",
}


@dataclass(frozen=True)
class Mutation:
    """One change of a tree, not yet made.

    Attributes:
        parent: The node that changes.
        field: Its field.
        index: The place in the field, if that is a list.
        new: The new content.
        function: Qualified name of the function around it; the class's or empty outside.
        line: Of the change.
        before: The statement, without the statements in it.
        after: The statement after the change.
    """

    parent: Any
    field: str
    index: int | None
    new: Any
    function: str
    line: int
    before: str
    after: str

    def apply(self) -> None:
        """Change the tree."""
        _put(self.parent, self.field, self.index, self.new)


def _put(parent: Any, field: str, index: int | None, new: Any) -> Any:
    if index is None:
        old = getattr(parent, field)
        setattr(parent, field, new)
    else:
        old = getattr(parent, field)[index]
        getattr(parent, field)[index] = new
    return old


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """Yield every mutation of a module, in the order of its source."""
    yield from _in_block(tree, "body", "")


def _in_block(holder: Any, field: str, function: str) -> Iterator[Mutation]:
    for index, statement in enumerate(getattr(holder, field)):
        match statement:
            case ast.FunctionDef() | ast.ClassDef():
                yield from _in_block(statement, "body", f"{function}.{statement.name}".lstrip("."))
                continue
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Assert():
                continue
            case ast.Expr(value=ast.Constant()):  # a docstring
                continue
            case ast.AnnAssign(value=None):
                continue
            case _:
                pass
        if isinstance(statement, _REMOVABLE) and (function or not isinstance(statement, ast.Assign)):
            yield _mutation(statement, function, holder, field, index, ast.Pass())
        for parent, name, place, node in _expressions(statement):
            for new in _replacements(node):
                yield _mutation(statement, function, parent, name, place, new, line=getattr(node, "lineno", 0))
        if isinstance(statement, ast.If | ast.While):
            yield _mutation(statement, function, statement, "test", None, ast.Constant(False))
            if isinstance(statement, ast.If):
                yield _mutation(statement, function, statement, "test", None, ast.Constant(True))
        if isinstance(statement, ast.Return) and not isinstance(statement.value, ast.Constant | None):
            yield _mutation(statement, function, statement, "value", None, ast.Constant(None))
        if isinstance(statement, ast.AugAssign) and type(statement.op) in _ARITHMETIC:
            yield _mutation(statement, function, statement, "op", None, _ARITHMETIC[type(statement.op)]())
        for block in ("body", "orelse", "finalbody"):
            if getattr(statement, block, None):
                yield from _in_block(statement, block, function)
        for handler in getattr(statement, "handlers", ()):
            yield from _in_block(handler, "body", function)


def _expressions(statement: ast.stmt) -> Iterator[tuple[Any, str, int | None, ast.expr]]:
    """Yield each expression of a statement, with its place; not of the statements in it, and not of annotations."""
    pending: list[Any] = [statement]
    while pending:
        parent = pending.pop(0)
        for name, content in ast.iter_fields(parent):
            if name in {
                "annotation",
                "returns",
                "decorator_list",
                "body",
                "orelse",
                "finalbody",
                "handlers",
            } and not isinstance(parent, ast.IfExp | ast.Lambda):
                continue
            for place, node in enumerate(content) if isinstance(content, list) else [(None, content)]:
                if _is_message(parent, name, place):
                    continue
                if isinstance(node, ast.expr):
                    yield parent, name, place, node
                if isinstance(node, ast.AST):
                    pending.append(node)


def _is_message(parent: Any, name: str, place: int | None) -> bool:
    """Whether a place is the text of an error, which is for people."""
    if isinstance(parent, ast.Raise):
        return True
    is_first = name == "args" and place == 0 and isinstance(parent.func, ast.Attribute)
    return is_first and parent.func.attr == "_fail"


def _replacements(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=comparators):
            for other in _COMPARISONS.get(type(operator), ()):
                yield ast.Compare(left, [other()], comparators)
        case ast.BoolOp(op=operator, values=values):
            yield ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
            for place in range(len(values)):
                rest = values[:place] + values[place + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=str() as text):
            yield ast.Constant("" if text else "x")
        case ast.Constant(value=bytes() as octets):
            yield ast.Constant(b"" if octets else b"x")
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case ast.Slice(lower=lower, upper=upper):
            if lower is not None:
                yield ast.Slice(None, upper)
            if upper is not None:
                yield ast.Slice(lower, None)
        case ast.Attribute(attr=name, value=value) if name in _METHODS:
            yield ast.Attribute(value, _METHODS[name], node.ctx)


def _mutation(
    statement: ast.stmt, function: str, parent: Any, field: str, index: int | None, new: Any, *, line: int = 0
) -> Mutation:
    before = _head(statement)
    old = _put(parent, field, index, new)
    after = "pass" if isinstance(new, ast.Pass) else _head(statement)
    _put(parent, field, index, old)
    return Mutation(parent, field, index, new, function, line or statement.lineno, before, after)


def _head(statement: ast.stmt) -> str:
    lines = ast.unparse(ast.fix_missing_locations(statement)).splitlines()
    return lines[0] if hasattr(statement, "body") else " ".join(lines)
