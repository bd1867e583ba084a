"""Conversion of functions to tools, and of `tool_use` blocks to `tool_result` blocks."""

from __future__ import annotations

from ..streaming._faults import InputError, InputFaults
from ..wire._values import as_mapping
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
    text_block,
    to_json,
)
from ._definition import ForeignDefinition, Tool, tool
from ._executor import Executor, InProcessExecutor, Slots
from ._foreign import ForeignTool, as_tool
from ._history import HistoryFault, count_breakpoints, validate_history
from ._invoke import Kind, invoke, invoked, kind_of
from ._models import ModelFacts, model_facts, model_table, request_faults_of_model
from ._options import IN_DEFINITION, Done, Group, Reject, ToolOptions
from ._repair import HistoryRepair, repair_history
from ._repair_blocks import RepairKind
from ._response import ToolErrorCode, ToolResponse, ToolStatus, error_code, error_response, error_text, response_of
from ._results import CANCELLED_TEXT, NOT_RUN, invalid_result, rendered, tool_result
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
    "HistoryFault",
    "HistoryRepair",
    "InProcessExecutor",
    "InputError",
    "InputFaults",
    "Invoked",
    "ItemStream",
    "Kind",
    "Later",
    "ModelFacts",
    "Parameters",
    "Reject",
    "RepairKind",
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
    "as_mapping",
    "as_tool",
    "ask_elsewhere",
    "block_of_bytes",
    "content_of",
    "count_breakpoints",
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
    "model_facts",
    "model_table",
    "rendered",
    "repair_history",
    "report_failure",
    "request_faults_of_model",
    "response_of",
    "saved_response",
    "text_block",
    "to_json",
    "tool",
    "tool_result",
    "validate_history",
    "watch_failures",
]
