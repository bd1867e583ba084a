"""The records of a run: each event as a JSON object with a number and a time. All observers in this room read them.

`_recorder.py` makes records from the events of a run, `_saved.py` keeps them in a file, and `_log.py` gives them to any
number of watchers. `record.schema.json` is their JSON Schema. A new field or a new type of record does not change the
version: readers ignore unknown ones.

In Python, records contain the numbers themselves. In JSON (saved, or sent to a page or a client), numbers that a reader
with doubles would round are marked, see `_exact.py`. Version 1 had no marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, cast

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from eagerstream import PatchOp

VERSION: Final = 2


class Fault(TypedDict):
    """An error.

    Attributes:
        type: The class of the error.
        text: The message of the error.
    """

    type: str
    text: str


class _Head(TypedDict):
    """The fields of every record.

    Attributes:
        v: The version of this format.
        seq: The number of the record. It rises from record to record, from 1.
        at_s: Seconds since the start of the run.
    """

    v: Literal[1, 2]
    seq: int
    at_s: float


class _Delta(_Head):
    """More content of a block: one fragment, or all that came together.

    Several deltas may be merged into one. Records of other blocks may then lie between `seq` and `to_seq`.

    Attributes:
        block: The number of the block. No other block of the run has it, in any turn or second attempt.
        to_seq: `seq` of the last merged delta. `seq` itself is the number of the first.
        to_s: `at_s` of the last merged delta. `at_s` itself is the time of the first.
        count: Number of fragments, if they are several.
        omitted_chars: Number of characters that are no longer kept. The record then has no text and no patch.
    """

    block: int
    to_seq: NotRequired[int]
    to_s: NotRequired[float]
    count: NotRequired[int]
    omitted_chars: NotRequired[int]


class RunStartRecord(_Head):
    """The first record.

    Attributes:
        run: The id of the run.
        started_at: The start of the run, RFC 3339, in UTC.
        name: A name for people, or null.
        model: The model that the run asks for, or null.
        resumed_after: If the run was resumed from a journal: number of turns of earlier processes. Their records have
            the same id of the run. The turns continue to count.
    """

    type: Literal["run_start"]
    run: str
    started_at: str
    name: str | None
    model: str | None
    resumed_after: NotRequired[int]


class RunResumedRecord(_Head):
    """Another process continues the run, or the same one later. Whatever was under way before is cut.

    The times of the records leave the gap out. A later record may be about the same turn again.

    Attributes:
        started_at: The time at which the run continues, RFC 3339, in UTC.
        gap_s: Seconds since the last record before, by the clocks of both processes; null if these contradict.
        resumed_after: Number of turns that had been settled, if it was known.
    """

    type: Literal["run_resumed"]
    started_at: str
    gap_s: float | None
    resumed_after: NotRequired[int]


class TurnStartRecord(_Head):
    """A request is about to be sent.

    Attributes:
        turn: The number of the turn, from 1.
    """

    type: Literal["turn_start"]
    turn: int


class MessageStartRecord(_Head):
    """A response starts.

    Attributes:
        id: The API's id of the message.
        model: The model that responds.
        restarted: If true, all blocks of the turn so far are void.
    """

    type: Literal["message_start"]
    id: str
    model: str
    restarted: bool


class BlockStartRecord(_Head):
    """A block starts that is not a tool call.

    Attributes:
        block: The number of the block in the run.
        index: The index of the block in the message.
        kind: The API's type of the block.
    """

    type: Literal["block_start"]
    block: int
    index: int
    kind: str


class TextDeltaRecord(_Delta):
    """More text.

    Attributes:
        block: The number of the block in the run.
        text: The new text.
    """

    type: Literal["text_delta"]
    text: str


class ThinkingDeltaRecord(_Delta):
    """More thinking.

    Attributes:
        block: The number of the block in the run.
        thinking: The new thinking.
    """

    type: Literal["thinking_delta"]
    thinking: str


class BlockStopRecord(_Head):
    """A block is complete.

    Attributes:
        block: The number of the block in the run.
        content: The block in the API's form, without the text or thinking that came as deltas.
    """

    type: Literal["block_stop"]
    block: int
    content: dict[str, Any]


class InputStartRecord(_Head):
    """A tool call starts.

    Attributes:
        block: The number of the block in the run.
        index: The index of the block in the message.
        id: The API's id of the call.
        name: The tool.
        kind: `tool_use`, `server_tool_use` or `mcp_tool_use`.
        input: The complete input, if it came at the start and no deltas follow; else null.
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
        block: The number of the block in the run.
        fragment: JSON text, as it was sent, of one fragment or several.
        patch: The changes to the best-effort value, to be applied in order. See `eagerstream_wire.PatchOp`.
        finished: Names of the input's fields that were finished.
    """

    type: Literal["input_delta"]
    fragment: str
    patch: list[PatchOp]
    finished: list[str]


class InputStopRecord(_Head):
    """The input of a tool call ends.

    Attributes:
        block: The number of the block in the run.
        outcome: `incomplete` if the input was cut.
        error: The reason why the input is not valid, or null.
    """

    type: Literal["input_stop"]
    block: int
    outcome: Literal["valid", "invalid", "incomplete"]
    error: str | None


class EditContext(TypedDict):
    """The text around an edit in its file.

    Attributes:
        before: The lines before those that change, each with its end.
        head: The part of the first line that changes which is before the edit.
        tail: The part of the last line that changes which is behind the edit. Null if there is no such line: complete
            lines are inserted, or the edit is at the end of the file.
        after: The lines after those that change, each with its end.
    """

    before: str
    head: str
    tail: str | None
    after: str


class EditRecord(_Head):
    """A call edits a text file, as its tool says while the input is written. A call may have several.

    The texts themselves are in the input. Pointers are JSON pointers (RFC 6901) in it.

    Attributes:
        block: The number of the call's block in the run.
        path: The file, as people may see it. Of a very long one, the end.
        new: The pointer of the new text.
        old: The pointer of the text that is replaced, or null if there is none.
        line: The number of the first line of the context, from 1. Null if the place in the file is not known.
        replaced_lines: The number of lines of the file if the new text replaces all of it; else null.
        context: The text around the edit, or null if the place is not known or the text is no longer kept.
    """

    type: Literal["edit"]
    block: int
    path: str
    new: str
    old: str | None
    line: int | None
    replaced_lines: int | None
    context: EditContext | None


class MessageStopRecord(_Head):
    """A response is complete.

    Attributes:
        stop_reason: The API's stop reason, or null.
        usage: Token counts in the API's form.
    """

    type: Literal["message_stop"]
    stop_reason: str | None
    usage: dict[str, Any]


class ToolStartRecord(_Head):
    """A tool starts to run. A tool with streaming parameters starts before its input ends.

    Attributes:
        block: The number of the call's block in the run.
    """

    type: Literal["tool_start"]
    block: int


class ToolProgressRecord(_Head):
    """A running tool reports progress.

    Attributes:
        block: The number of the call's block in the run.
        value: The reported value. A value without a JSON form is reported as text.
    """

    type: Literal["tool_progress"]
    block: int
    value: Any


class SubRunStartRecord(_Head):
    """The tool of a call starts a run of its own.

    Attributes:
        block: The number of the call's block in the run.
        run: The id of the new run, which its own records have, too.
        model: The model that the new run asks for.
    """

    type: Literal["sub_run_start"]
    block: int
    run: str
    model: str


class SubRunStopRecord(_Head):
    """A run that a tool started has ended, or its call has ended before it.

    Attributes:
        block: The number of the call's block in the run.
        run: The id of the run that the tool started.
        status: A value of `eagerstream.RunStatus`; `running` if the call ended first.
        turns: Number of its complete responses.
        usage: Its token counts in the API's form. Those in the `run_stop` of this run include them.
    """

    type: Literal["sub_run_stop"]
    block: int
    run: str
    status: str
    turns: int
    usage: dict[str, Any]


class ApprovalStartRecord(_Head):
    """A person is asked whether a call may run.

    Attributes:
        block: The number of the call's block in the run.
    """

    type: Literal["approval_start"]
    block: int


class ApprovalStopRecord(_Head):
    """The person decided, or the call no longer waits for a decision.

    Attributes:
        block: The number of the call's block in the run.
        approved: True if the call may run.
        reason: The reason that was given, or null.
    """

    type: Literal["approval_stop"]
    block: int
    approved: bool
    reason: str | None


class ToolStopRecord(_Head):
    """A call has its result. A call that did not run has a result too.

    Attributes:
        block: The number of the call's block in the run.
        ran: True if the tool ran.
        is_error: True if the result reports an error.
        content: The result that the model gets: text, or content blocks.
        repaired: True if the input was not JSON, and the tool got a repaired one; absent otherwise.
        cancelled: True if the tool ran and was cancelled, or took too long; absent otherwise.
        data: The structured data of the result, for programs; absent if there is none, or if the log has no such data.
    """

    type: Literal["tool_stop"]
    block: int
    ran: bool
    is_error: bool
    content: str | list[dict[str, Any]]
    repaired: NotRequired[bool]
    cancelled: NotRequired[bool]
    data: NotRequired[dict[str, Any]]


class TurnStopRecord(_Head):
    """A turn ends.

    Attributes:
        turn: The number of the turn, from 1.
        error: The error that interrupted the response, if the run continues after it; else null.
    """

    type: Literal["turn_stop"]
    turn: int
    error: Fault | None


class RestartedRecord(_Head):
    """All blocks of the turn are void. The same request is sent again.

    Attributes:
        turn: The number of the turn, from 1.
        reason: The reason for the restart.
        delay_s: Seconds until the request is sent again.
        error: The error that led to the restart, or null.
    """

    type: Literal["restarted"]
    turn: int
    reason: str
    delay_s: float
    error: Fault | None


class PingRecord(_Head):
    """The API says that it is alive while the model writes nothing; at most one each second is recorded."""

    type: Literal["ping"]


class UnknownRecord(_Head):
    """An event of the API that this version does not know.

    Attributes:
        event: The event in the API's form.
    """

    type: Literal["unknown"]
    event: dict[str, Any]


class RunStopRecord(_Head):
    """The last record.

    Attributes:
        status: A value of `eagerstream.RunStatus`.
        turns: Number of complete responses.
        usage: Token counts in the API's form.
        error: The error that ended the run, or null.
        violations: Number of violations of the protocol by the peer. Older records do not have it.
        limit: The option whose bound has ended the run: `"max_turns"`, `"max_cost"`; absent if none has.
        cost: The cost of the usage in the currency of the program; absent if the run does not count it.
    """

    type: Literal["run_stop"]
    status: str
    turns: int
    usage: dict[str, Any]
    error: Fault | None
    violations: NotRequired[int]
    limit: NotRequired[str]
    cost: NotRequired[float]


DeltaRecord: TypeAlias = TextDeltaRecord | ThinkingDeltaRecord | InputDeltaRecord
Record: TypeAlias = (
    RunStartRecord
    | RunResumedRecord
    | TurnStartRecord
    | MessageStartRecord
    | BlockStartRecord
    | DeltaRecord
    | BlockStopRecord
    | InputStartRecord
    | InputStopRecord
    | EditRecord
    | MessageStopRecord
    | ToolStartRecord
    | ToolProgressRecord
    | SubRunStartRecord
    | SubRunStopRecord
    | ApprovalStartRecord
    | ApprovalStopRecord
    | ToolStopRecord
    | TurnStopRecord
    | RestartedRecord
    | PingRecord
    | UnknownRecord
    | RunStopRecord
)


_CONTENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "text_delta": {"text": ""},
    "thinking_delta": {"thinking": ""},
    "tool_progress": {"value": None},
    "edit": {"path": "", "context": None},
    "unknown": {"event": {}},
}


def without_contents(record: Record) -> Record:
    """Return a record without what the model, a tool or an unknown event says. Summaries of calls are left in it."""
    found: dict[str, Any] = {**record, **_CONTENTS.get(record["type"], {})}
    if record["type"] == "block_stop":
        kept = ("type", "tool_use_id", "is_error")
        found["content"] = {name: record["content"][name] for name in kept if name in record["content"]}
    elif record["type"] == "input_stop":
        found["error"] = None
    return cast("Record", found)


@cache
def record_adapter() -> TypeAdapter[Record]:
    """Return the adapter that validates records and knows their schema."""
    return TypeAdapter(Annotated[Record, Field(discriminator="type")])


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a record."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of a run of eagerstream",
        "description": (
            'From version 2 on, an integer beyond 2^53 - 1 in a value is written as {"$number": "digits"}, so that no '
            "reader rounds it. A key of the data that is $number, or that with more $ in front, has one $ more."
        ),
        **record_adapter().json_schema(),
    }
