"""`settle`: the one place that decides what of a turn stays in the history, however the turn ended."""

from __future__ import annotations

from collections.abc import Sequence

from ..tools.executor import ToolCall
from ..tools.results import NOT_RUN, invalid_result, tool_result
from ..wire import Outcome, encodable
from ..wire.events import Block, Message


def settle(message: Message, calls: Sequence[ToolCall]) -> list[Message]:
    """The messages that a turn adds to the history: the assistant's, and the results of its calls in one user message.

    Each client call of the turn has exactly one result: the real one where it was answered, and an error that says
    why not where it was not. A turn without content adds nothing, nor does one that the API asks to discard.

    Args:
        message: The assistant message of the turn.
        calls: The client's calls of the turn, in the order of their blocks.
    """
    if message.get("stop_reason") == "refusal":
        return []  # its partial output is to be discarded; what ran is reported in RunResult.calls
    content = [encodable(block) for block in _sendable(message["content"])]
    if not content:
        return []
    history: list[Message] = [{"role": "assistant", "content": content}]
    echoed = {block.get("id") for block in content if block.get("type") == "tool_use"}
    results: list[Block] = []
    for call in calls:
        if call.id in echoed:
            call.answer(_result(call))  # the first answer counts: one that the tool gave stays
            results.append(_result(call))
    if results:
        history.append({"role": "user", "content": results})
    return history


def _sendable(content: Sequence[Block]) -> list[Block]:
    """The blocks that the API takes back: no empty text, no thinking at the end, no calls of a model that gave up."""
    kinds = [block.get("type") for block in content]
    # A `fallback` block says that another model took over: calls before it may be cut off, and do not count.
    taken_over = len(kinds) - kinds[::-1].index("fallback") if "fallback" in kinds else 0
    kept = [
        block
        for place, block in enumerate(content)
        if not (_is_empty_text(block) or (place < taken_over and block.get("type") == "tool_use"))
    ]
    while kept and kept[-1].get("type") in ("thinking", "redacted_thinking"):
        kept.pop()
    return kept


def _is_empty_text(block: Block) -> bool:
    # The API refuses to take back what it sent: an empty text block.
    return block.get("type") == "text" and not block.get("text")


def _result(call: ToolCall) -> Block:
    if call.result is not None:
        return call.result
    match call.input.outcome:
        case Outcome.INVALID | Outcome.INCOMPLETE | None:
            return invalid_result(call.input)
        case Outcome.VALID:
            return tool_result(call.id, NOT_RUN, is_error=True)
