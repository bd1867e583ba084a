"""`Calculator`: arithmetic for the model. It walks a syntax tree of allowed nodes and evaluates nothing as Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Unpack

from pydantic import Field

from eagerstream._support.options import with_defaults
from eagerstream.tools import Tool, ToolErrorCode, ToolOptions, ToolResponse

Number = int | float

MAX_CHARS: Final = 1_000
"""Maximum length of an expression."""
_MAX_DEPTH: Final = 200
_MAX_BITS: Final = 13_000
"""Maximum size of an integer: about 3,900 digits. Python itself prints at most 4,300."""
_MAX_ROUND_DIGITS: Final = 300


_WORDS: Final[Mapping[str, str]] = {
    "result": "Result: {result}",
    "empty": "The expression is empty",
    "syntax": "Syntax error in the expression: {why}",
    "failed": "The calculation failed: {why}",
    "unreadable": "it is no arithmetic expression",
    "too_long": "it is longer than {detail} characters",
    "too_deep": "it is nested too deeply",
    "too_large": "a number gets too large",
    "not_real": "the result is no real number",
    "division": "division by zero",
    "domain": "{detail} is not defined for this value",
    "arguments": "{detail} was given arguments that it does not take",
    "unknown": "{detail} is no known function or constant",
    "unsupported": "it holds something that is not arithmetic",
}
"""Result texts, with placeholders in braces."""


class Calculator(Tool):
    """A tool that computes an arithmetic expression.

    It accepts numbers, `+ - * / // % **` (also written `^`), parentheses, `abs round max min sum sqrt sin cos tan log
    exp`, and the constants `pi` and `e`. Integers are exact. Length, depth and the size of numbers are bounded, so any
    expression takes only a few milliseconds.

    The response's data is `{"expression": str, "result": int | float, "result_str": str, "result_type": "int" |
    "float"}`. The error code is `INVALID_FORMAT` if the expression does not parse, and `INVALID_PARAM` if it is empty,
    too long, too deep, or has no result.

    Args:
        options: See `ToolOptions`.

    Raises:
        UsageError: An option is wrong.

    Attributes:
        words: The result texts. A subclass may replace them.
    """

    words: ClassVar[Mapping[str, str]] = _WORDS

    def __init__(self, **options: Unpack[ToolOptions]) -> None:
        super().__init__(
            self._calculate, **with_defaults(options, name="calculator", description=_DESCRIPTION, read_only=True)
        )

    async def _calculate(
        self, expression: Annotated[str, Field(description="For example: (2 + 3) * sqrt(16) / 7 ** 2")]
    ) -> ToolResponse:
        words = self.words
        if not expression.strip():
            return ToolResponse.error(ToolErrorCode.INVALID_PARAM, words["empty"])
        try:
            result = _value(_parsed(expression), 0)
        except _Unreadable as error:
            message = words["syntax"].format(why=error.told(words))
            return ToolResponse.error(ToolErrorCode.INVALID_FORMAT, message)
        except _Refused as error:
            message = words["failed"].format(why=error.told(words))
            return ToolResponse.error(ToolErrorCode.INVALID_PARAM, message)
        data = {
            "expression": expression,
            "result": result,
            "result_str": str(result),
            "result_type": type(result).__name__,
        }
        return ToolResponse.success(words["result"].format(result=result), data)


_DESCRIPTION: Final = (
    "Compute an arithmetic expression exactly. It knows + - * / // % ** (or ^), parentheses, the functions abs, round, "
    "max, min, sum, sqrt, sin, cos, tan (in radians), log (natural, or log(x, base)) and exp, and the constants pi and "
    "e. It knows no variables."
)


class _Refused(Exception):
    """An expression without a result. `why` is a key of the words."""

    def __init__(self, why: str, detail: object = "") -> None:
        super().__init__(why)
        self.why = why
        self.detail = detail

    def told(self, words: Mapping[str, str]) -> str:
        return words[self.why].format(detail=self.detail)


class _Unreadable(_Refused):
    """A text that is not an expression."""


# --- what is allowed --------------------------------------------------------------------------------------------------


def _power(base: Number, exponent: Number) -> Any:
    is_exact = isinstance(base, int) and isinstance(exponent, int) and exponent > 0
    # Checked before computing: 9 ** 9 ** 9 would take hours and gigabytes.
    if is_exact and (abs(int(base)).bit_length() - 1) * exponent > _MAX_BITS:
        raise _Refused("too_large")
    return base**exponent


def _round(number: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > _MAX_ROUND_DIGITS:  # round(5, -10**9) computes 10 ** 10**9
        raise TypeError
    return round(number, digits) if digits else round(number)


_BINARY: Final[Mapping[type[ast.operator], Callable[[Number, Number], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: Final[Mapping[type[ast.unaryop], Callable[[Number], Number]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs,
    "round": _round,
    "max": lambda first, *others: max(first, *others) if others else first,
    "min": lambda first, *others: min(first, *others) if others else first,
    "sum": lambda *numbers: sum(numbers),
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "log": math.log,
    "exp": math.exp,
}
_OF_MANY: Final = frozenset({"max", "min", "sum"})
"""Functions that also take a list."""
_CONSTANTS: Final[Mapping[str, float]] = {"pi": math.pi, "e": math.e}

# --- the walk ---------------------------------------------------------------------------------------------------------


def _parsed(expression: str) -> ast.expr:
    if len(expression) > MAX_CHARS:
        raise _Refused("too_long", f"{MAX_CHARS:,}")
    try:
        # Replaced in the text, because Python's `^` binds less tightly than `*`. Strings are refused later.
        return ast.parse(expression.strip().replace("^", "**"), mode="eval").body
    except (RecursionError, MemoryError):
        raise _Refused("too_deep") from None
    except (SyntaxError, ValueError):  # a null byte is a ValueError
        raise _Unreadable("unreadable") from None


def _value(node: ast.expr, depth: int) -> Number:
    """Return the value of a node. Each intermediate value is bounded, which bounds the time of each operation."""
    if depth > _MAX_DEPTH:
        raise _Refused("too_deep")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.UnaryOp() if type(node.op) in _UNARY:
            return _applied("", _UNARY[type(node.op)], _value(node.operand, depth + 1))
        case ast.BinOp() if type(node.op) in _BINARY:
            left, right = _value(node.left, depth + 1), _value(node.right, depth + 1)
            return _applied("**" if isinstance(node.op, ast.Pow) else "", _BINARY[type(node.op)], left, right)
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            if name not in _FUNCTIONS:
                raise _Refused("unknown", name)
            nodes = node.args
            if name in _OF_MANY and len(nodes) == 1 and isinstance(nodes[0], ast.List | ast.Tuple):
                nodes = nodes[0].elts
            return _applied(name, _FUNCTIONS[name], *(_value(each, depth + 1) for each in nodes))
        case ast.Name(id=name):
            if name not in _CONSTANTS:
                raise _Refused("unknown", name)
            return _CONSTANTS[name]
        case _:
            raise _Refused("unsupported")


def _applied(name: str, function: Callable[..., Any], *operands: Number) -> Number:
    try:
        return _bounded(function(*operands))
    except ZeroDivisionError:
        raise _Refused("division") from None
    except OverflowError:
        raise _Refused("too_large") from None
    except ValueError:  # sqrt(-1)
        raise _Refused("domain", name) from None
    except TypeError:  # too many arguments, or too few
        raise _Refused("arguments", name) from None


def _bounded(result: Any) -> Number:
    if isinstance(result, int):
        if result.bit_length() > _MAX_BITS:
            raise _Refused("too_large")
        return result
    if not isinstance(result, float) or not math.isfinite(result):  # complex, infinite or NaN
        raise _Refused("not_real")
    return result
