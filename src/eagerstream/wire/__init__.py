"""The core: bytes to events to growing inputs. Synchronous, no I/O, no clock, and no dependency but `jiter`."""

from __future__ import annotations

from .accumulator import InputAccumulator
from .aws_event_stream import AWSEventStreamDecoder
from .decoder import Decoder
from .decoding import FragmentDecoder, WireDecoder, decode_event
from .events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    ContentBlockDeltaData,
    ContentBlockStartData,
    ContentBlockStopData,
    InputDelta,
    InputFragment,
    InputJSONDelta,
    InputStart,
    InputStop,
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
from .message import MessageAssembler, MessageState
from .partial_json import ParseFault, PartialJSON
from .server_tools import ServerToolErrorCode
from .sse import ServerSentEvent, SSEDecoder
from .tolerant_json import TolerantJSON
from .tool_input import INVALID_JSON, Outcome, Parser, ParserFactory, ToolInput
from .values import JSON, JSONObject, Path, copy_json, encodable

__all__ = [
    "INVALID_JSON",
    "JSON",
    "AWSEventStreamDecoder",
    "BlockStart",
    "BlockStop",
    "CitationDelta",
    "ContentBlockDeltaData",
    "ContentBlockStartData",
    "ContentBlockStopData",
    "Decoder",
    "FragmentDecoder",
    "InputAccumulator",
    "InputDelta",
    "InputFragment",
    "InputJSONDelta",
    "InputStart",
    "InputStop",
    "JSONObject",
    "MessageAssembler",
    "MessageDeltaData",
    "MessageEvent",
    "MessageStart",
    "MessageStartData",
    "MessageState",
    "MessageStop",
    "Outcome",
    "ParseFault",
    "Parser",
    "ParserFactory",
    "PartialJSON",
    "Path",
    "SSEDecoder",
    "ServerSentEvent",
    "ServerToolErrorCode",
    "ServerToolResult",
    "ServerToolUse",
    "TextDelta",
    "ThinkingDelta",
    "TolerantJSON",
    "ToolInput",
    "UnknownEvent",
    "WireDecoder",
    "WireEvent",
    "copy_json",
    "decode_event",
    "encodable",
]
