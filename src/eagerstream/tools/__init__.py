"""A function becomes a tool; a `tool_use` becomes a `tool_result`."""

from __future__ import annotations

from .definition import Tool, tool
from .executor import ToolCall

__all__ = ["Tool", "ToolCall", "tool"]
