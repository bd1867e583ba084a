"""The core: bytes to events to growing inputs. Synchronous, no I/O, no clock, and no dependency except `jiter`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._accumulator import InputAccumulator
from ._assistant_message import AssistantMessage, Block, StopReason, Usage, text_of, total_tokens, typed_message
from ._block_rules import text_block, tool_result
from ._checks import check_choice, check_count, check_fraction, check_positive, check_seconds
from ._decoder import Decoder
from ._decoding import FragmentDecoder, WireDecoder, decode_event
from ._errors import EagerStreamError, LimitError, ProtocolError, UsageError
from ._events import (
    TEXT_FIELDS,
    BlockStart,
    BlockStop,
    CitationDelta,
    ContentBlockDeltaData,
    ContentBlockStartData,
    ContentBlockStopData,
    InputDelta,
    InputEvent,
    InputFragment,
    InputJSONDelta,
    InputStart,
    InputStop,
    Message,
    MessageDeltaData,
    MessageEvent,
    MessageStart,
    MessageStartData,
    MessageStop,
    ServerToolResult,
    ServerToolUse,
    TextDelta,
    ThinkingDelta,
    UnknownEvent,
    WireEvent,
)
from ._flavor import is_compiled
from ._json_scalars import ParseFault
from ._limits import ParsingLimits
from ._message import MessageAssembler, MessageState
from ._message_inputs import TOOL_BLOCKS, check_invalid_key
from ._parser import Parser, ParserFactory
from ._partial_json import PartialJSON
from ._patch import Patch, PatchOp, apply_patch, merge_patches, pointer, steps_of
from ._places import Places, check_block_count
from ._server_tools import (
    SERVER_CALLS,
    ServerToolErrorCode,
    error_code_of,
    is_error_result,
    is_server_result,
    server_calls,
)
from ._sse import ServerSentEvent, SSEDecoder
from ._stop_reasons import standard_stop_reason
from ._tool_input import INVALID_JSON, Outcome, ToolInput
from ._tool_kind import (
    EAGER_FIELD,
    LEGACY_BETA,
    USER_DEFINED,
    EagerSupport,
    ToolClass,
    accepted_betas,
    betas_for,
    classify,
    forbids_legacy_beta,
    tool_family,
    tool_kind,
)
from ._type_variables import InputT
from ._values import JSON, MISSING, JSONObject, Path, as_mapping, copy_json, encodable, find, is_deeper

if TYPE_CHECKING:
    from ._aws_event_stream import AWSEventStreamDecoder
    from ._history import HistoryFault, count_breakpoints, validate_history
    from ._models import ModelFacts, model_facts, model_table, request_faults_of_model
    from ._repair import HistoryRepair, repair_history
    from ._repair_blocks import RepairKind
    from ._tolerant_json import TolerantJSON
else:  # what only some programs need
    _LATER = {
        "_aws_event_stream": ("AWSEventStreamDecoder",),
        "_history": ("HistoryFault", "count_breakpoints", "validate_history"),
        "_models": ("ModelFacts", "model_facts", "model_table", "request_faults_of_model"),
        "_repair": ("HistoryRepair", "repair_history"),
        "_repair_blocks": ("RepairKind",),
        "_tolerant_json": ("TolerantJSON",),
    }

    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                return getattr(import_module(f".{module}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "EAGER_FIELD",
    "INVALID_JSON",
    "JSON",
    "LEGACY_BETA",
    "MISSING",
    "SERVER_CALLS",
    "TEXT_FIELDS",
    "TOOL_BLOCKS",
    "USER_DEFINED",
    "AWSEventStreamDecoder",
    "AssistantMessage",
    "Block",
    "BlockStart",
    "BlockStop",
    "CitationDelta",
    "ContentBlockDeltaData",
    "ContentBlockStartData",
    "ContentBlockStopData",
    "Decoder",
    "EagerStreamError",
    "EagerSupport",
    "FragmentDecoder",
    "HistoryFault",
    "HistoryRepair",
    "InputAccumulator",
    "InputDelta",
    "InputEvent",
    "InputFragment",
    "InputJSONDelta",
    "InputStart",
    "InputStop",
    "InputT",
    "JSONObject",
    "LimitError",
    "Message",
    "MessageAssembler",
    "MessageDeltaData",
    "MessageEvent",
    "MessageStart",
    "MessageStartData",
    "MessageState",
    "MessageStop",
    "ModelFacts",
    "Outcome",
    "ParseFault",
    "Parser",
    "ParserFactory",
    "ParsingLimits",
    "PartialJSON",
    "Patch",
    "PatchOp",
    "Path",
    "Places",
    "ProtocolError",
    "RepairKind",
    "SSEDecoder",
    "ServerSentEvent",
    "ServerToolErrorCode",
    "ServerToolResult",
    "ServerToolUse",
    "StopReason",
    "TextDelta",
    "ThinkingDelta",
    "TolerantJSON",
    "ToolClass",
    "ToolInput",
    "UnknownEvent",
    "Usage",
    "UsageError",
    "WireDecoder",
    "WireEvent",
    "accepted_betas",
    "apply_patch",
    "as_mapping",
    "betas_for",
    "check_block_count",
    "check_choice",
    "check_count",
    "check_fraction",
    "check_invalid_key",
    "check_positive",
    "check_seconds",
    "classify",
    "copy_json",
    "count_breakpoints",
    "decode_event",
    "encodable",
    "error_code_of",
    "find",
    "forbids_legacy_beta",
    "is_compiled",
    "is_deeper",
    "is_error_result",
    "is_server_result",
    "merge_patches",
    "model_facts",
    "model_table",
    "pointer",
    "repair_history",
    "request_faults_of_model",
    "server_calls",
    "standard_stop_reason",
    "steps_of",
    "text_block",
    "text_of",
    "tool_family",
    "tool_kind",
    "tool_result",
    "total_tokens",
    "typed_message",
    "validate_history",
]
