"""`calls_in`: the calls of a statement whose arguments are known before it runs.

This is a guess, for calls that may start early. Code can hide a name in many ways. A wrong guess costs a call of a tool
that only reads, and never gives the code a wrong result: the code gets the result of a started call only if it makes
that call.
"""

from __future__ import annotations

import ast
import json
import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from ...wire import JSON

MAX_CHARS: Final = 8_000
"""Maximum length of a statement to parse. Python's parser needs up to 3 ms for 1,000 characters. It holds the GIL
meanwhile, so the event loop would also wait for it if it ran in a thread."""


@dataclass(frozen=True, slots=True)
class LiteralCall:
    """A call with literal arguments.

    Attributes:
        name: The function.
        arguments: The arguments by their names.
        key: See `key_of`.
    """

    name: str
    arguments: dict[str, JSON] = field(repr=False)
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StatementCalls:
    """The calls of a statement.

    Attributes:
        literal: The calls with literal arguments, in the order of their ends in the source, up to the first name of a
            writing function.
        rebound: The names that the statement binds.
        may_write: True if it contains the name of a writing function.
    """

    literal: list[LiteralCall] = field(default_factory=list)
    rebound: frozenset[str] = frozenset()
    may_write: bool = False


def calls_in(
    source: str, reading: Mapping[str, tuple[str, ...]], writing: Collection[str], rebound: Collection[str] = ()
) -> StatementCalls:
    """Return the calls of a statement. It is empty if the statement is longer than 8,000 characters, or is invalid.

    Only calls by the plain name of a function count, with arguments that are literals with a JSON form. A call in a
    loop or a comprehension counts once, for its first iteration. A call in a branch counts, whatever the condition. A
    call in a function, a class or an `except` clause does not count, nor does one of a name that the statement binds.

    Args:
        source: The statement.
        reading: The functions to look for: the names of their parameters, in the order of positional arguments.
        writing: The names of functions after which a result may be another.
        rebound: Names that earlier statements have bound.
    """
    if len(source) > MAX_CHARS or not any(name in source for name in (*reading, *writing)):
        return StatementCalls()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would show the model's text
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: it is nested too deeply
        return StatementCalls()
    return _Finder(reading, writing).find(tree, rebound)


def key_of(name: str, arguments: Mapping[str, JSON]) -> str | None:
    """Return a text that two calls share if their function and arguments are equal; None if there is none.

    1, 1.0 and True are different. The order of keys does not count.
    """
    try:
        return f"{name} {json.dumps(arguments, sort_keys=True, allow_nan=False)}"
    except (ValueError, TypeError, RecursionError):
        return None


class _Finder:
    """Finds the calls in a syntax tree, without recursion."""

    def __init__(self, reading: Mapping[str, tuple[str, ...]], writing: Collection[str]) -> None:
        self._reading = reading
        self._writing = writing
        self._calls: list[tuple[tuple[float, int], LiteralCall]] = []
        self._writes: list[tuple[float, int]] = []
        self._rebound: set[str] = set()

    def find(self, tree: ast.Module, rebound: Collection[str]) -> StatementCalls:
        pending: list[tuple[ast.AST, bool]] = [(tree, True)]
        while pending:
            node, is_run = pending.pop()
            self._rebound.update(_bound_by(node))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                # It binds names of its own, except those that it declares global.
                self._rebound.update(*(each.names for each in ast.walk(node) if isinstance(each, ast.Global)))
                continue
            self._take(node, is_run=is_run)
            is_run = is_run and not isinstance(node, ast.ExceptHandler)
            pending += [(inner, is_run) for inner in ast.iter_child_nodes(node) if not _is_called(inner, node)]
        # A call takes place at its end, after its arguments.
        end = min(self._writes, default=(math.inf, 0))
        hidden = self._rebound.union(rebound)
        found = [call for place, call in sorted(self._calls, key=itemgetter(0)) if place < end]
        literal = [call for call in found if call.name not in hidden]
        return StatementCalls(literal, frozenset(self._rebound), may_write=bool(self._writes))

    def _take(self, node: ast.AST, *, is_run: bool) -> None:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in self._reading and is_run:
                if (call := _literal_call(node, name, self._reading[name])) is not None:
                    self._calls.append((_end(node), call))
            case ast.Call(func=ast.Name(id=name)) | ast.Name(id=name) if name in self._writing:
                self._writes.append(_end(node))
            case _:
                pass


def _is_called(inner: ast.AST, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and inner is node.func and isinstance(inner, ast.Name)


def _end(node: ast.expr) -> tuple[float, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _bound_by(node: ast.AST) -> Collection[str]:
    """Return the names that a node binds, without those inside it."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [each.asname or each.name.partition(".")[0] for each in names]
        case _:
            return ()


def _literal_call(node: ast.Call, name: str, parameters: tuple[str, ...]) -> LiteralCall | None:
    """Return a call, if its arguments are literals and fit the parameters."""
    if len(node.args) > len(parameters):
        return None
    given = [*zip(parameters, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]
    arguments: dict[str, JSON] = {}
    for parameter, value in given:
        if parameter is None or parameter in arguments:
            return None
        try:
            arguments[parameter] = _json_of(ast.literal_eval(value))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None
    key = key_of(name, arguments)
    return None if key is None else LiteralCall(name, arguments, key)


def _json_of(value: object) -> JSON:
    """Return a literal as JSON.

    Raises:
        TypeError: It has no JSON form.
    """
    match value:
        case str() | bool() | int() | float() | None:
            return value
        case list() | tuple():
            return [_json_of(item) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _json_of(item) for key, item in value.items()}
        case _:
            raise TypeError
