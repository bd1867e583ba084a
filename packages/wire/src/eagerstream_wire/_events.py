"""The events: those that the API sends (plain dicts, typed here), and those that users match on (small classes).

A wire event stays the `dict` that was sent, so fields and types that this library does not know pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NotRequired, TypeAlias, TypedDict

from ._assistant_message import AssistantMessage, Block
from ._server_tools import ServerToolErrorCode, error_code_of, is_error_result
from ._type_variables import InputT_co

if TYPE_CHECKING:
    from ._patch_types import Patch

# --- on the wire ------------------------------------------------------------------------------------------------------

WireEvent: TypeAlias = dict[str, Any]
"""Any event of the Messages API, as sent. The `TypedDict`s below describe those that eagerstream reads."""

InputFragment: TypeAlias = tuple[int, str]
"""A `content_block_delta` with an `input_json_delta`, as its block index and its text. Nearly every event of a stream
with tool calls is one, and without the two dicts around it, it costs half."""


class TextFragment(tuple[int, str]):
    """A `content_block_delta` with a `text_delta`, as its block index and its text."""

    # A type of its own: an input fragment is a plain tuple, and a tuple of any other form is refused.
    __slots__ = ()

    def __repr__(self) -> str:
        return f"TextFragment(index={self[0]}, text={_start_of(self[1])})"


Message: TypeAlias = dict[str, Any]

TEXT_FIELDS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""The field of the model's text in each kind of delta."""


class MessageStartData(TypedDict):
    """`message_start`: the message with empty `content`, which later events fill."""

    type: Literal["message_start"]
    message: Message


class ContentBlockStartData(TypedDict):
    """`content_block_start`: a block opens. The `input` of a tool call is usually a placeholder, `{}`."""

    type: Literal["content_block_start"]
    index: int
    content_block: Block


class InputJSONDelta(TypedDict):
    """A fragment of the JSON text of a tool's input."""

    type: Literal["input_json_delta"]
    partial_json: str


class ContentBlockDeltaData(TypedDict):
    """`content_block_delta`: more of an open block. There are more kinds of delta than the one typed here."""

    type: Literal["content_block_delta"]
    index: int
    delta: InputJSONDelta | dict[str, Any]


class ContentBlockStopData(TypedDict):
    """`content_block_stop`: a block is closed."""

    type: Literal["content_block_stop"]
    index: int


class MessageDeltaData(TypedDict):
    """`message_delta`: fields of the message that are known at its end. The usage counts are cumulative."""

    type: Literal["message_delta"]
    delta: dict[str, Any]
    usage: NotRequired[dict[str, Any]]


# --- for users --------------------------------------------------------------------------------------------------------

# The reprs show kinds and sizes, and never the model's text: that does not belong in a log.
#
# Classes of our own, not those of the anthropic package: importing it takes seconds, and an `InputDelta` needs the
# input that it belongs to, which no wire event has. They are not frozen, because one is made per fragment, and a
# frozen dataclass with slots takes 2.8 times as long to make (CPython 3.11).


_SHOWN_CHARS: Final = 60


def _kind(data: Mapping[str, Any]) -> str:
    return f"{data.get('type')!r:.80}"


def _start_of(text: str) -> str:
    return f"{text[:_SHOWN_CHARS]!r}{'...' if len(text) > _SHOWN_CHARS else ''}"


@dataclass(slots=True, repr=False)
class MessageStart:
    """The start of a response.

    Attributes:
        message: The assistant message as known so far: id, model, usage, no content yet.
        voided: The part of the message that came before the response restarted in its middle (a gateway retried). It
            does not count. None if nothing had come.
    """

    message: AssistantMessage
    voided: AssistantMessage | None = None

    @property
    def restarted(self) -> bool:
        """True if the response restarted in its middle: drop everything that came before."""
        return self.voided is not None

    def __repr__(self) -> str:
        return f"MessageStart(restarted={self.restarted})"


@dataclass(slots=True, repr=False)
class BlockStart:
    """The start of a block that is not a tool call: text, thinking, a server tool's result, a fallback, a new kind.

    Attributes:
        index: Block index.
        block: The block as received, before any delta.
    """

    index: int
    block: Block

    def __repr__(self) -> str:
        return f"BlockStart(index={self.index}, type={_kind(self.block)})"


@dataclass(slots=True)
class Ping:
    """The peer is alive: one or more `ping`s came. Readers make it on request, and a `MessageAssembler` makes none."""

    newest_of: ClassVar[str] = "ping"  # only the newest of those that wait for a consumer counts


@dataclass(slots=True, repr=False)
class TextDelta:
    """More text of an open block.

    Attributes:
        index: The index of the block.
        text: The new text.
    """

    index: int
    text: str

    def __repr__(self) -> str:
        return f"TextDelta(index={self.index}, text={_start_of(self.text)})"


@dataclass(slots=True, repr=False)
class ThinkingDelta:
    """More thinking of an open block.

    Attributes:
        index: Block index.
        thinking: The new text; empty if the API omits the thinking and only counts it.
        estimated_tokens: Estimate of the tokens that the block has grown by. None unless the request has the beta
            `thinking-token-count-2026-05-13`. Sum them up for a progress bar; they are not billed counts.
    """

    index: int
    thinking: str
    estimated_tokens: int | None = None

    def __repr__(self) -> str:
        return f"ThinkingDelta(index={self.index}, {len(self.thinking)} chars)"


@dataclass(slots=True, repr=False)
class CitationDelta:
    """A citation of an open text block.

    Attributes:
        index: Block index.
        citation: The citation as received, for example `{"type": "char_location", "cited_text": ..., ...}`.
    """

    index: int
    citation: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"CitationDelta(index={self.index}, type={_kind(self.citation)})"


@dataclass(slots=True, repr=False)
class BlockStop:
    """The end of a block that is not a tool call.

    Attributes:
        index: Block index.
        block: The complete block, as it must be echoed.
    """

    index: int
    block: Block

    def __repr__(self) -> str:
        return f"BlockStop(index={self.index}, type={_kind(self.block)})"


@dataclass(slots=True, repr=False)
class ServerToolResult(BlockStop):
    """The result of a tool that the API ran, or that it had an MCP server run. The client answers nothing.

    It is the `BlockStop` of its block. If you match on both classes, match on this one first.

    Attributes:
        index: Block index.
        block: The complete block, as it must be echoed.
        call: The block of the call (`{"type": "server_tool_use", "id": ..., "name": ..., "input": ...}`), possibly from
            an earlier response. None if no such call is known.
    """

    call: Mapping[str, Any] | None

    @property
    def tool_use_id(self) -> str:
        """The id of the call; empty if the peer gave none."""
        id = self.block.get("tool_use_id")
        return id if isinstance(id, str) else ""

    @property
    def is_error(self) -> bool:
        """True if the call failed."""
        return is_error_result(self.block)

    @property
    def error_code(self) -> ServerToolErrorCode | str | None:
        """The API's name of the failure, which may be one that this library does not know.

        None if the call succeeded, and for MCP servers, whose `block["content"]` has a text of their own.
        """
        return error_code_of(self.block)

    def __repr__(self) -> str:
        return f"ServerToolResult(index={self.index}, type={_kind(self.block)}, is_error={self.is_error})"


@dataclass(slots=True)
class InputStart(Generic[InputT_co]):
    """The start of a tool call. Its input follows.

    Attributes:
        input: The input, still empty.
    """

    input: InputT_co


@dataclass(slots=True, repr=False)
class InputDelta(Generic[InputT_co]):
    """A new fragment of a tool's input.

    Attributes:
        input: The input, with everything written so far. `input.partial` is its best-effort value.
        fragment: The new JSON text, never empty.
        patch: The operations that repeat the fragment's changes in a copy of `input.partial`; see `Patch`. None unless
            changes were requested. Fragments that came together may leave their changes to the last of them.
        finished: The names of the fields that the fragment finished, if changes were requested. They come with `patch`.
    """

    input: InputT_co
    fragment: str
    patch: Patch | None = None
    finished: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"InputDelta({self.input!r}, {len(self.fragment)} chars)"


@dataclass(slots=True)
class InputStop(Generic[InputT_co]):
    """The end of a tool's input. `input.outcome` is its result.

    Attributes:
        input: The settled input.
    """

    input: InputT_co


@dataclass(slots=True)
class ServerToolUse(InputStop[InputT_co]):
    """A call of a tool that the API runs, or that it has an MCP server run. `input` holds its arguments.

    It is the `InputStop` of its input. If you match on both classes, match on this one first. A truncated call has
    none. Its `ServerToolResult` has its id, and may come in a later response: if the turn was paused or calls other
    tools.

    Attributes:
        input: The settled input.
    """


@dataclass(slots=True, repr=False)
class MessageStop:
    """The end of a complete response.

    Attributes:
        message: The assistant message, as it must be echoed.
        stop_reason: The reason for the end; None if the peer gave none.
    """

    message: AssistantMessage
    stop_reason: str | None

    def __repr__(self) -> str:
        return f"MessageStop(stop_reason={self.stop_reason!r:.80})"


@dataclass(slots=True, repr=False)
class UnknownEvent:
    """A wire event that this version does not know: a new event type, or a new kind of delta.

    Attributes:
        data: The event as it came.
    """

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
