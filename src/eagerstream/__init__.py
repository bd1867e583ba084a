"""Streaming-first async SDK for Claude's eager input streaming.

Names are loaded when they are first used: `import eagerstream` alone loads none of the heavier packages.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from .growing import GrowingInput as GrowingInput
    from .limits import Limits as Limits
    from .recording import Recording as Recording
    from .run import (
        Conversation as Conversation,
        EarlyCalls as EarlyCalls,
        OnTruncated as OnTruncated,
        Restarted as Restarted,
        Run as Run,
        RunEvent as RunEvent,
        RunLatency as RunLatency,
        RunResult as RunResult,
        RunStatus as RunStatus,
        ToolProgress as ToolProgress,
        ToolStart as ToolStart,
        ToolStop as ToolStop,
        Turn as Turn,
        TurnStart as TurnStart,
        TurnStop as TurnStop,
        run as run,
    )
    from .stream import (
        MessageStream as MessageStream,
        StreamEvent as StreamEvent,
        stream as stream,
    )
    from .tool_kind import ToolClass as ToolClass, classify as classify
    from .tools import (
        CallState as CallState,
        CircuitBreaker as CircuitBreaker,
        CircuitStatus as CircuitStatus,
        Executor as Executor,
        Group as Group,
        HistoryFault as HistoryFault,
        InProcessExecutor as InProcessExecutor,
        ItemStream as ItemStream,
        Later as Later,
        Reject as Reject,
        TextStream as TextStream,
        Tool as Tool,
        ToolCall as ToolCall,
        ToolErrorCode as ToolErrorCode,
        ToolOptions as ToolOptions,
        ToolResponse as ToolResponse,
        ToolStatus as ToolStatus,
        document_bytes as document_bytes,
        document_text as document_text,
        image_bytes as image_bytes,
        tool as tool,
        validate_history as validate_history,
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
    )
    from .workers import (
        ProcessExecutor as ProcessExecutor,
        ProcessPool as ProcessPool,
        RemoteExecutor as RemoteExecutor,
    )

_MODULES = {
    "errors": (
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
    "growing": ("GrowingInput",),
    "limits": ("Limits",),
    "recording": ("Recording",),
    "run": (
        "Conversation",
        "EarlyCalls",
        "OnTruncated",
        "Restarted",
        "Run",
        "RunEvent",
        "RunLatency",
        "RunResult",
        "RunStatus",
        "ToolProgress",
        "ToolStart",
        "ToolStop",
        "Turn",
        "TurnStart",
        "TurnStop",
        "run",
    ),
    "stream": (
        "MessageStream",
        "StreamEvent",
        "stream",
    ),
    "tools": (
        "CallState",
        "CircuitBreaker",
        "CircuitStatus",
        "Executor",
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
        "document_bytes",
        "document_text",
        "image_bytes",
        "tool",
        "validate_history",
    ),
    "tool_kind": ("ToolClass", "classify"),
    "transports": ("HTTPTransport",),
    "wire": (
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
    ),
    "workers": (
        "ProcessExecutor",
        "ProcessPool",
        "RemoteExecutor",
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)


class _Package(ModuleType):
    """`stream` and `run` are functions of this package, and the files that they live in.

    Importing a submodule binds it in its package, which would hide the function of the same name.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
