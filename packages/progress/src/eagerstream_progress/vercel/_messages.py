"""Conversion of UI messages, as `useChat` sends them, to messages of the API.

The client sends the complete conversation each time, so it can make up all of it, including results of tools. If you
need to trust the history, keep it on the server, and take only the last user message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from eagerstream import INVALID_JSON, Block, Message
from eagerstream._support.json_values import encodable
from eagerstream._support.terms import IMAGE_TYPES, NOT_RUN, PDF_TYPE, tool_result
from eagerstream.calls import add_content, drop_last_thinking
from eagerstream.errors import UsageError
from eagerstream.tools import document_text, is_content_block

from .._exact import unmarked
from ._values import TOOL_CALL_ID, from_readable

_WITH_RESULT: Final = ("output-available", "output-error", "output-denied")
_DENIED: Final = "Not executed: the call was not approved."


class UIMessageError(UsageError):
    """A client sent UI messages that cannot become messages of the API."""


def to_messages(ui_messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return UI messages (version 5 or later, with `parts`) as messages that can be sent to the API.

    From the user, it converts text, images, PDFs and text files. From the assistant, it converts text, signed thinking,
    calls with their results, and calls that the API ran.

    Each call gets exactly one result. A call without one, or with only a preliminary one, is answered as not executed.

    Left out are:

    - calls whose input was still being written;
    - parts that `data-restarted` declares void;
    - system messages, since the server has its own system prompt;
    - sources, data parts, and calls of MCP servers that the API ran.

    Raises:
        UIMessageError: The value is not a list of UI messages; a file is malformed or of a type that the API does not
            accept; a `toolCallId` has other characters than the API's; or a message is nested too deep.
    """
    try:
        return _converted(ui_messages)
    except RecursionError as error:
        raise UIMessageError("a message is too deeply nested") from error


def _converted(ui_messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for message in _mappings(ui_messages, "messages"):
        parts = list(_mappings(message.get("parts"), "parts"))
        match message.get("role"):
            case "user":
                add_content(messages, "user", [block for part in parts if (block := _user_block(part)) is not None])
            case "assistant":
                for step in _steps(parts):
                    content, results = _step_blocks(step)
                    add_content(messages, "assistant", content)
                    add_content(messages, "user", results)  # the API requires them before the user's next message
            case "system":
                pass
            case _:
                raise UIMessageError("the role of a UI message must be user, assistant or system")
    return messages


def _mappings(items: object, what: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise UIMessageError(f"{what} must be a list")
    for item in items:
        if not isinstance(item, Mapping):
            raise UIMessageError(f"{what} must hold objects")
        yield item


def _text(part: Mapping[str, Any]) -> str:
    """Return the part's text. Empty if there is none, or it is blank: the API refuses that."""
    text = part.get("text")
    return encodable(text) if isinstance(text, str) and text.strip() else ""


# --- of the user ------------------------------------------------------------------------------------------------------


def _user_block(part: Mapping[str, Any]) -> Block | None:
    """Return the content block of a part. None if it is blank, or neither a text nor a file."""
    if part.get("type") == "text":
        text = _text(part)
        return {"type": "text", "text": text} if text else None
    if part.get("type") != "file":
        return None
    url, media_type = part.get("url"), part.get("mediaType")
    if not isinstance(url, str) or not isinstance(media_type, str):
        raise UIMessageError("a file part has a url and a mediaType")
    media_type = media_type.partition(";")[0].strip().lower()
    kind = {PDF_TYPE: "document"}.get(media_type, "image" if media_type in IMAGE_TYPES else None)
    if url.startswith(("https://", "http://")):
        if kind is None:
            raise UIMessageError(f"the API does not fetch files of the type {media_type:.80}")
        return {"type": kind, "source": {"type": "url", "url": url}}
    data = _data_of(url)
    if kind is not None:
        encoded = base64.b64encode(data).decode("ascii")
        return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": encoded}}
    if media_type.startswith("text/") or media_type == "application/json":
        title = part.get("filename")
        try:
            return document_text(data.decode(), title=title if isinstance(title, str) else None)
        except UnicodeDecodeError as error:
            raise UIMessageError("a text file must be UTF-8") from error
    raise UIMessageError(f"the API does not accept files of the type {media_type:.80}")


def _data_of(url: str) -> bytes:
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        raise UIMessageError("the url of a file must be a data URL, or start with http:// or https://")
    try:
        return base64.b64decode(data, validate=True) if head.endswith(";base64") else unquote_to_bytes(data)
    except ValueError as error:  # half a surrogate pair is an error, too
        raise UIMessageError("a data URL is malformed") from error


# --- of the assistant -------------------------------------------------------------------------------------------------


def _steps(parts: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the parts of each response, without those of a restarted one."""
    step: list[Mapping[str, Any]] = []
    for part in parts:
        if part.get("type") == "step-start":
            yield step
            step = []
        elif part.get("type") == "data-restarted":
            step = []
        else:
            step.append(part)
    yield step


def _step_blocks(parts: Sequence[Mapping[str, Any]]) -> tuple[list[Block], list[Block]]:
    """Return the assistant's content in one response, and the results of its calls."""
    content: list[Block] = []
    results: list[Block] = []
    # Version 6 has no place for the reasons of denied calls in the parts of the calls.
    data = (part.get("data") for part in parts if part.get("type") == "data-approval")
    pairs = ((item.get("toolCallId"), item.get("reason")) for item in data if isinstance(item, Mapping))
    reasons = {id: reason for id, reason in pairs if isinstance(id, str) and isinstance(reason, str)}
    for part in parts:
        kind, metadata = part.get("type"), _metadata(part)
        if kind == "text" and (text := _text(part)):
            citations = from_readable(metadata.get("citations"))
            known = {"citations": citations} if isinstance(citations, list) else {}
            content.append({"type": "text", "text": text, **known})
        elif kind == "reasoning":  # only signed thinking: the API refuses the rest
            thinking = part.get("text")
            if isinstance(redacted := metadata.get("redactedData"), str):
                content.append({"type": "redacted_thinking", "data": redacted})
            elif isinstance(signature := metadata.get("signature"), str) and signature and isinstance(thinking, str):
                content.append({"type": "thinking", "thinking": thinking, "signature": signature})
        elif isinstance(kind, str) and (kind == "dynamic-tool" or kind.startswith("tool-")):
            name = part.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
            if isinstance(name, str) and name and isinstance(part.get("toolCallId"), str):
                call, result = _call_blocks(part, name, reasons.get(part["toolCallId"]))
                content += call
                results += result
    drop_last_thinking(content)
    return content, results


def _metadata(part: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = part.get("providerMetadata")
    ours = metadata.get("anthropic") if isinstance(metadata, Mapping) else None
    return ours if isinstance(ours, Mapping) else {}


def _call_blocks(part: Mapping[str, Any], name: str, reason: str | None) -> tuple[list[Block], list[Block]]:
    """Return the content blocks of a call, with the API's result if it ran the call, and our result if we ran it."""
    state = part.get("state")
    if state == "input-streaming":
        return [], []
    id = part["toolCallId"]
    if not TOOL_CALL_ID.fullmatch(id):
        raise UIMessageError("a toolCallId has up to 128 letters, digits, _ and -")
    call = {"type": "tool_use", "id": id, "name": name, "input": _input(part)}
    if part.get("providerExecuted") is not True:
        return [call], [_result(part, id, reason)]
    output = from_readable(part.get("errorText") if state == "output-error" else part.get("output"))
    if not isinstance(output, dict) or state not in _WITH_RESULT:
        return [], []
    kind = output.get("type")
    if not isinstance(kind, str) or not kind.endswith("_tool_result") or kind == "mcp_tool_result":
        return [], []
    return [{**call, "type": "server_tool_use"}, {**output, "tool_use_id": id}], []


def _input(part: Mapping[str, Any]) -> dict[str, Any]:
    value = part.get("input")
    value = from_readable(part.get("rawInput") if value is None else value)
    if isinstance(value, dict):
        with suppress(ValueError):  # the client's own, not our marks
            value = unmarked(value)
        return dict(encodable(value))
    return {INVALID_JSON: value if isinstance(value, str) else json.dumps(value)}


def _result(part: Mapping[str, Any], id: str, reason: str | None) -> Block:
    state = part.get("state")
    if state == "output-error":
        text = part.get("errorText")
        return tool_result(id, text if isinstance(text, str) and text.strip() else "Error", is_error=True)
    given_approval = part.get("approval")
    approval: Mapping[str, Any] = given_approval if isinstance(given_approval, Mapping) else {}
    if state == "output-denied" or (state == "approval-responded" and approval.get("approved") is False):
        given = approval.get("reason")
        reason = given if isinstance(given, str) else reason
        return tool_result(id, reason if reason and reason.strip() else _DENIED, is_error=True)
    if state != "output-available" or part.get("preliminary") is True:
        return tool_result(id, NOT_RUN, is_error=True)
    output = part.get("output")
    if isinstance(output, str):
        return tool_result(id, output if output.strip() else "")
    # As it was sent: a list of content blocks. Any other output of a page becomes its JSON.
    if isinstance(output, list) and output and all(map(is_content_block, output)):
        return tool_result(id, output)
    return tool_result(id, "" if output is None else json.dumps(output, ensure_ascii=False))
