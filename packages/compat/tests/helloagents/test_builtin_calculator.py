"""The calculator of HelloAgents, called as its programs call it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tables import rows

from eagerstream_compat.helloagents import CalculatorTool, ToolErrorCode, ToolStatus, calculate


def test_the_program_of_the_document() -> None:
    """A sum and a syntax error, with the answers that the document shows; the expression is echoed as it was given."""
    calc = CalculatorTool()

    response = calc.run({"expression": "2 + 3"})
    assert response.status == ToolStatus.SUCCESS
    assert response.text == "计算结果: 5"
    assert response.data == {"result": 5, "expression": "2 + 3", "result_str": "5", "result_type": "int"}

    response = calc.run({"expression": "2 +"})
    assert response.status == ToolStatus.ERROR
    assert response.text.startswith("表达式语法错误")
    assert response.error_info == {"code": "INVALID_FORMAT", "message": response.text}


def test_what_it_is_to_a_model() -> None:
    """Its name, and its one parameter, which is called `input`."""
    calc = CalculatorTool()
    assert calc.name == "python_calculator"
    (parameter,) = calc.get_parameters()
    assert (parameter.name, parameter.type, parameter.required) == ("input", "string", True)
    assert parameter.description
    assert calc.validate_parameters({"input": "1"})


@rows(
    "given, text",
    [
        ({"input": "1+1"}, "计算结果: 2"),
        ({"input": "", "expression": "2**10"}, "计算结果: 1024"),
        ({"input": "6*7", "expression": "1"}, "计算结果: 42"),
        ({"input": "sqrt(16)"}, "计算结果: 4.0"),
        ({"input": "sin(pi/2)"}, "计算结果: 1.0"),
        ({"input": "-2 + +5"}, "计算结果: 3"),
        ({"input": "10//3 + 7%3"}, "计算结果: 4"),
        ({"input": "2^3"}, "计算结果: 8"),
    ],
)
def test_results(given: dict[str, Any], text: str) -> None:
    """The expression is `input`, or `expression`; the older operators, and those that were missing."""
    assert CalculatorTool().run(given).text == text


@rows(
    "given, code, text",
    [
        ({}, ToolErrorCode.INVALID_PARAM, "计算表达式不能为空"),
        ({"input": ""}, ToolErrorCode.INVALID_PARAM, "计算表达式不能为空"),
        ({"input": None, "expression": " "}, ToolErrorCode.INVALID_PARAM, "计算表达式不能为空"),
        ({"input": 5}, ToolErrorCode.INVALID_PARAM, "Error: Invalid parameter 'expression'"),
        ({"input": "1/0"}, ToolErrorCode.EXECUTION_ERROR, "计算失败: "),
        ({"input": "unknown(1)"}, ToolErrorCode.EXECUTION_ERROR, "计算失败: "),
        ({"input": "__import__('os')"}, ToolErrorCode.EXECUTION_ERROR, "计算失败: "),
        ({"input": "9**9**9"}, ToolErrorCode.EXECUTION_ERROR, "计算失败: "),
        ({"input": "1" * 5_000}, ToolErrorCode.EXECUTION_ERROR, "计算失败: "),
        ({"input": "(" * 900}, ToolErrorCode.INVALID_FORMAT, "表达式语法错误: "),
    ],
)
def test_errors(given: dict[str, Any], code: str, text: str) -> None:
    """Nothing raises: what has no result is an error with the code that HelloAgents gives it."""
    response = CalculatorTool().run(given)
    assert response.code == code
    assert response.text.startswith(text)


@pytest.mark.anyio
async def test_the_function() -> None:
    """`calculate` answers as the tool does, which can be awaited. An error tells the expression."""
    for response in (calculate("2 * 21"), await CalculatorTool().arun({"input": "2 * 21"})):
        assert (response.text, response.data["result"]) == ("计算结果: 42", 42)
    assert calculate("1/0").context == {"expression": "1/0"}
