"""`Calculator`: exact results, errors in words, and nothing that costs more than a moment."""

from __future__ import annotations

import json
import math
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from eagerstream.builtin import Calculator
from eagerstream.tools import ToolResponse


def compute(expression: str, **options: Any) -> ToolResponse:
    """What the tool answers."""
    response = anyio.run(Calculator(**options).call, {"expression": expression})
    assert isinstance(response, ToolResponse)
    return response


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2 + 3", 5),
        (" 2 * (3 + 4) - 1 ", 13),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("-7 % 3", 2),
        ("+5", 5),
        ("2 ** 10", 1024),
        ("2 ^ 3 * 2", 16),
        ("2 ^ 3 ^ 2", 512),
        ("-2 ^ 2", -4),
        ("2 ** -1", 0.5),
        ("10 ** 30 + 1", 10**30 + 1),
        ("0.1 + 0.2", 0.1 + 0.2),
        ("1e3", 1000.0),
        ("abs(-3)", 3),
        ("round(2.567, 1)", 2.6),
        ("round(2.5)", 2),
        ("round(1234, -2)", 1200),
        ("max(1, 2.5, 2)", 2.5),
        ("min([3, 1, 2])", 1),
        ("min(7)", 7),
        ("sum(1, 2, 3)", 6),
        ("sum([1, 2, 3])", 6),
        ("sqrt(16)", 4.0),
        ("sin(0) + cos(0) + tan(0)", 1.0),
        ("log(8, 2)", 3.0),
        ("log(e)", 1.0),
        ("exp(1)", math.e),
        ("pi", math.pi),
        ("+".join(["1"] * 150), 150),
    ],
)
def test_results(expression: str, result: float) -> None:
    """Integers stay integers, and exact; the expression is given back as it was written."""
    response = compute(expression)
    assert response.text == f"Result: {result}"
    assert response.data == {
        "expression": expression,
        "result": result,
        "result_str": str(result),
        "result_type": type(result).__name__,
    }


INVALID_FORMAT, EXECUTION_ERROR = "INVALID_FORMAT", "INVALID_PARAM"


@pytest.mark.parametrize(
    ("expression", "code", "told"),
    [
        pytest.param("2 +", INVALID_FORMAT, "Syntax error", id="unfinished"),
        pytest.param("2 3", INVALID_FORMAT, "Syntax error", id="no operator"),
        pytest.param("x = 2", INVALID_FORMAT, "Syntax error", id="statement"),
        pytest.param("1\0", INVALID_FORMAT, "Syntax error", id="null byte"),
        pytest.param("1; 2", INVALID_FORMAT, "Syntax error", id="two statements"),
        pytest.param("2 ^^ 3", INVALID_FORMAT, "Syntax error", id="double power"),
        pytest.param("1 / 0", EXECUTION_ERROR, "division by zero", id="division"),
        pytest.param("5 % 0", EXECUTION_ERROR, "division by zero", id="modulo"),
        pytest.param("0 ** -1", EXECUTION_ERROR, "division by zero", id="power of zero"),
        pytest.param("sqrt(-1)", EXECUTION_ERROR, "sqrt is not defined", id="root"),
        pytest.param("log(0)", EXECUTION_ERROR, "log is not defined", id="logarithm"),
        pytest.param("(-8) ** 0.5", EXECUTION_ERROR, "no real number", id="complex"),
        pytest.param("1j", EXECUTION_ERROR, "not arithmetic", id="imaginary"),
        pytest.param("1e999", EXECUTION_ERROR, "no real number", id="infinite"),
        pytest.param("1e308 * 10", EXECUTION_ERROR, "no real number", id="infinite product"),
        pytest.param("exp(1000)", EXECUTION_ERROR, "too large", id="float overflow"),
        pytest.param("2.0 ** 5000", EXECUTION_ERROR, "too large", id="float power"),
        pytest.param("sqrt(9 ** 999)", EXECUTION_ERROR, "too large", id="integer to float"),
        pytest.param("sqrt()", EXECUTION_ERROR, "sqrt was given arguments", id="too few"),
        pytest.param("max()", EXECUTION_ERROR, "max was given arguments", id="none"),
        pytest.param("sin(1, 2)", EXECUTION_ERROR, "sin was given arguments", id="too many"),
        pytest.param("round(1, 0.5)", EXECUTION_ERROR, "round was given arguments", id="no integer"),
        pytest.param("foo", EXECUTION_ERROR, "foo is no known", id="unknown name"),
        pytest.param("sqrt", EXECUTION_ERROR, "sqrt is no known", id="function as a value"),
        pytest.param("pi()", EXECUTION_ERROR, "pi is no known", id="constant as a function"),
    ],
)
def test_no_result(expression: str, code: str, told: str) -> None:
    """Why there is none is told in words."""
    response = compute(expression)
    assert response.code == code
    assert told in response.text


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("9**9**9", id="tower"),
        pytest.param("9^9^9^9", id="tower of carets"),
        pytest.param("2 ** 10 ** 9", id="exponent"),
        pytest.param("(10 ** 1000) ** 1000", id="large base"),
        pytest.param("10**3000 * 10**3000", id="product"),
        pytest.param("*".join(["10**3000"] * 100), id="products"),
        pytest.param("'a' * 10 ** 9", id="text"),
        pytest.param("[0] * 10 ** 9", id="list"),
        pytest.param("(1, 2) * 3", id="tuple"),
        pytest.param("round(5, -10**9)", id="round to a billion digits"),
        pytest.param("1 << 10 ** 9", id="shift"),
        pytest.param("9" * 5000, id="digits"),
        pytest.param("(" * 400 + "1" + ")" * 400, id="parentheses"),
        pytest.param("-" * 900 + "1", id="signs"),
        pytest.param("sin(" * 150 + "1" + ")" * 150 + "+sin(" * 1, id="calls"),
        pytest.param("1" + "+1" * 400, id="terms"),
        pytest.param("__import__('os').system('id')", id="import"),
        pytest.param("().__class__.__bases__", id="attributes"),
        pytest.param("(lambda: 1)()", id="lambda"),
        pytest.param("[x for x in range(10 ** 9)]", id="comprehension"),
        pytest.param("sum(x for x in [1])", id="generator"),
        pytest.param("eval('1')", id="eval"),
        pytest.param("f'{1}'", id="f-string"),
        pytest.param("(x := 1)", id="walrus"),
        pytest.param("True + 1", id="boolean"),
        pytest.param("1 if 1 else 2", id="condition"),
        pytest.param("1 < 2", id="comparison"),
        pytest.param("max(*[1, 2])", id="star"),
        pytest.param("round(1.5, ndigits=1)", id="keyword"),
        pytest.param("...", id="ellipsis"),
        pytest.param("abs(min([[1]]))", id="nested list"),
    ],
)
def test_attacks(expression: str) -> None:
    """Nothing is run, and nothing grows: the answer is an error, at once."""
    response = compute(expression)
    assert response.code in (INVALID_FORMAT, EXECUTION_ERROR)
    assert len(response.text) < 200


@given(st.text(st.sampled_from("0123456789.+-*/%^()[], episqrtminlogabu"), max_size=40))
def test_anything(expression: str) -> None:
    """Whatever is written, the answer is a number that JSON has, or an error with a code."""
    response = compute(expression)
    if response.status == "success":
        json.dumps(response.data, allow_nan=False)
    else:
        assert response.code in ("INVALID_PARAM", INVALID_FORMAT, EXECUTION_ERROR)


@pytest.mark.parametrize("expression", ["", "  ", "\n"])
def test_empty(expression: str) -> None:
    """An empty expression is a parameter that is wrong."""
    response = compute(expression)
    assert (response.code, response.text) == ("INVALID_PARAM", "The expression is empty")


@pytest.mark.anyio
async def test_as_a_tool() -> None:
    """It has a schema of its own, streams its input eagerly, and takes the options of every tool."""
    definition = Calculator(name="python_calculator").to_dict()
    assert definition["name"] == "python_calculator"
    assert definition["eager_input_streaming"] is True
    assert list(definition["input_schema"]["properties"]) == ["expression"]
    assert (await Calculator().call({"expression": "1 + 1"})).text == "Result: 2"
