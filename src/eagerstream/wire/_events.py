"""The events: what the API sends (plain dicts, typed here), and what users match on (small classes).

A wire event stays the `dict` that was sent, so that what this library does not know yet passes through untouched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, NotRequired, TypeAlias, TypedDict

from ._patch import Patch
from ._server_tools import ServerToolErrorCode, error_code_of, is_error_result
from ._type_variables import InputT_co

# --- on the wire ------------------------------------------------------------------------------------------------------

WireEvent: TypeAlias = dict[str, Any]
"""Any event of the Messages API, as sent. The `TypedDict`s below say what is in those that eagerstream reads."""

InputFragment: TypeAlias = tuple[int, str]
"""A `content_block_delta` with an `input_json_delta`, as its block index and its text. Nearly every event of a stream
with tool calls is one, and without the two dicts around it costs half."""

Block: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]

TEXT_FIELDS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""By the kind of a delta, the field of what the model writes piece by piece."""


class MessageStartData(TypedDict):
    """`message_start`: the message with empty `content`, to be filled by what follows."""

    type: Literal["message_start"]
    message: Message


class ContentBlockStartData(TypedDict):
    """`content_block_start`: a block opens; the `input` of a tool call is usually a placeholder, `{}`."""

    type: Literal["content_block_start"]
    index: int
    content_block: Block


class InputJSONDelta(TypedDict):
    """A fragment of the JSON text of a tool's input."""

    type: Literal["input_json_delta"]
    partial_json: str


class ContentBlockDeltaData(TypedDict):
    """`content_block_delta`: more of an open block; there are more kinds of delta than the one typed here."""

    type: Literal["content_block_delta"]
    index: int
    delta: InputJSONDelta | dict[str, Any]


class ContentBlockStopData(TypedDict):
    """`content_block_stop`: a block is closed."""

    type: Literal["content_block_stop"]
    index: int


class MessageDeltaData(TypedDict):
    """`message_delta`: fields of the message that are known at its end; the usage counts are cumulative."""

    type: Literal["message_delta"]
    delta: dict[str, Any]
    usage: NotRequired[dict[str, Any]]


# --- for users --------------------------------------------------------------------------------------------------------

# The reprs tell kinds and sizes, and never what a model wrote: that does not belong in a log.
#
# Classes of our own and not those of the anthropic package: importing it takes seconds, and an `InputDelta` needs the
# input that it belongs to, which no event on the wire has. They are not frozen, because one is made per
# fragment, and a frozen dataclass with slots takes 2.8 times as long to make (CPython 3.11).


def _kind(data: Mapping[str, Any]) -> str:
    return f"{data.get('type')!r:.80}"


@dataclass(slots=True)
class MessageStart:
    """A reply begins.

    Attributes:
        message: The assistant message as far as it is known: id, model, usage, no content yet.
        voided: What had come of the message before the reply began anew in its middle (a gateway tried again): it does
            not count. None where nothing had.
    """

    message: Message
    voided: Message | None = None

    @property
    def restarted(self) -> bool:
        """The reply began anew in its middle: forget what came before."""
        return self.voided is not None

    def __repr__(self) -> str:
        return f"MessageStart(restarted={self.restarted})"


@dataclass(slots=True)
class BlockStart:
    """A block opens that is not a tool call: text, thinking, a server tool's result, a fallback, a new kind.

    Attributes:
        index: Block index.
        block: The block as received, before any delta.
    """

    index: int
    block: Block

    def __repr__(self) -> str:
        return f"BlockStart(index={self.index}, type={_kind(self.block)})"


@dataclass(slots=True)
class TextDelta:
    """More text of an open block."""

    index: int
    text: str

    def __repr__(self) -> str:
        return f"TextDelta(index={self.index}, {len(self.text)} chars)"


@dataclass(slots=True)
class ThinkingDelta:
    """More thinking of an open block.

    Attributes:
        index: Block index.
        thinking: The new text; empty if the API leaves the thinking out and only counts it.
        estimated_tokens: Estimate of the tokens that the block has grown by. None unless the request has the beta
            `thinking-token-count-2026-05-13`. Sum them up for a progress bar; they are not billed counts.
    """

    index: int
    thinking: str
    estimated_tokens: int | None = None

    def __repr__(self) -> str:
        return f"ThinkingDelta(index={self.index}, {len(self.thinking)} chars)"


@dataclass(slots=True)
class CitationDelta:
    """A citation of an open text block.

    Attributes:
        index: Block index.
        citation: The citation as received: `{"type": "char_location", "cited_text": ..., ...}` for example.
    """

    index: int
    citation: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"CitationDelta(index={self.index}, type={_kind(self.citation)})"


@dataclass(slots=True)
class BlockStop:
    """A block that is not a tool call is whole.

    Attributes:
        index: Block index.
        block: The whole block, as it must be echoed.
    """

    index: int
    block: Block

    def __repr__(self) -> str:
        return f"BlockStop(index={self.index}, type={_kind(self.block)})"


@dataclass(slots=True)
class ServerToolResult(BlockStop):
    """What came back of a tool that the API ran, or had an MCP server run: nobody here has anything to answer.

    It is the `BlockStop` of its block: where both are matched on, this goes first.

    Attributes:
        call: The block that it answers (`{"type": "server_tool_use", "id": ..., "name": ..., "input": ...}`), which may
            be of an earlier reply; None where no such call is known.
    """

    call: Mapping[str, Any] | None

    @property
    def tool_use_id(self) -> str:
        """The id of the call; empty where the peer gave none."""
        id = self.block.get("tool_use_id")
        return id if isinstance(id, str) else ""

    @property
    def is_error(self) -> bool:
        """The call failed."""
        return is_error_result(self.block)

    @property
    def error_code(self) -> ServerToolErrorCode | str | None:
        """Why, in the API's word for it, which need not be among those that are known here.

        None where nothing failed, and of MCP servers, whose `block["content"]` says it in words of their own.
        """
        return error_code_of(self.block)

    def __repr__(self) -> str:
        return f"ServerToolResult(index={self.index}, type={_kind(self.block)}, is_error={self.is_error})"


@dataclass(slots=True)
class InputStart(Generic[InputT_co]):
    """A tool call opens; its input is about to be written."""

    input: InputT_co


@dataclass(slots=True)
class InputDelta(Generic[InputT_co]):
    """More of a tool's input was written.

    Attributes:
        input: The input, with everything written so far; `input.partial` is its best-effort value.
        fragment: The new JSON text, never empty.
        patch: The operations that repeat in a copy of `input.partial` what the fragment changed; see `Patch`. None
            unless changes were asked for.
        finished: The names of the fields that the fragment finished, if changes were asked for.
    """

    input: InputT_co
    fragment: str
    patch: Patch | None = field(default=None, repr=False)
    finished: Sequence[str] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return f"InputDelta({self.input!r}, {len(self.fragment)} chars)"


@dataclass(slots=True)
class InputStop(Generic[InputT_co]):
    """A tool's input is settled: `input.outcome` says how it ended."""

    input: InputT_co


@dataclass(slots=True)
class ServerToolUse(InputStop[InputT_co]):
    """The model has called a tool that the API runs, or has an MCP server run; `input` is what it is called with.

    It is the `InputStop` of its input: where both are matched on, this goes first. A call that was cut off has none.
    Its `ServerToolResult` has its id, and may come in a later reply, where the turn was paused or calls other tools.
    """


@dataclass(slots=True)
class MessageStop:
    """The reply is whole.

    Attributes:
        message: The assistant message, as it must be echoed.
        stop_reason: Why it ended; None where the peer gave no reason.
    """

    message: Message
    stop_reason: str | None

    def __repr__(self) -> str:
        return f"MessageStop(stop_reason={self.stop_reason!r:.80})"


@dataclass(slots=True)
class UnknownEvent:
    """A wire event that this version knows nothing of: a new event type, or a new kind of delta."""

    data: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"UnknownEvent(type={_kind(self.data)})"


InputEvent: TypeAlias = InputStart[InputT_co] | InputDelta[InputT_co] | InputStop[InputT_co] | ServerToolUse[InputT_co]
MessageEvent: TypeAlias = (
    MessageStart
    | BlockStart
    | TextDelta
    | ThinkingDelta
    | CitationDelta
    | BlockStop
    | ServerToolResult
    | InputEvent[InputT_co]
    | MessageStop
    | UnknownEvent
)
