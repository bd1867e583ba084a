"""Streaming-first async SDK for Claude's eager input streaming.

Names are loaded when they are first used: `import eagerstream` alone loads none of the heavier packages.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._support.lazy import lazy_exports

__version__ = "0.1.0"

if os.environ.get("EAGERSTREAM_PURE", "0") not in ("", "0"):
    from ._support.flavor import import_sources

    import_sources(__path__[0])

__all__: list[str]

if TYPE_CHECKING:
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
    from .transports import HTTPTransport as HTTPTransport
    from .wire import (
        INVALID_JSON as INVALID_JSON,
        BlockStart as BlockStart,
        BlockStop as BlockStop,
        CitationDelta as CitationDelta,
        InputAccumulator as InputAccumulator,
        InputDelta as InputDelta,
        InputStart as InputStart,
        InputStop as InputStop,
        MessageAssembler as MessageAssembler,
        MessageStart as MessageStart,
        MessageStop as MessageStop,
        Outcome as Outcome,
        PartialJSON as PartialJSON,
        ServerSentEvent as ServerSentEvent,
        ServerToolResult as ServerToolResult,
        ServerToolUse as ServerToolUse,
        SSEDecoder as SSEDecoder,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        TolerantJSON as TolerantJSON,
        ToolInput as ToolInput,
        UnknownEvent as UnknownEvent,
        copy_json as copy_json,
        repair_history as repair_history,
        validate_history as validate_history,
    )
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
            ".transports": ("HTTPTransport",),
            ".wire": (
                "INVALID_JSON",
                "BlockStart",
                "BlockStop",
                "CitationDelta",
                "InputAccumulator",
                "InputDelta",
                "InputStart",
                "InputStop",
                "MessageAssembler",
                "MessageStart",
                "MessageStop",
                "Outcome",
                "PartialJSON",
                "ServerSentEvent",
                "ServerToolResult",
                "ServerToolUse",
                "SSEDecoder",
                "TextDelta",
                "ThinkingDelta",
                "TolerantJSON",
                "ToolInput",
                "UnknownEvent",
                "copy_json",
                "repair_history",
                "validate_history",
            ),
        },
    )
