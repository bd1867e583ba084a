"""The tools that come with HelloAgents, over those of `eagerstream.builtin`."""

from __future__ import annotations

from .calculator import CalculatorTool, calculate
from .files import EditTool, MultiEditTool, ReadTool, WriteTool

__all__ = ["CalculatorTool", "EditTool", "MultiEditTool", "ReadTool", "WriteTool", "calculate"]
