"""Tools as OpenAI functions, and calls with their results as OpenAI messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from eagerstream import Block, Outcome
from eagerstream._support.json_values import encodable
from eagerstream.errors import UsageError
from eagerstream.tools import ForeignTool, ToolCall, as_tool

from ._deltas import EXTRA

_ADDITIONAL: Final = "Images and documents that the tools returned, in order:"


def to_openai(tool: ForeignTool, *, api: Literal["chat", "responses"] = "chat") -> dict[str, Any]:
    """Return the definition of a tool as an OpenAI function, for the `tools` of a request.

    Options that only Anthropic's API knows (`cache_control`, eager streaming) are omitted. These servers always stream
    inputs as they are written, or never do.

    Args:
        tool: A tool as for `run`, with its own schema.
        api: Name of the API. The two APIs use different forms.

    Returns:
        `{"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}`. For `"responses"`,
            these fields are at the top level.

    Raises:
        UsageError: The tool is a server tool, or only Anthropic's API has its schema.
    """
    used = as_tool(tool)
    if used is None or not used.input_schema:
        raise UsageError("only a tool with its own input_schema can be an OpenAI function")
    definition = used.to_dict()
    function = {"name": used.name, "description": used.description, "parameters": definition["input_schema"]}
    if definition.get("strict") is not None:
        function["strict"] = definition["strict"]
    return {"type": "function", **function} if api == "responses" else {"type": "function", "function": function}


def to_messages(calls: Sequence[ToolCall], text: str = "") -> list[dict[str, Any]]:
    """Return the assistant's message and a `tool` message for each call, for the next request.

    Tool messages accept only text, so images and documents follow in a user message. An input that is not JSON is sent
    back as `{"INVALID_JSON": raw}`, because some servers parse it again.

    Args:
        calls: Calls of the response with their results, from `EarlyCalls.finish`.
        text: Text of the response.

    Returns:
        The messages, or an empty list if there are neither calls nor text.

    Raises:
        UsageError: A call has no result yet.
    """
    if not (calls or text):
        return []
    reply: dict[str, Any] = {"role": "assistant", "content": encodable(text) or None}
    if calls:
        reply["tool_calls"] = [_tool_call(call) for call in calls]
    results = [{"role": "tool", "tool_call_id": call.id, "content": _text_of(_content(call))} for call in calls]
    media = [part for call in calls for block in _content(call) if (part := _media(block)) is not None]
    more = [{"role": "user", "content": [{"type": "text", "text": _ADDITIONAL}, *media]}] if media else []
    return [reply, *results, *more]


def to_items(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Return the results of calls for the `input` of the Responses API. The response's `output` has the calls.

    Args:
        calls: Calls of the response with their results.

    Returns:
        One `{"type": "function_call_output", "call_id": ..., "output": ...}` per call.

    Raises:
        UsageError: A call has no result yet.
    """
    return [{"type": "function_call_output", "call_id": call.id, "output": _output(_content(call))} for call in calls]


def _output(content: Sequence[Block]) -> str | list[dict[str, Any]]:
    media = [part for block in content if (part := _media(block)) is not None]
    if not media:
        return _text_of(content)
    return [
        {"type": "input_text", "text": _text_of(content)},
        *(
            {"type": "input_image", "image_url": part["image_url"]["url"]}
            if part["type"] == "image_url"
            else {"type": "input_file", **part["file"]}
            for part in media
        ),
    ]


def _tool_call(call: ToolCall) -> dict[str, Any]:
    # Verbatim if possible: then the server's cached prefix stays valid.
    is_valid = call.input.outcome is Outcome.VALID and call.input.raw
    arguments = call.input.raw if is_valid else json.dumps(call.input.wrapped, ensure_ascii=False)
    extra = {EXTRA: call.block[EXTRA]} if EXTRA in call.block else {}
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": encodable(arguments)},
        **extra,
    }


def _content(call: ToolCall) -> list[Block]:
    """Return the blocks of a call's result."""
    if call.result is None:
        raise UsageError(f"the call {call.id} of {call.name} has no result yet: wait for calls.finish()")
    content = call.result.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text_of(content: Sequence[Block]) -> str:
    """Return the text of a result, with `[type]` in place of each other block."""
    return "\n".join(_said(block) for block in content)


def _said(block: Block) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return text
        case {"type": "search_result", "content": [*parts]}:
            words = [str(part.get("text", "")) for part in parts if isinstance(part, Mapping)]
            return "\n".join([f"{block.get('title', '')} ({block.get('source', '')})", *words])
        case {"type": kind}:
            return f"[{kind}]"
        case _:
            return ""


def _media(block: Block) -> dict[str, Any] | None:
    """Return an image or a PDF as a part of a message, and `None` for any other block."""
    match block:
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "document", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            name = str(block.get("title") or "document.pdf")
            return {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{data}"}}
        case _:
            return None
