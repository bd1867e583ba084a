"""`settle`: the one place that decides what of a reply stays in the history, however the reply ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..tools._call import ToolCall
from ..tools._content import to_json
from ..tools._results import CANCELLED_TEXT, NOT_RUN
from ..wire import Outcome, encodable
from ..wire._accumulator import TOOL_BLOCKS
from ..wire._echo import has_json_form
from ..wire._events import Block, Message
from ..wire._server_tools import SERVER_CALLS, is_server_result
from ._policy import Keeps


def settle(
    message: Message,
    calls: Sequence[ToolCall],
    keeps: Keeps = Keeps.WHOLE,
    *,
    server_calls: Collection[str] = (),
) -> list[Message]:
    """The messages that a turn adds to the history: the assistant's, and the results of its calls in one user message.

    Each client call that stays has exactly one result: the real one where it was answered, and an error that says why
    not where it was not. A turn of which nothing stays adds nothing.

    Args:
        message: The assistant message of the turn.
        calls: The client's calls of the turn, in the order of their blocks.
        keeps: What of the turn stays.
        server_calls: Ids of the calls in the history that the API runs: their results may come in this turn.
    """
    content = kept_blocks(message, calls, keeps, server_calls=server_calls)
    for call in calls:
        answer(call)
    if not content:
        return []
    history: list[Message] = [{"role": "assistant", "content": content}]
    echoed = {block["id"] for block in content if block["type"] == "tool_use"}
    results: list[Block] = []
    for call in calls:
        if call.input.echo_id in echoed and call.result is not None:
            call.in_history = True
            results.append(call.result)
    if results:
        history.append({"role": "user", "content": results})
    return history


def kept_blocks(
    message: Message, calls: Sequence[ToolCall], keeps: Keeps, *, server_calls: Collection[str] = ()
) -> list[Block]:
    """The blocks of a reply that stay in the history, in a form in which the API takes them back."""
    ran = any(call.ran for call in calls)
    if keeps is Keeps.NOTHING or (not ran and keeps in (Keeps.IF_RAN, Keeps.UP_TO_LAST_CALL)):
        return []
    content: Sequence[Block] = message["content"]
    if keeps is Keeps.TEXT and not ran:
        content = [block for block in content if block.get("type") == "text"]
    elif keeps is Keeps.UP_TO_CUT_CALL:
        content = _up_to_last_call(content, {call.input.echo_id for call in calls})
    elif keeps in (Keeps.UP_TO_LAST_CALL, Keeps.CUT):
        # A call that had begun on its streaming parameters stays although it was cut, and so does one that a guard cut.
        whole = (call for call in calls if call.ran or call.rejected or call.input.outcome is not Outcome.INCOMPLETE)
        content = _up_to_last_call(content, {call.input.echo_id for call in whole})
    content = _without_orphans(content, server_calls)
    return [encodable(block) for block in _sendable(content, message.get("stop_reason"))]


def answer(call: ToolCall) -> None:
    """See that a call has a result; the first answer counts: one that the tool gave stays."""
    if call.ran:
        call.refuse(CANCELLED_TEXT)
    elif call.input.outcome is Outcome.VALID:
        call.refuse(NOT_RUN)
    else:
        call.refuse()


def _up_to_last_call(content: Sequence[Block], ids: set[str]) -> list[Block]:
    """All of a reply that broke off up to the last of these calls, and no other call."""
    kept: list[Block] = []
    end = 0
    for block in content:
        if block.get("type") != "tool_use":
            kept.append(block)
        elif block["id"] in ids:
            kept.append(block)
            end = len(kept)
    return kept[:end]


def _without_orphans(content: Sequence[Block], server_calls: Collection[str]) -> list[Block]:
    """Leave out calls of the API's own that name none of its tools, and results whose call is not in the history."""
    known = {*server_calls}
    kept: list[Block] = []
    for block in content:
        kind = block.get("type")
        if kind in SERVER_CALLS and not block["name"]:
            continue
        if isinstance(kind, str) and kind.endswith("_tool_use"):  # of kinds that are not known here, too
            known.add(str(block.get("id")))
        if not is_server_result(block.get("type")) or block.get("tool_use_id") in known:
            kept.append(block)
    return kept


def _sendable(content: Sequence[Block], stop_reason: str | None) -> list[Block]:
    """The blocks that the API takes back.

    Left out are: text without a word; thinking at the end; calls of a model that gave up; and calls that the API was to
    run itself and did not, except where it will do so in the next reply.
    """
    content = [block for block in map(_mended, content) if block is not None]
    first = taken_over(content)
    has_calls = any(block["type"] == "tool_use" for block in content[first:])
    goes_on = stop_reason in ("pause_turn", "compaction") or (stop_reason == "tool_use" and has_calls)
    lost = set() if goes_on else without_result(content)
    kept = [
        block
        for place, block in enumerate(content)
        if not (
            _is_empty_text(block) or (place < first and block["type"] == "tool_use") or str(block.get("id")) in lost
        )
    ]
    drop_last_thinking(kept)
    return kept


def drop_last_thinking(content: list[Block]) -> None:
    """Take the thinking off the end of a message: the API refuses it there."""
    while content and content[-1].get("type") in ("thinking", "redacted_thinking"):
        content.pop()


def add_content(messages: list[Message], role: str, content: list[Block]) -> None:
    """Add content to the last message where that is of the same role, else a message of it; none where it is empty."""
    if not content:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    else:
        messages.append({"role": role, "content": content})


def taken_over(content: Sequence[Block]) -> int:
    """How many blocks do not count because another model took over: a `fallback` block says so, and is one of them."""
    kinds = [block.get("type") for block in content]
    return len(kinds) - kinds[::-1].index("fallback") if "fallback" in kinds else 0


def _mended(block: Block) -> Block | None:
    """A block that a peer may have got wrong, in a form that the API takes; None where there is none."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind == "tool_result":  # which only users give
        return None
    if kind in ("text", "thinking") and not isinstance(block.get(kind), str):
        return None
    if kind not in TOOL_BLOCKS and not has_json_form(block):
        block = {name: _with_json_form(value) for name, value in block.items()}
    if "cache_control" in block:  # marks are ours to make, and the API allows four
        block = {name: value for name, value in block.items() if name != "cache_control"}
    if kind == "thinking" and not isinstance(block.get("signature"), str):
        return {**block, "signature": ""}
    return block


def _with_json_form(value: Any) -> Any:
    """The value with null in place of infinities, or null if it has no JSON form even so."""
    if has_json_form(value):
        return value
    try:
        plain = to_json(value)
    except TypeError:
        return None
    return plain if has_json_form(plain) else None


def without_result(content: Sequence[Block]) -> set[object]:
    """Ids of the calls for the API to run that have no result; not those that code of a kept call goes on in."""
    results = {str(block.get("tool_use_id")) for block in content}
    callers = [block.get("caller") for block in content if block.get("type") == "tool_use"]
    needed = {str(caller.get("tool_id")) for caller in callers if isinstance(caller, dict)}
    calls = {block["id"] for block in content if block["type"] in SERVER_CALLS}
    return calls - results - needed


def _is_empty_text(block: Block) -> bool:
    # The API refuses to take back what it sent: a text block of nothing, or of white space.
    return block["type"] == "text" and (not block["text"] or block["text"].isspace())
