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
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from eagerstream import JSON

MAX_CHARS: Final = 8_000
"""Maximum length of a statement to parse. Python's parser needs up to 3 ms for 1,000 characters. It holds the GIL
meanwhile, so the event loop would also wait for it if it ran in a thread."""


@dataclass(frozen=True, slots=True)
class LiteralCall:
    """A call with literal arguments, by their names. `key` is that of `key_of`."""

    name: str
    arguments: dict[str, JSON] = field(repr=False)
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StatementCalls:
    """The calls of a statement.

    Attributes:
        literal: The first calls with literal arguments, in the order of their ends in the source, up to the first name
            of a writing function.
        rebound: The names that the statement binds.
        may_write: True if it contains the name of a writing function.
    """

    literal: list[LiteralCall] = field(default_factory=list)
    rebound: frozenset[str] = frozenset()
    may_write: bool = False


def calls_in(
    source: str,
    reading: Mapping[str, tuple[str, ...]],
    writing: Collection[str],
    rebound: Collection[str] = (),
    *,
    max_calls: int = 100,
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
        max_calls: Maximum number of calls to return, the first ones.
    """
    if len(source) > MAX_CHARS or not any(name in source for name in (*reading, *writing)):
        return StatementCalls()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would show the model's text
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: it is nested too deeply
        return StatementCalls()
    return _Finder(reading, writing).find(tree, rebound, max_calls)


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
        self._calls: list[tuple[tuple[float, int], str, ast.Call]] = []
        self._writes: list[tuple[float, int]] = []
        self._rebound: set[str] = set()

    def find(self, tree: ast.Module, rebound: Collection[str], max_calls: int) -> StatementCalls:
        # By exact types, in the order of their frequency, and without the leaves: a statement of 8,000 characters has
        # 12,000 nodes, and `match` and `ast.iter_child_nodes` take 4 us for each.
        pending: list[tuple[Any, bool]] = [(tree, True)]
        while pending:
            node, is_run = pending.pop()
            kind = type(node)
            called: ast.AST | None = None
            if kind is ast.Name:
                if type(node.ctx) is not ast.Load:
                    self._rebound.add(node.id)
                if node.id in self._writing:
                    self._writes.append(_end(node))
                continue
            if kind is ast.Call:
                if type(node.func) is ast.Name:
                    called = node.func  # it is no use of the function besides
                    name = node.func.id
                    if name in self._reading and is_run:
                        self._calls.append((_end(node), name, node))
                    elif name in self._writing:
                        self._writes.append(_end(node))
            elif kind in _BINDING:
                self._rebound.update(_bound_by(node))
                if kind in _SCOPES:
                    # It binds names of its own, except those that it declares global.
                    self._rebound.update(*(each.names for each in ast.walk(node) if isinstance(each, ast.Global)))
                    continue
                is_run = is_run and kind is not ast.ExceptHandler
            for name in kind._fields:
                value = getattr(node, name, None)
                pending += [
                    (inner, is_run)
                    for inner in (value if type(value) is list else (value,))
                    if type(inner) not in _LEAVES and inner is not called and isinstance(inner, ast.AST)
                ]
        # A call takes place at its end, after its arguments.
        end = min(self._writes, default=(math.inf, 0))
        hidden = self._rebound.union(rebound)
        found = [call for call in sorted(self._calls, key=itemgetter(0)) if call[0] < end and call[1] not in hidden]
        literal = (_literal_call(node, name, self._reading[name]) for _, name, node in found)
        some = islice((call for call in literal if call is not None), max_calls)
        return StatementCalls(list(some), frozenset(self._rebound), may_write=bool(self._writes))


_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_BINDING: Final = frozenset(
    (*_SCOPES, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Import, ast.ImportFrom)
)
_LEAVES: Final = frozenset((type(None), str, int, ast.Constant, ast.Load, ast.Store, ast.Del))


def _end(node: Any) -> tuple[float, int]:
    return node.end_lineno, node.end_col_offset


def _bound_by(node: ast.AST) -> Collection[str]:
    """Return the names that a node other than a name binds, without those inside it."""
    match node:
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
