"""Conversion of functions to tools, and of `tool_use` blocks to `tool_result` blocks."""

from __future__ import annotations

from ._approval import ask_elsewhere
from ._breaker import NOT_THE_TOOLS_FAULT, CircuitBreaker, CircuitStatus
from ._call import CallHost, CallListener, CallState, Decision, Invoked, ToolCall, saved_response
from ._content import block_of_bytes, content_of, document_bytes, document_text, image_bytes, is_content_block
from ._context import Context
from ._definition import ForeignDefinition, Tool, tool
from ._executor import Executor, InProcessExecutor, invoked
from ._foreign import ForeignTool, as_tool
from ._invoke import Kind, invoke, kind_of
from ._options import Done, Group, Reject, ToolOptions
from ._response import ToolErrorCode, ToolResponse, ToolStatus, error_response, error_text, response_of
from ._results import rendered
from ._running_call import RunningCall
from ._schema import Parameters, annotated
from ._streams import ItemStream, Later, TextStream
from ._tool_failure import ToolFailure, report_failure, watch_failures
from ._toolbox import Toolbox

__all__ = [
    "NOT_THE_TOOLS_FAULT",
    "CallHost",
    "CallListener",
    "CallState",
    "CircuitBreaker",
    "CircuitStatus",
    "Context",
    "Decision",
    "Done",
    "Executor",
    "ForeignDefinition",
    "ForeignTool",
    "Group",
    "InProcessExecutor",
    "Invoked",
    "ItemStream",
    "Kind",
    "Later",
    "Parameters",
    "Reject",
    "RunningCall",
    "TextStream",
    "Tool",
    "ToolCall",
    "ToolErrorCode",
    "ToolFailure",
    "ToolOptions",
    "ToolResponse",
    "ToolStatus",
    "Toolbox",
    "annotated",
    "as_tool",
    "ask_elsewhere",
    "block_of_bytes",
    "content_of",
    "document_bytes",
    "document_text",
    "error_response",
    "error_text",
    "image_bytes",
    "invoke",
    "invoked",
    "is_content_block",
    "kind_of",
    "rendered",
    "report_failure",
    "response_of",
    "saved_response",
    "tool",
    "watch_failures",
]
