"""`CalculatorTool` and `calculate`: arithmetic."""

from __future__ import annotations

from typing import Any

from ....builtin import Calculator
from ....tools import ToolErrorCode, ToolResponse
from .._tool import ToolParameter
from .adapted import AdaptedTool
from .words import CALCULATOR


class _Calculator(Calculator):
    words = CALCULATOR


class CalculatorTool(AdaptedTool):
    """`eagerstream.builtin.Calculator`, called `python_calculator`. It takes `{"input": str}` or `{"expression": str}`.

    Its data is `{"expression": str, "result": int | float, "result_str": str, "result_type": "int" | "float"}`. Of an
    error, the code is `INVALID_FORMAT` for an expression that cannot be read, `EXECUTION_ERROR` for one without a
    result, and `INVALID_PARAM` for none at all.

    Other than in HelloAgents, `2^3` is 8 (there it is 1: the bits that differ), and nothing is printed.
    """

    def __init__(self) -> None:
        super().__init__(_Calculator(name="python_calculator"))

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        """The value of an expression, or why it has none."""
        expression = parameters.get("input") or parameters.get("expression") or ""
        response = await super().arun({"expression": expression})
        if response.code is not None and isinstance(expression, str) and expression.strip():
            unreadable = response.code == ToolErrorCode.INVALID_FORMAT
            code = ToolErrorCode.INVALID_FORMAT if unreadable else ToolErrorCode.EXECUTION_ERROR
            return ToolResponse.error(code, response.text, context={"expression": expression})
        return response

    def get_parameters(self) -> list[ToolParameter]:
        """The expression, as `input`."""
        (expression,) = super().get_parameters()
        expression.name = "input"
        return [expression]


def calculate(expression: str) -> ToolResponse:
    """What `CalculatorTool` answers; `.text` is what the model reads, `.data["result"]` the number."""
    return CalculatorTool().run({"input": expression})
