"""`Calculator`: exact results, errors in words, and nothing that costs more than a moment."""

from __future__ import annotations

import json
import math
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from tests.tables import rows

from eagerstream.tools import ToolResponse
from eagerstream_toolkit import Calculator


def compute(expression: str, **options: Any) -> ToolResponse:
    """What the tool answers."""
    response = anyio.run(Calculator(**options).call, {"expression": expression})
    assert isinstance(response, ToolResponse)
    return response


@rows(
    "expression, result",
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


@rows(
    "expression, code, told",
    [
        ("2 +", INVALID_FORMAT, "Syntax error"),  # unfinished
        ("2 3", INVALID_FORMAT, "Syntax error"),  # no operator
        ("x = 2", INVALID_FORMAT, "Syntax error"),  # statement
        ("1\0", INVALID_FORMAT, "Syntax error"),  # null byte
        ("1; 2", INVALID_FORMAT, "Syntax error"),  # two statements
        ("2 ^^ 3", INVALID_FORMAT, "Syntax error"),  # double power
        ("1 / 0", EXECUTION_ERROR, "division by zero"),  # division
        ("5 % 0", EXECUTION_ERROR, "division by zero"),  # modulo
        ("0 ** -1", EXECUTION_ERROR, "division by zero"),  # power of zero
        ("sqrt(-1)", EXECUTION_ERROR, "sqrt is not defined"),  # root
        ("log(0)", EXECUTION_ERROR, "log is not defined"),  # logarithm
        ("(-8) ** 0.5", EXECUTION_ERROR, "no real number"),  # complex
        ("1j", EXECUTION_ERROR, "not arithmetic"),  # imaginary
        ("1e999", EXECUTION_ERROR, "no real number"),  # infinite
        ("1e308 * 10", EXECUTION_ERROR, "no real number"),  # infinite product
        ("exp(1000)", EXECUTION_ERROR, "too large"),  # float overflow
        ("2.0 ** 5000", EXECUTION_ERROR, "too large"),  # float power
        ("sqrt(9 ** 999)", EXECUTION_ERROR, "too large"),  # integer to float
        ("sqrt()", EXECUTION_ERROR, "sqrt was given arguments"),  # too few
        ("max()", EXECUTION_ERROR, "max was given arguments"),  # none
        ("sin(1, 2)", EXECUTION_ERROR, "sin was given arguments"),  # too many
        ("round(1, 0.5)", EXECUTION_ERROR, "round was given arguments"),  # no integer
        ("foo", EXECUTION_ERROR, "foo is no known"),  # unknown name
        ("sqrt", EXECUTION_ERROR, "sqrt is no known"),  # function as a value
        ("pi()", EXECUTION_ERROR, "pi is no known"),  # constant as a function
        *((blank, "INVALID_PARAM", "The expression is empty") for blank in ("", "  ", "\n")),
    ],
)
def test_no_result(expression: str, code: str, told: str) -> None:
    """Why there is none is told in words."""
    response = compute(expression)
    assert response.code == code
    assert told in response.text


@rows(
    "expression",
    [
        "9**9**9",  # tower
        "9^9^9^9",  # tower of carets
        "2 ** 10 ** 9",  # exponent
        "(10 ** 1000) ** 1000",  # large base
        "10**3000 * 10**3000",  # product
        "*".join(["10**3000"] * 100),  # products
        "'a' * 10 ** 9",  # text
        "[0] * 10 ** 9",  # list
        "(1, 2) * 3",  # tuple
        "round(5, -10**9)",  # round to a billion digits
        "1 << 10 ** 9",  # shift
        "9" * 5000,  # digits
        "(" * 400 + "1" + ")" * 400,  # parentheses
        "-" * 900 + "1",  # signs
        "sin(" * 150 + "1" + ")" * 150 + "+sin(" * 1,  # calls
        "1" + "+1" * 400,  # terms
        "__import__('os').system('id')",  # import
        "().__class__.__bases__",  # attributes
        "(lambda: 1)()",  # lambda
        "[x for x in range(10 ** 9)]",  # comprehension
        "sum(x for x in [1])",  # generator
        "eval('1')",  # eval
        "f'{1}'",  # f-string
        "(x := 1)",  # walrus
        "True + 1",  # boolean
        "1 if 1 else 2",  # condition
        "1 < 2",  # comparison
        "max(*[1, 2])",  # star
        "round(1.5, ndigits=1)",  # keyword
        "...",  # ellipsis
        "abs(min([[1]]))",  # nested list
        "sqrt([4])",  # list for a function of one number
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


@pytest.mark.anyio
async def test_as_a_tool() -> None:
    """It has a schema of its own, streams its input eagerly, and takes the options of every tool."""
    definition = Calculator(name="python_calculator").to_dict()
    assert definition["name"] == "python_calculator"
    assert definition["eager_input_streaming"] is True
    assert list(definition["input_schema"]["properties"]) == ["expression"]
    assert (await Calculator().call({"expression": "1 + 1"})).text == "Result: 2"
