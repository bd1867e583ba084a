"""Conversion of functions to tools, and of `tool_use` blocks to `tool_result` blocks."""

from __future__ import annotations

from ._approval import ask_elsewhere
from ._breaker import NOT_THE_TOOLS_FAULT, CircuitBreaker, CircuitStatus
from ._call import CallHost, CallListener, CallState, Decision, Invoked, ToolCall, saved_response
from ._content import (
    IMAGE_TYPES,
    PDF_TYPE,
    block_of_bytes,
    content_of,
    document_bytes,
    document_text,
    dump_json,
    image_bytes,
    is_content_block,
    to_json,
)
from ._definition import ForeignDefinition, Tool, tool
from ._executor import Executor, InProcessExecutor, Slots, invoked
from ._foreign import ForeignTool, as_tool
from ._invoke import Kind, invoke, kind_of
from ._options import IN_DEFINITION, Done, Group, Reject, ToolOptions
from ._response import ToolErrorCode, ToolResponse, ToolStatus, error_code, error_response, error_text, response_of
from ._results import CANCELLED_TEXT, NOT_RUN, invalid_result, rendered
from ._running_call import RunningCall
from ._schema import Parameters, annotated
from ._streams import ItemStream, Later, TextStream
from ._tool_failure import ToolFailure, report_failure, watch_failures
from ._toolbox import Toolbox

__all__ = [
    "CANCELLED_TEXT",
    "IMAGE_TYPES",
    "IN_DEFINITION",
    "NOT_RUN",
    "NOT_THE_TOOLS_FAULT",
    "PDF_TYPE",
    "CallHost",
    "CallListener",
    "CallState",
    "CircuitBreaker",
    "CircuitStatus",
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
    "Slots",
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
    "dump_json",
    "error_code",
    "error_response",
    "error_text",
    "image_bytes",
    "invalid_result",
    "invoke",
    "invoked",
    "is_content_block",
    "kind_of",
    "rendered",
    "report_failure",
    "response_of",
    "saved_response",
    "to_json",
    "tool",
    "watch_failures",
]
