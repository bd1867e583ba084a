"""The bodies of the endpoints: any bytes are a request that can be worked with, or are refused with a status."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from eagerstream._support.serving.access import Refused
from eagerstream.errors import UsageError
from eagerstream_progress._request_body import json_object, parse_body
from eagerstream_progress.agui import frontend_tools, messages_of
from eagerstream_progress.agui._app import run_input
from eagerstream_progress.agui._history import system_of
from eagerstream_progress.vercel._app import _chat_request
from eagerstream_wire import validate_history

from .choices import Choices
from .cost import check_cost, is_sampled

_LEAVES: Final[tuple[Any, ...]] = (
    "", "a", " ", "1", "\ud800", "é" * 40, None, True, False, 0, -1, 1.5, 10**400, [], {}, "user", "assistant", "system",
    "developer", "tool", "reasoning", "activity", "text", "file", "image", "document", "step-start", "data-restarted",
    "data-approval", "dynamic-tool", "tool-a", "function", "input-streaming", "input-available", "output-available",
    "output-error", "output-denied", "data:text/plain,a", "data:image/png;base64,AAAA", "data:application/pdf;base64,=",
    "https://a/b", "image/png", "text/plain", "application/pdf", "c1", "{}", '{"a": 1}', "[", "submit-message",
    "object", "#/a", "web_search_tool_result", "redacted_thinking", "binary", "url", "data",
)  # fmt: skip
_NAMES: Final = (
    "id", "role", "content", "parts", "type", "text", "messages", "tools", "state", "context", "threadId", "runId",
    "forwardedProps", "trigger", "messageId", "toolCalls", "toolCallId", "function", "arguments", "name", "parameters",
    "description", "input", "rawInput", "output", "errorText", "approval", "reason", "url", "mediaType", "filename",
    "providerMetadata", "anthropic", "signature", "redactedData", "citations", "providerExecuted", "preliminary",
    "encryptedValue", "metadata", "eagerstream", "error", "isError", "kind", "source", "value", "mimeType", "data",
    "properties", "pattern", "$ref", "toolName", "activityType",
)  # fmt: skip


def check(data: bytes) -> None:
    """A request, and what its endpoint makes of it, or a refusal with a status of the client's fault."""
    choices = Choices(data)
    endpoint = choices.pick((_gateway, _agui, _vercel))
    body = _written(choices, endpoint) if choices.below(2) else choices.rest()
    _answer(endpoint, body)
    if is_sampled(data, 500):
        # A value takes two bytes; an AG-UI message of 30 bytes takes some 150 lines until it is one of the API.
        check_cost(lambda: _answer(endpoint, body), len(body), lines_per_unit=40, bytes_per_unit=2_000)


def _answer(endpoint: Callable[[Any], None], body: bytes) -> None:
    try:
        endpoint(parse_body(body))
    except Refused as refused:
        assert 400 <= refused.status < 500
        assert 0 < len(str(refused)) < 1_200
    except UsageError:
        pass  # the endpoints answer it, too


def _gateway(value: Any) -> None:
    json.dumps(json_object(value), allow_nan=False)


def _agui(value: Any) -> None:
    plain, input = run_input(value)
    assert plain is value
    system_of(input)
    _check_messages(messages_of(input))
    for tool in frontend_tools(input):
        json.dumps(tool.to_dict(), allow_nan=False)


def _vercel(value: Any) -> None:
    chat = _chat_request(json_object(value), {})
    assert chat.answer_id != ""
    _check_messages(chat.messages)


def _check_messages(messages: list[Any]) -> None:
    """They can be written, and looked at by what checks all conversations before they are sent."""
    json.dumps(messages, allow_nan=False)
    validate_history(messages)


def _written(choices: Choices, endpoint: Callable[[Any], None]) -> bytes:
    """A body that begins as one of the endpoint, with anything in the places of its fields."""
    messages = [_message(choices, endpoint) for _ in range(choices.below(5))]
    value: dict[str, Any] = {"messages": messages}
    if endpoint is _agui:
        value |= {"threadId": "t", "runId": "r", "state": {}, "context": [], "forwardedProps": {}}
        value["tools"] = [
            {"name": "a", "description": "", "parameters": _value(choices, 4)} for _ in range(choices.below(3))
        ]
    elif endpoint is _vercel:
        value |= {"id": "c", "trigger": "submit-message"}
    for _ in range(choices.pick((0, 0, 0, 1, 2))):
        value[choices.pick(_NAMES)] = _value(choices, 3)
    text = json.dumps(value, ensure_ascii=bool(choices.below(2)))
    return text.encode("utf-8", "surrogatepass")


def _message(choices: Choices, endpoint: Callable[[Any], None]) -> dict[str, Any]:
    if endpoint is _vercel:
        parts = [_fields(choices, {"type": choices.pick(_LEAVES)}) for _ in range(choices.below(4))]
        return _fields(choices, {"id": "m", "role": choices.pick(("user", "assistant", "system")), "parts": parts})
    call = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": choices.pick(("{}", "[", "", "1"))}}
    match choices.below(5):
        case 0:
            message: dict[str, Any] = {"role": "user", "content": _value(choices, 2)}
        case 1:
            message = {"role": "assistant", "content": "", "toolCalls": [call] * choices.below(3)}
        case 2:
            message = {"role": "tool", "toolCallId": "c1", "content": choices.pick(("", "a", "é"))}
        case 3:
            message = {"role": "reasoning", "content": "a", "encryptedValue": choices.pick(_LEAVES)}
        case _:
            message = {"role": choices.pick(_LEAVES), "content": _value(choices, 3)}
    return _fields(choices, {"id": choices.pick(("a", "r.1.2", "r.1.3-1", "")), **message})


def _fields(choices: Choices, known: dict[str, Any]) -> dict[str, Any]:
    """An object with more fields, or with others in the place of those that it has."""
    for _ in range(choices.pick((0, 0, 1, 2, 4))):
        known[choices.pick(_NAMES)] = _value(choices, 3)
    return known


def _value(choices: Choices, depth: int) -> Any:
    kind = choices.below(4) if depth and choices.are_left else 0
    if kind < 2:
        return choices.pick(_LEAVES)
    if kind == 2:
        return [_value(choices, depth - 1) for _ in range(choices.below(4))]
    return {choices.pick(_NAMES): _value(choices, depth - 1) for _ in range(choices.below(5))}
