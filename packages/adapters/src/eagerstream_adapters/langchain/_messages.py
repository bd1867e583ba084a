"""Conversion of results between eagerstream and LangChain, and repair of responses before they are sent back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langgraph.types import Command

from eagerstream import Block, Outcome
from eagerstream.tools import ToolCall, ToolResponse

_STANDARD_CALLS: Final = ("tool_call", "tool_call_chunk", "invalid_tool_call")
"""Block types of calls in content of LangChain's standard form (`output_version="v1"`)."""

_CALLS: Final = ("tool_use", *_STANDARD_CALLS)

_NOT_EXECUTED: Final = "Not executed: the result of this call is missing from the conversation."
_ORPHAN: Final = "Result of a tool call that is no longer in this conversation:"


def tool_message(call: ToolCall) -> ToolMessage:
    """Return the answer to a call. Its `artifact` is the response's data as plain JSON, for checkpoints."""
    return ToolMessage(
        content=content_of(call),
        tool_call_id=call.id,
        name=call.name,
        status="error" if call.is_error else "success",
        artifact=artifact_of(call),
    )


def content_of(call: ToolCall) -> str | list[str | dict[str, Any]]:
    """Return the content of a call's result."""
    content: str | list[str | dict[str, Any]] = (call.result or {}).get("content", "")
    return content


def artifact_of(call: ToolCall) -> dict[str, Any] | None:
    """Return the response's data as plain JSON, or `None` if it is empty or only repeats the text."""
    data = (call.to_dict()["response"] or {}).get("data")
    return None if data == {"output": content_of(call)} else data or None


def response_of_message(message: ToolMessage) -> ToolResponse:
    """Return a LangChain answer as a response. Its artifact is the data, or `{"artifact": ...}` if it is not a dict."""
    artifact = message.artifact
    data = artifact if isinstance(artifact, dict) else {} if artifact is None else {"artifact": artifact}
    if isinstance(message.content, str):
        return ToolResponse.success(message.content, data)
    return ToolResponse.success("", data, content=[_api_block(dict(block)) for block in message.content_blocks])


def _api_block(block: Mapping[str, Any]) -> Block:
    """Return a block of LangChain's standard form as a block of the API."""
    match block:
        case {"type": "non_standard", "value": {"type": _} as value}:
            return dict(value)
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image" | "file" as kind, "base64": data, "mime_type": media_type}:
            source = {"type": "base64", "media_type": media_type, "data": data}
            return {"type": "image" if kind == "image" else "document", "source": source}
        case {"type": "image" | "file" as kind, "url": url}:
            return {"type": "image" if kind == "image" else "document", "source": {"type": "url", "url": url}}
        case _:
            return {"type": "text", "text": json.dumps(block, ensure_ascii=False, default=str)}


def identified(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return the response with an id for each call. If the server gave none, use the id under which the call ran."""
    known = {call["id"] for call in _all_calls(message)}
    given = [call for call in calls if call.id not in known]
    if not given:
        return message

    def named(told: Sequence[Any]) -> list[Any]:
        return [told_call if told_call["id"] else {**told_call, "id": take(told_call["name"])} for told_call in told]

    def take(name: str | None) -> str | None:
        found = next((call for call in given if call.name == name), None)
        if found is None:
            return None
        given.remove(found)
        return found.id

    update = {"tool_calls": named(message.tool_calls), "invalid_tool_calls": named(message.invalid_tool_calls)}
    return message.model_copy(update=update)


def handed_over(command: Command[Any], answers: Sequence[BaseMessage], messages_key: str) -> Command[Any]:
    """Return a command for the parent graph with the response inserted before the answer in its update.

    The tool made the command from a state that does not have the response yet, and this graph's state ends with it. Any
    other command is returned unchanged.

    Args:
        command: Command that a tool returned.
        answers: The response, and the answers to its other calls.
        messages_key: Key of the messages in the states.
    """
    reply, *_ = answers
    update = command.update
    if command.graph != Command.PARENT or not isinstance(reply, AIMessage) or not isinstance(update, Mapping):
        return command
    told = update.get(messages_key)
    ids = {call["id"] for call in reply.tool_calls}
    if not isinstance(told, list):
        return command
    if any(call["id"] in ids for message in told if isinstance(message, AIMessage) for call in message.tool_calls):
        return command
    for place, message in enumerate(told):
        if isinstance(message, ToolMessage) and message.tool_call_id in ids:
            return replace(command, update={**update, messages_key: [*told[:place], *answers, *told[place:]]})
    return command


def repaired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with the smallest change after which a provider accepts their calls and results.

    A call without a result is answered as not executed. A result somewhere else is moved behind its call. One without a
    call becomes a message of the user, and one that comes a second time is left out. Messages are not changed.
    """
    called = {call["id"] for message in messages if isinstance(message, AIMessage) for call in _all_calls(message)}
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.tool_call_id, message)
    kept: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, AIMessage):
            kept.append(message)
            for call in _all_calls(message):
                missing = ToolMessage(_NOT_EXECUTED, tool_call_id=call["id"], name=call["name"], status="error")
                kept.append(results.get(call["id"], missing))
        elif not isinstance(message, ToolMessage):
            kept.append(message)
        elif message.tool_call_id not in called and message is results[message.tool_call_id]:
            content = [message.content] if isinstance(message.content, str) else message.content
            kept.append(HumanMessage([_ORPHAN, *content]))
    return kept


def _all_calls(message: AIMessage) -> list[Any]:
    return [*message.tool_calls, *message.invalid_tool_calls]


def sendable(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return the response with each call as its outcome requires.

    LangChain repairs incomplete JSON, and treats a call that was cut off as valid. Here, calls with unusable input
    become `invalid_tool_calls`. If the content has their blocks, they are echoed as `{"INVALID_JSON": raw}`.
    """
    unusable = {call.id: call for call in calls if call.input.outcome is not Outcome.VALID}
    if not unusable:
        return message
    invalid = [
        invalid_tool_call(name=call.name, args=call.input.raw, id=call.id, error=str(call.input.error))
        for call in unusable.values()
    ]
    content = message.content
    if not isinstance(content, str):
        content = [
            _echoed(block, unusable[block["id"]]) if isinstance(block, dict) and block.get("id") in unusable else block
            for block in content
        ]
    kept = [call for call in message.tool_calls if call["id"] not in unusable]
    return message.model_copy(update={"content": content, "tool_calls": kept, "invalid_tool_calls": invalid})


def _echoed(block: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    if block.get("type") in _STANDARD_CALLS:
        kept = {name: value for name, value in block.items() if name not in ("error", "index")}
        arguments = call.input.wrapped if call.input.value is None else call.input.value
        return {**kept, "type": "tool_call", "name": call.name, "args": arguments}
    return {**{name: value for name, value in block.items() if name != "partial_json"}, "input": call.input.wrapped}


def cut(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return the rest of a response that broke off: these calls, and the content before the last of them."""
    ids = {call.id for call in calls}
    content = message.content
    if not isinstance(content, str):
        last = max((place for place, block in enumerate(content) if _field(block, "id") in ids), default=-1)
        by_id = {call.id: call for call in calls}
        # In standard content, the pieces become a call only if the response is complete.
        content = [
            _echoed(block, by_id[block["id"]])
            if isinstance(block, dict) and block.get("type") == "tool_call_chunk" and block.get("id") in by_id
            else block
            for block in content[: last + 1]
        ]
        content = [block for block in content if _field(block, "type") not in _CALLS or _field(block, "id") in ids]
    return message.model_copy(
        update={
            "content": content,
            "tool_calls": [call for call in message.tool_calls if call["id"] in ids],
            "invalid_tool_calls": [call for call in message.invalid_tool_calls if call["id"] in ids],
        }
    )


def _field(block: str | dict[str, Any], name: str) -> Any:
    return block.get(name) if isinstance(block, dict) else None


def messages_of(state: Any, messages_key: str) -> list[BaseMessage]:
    """Return the messages in the state of a graph: a list, or the value of a key or an attribute.

    Raises:
        KeyError, AttributeError: The state has no messages.
    """
    if isinstance(state, list):
        return state
    messages = state[messages_key] if isinstance(state, Mapping) else getattr(state, messages_key)
    return list(messages)
