"""The tools of HelloAgents, on this library's executor and loop."""

from ...tools import ToolErrorCode, ToolResponse, ToolStatus
from .tool import Tool, ToolParameter

__all__ = ["Tool", "ToolErrorCode", "ToolParameter", "ToolResponse", "ToolStatus"]
