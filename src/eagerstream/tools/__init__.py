"""A function becomes a tool; a `tool_use` becomes a `tool_result`."""

from __future__ import annotations

from .breaker import CircuitBreaker, CircuitStatus
from .call import CallState, ToolCall
from .content import document_bytes, document_text, image_bytes, text_block
from .definition import Tool, tool
from .executor import Executor, InProcessExecutor
from .foreign import ForeignTool, as_tool
from .history import HistoryFault, validate_history
from .options import Group, Reject, ToolOptions
from .response import ToolErrorCode, ToolResponse, ToolStatus
from .streams import ItemStream, Later, TextStream
from .toolbox import Toolbox

__all__ = [
    "CallState",
    "CircuitBreaker",
    "CircuitStatus",
    "Executor",
    "ForeignTool",
    "Group",
    "HistoryFault",
    "InProcessExecutor",
    "ItemStream",
    "Later",
    "Reject",
    "TextStream",
    "Tool",
    "ToolCall",
    "ToolErrorCode",
    "ToolOptions",
    "ToolResponse",
    "ToolStatus",
    "Toolbox",
    "as_tool",
    "document_bytes",
    "document_text",
    "image_bytes",
    "text_block",
    "tool",
    "validate_history",
]
