"""`repaired`: LangChain messages in which each call has one result, right behind it, as providers ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

_NOT_EXECUTED: Final = "Not executed: the result of this call is missing from the conversation."
_ORPHAN: Final = "Result of a tool call that is no longer in this conversation:"


def repaired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with the smallest change after which a provider accepts their calls and results.

    A call without a result is answered as not executed. A result somewhere else is moved behind its call. One without a
    call becomes a message of the user, and one that comes a second time is left out. Messages are not changed.
    """
    called = {call["id"] for message in messages if isinstance(message, AIMessage) for call in _calls(message)}
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.tool_call_id, message)
    kept: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, AIMessage):
            kept.append(message)
            for call in _calls(message):
                missing = ToolMessage(_NOT_EXECUTED, tool_call_id=call["id"], name=call["name"], status="error")
                kept.append(results.get(call["id"], missing))
        elif not isinstance(message, ToolMessage):
            kept.append(message)
        elif message.tool_call_id not in called and message is results[message.tool_call_id]:
            content = [message.content] if isinstance(message.content, str) else message.content
            kept.append(HumanMessage([_ORPHAN, *content]))
    return kept


def _calls(message: AIMessage) -> list[Any]:
    return [*message.tool_calls, *message.invalid_tool_calls]
