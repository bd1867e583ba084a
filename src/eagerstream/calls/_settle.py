"""`settle`: the one place that decides which part of a response stays in the history, for every way of ending.

The API refuses a request if one block of its history is wrong, and every later request of the conversation with it. So
nothing that could be refused enters the history. `test_settle.py` cuts responses anywhere and checks each history.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from eagerstream_wire import Outcome
from eagerstream_wire._assistant_message import AssistantMessage, Block, blocks_of
from eagerstream_wire._block_rules import THINKING, ends_in_white_space, is_empty_text
from eagerstream_wire._echo import has_json_form
from eagerstream_wire._events import Message
from eagerstream_wire._message_inputs import TOOL_BLOCKS
from eagerstream_wire._server_tools import SERVER_CALLS, is_server_result
from eagerstream_wire._stop_reasons import PAUSES, standard_stop_reason
from eagerstream_wire._values import encodable

from .._support.json_values import to_json
from .._support.terms import NOT_RUN
from ..tools._call import ToolCall
from ._policy import Keeps


def settle(
    message: AssistantMessage,
    calls: Sequence[ToolCall],
    keeps: Keeps = Keeps.WHOLE,
    *,
    server_calls: Collection[str] = (),
) -> list[Message]:
    """Return the messages of a turn for the history: the assistant's, and one user message with the results.

    Each client call that stays has exactly one result: the real one if it was answered, otherwise an error that says
    why not. A turn of which nothing stays adds nothing.

    Args:
        message: The assistant message of the turn.
        calls: The client's calls of the turn, in the order of their blocks.
        keeps: The part of the turn that stays.
        server_calls: Ids of the calls in the history that the API runs: their results may come in this turn.
    """
    content = kept_blocks(message, calls, keeps, server_calls=server_calls)
    # All calls are answered, not only those that stay. `RunResult.calls` has them all, and somebody may wait for
    # `answered` (test_every_call_has_a_result).
    for call in calls:
        answer(call)
    if not content:
        # No message at all: the API refuses an assistant message without content (test_nothing_to_keep).
        return []
    history: list[Message] = [{"role": "assistant", "content": content}]
    # By the blocks that stay: the API refuses a result without its call, as it does a call without its result.
    echoed = {block["id"] for block in content if block["type"] == "tool_use"}
    # In call order. The API accepts any order, but this one gives the same request for the same response, in `run` and
    # step by step. In one message, as the API's guide asks: separate ones make the model call less in parallel.
    results: list[Block] = []
    for call in calls:
        if call.input.echo_id in echoed and call.result is not None:
            call.in_history = True
            results.append(call.result)
    if results:
        history.append({"role": "user", "content": results})
    return history


def kept_blocks(
    message: AssistantMessage, calls: Sequence[ToolCall], keeps: Keeps, *, server_calls: Collection[str] = ()
) -> list[Block]:
    """Return the blocks of a response that stay in the history, in a form that the API accepts back."""
    # `ran`, not `result`: a call that was answered without its tool had no effect, and can be made again.
    ran = any(call.ran for call in calls)
    if keeps is Keeps.NOTHING or (not ran and keeps in (Keeps.IF_RAN, Keeps.UP_TO_LAST_CALL)):
        return []
    content: Sequence[Block] = blocks_of(message)
    if keeps is Keeps.TEXT and not ran:
        # Calls would need results, which no full window has room for, and the thinking may have led to just these
        # calls.
        content = [block for block in content if block.get("type") == "text"]
    elif keeps is Keeps.UP_TO_CUT_CALL:
        content = _up_to_last_call(content, {call.input.echo_id for call in calls})
    elif keeps in (Keeps.UP_TO_LAST_CALL, Keeps.CUT, Keeps.AS_IT_CAME):
        # A call that had begun on its streaming parameters stays although it was cut, and so does one that a guard cut.
        whole = (
            call for call in calls if call.ran or call.input.interrupted or call.input.outcome is not Outcome.INCOMPLETE
        )
        ids = {call.input.echo_id for call in whole}
        if keeps is Keeps.AS_IT_CAME:
            content = [block for block in content if block.get("type") != "tool_use" or block["id"] in ids]
        else:
            content = _up_to_last_call(content, ids)
    # After the cut, not before: the call of a server result may have been cut off. `encodable` comes last, as the
    # repairs look at the blocks as received. It replaces lone surrogates, which UTF-8 cannot carry, in all that is
    # left.
    kept = _sendable(_without_orphans(content, server_calls), message.get("stop_reason"))
    for place, block in enumerate(kept):
        if block.get("type") not in TOOL_BLOCKS:
            kept[place] = encodable(block)
            continue
        # The input of a call was mended when it was settled.
        rest = {name: value for name, value in block.items() if name != "input"}
        mended = encodable(rest)
        if mended is not rest:
            kept[place] = {**mended, "input": block["input"]}
    return kept


def answer(call: ToolCall) -> None:
    """Answer a call that has no result. The first answer of a call counts, so an answer of its tool stays."""
    # Three texts, because the model should react differently: check the effects of a cancelled call, repeat a call that
    # never ran, or correct an input. `NOT_RUN` for a bad input would hide that the input was the problem.
    if call.ran:
        call.refuse_unfinished()
    elif call.input.outcome is Outcome.VALID:
        call.refuse(NOT_RUN)
    else:
        call.refuse()


def _up_to_last_call(content: Sequence[Block], ids: set[str]) -> list[Block]:
    """Return the blocks of a response up to the last of these calls, without the other calls."""
    # Text behind the last call is dropped, too: it may stop in half a word, and the model continues from the results.
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
    # An empty name is the repair of a name that no tool of the API can have. A stand-in would not help, because the API
    # looks for that tool in each later request. The result of the call is dropped with it.
    known = {*server_calls}
    kept: list[Block] = []
    for block in content:
        kind = block.get("type")
        if kind in SERVER_CALLS and not block["name"]:
            continue
        if isinstance(kind, str) and kind.endswith("_tool_use"):
            # By the form of the type: the API may add kinds of server tools, and their results must stay
            # (test_results_of_server_tools_that_are_not_known_here_stay).
            known.add(str(block.get("id")))
        if not is_server_result(block.get("type")) or block.get("tool_use_id") in known:
            kept.append(block)
    return kept


def _sendable(content: Sequence[Block], stop_reason: str | None) -> list[Block]:
    """Return the blocks that the API accepts back.

    Left out are: text without a word; thinking at the end; calls of a model that gave up; and calls that the API was to
    run itself and did not, unless it will run them in the next response.
    """
    content = [block for block in map(_mended, content) if block is not None]
    first = taken_over(content)
    # The API accepts a server call without a result in two cases: in a paused response, and in a turn that also calls
    # client tools. The next response then begins with that result. In any other turn the API refuses the call.
    has_calls = any(block["type"] == "tool_use" for block in content[first:])
    reason = standard_stop_reason(stop_reason) if isinstance(stop_reason, str) else None
    goes_on = reason in PAUSES or (reason in ("tool_use", "end_turn") and has_calls)
    lost = set() if goes_on else without_result(content)
    kept = [
        block
        for place, block in enumerate(content)
        if not (is_empty_text(block) or (place < first and block["type"] == "tool_use") or str(block.get("id")) in lost)
    ]
    # Last, because the blocks after the thinking may just have been left out.
    drop_last_thinking(kept)
    if reason in PAUSES and kept and ends_in_white_space(kept[-1]):
        # It is sent back as the last message, and the API refuses white space there.
        kept[-1] = {**kept[-1], "text": kept[-1]["text"].rstrip()}
    return kept


def drop_last_thinking(content: list[Block]) -> None:
    """Remove the thinking from the end of a message: the API refuses it there."""
    # Nowhere else: thinking before other blocks must be sent back unchanged, with its signature, or the API answers
    # 400.
    while content and content[-1].get("type") in THINKING:
        content.pop()


def add_content(messages: list[Message], role: str, content: list[Block]) -> None:
    """Add content to the last message if that has the same role, otherwise as a new message; do nothing if empty."""
    if not content:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    else:
        messages.append({"role": role, "content": content})


def taken_over(content: Sequence[Block]) -> int:
    """Count the blocks up to the last `fallback` block: another model took over there, and they do not count."""
    # The last one, as models may take over more than once. The API's guide: drop client calls before it, because the
    # model that gave up may have been cut off in one of them.
    kinds = [block.get("type") for block in content]
    return len(kinds) - kinds[::-1].index("fallback") if "fallback" in kinds else 0


def _mended(block: Block) -> Block | None:
    """Return a block in a form that the API accepts, whatever a peer made of it; None if there is no such form."""
    # Blocks of unknown types pass, because the API sent them and may accept them. Only known faults are repaired, and a
    # block is left out only if no repair is possible: later blocks may refer to it.
    kind = block.get("type")
    if not isinstance(kind, str) or kind == "tool_result":  # only users give results
        return None
    if kind in ("text", "thinking") and not isinstance(block.get(kind), str):
        return None
    # Calls stay as they are: they were repaired when they opened, and their inputs are echoed by outcome. Other blocks
    # may be large, so they are checked here, once a turn, and not when they open: that took 1.58 times as long for a
    # recorded response, and this takes 1.15 times.
    if kind not in TOOL_BLOCKS and not has_json_form(block):
        block = {name: _with_json_form(value) for name, value in block.items()}
    if "cache_control" in block:  # marks are ours to make, and the API allows four
        block = {name: value for name, value in block.items() if name != "cache_control"}
    if kind == "thinking" and not isinstance(block.get("signature"), str):
        # The field is required. The API sends it empty in some blocks, and takes that back.
        return {**block, "signature": ""}
    return block


def _with_json_form(value: Any) -> Any:
    """Return the value with null in place of infinities, or null if it has no JSON form even so."""
    if has_json_form(value):
        return value
    try:
        plain = to_json(value)
    except TypeError:
        return None
    return plain if has_json_form(plain) else None


def without_result(content: Sequence[Block]) -> set[object]:
    """Return the ids of calls for the API to run that have no result, unless their code made one of the calls."""
    # Code that called a tool waits for that result, so its own call cannot have one yet. Without the block of the code,
    # the `caller` of the call would name nothing (test_code_that_waits_for_a_call_stays).
    results = {str(block.get("tool_use_id")) for block in content}
    callers = [block.get("caller") for block in content if block.get("type") == "tool_use"]
    needed = {str(caller.get("tool_id")) for caller in callers if isinstance(caller, dict)}
    calls = {block["id"] for block in content if block["type"] in SERVER_CALLS}
    return calls - results - needed
