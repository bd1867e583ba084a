"""Rules of the API about single blocks that its guides do not state: the fields of each, images, deltas in a history.

Sources: the types of the anthropic package, and public reports of 400 responses.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ._assistant_message import Block
from ._values import JSON, encodable, mapping_in

DELTAS: Final = ("input_json_delta", "text_delta", "thinking_delta", "signature_delta", "citations_delta")
"""Types of deltas, which some programs keep as if they were blocks."""

FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "server_tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller"}),
    "mcp_tool_use": frozenset({"type", "id", "name", "input", "server_name", "cache_control"}),
}
"""The fields of the blocks that programs keep and send back. The API refuses any other."""

IMAGES: Final = {
    "image/jpeg": b"\xff\xd8\xff",
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""The media types that the API takes, and the first bytes of each."""
_DATA_URL: Final = re.compile(r"data:[^,]{0,100};base64,")
_HEAD_CHARS: Final = 24

THINKING: Final = ("thinking", "redacted_thinking")
"""The block types of the model's thinking. A message may not end with one, and none takes a `cache_control`."""
NEVER_IN_RESULTS: Final = frozenset({"tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking"})
"""Kinds of blocks that the API refuses in a result."""

MAX_NAME_CHARS: Final = 128
API_NAME: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME_CHARS}}}")
"""Names of tools that the API accepts; its guide promises only up to 64 characters."""

PROPERTY_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The names that the API takes for the properties of an input. One other name makes it refuse the whole request."""


def extra_fields(block: Mapping[str, Any]) -> list[str]:
    """Return the names of fields that the API refuses in a block; an empty list for a block of an unknown type."""
    known = FIELDS.get(block["type"])
    return [] if known is None else [name for name in block if name not in known]


def has_surrogates(block: Mapping[str, Any]) -> bool:
    """Return True if a text in a block has half of a surrogate pair; False for what has no JSON form by itself."""
    try:
        return bool(encodable(block) != block)
    except (TypeError, ValueError, RecursionError):
        return False  # the package's own objects, for example


def image_faults(block: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the faults of an image block: the place in it, and the words."""
    source = block.get("source")
    if block.get("type") != "image" or not isinstance(source, Mapping) or source.get("type") != "base64":
        return
    kind, data = source.get("media_type"), source.get("data")
    if kind not in IMAGES:
        known = "'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        yield ".image.source.base64.media_type", f"Input should be {known}"
    if not isinstance(data, str):
        return
    if _DATA_URL.match(data):
        yield ".image.source.base64.data", "invalid base64 data: it begins like a URL"
    elif (found := media_type_in(data)) is not None and kind in IMAGES and found != kind:
        yield ".image.source.base64.data", f"Image does not match the provided media type {kind}"


def media_type_in(data: str) -> str | None:
    """Return the media type of an image by its first bytes; None if it is none that the API takes."""
    try:
        head = b64decode(data[:_HEAD_CHARS], validate=True)
    except (binascii.Error, ValueError):
        return None
    return next((kind for kind, start in IMAGES.items() if head.startswith(start)), None)


def mended_image(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an image block that has a fault in a form that the API takes; None if there is none."""
    source = dict(block["source"])
    data = source.get("data")
    if not isinstance(data, str):
        return None
    while (prefix := _DATA_URL.match(data)) is not None:
        data = data[prefix.end() :]
    kind = media_type_in(data) or source.get("media_type")
    if kind not in IMAGES:
        return None
    return {**block, "source": {**source, "data": data, "media_type": kind}}


def is_empty_text(block: Mapping[str, Any]) -> bool:
    """Return True for an empty or blank text block. The API refuses it, even if the API sent it."""
    return block.get("type") == "text" and not block["text"].strip()


def ends_in_white_space(block: Mapping[str, Any]) -> bool:
    """Return True for a text with white space at its end, which no conversation may end in."""
    text = block.get("text") if block.get("type") == "text" else None
    return isinstance(text, str) and text != text.rstrip() and not text.isspace()


def is_programmatic(call: Mapping[str, Any]) -> bool:
    """Return True if the call was made from code that the API runs, not by the model itself."""
    kind: object = mapping_in(call, "caller").get("type", "direct")
    return kind != "direct"


def text_block(text: str) -> Block:
    """Return a text block."""
    return {"type": "text", "text": text}


def tool_result(
    tool_use_id: str, content: JSON | list[Block], *, is_error: bool = False, toolset_name: object = None
) -> Block:
    """Return a `tool_result` block. It has `content` only if there is some, and `is_error` only if it is true."""
    block: Block = {"type": "tool_result", "tool_use_id": tool_use_id}
    if content:
        block["content"] = encodable(content)
    if is_error:
        block["is_error"] = True
    if toolset_name is not None:
        block["toolset_name"] = toolset_name
    return block
