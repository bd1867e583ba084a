"""Streaming-first async SDK for Claude's eager input streaming.

Names are loaded when they are first used: `import eagerstream` alone loads none of the heavier packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._support.lazy import lazy_exports

__version__ = "0.1.0"

__all__: list[str]

if TYPE_CHECKING:
    from eagerstream_wire import *

    from ._support.redaction import printable as printable
    from .calls import EarlyCalls as EarlyCalls, RunStatus as RunStatus
    from .errors import (
        APIError as APIError,
        EagerStreamError as EagerStreamError,
        HistoryError as HistoryError,
        InputInterrupted as InputInterrupted,
        LimitError as LimitError,
        MissingExtraError as MissingExtraError,
        ProtocolError as ProtocolError,
        StreamInterrupted as StreamInterrupted,
        ToolError as ToolError,
        UsageError as UsageError,
        WorkerLost as WorkerLost,
    )
    from .inputs import GrowingInput as GrowingInput
    from .limits import Limits as Limits
    from .loop import (
        Agent as Agent,
        Conversation as Conversation,
        Restarted as Restarted,
        Run as Run,
        RunResult as RunResult,
        ToolProgress as ToolProgress,
        ToolStart as ToolStart,
        ToolStop as ToolStop,
        TurnStart as TurnStart,
        TurnStop as TurnStop,
        run as run,
    )
    from .recordings import Recording as Recording
    from .streaming import (
        MessageStream as MessageStream,
        OutputDelta as OutputDelta,
        events as events,
        stream as stream,
    )
    from .tools import (
        CircuitBreaker as CircuitBreaker,
        Context as Context,
        Executor as Executor,
        Group as Group,
        ItemStream as ItemStream,
        Later as Later,
        Reject as Reject,
        RunningCall as RunningCall,
        TextStream as TextStream,
        Tool as Tool,
        ToolErrorCode as ToolErrorCode,
        ToolResponse as ToolResponse,
        ToolStatus as ToolStatus,
        tool as tool,
    )
    from .tools._text_edit import TextEdit as TextEdit
    from .transports import HTTPTransport as HTTPTransport
else:  # or type checkers would take any name for one that is there
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".errors": (
                "APIError",
                "EagerStreamError",
                "HistoryError",
                "InputInterrupted",
                "LimitError",
                "MissingExtraError",
                "ProtocolError",
                "StreamInterrupted",
                "ToolError",
                "UsageError",
                "WorkerLost",
            ),
            ".limits": ("Limits",),
            ".calls": ("EarlyCalls", "RunStatus"),
            ".inputs": ("GrowingInput",),
            "._support.redaction": ("printable",),
            ".loop": (
                "Agent",
                "Conversation",
                "Restarted",
                "Run",
                "RunResult",
                "ToolProgress",
                "ToolStart",
                "ToolStop",
                "TurnStart",
                "TurnStop",
                "run",
            ),
            ".recordings": ("Recording",),
            ".streaming": ("MessageStream", "OutputDelta", "events", "stream"),
            ".tools": (
                "CircuitBreaker",
                "Context",
                "Executor",
                "Group",
                "ItemStream",
                "Later",
                "Reject",
                "RunningCall",
                "TextStream",
                "Tool",
                "ToolErrorCode",
                "ToolResponse",
                "ToolStatus",
                "tool",
            ),
            ".tools._text_edit": ("TextEdit",),
            ".transports": ("HTTPTransport",),
            "eagerstream_wire": (
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
            ),
        },
    )
