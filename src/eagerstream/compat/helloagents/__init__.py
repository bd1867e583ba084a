"""The tools of HelloAgents, on this library's executor and loop."""

from ...tools import ToolErrorCode, ToolResponse, ToolStatus
from .builtin import CalculatorTool, EditTool, MultiEditTool, ReadTool, WriteTool, calculate
from .tool import Tool, ToolParameter

__all__ = [
    "CalculatorTool",
    "EditTool",
    "MultiEditTool",
    "ReadTool",
    "Tool",
    "ToolErrorCode",
    "ToolParameter",
    "ToolResponse",
    "ToolStatus",
    "WriteTool",
    "calculate",
]
