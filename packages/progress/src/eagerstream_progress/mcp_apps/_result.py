"""The result of a call as a `CallToolResult` of MCP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from eagerstream._support.json_values import is_deeper

from .._fold import Result

MAX_DEPTH: Final = 512
"""Maximum depth of a result's content, as of an input. A deeper one is left out."""

_DOCUMENT_URI: Final = "document:"
"""The URI of a document without a title. MCP requires one for each resource."""


def to_call_tool_result(result: Result) -> dict[str, Any]:
    """Return a result as a `CallToolResult`: `{"content": [...], "structuredContent": {...}, "isError": ...}`.

    `structuredContent` is there if the records have it, see `Hub(data=True)`. MCP's `_meta` of a result is not in the
    records.
    """
    content = result.content
    if isinstance(content, Mapping):  # the result block of a call that the API ran
        content = content.get("content")
    if not isinstance(content, str) and (not isinstance(content, list) or is_deeper(content, MAX_DEPTH)):
        content = _json(content)
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [_to_mcp(block) for block in content]
    structured = {} if result.data is None else {"structuredContent": result.data}
    return {"content": blocks, **structured, "isError": result.is_error}


def text_of(result: Result) -> str:
    """Return the texts of a result."""
    blocks = to_call_tool_result(result)["content"]
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def _to_mcp(block: Any) -> dict[str, Any]:
    """Return a content block of the API as one of MCP. A block without such a form becomes its JSON text."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "media_type": str(media_type), "data": str(data)}}:
            return {"type": "image", "data": data, "mimeType": media_type}
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return _resource(block, "text/plain", text=text)
        case {"type": "document", "source": {"type": "base64", "media_type": str(media_type), "data": str(data)}}:
            return _resource(block, media_type, blob=data)
        case {"type": "image" | "document" as kind, "source": {"type": "url", "url": str(url)}}:
            return {"type": "resource_link", "uri": url, "name": str(block.get("title") or kind)}
        case _:
            return {"type": "text", "text": _json(block)}


def _json(value: Any) -> str:
    if isinstance(value, dict | list) and is_deeper(value, MAX_DEPTH):
        return "(too deeply nested to be shown)"
    return json.dumps(value, ensure_ascii=False)


def _resource(block: Mapping[str, Any], media_type: str, **contents: str) -> dict[str, Any]:
    # `mcp_tools` keeps the URI of a resource as the title of the document.
    uri = str(block.get("title") or _DOCUMENT_URI)
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, **contents}}
