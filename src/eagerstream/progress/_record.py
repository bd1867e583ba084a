"""The record of a run: each event as a JSON object with a number and a time. What every observer in this room reads.

`recorder.py` makes records of the events of a run, `saved.py` keeps them in a file, `log.py` hands them to any number
of watchers. `record.schema.json` is their JSON Schema. A new field, or a new type of record, does not change the
version: readers leave out what they do not know.

In Python a record has the numbers themselves. In JSON (saved, or sent to a page or a client) those are marked that
readers with doubles would round, see `exact.py`. Version 1 had no marks.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ..wire import PatchOp

VERSION: Final = 2


class Fault(TypedDict):
    """What went wrong: the class of an error, and what it says."""

    type: str
    text: str


class _Head(TypedDict):
    """In every record.

    Attributes:
        v: The version of this format.
        seq: Rises from record to record, from 1.
        at_s: Seconds since the run began.
    """

    v: Literal[1, 2]
    seq: int
    at_s: float


class _Delta(_Head):
    """More of a block; `block` is a number that no other block of the run has, in no turn and no second attempt.

    Several may be merged into one: `seq` and `at_s` are of the first, `to_seq` and `to_s` of the last, and `count` is
    how many they were. Records of other blocks may lie between. `omitted_chars` is how much of a text is no longer
    kept: then there is none of it, and no patch.
    """

    block: int
    to_seq: NotRequired[int]
    to_s: NotRequired[float]
    count: NotRequired[int]
    omitted_chars: NotRequired[int]


class RunStartRecord(_Head):
    """The first record. `started_at` is RFC 3339, in UTC."""

    type: Literal["run_start"]
    run: str
    started_at: str
    name: str | None
    model: str | None


class TurnStartRecord(_Head):
    """A request is about to be sent."""

    type: Literal["turn_start"]
    turn: int


class MessageStartRecord(_Head):
    """A reply begins; where it is `restarted`, all blocks of the turn so far are void."""

    type: Literal["message_start"]
    id: str
    model: str
    restarted: bool


class BlockStartRecord(_Head):
    """A block opens that is not a tool call; `index` is its place in the message, `kind` the API's word for it."""

    type: Literal["block_start"]
    block: int
    index: int
    kind: str


class TextDeltaRecord(_Delta):
    """More text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDeltaRecord(_Delta):
    """More thinking."""

    type: Literal["thinking_delta"]
    thinking: str


class BlockStopRecord(_Head):
    """A block is whole; `content` is the block as the API has it, without the text or thinking that came as deltas."""

    type: Literal["block_stop"]
    block: int
    content: dict[str, Any]


class InputStartRecord(_Head):
    """A tool call opens.

    Attributes:
        id: The API's id of the call.
        name: The tool.
        kind: `tool_use`, `server_tool_use` or `mcp_tool_use`.
        input: The input, where it came whole at the beginning and no deltas follow; else None.
    """

    type: Literal["input_start"]
    block: int
    index: int
    id: str
    name: str
    kind: str
    input: dict[str, Any] | None


class InputDeltaRecord(_Delta):
    """More of a tool's input.

    Attributes:
        fragment: JSON text, as it was sent.
        patch: What it changes in the best-effort value, see `eagerstream.wire._patch`.
        finished: Fields of the input that it finished.
    """

    type: Literal["input_delta"]
    fragment: str
    patch: list[PatchOp]
    finished: list[str]


class InputStopRecord(_Head):
    """A tool's input is settled; `error` says what is wrong with one that is not valid."""

    type: Literal["input_stop"]
    block: int
    outcome: Literal["valid", "invalid", "incomplete"]
    error: str | None


class MessageStopRecord(_Head):
    """A reply is whole; `usage` as the API has it."""

    type: Literal["message_stop"]
    stop_reason: str | None
    usage: dict[str, Any]


class ToolStartRecord(_Head):
    """A tool begins to run: while its input is still written, where it has streaming parameters."""

    type: Literal["tool_start"]
    block: int


class ToolProgressRecord(_Head):
    """A running tool tells how far it is; what has no JSON form is told as text."""

    type: Literal["tool_progress"]
    block: int
    value: Any


class ApprovalStartRecord(_Head):
    """A person is asked whether a call may run."""

    type: Literal["approval_start"]
    block: int


class ApprovalStopRecord(_Head):
    """The answer, or that nobody waits for one any more."""

    type: Literal["approval_stop"]
    block: int
    approved: bool
    reason: str | None


class ToolStopRecord(_Head):
    """A call has its result; `content` is what the model is told. One that did not run has a result, too."""

    type: Literal["tool_stop"]
    block: int
    ran: bool
    is_error: bool
    content: str | list[dict[str, Any]]


class TurnStopRecord(_Head):
    """A turn is settled; `error` is what its reply broke off with, where the run goes on all the same."""

    type: Literal["turn_stop"]
    turn: int
    error: Fault | None


class RestartedRecord(_Head):
    """All blocks of the turn are void: the same request is sent once more, in `delay_s` seconds."""

    type: Literal["restarted"]
    turn: int
    reason: str
    delay_s: float
    error: Fault | None


class UnknownRecord(_Head):
    """An event of the API that this version knows nothing of."""

    type: Literal["unknown"]
    event: dict[str, Any]


class RunStopRecord(_Head):
    """The last record.

    Attributes:
        status: A value of `eagerstream.RunStatus`.
        turns: Number of complete responses.
        usage: Token counts, as the API names them.
        error: The error that ended the run, if one did.
        violations: Number of violations of the protocol by the peer. Older records do not have it.
    """

    type: Literal["run_stop"]
    status: str
    turns: int
    usage: dict[str, Any]
    error: Fault | None
    violations: NotRequired[int]


DeltaRecord: TypeAlias = TextDeltaRecord | ThinkingDeltaRecord | InputDeltaRecord
Record: TypeAlias = (
    RunStartRecord
    | TurnStartRecord
    | MessageStartRecord
    | BlockStartRecord
    | DeltaRecord
    | BlockStopRecord
    | InputStartRecord
    | InputStopRecord
    | MessageStopRecord
    | ToolStartRecord
    | ToolProgressRecord
    | ApprovalStartRecord
    | ApprovalStopRecord
    | ToolStopRecord
    | TurnStopRecord
    | RestartedRecord
    | UnknownRecord
    | RunStopRecord
)


@cache
def record_adapter() -> TypeAdapter[Record]:
    """Checks records, and knows their schema."""
    return TypeAdapter(Annotated[Record, Field(discriminator="type")])


def record_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a record."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of a run of eagerstream",
        "description": (
            'From version 2 on, an integer beyond 2^53 - 1 in a value is written as {"$number": "digits"}, so that no '
            "reader rounds it. A key of the data that is $number, or that with more $ in front, has one $ more."
        ),
        **record_adapter().json_schema(),
    }
