"""`check_entries`: the types of the entries of a journal, by which they are checked when they are read.

They may come from a file that somebody else can change, or from a workflow engine. What is inside of messages and
blocks is checked where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..errors import JournalError
from ..tools._call import CallState

_Object: TypeAlias = dict[str, Any]
_Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
_Cost: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Waiting: TypeAlias = list[Annotated[tuple[_Object, str], Field(strict=False)]]  # JSON has lists only
_Damage: TypeAlias = Annotated[tuple[str, _Count, str], Field(strict=False)]


class _Input(TypedDict):
    index: int
    block: _Object
    raw: str
    outcome: str | None
    damage: _Damage | None
    echo_id: str
    invalid_key: str


class _ToolResponse(TypedDict):
    status: str
    text: str
    data: _Object
    error: NotRequired[Any]
    stats: NotRequired[_Object | None]
    context: NotRequired[_Object | None]
    reason: NotRequired[str | None]
    content: NotRequired[list[_Object]]


class _BegunCall(TypedDict):
    input: _Input
    turn: _Count
    state: Annotated[CallState, Field(strict=False)]
    idempotent: bool
    streams: bool
    in_history: bool
    rejected: str | None
    blocked_s: float
    repaired: _Object | None
    response: _ToolResponse | None


class _Call(_BegunCall):
    result: _Object | None


class _DoneCall(_BegunCall):
    result: _Object


class _Error(TypedDict):
    type: str
    text: str


class _Result(TypedDict):
    status: str
    message: _Object | None
    turns: _Count
    usage: _Object
    sub_usage: _Object
    container: str | _Object | None
    error: _Error | None
    output_outcome: str | None
    output_error: str | None
    output_text: str
    cost: NotRequired[_Cost]
    limit: NotRequired[str | None]


class _Budget(TypedDict):
    tokens: _Count
    cost: _Cost


class _State(TypedDict):
    turns: _Count
    continuations: _Count
    failed_turns: _Count
    waiting: _Waiting
    result: _Result
    budget: NotRequired[_Budget]
    inbox: NotRequired[_Count]
    carrier: NotRequired[dict[str, str]]


class _Block(TypedDict):
    block: _Object
    raw: NotRequired[str]
    is_closed: NotRequired[bool]
    is_damaged: NotRequired[bool]


class _Entry(TypedDict):
    turn: _Count
    inbox: NotRequired[_Count]
    notes: NotRequired[Any]


class _Begin(_Entry):
    kind: Literal["begin"]
    model: str
    max_tokens: int
    messages: list[_Object]
    options: _Object
    parent: NotRequired[_Object]


class _Said(_Entry):
    kind: Literal["said"]
    message: _Object
    when: str


class _Continues(_Entry):
    messages: NotRequired[list[_Object]]
    history: NotRequired[list[_Object]]


class _Request(_Continues):
    kind: Literal["request"]
    waiting: _Waiting
    carrier: dict[str, str]


class _Response(_Entry):
    kind: Literal["response"]
    blocks: list[_Block]
    message: _Object
    is_whole: NotRequired[bool]
    is_cut: NotRequired[bool]
    at: NotRequired[_Count]


class _Start(_Entry):
    kind: Literal["start"]
    id: str
    call: _Call


class _Done(_Entry):
    kind: Literal["result"]
    id: str
    call: _DoneCall
    sub_usage: NotRequired[_Object]


class _Asked(_Entry):
    kind: Literal["asked"]
    id: str


class _Approval(_Entry):
    kind: Literal["approval"]
    id: str
    decision: bool | str


class _Progress(_Entry):
    kind: Literal["progress"]
    id: str
    value: Any


class _Note(_Entry):
    kind: Literal["restart", "cancel", "cancel_call", "dropped"]


class _Settled(_Continues):
    kind: Literal["turn", "end"]
    calls: list[_Call]
    state: _State


_AnyEntry: TypeAlias = Annotated[
    _Begin | _Said | _Request | _Response | _Start | _Done | _Asked | _Approval | _Progress | _Note | _Settled,
    Field(discriminator="kind"),
]


def check_entries(entries: Sequence[Any], run_id: str) -> None:
    """Check that a run has written these entries.

    Raises:
        JournalError: There is none, the first one is no beginning, or one is of an unknown kind, lacks a field, or
            has a field of another type. The text has no contents.
    """
    if not entries:
        raise _damaged("it has no entries", run_id)
    for number, entry in enumerate(entries):
        where = f"entry {number + 1} of {len(entries)}"
        try:
            _adapter().validate_python(entry)
        except RecursionError:
            raise _damaged(f"{where} is nested too deep", run_id) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            # Without names or values that are not the library's own.
            if first["type"].startswith("union_tag"):
                fault = "is of an unknown kind"
            elif names := [str(step) for step in first["loc"][1:5]]:
                fault = f"is of another form ({first['type']} in {'.'.join(names)!r:.80})"
            else:
                fault = f"is no entry ({first['type']})"
            raise _damaged(f"{where} {fault}", run_id) from None
        if (number == 0) != (entry["kind"] == "begin"):
            raise _damaged(f"{where} is {'no' if number == 0 else 'another'} beginning", run_id)
        if entry["kind"] in ("request", "turn", "end") and not {"messages", "history"} & entry.keys():
            raise _damaged(f"{where} has no history", run_id)


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(_AnyEntry, config=ConfigDict(strict=True))


def _damaged(what: str, run_id: str) -> JournalError:
    return JournalError(f"it is damaged, or not written by a run: {what}", run_id=run_id)
