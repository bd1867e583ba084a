"""The core: bytes to events to growing inputs. Synchronous, no I/O, no clock, and no dependency except `jiter`."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if os.environ.get("EAGERSTREAM_PURE", "0") not in ("", "0"):
    from ._sources import import_sources

    import_sources(__path__[0])

from ._accumulator import InputAccumulator
from ._assistant_message import AssistantMessage, Block, ContentBlock, StopReason, Usage, text_of, total_tokens
from ._decoder import Decoder
from ._decoding import FragmentDecoder, WireDecoder, decode_event
from ._errors import EagerStreamError, LimitError, ProtocolError, UsageError
from ._events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    InputDelta,
    InputEvent,
    InputFragment,
    InputStart,
    InputStop,
    Message,
    MessageEvent,
    MessageStart,
    MessageStop,
    Ping,
    ServerToolResult,
    ServerToolUse,
    TextDelta,
    TextFragment,
    ThinkingDelta,
    UnknownEvent,
    WireEvent,
)
from ._json_scalars import ParseFault
from ._limits import ParsingLimits
from ._message import MessageAssembler, MessageState
from ._parser import Parser, ParserFactory
from ._partial_json import PartialJSON
from ._patch import apply_patch, merge_patches, pointer, steps_of
from ._sse import ServerSentEvent, SSEDecoder
from ._tool_input import INVALID_JSON, Outcome, ToolInput
from ._values import JSON, JSONObject, Path, copy_json

if TYPE_CHECKING:
    from ._aws_event_stream import AWSEventStreamDecoder
    from ._flavor import is_compiled
    from ._history import HistoryFault, count_breakpoints, validate_history
    from ._models import ModelFacts, model_facts, model_table, request_faults_of_model
    from ._patch_types import Patch, PatchOp
    from ._repair import HistoryRepair, repair_history
    from ._repair_blocks import RepairKind
    from ._tolerant_json import TolerantJSON
    from ._tool_kind import EagerSupport, classify
else:  # what only some programs need
    _LATER = {
        "_aws_event_stream": ("AWSEventStreamDecoder",),
        "_flavor": ("is_compiled",),
        "_history": ("HistoryFault", "count_breakpoints", "validate_history"),
        "_models": ("ModelFacts", "model_facts", "model_table", "request_faults_of_model"),
        "_patch_types": ("Patch", "PatchOp"),
        "_repair": ("HistoryRepair", "repair_history"),
        "_repair_blocks": ("RepairKind",),
        "_tolerant_json": ("TolerantJSON",),
        "_tool_kind": ("EagerSupport", "classify"),
    }

    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                return getattr(import_module(f".{module}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "INVALID_JSON",
    "JSON",
    "AWSEventStreamDecoder",
    "AssistantMessage",
    "Block",
    "BlockStart",
    "BlockStop",
    "CitationDelta",
    "ContentBlock",
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
    "InputStart",
    "InputStop",
    "JSONObject",
    "LimitError",
    "Message",
    "MessageAssembler",
    "MessageEvent",
    "MessageStart",
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
    "Ping",
    "ProtocolError",
    "RepairKind",
    "SSEDecoder",
    "ServerSentEvent",
    "ServerToolResult",
    "ServerToolUse",
    "StopReason",
    "TextDelta",
    "TextFragment",
    "ThinkingDelta",
    "TolerantJSON",
    "ToolInput",
    "UnknownEvent",
    "Usage",
    "UsageError",
    "WireDecoder",
    "WireEvent",
    "apply_patch",
    "classify",
    "copy_json",
    "count_breakpoints",
    "decode_event",
    "is_compiled",
    "merge_patches",
    "model_facts",
    "model_table",
    "pointer",
    "repair_history",
    "request_faults_of_model",
    "steps_of",
    "text_of",
    "total_tokens",
    "validate_history",
]
