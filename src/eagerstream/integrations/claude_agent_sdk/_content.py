"""What a call was answered, as an MCP server answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.types import CallToolResult

from ...tools import ToolCall, dump_json
from ...wire import Block


def result_of(call: ToolCall) -> CallToolResult:
    """The result of an answered call: text and images; of other blocks, what they say in JSON."""
    result = call.result or {}
    content: str | list[Block] = result.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(map(_content_of, content))
    return CallToolResult.model_validate({"content": blocks, "isError": bool(result.get("is_error"))})


def _content_of(block: Mapping[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "data": data, "media_type": media_type}}:
            return {"type": "image", "data": data, "mimeType": media_type}
        case {"type": "document", "source": {"type": "text", "data": str(data)}}:
            return {"type": "text", "text": data}
        case _:
            return {"type": "text", "text": dump_json(block)}
