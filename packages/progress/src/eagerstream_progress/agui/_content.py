"""Content and fields in AG-UI's form: text, images, documents, metadata, errors, usage. Each is bounded."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from eagerstream import Block
from eagerstream._support.inspecting import without_middle

Part: TypeAlias = dict[str, Any]
"""A content part in AG-UI's form."""

MAX_EVENT_CHARS: Final = 1024 * 1024
"""Maximum text of one event. The client refuses events over 10 MB, and one character may take six bytes."""

_MAX_MEDIA_CHARS: Final = 6 * 1024 * 1024
"""Maximum size of images and documents in one event. In base64, a character is a byte."""

_MEDIA: Final = ("image", "document")

METADATA_KEY: Final = "eagerstream"
"""Key for data that AG-UI has no field for, in the metadata of events, messages and calls."""

_MAX_COUNT: Final = 2**53 - 1  # the largest exact integer in JavaScript


def to_parts(content: str | Sequence[Mapping[str, Any]]) -> str | list[Part]:
    """Return the content of a tool's result in AG-UI's form: text unchanged, blocks as parts.

    A block without a part in AG-UI becomes its JSON. Content that is too large for an event is replaced by a note.
    """
    if isinstance(content, str):
        return without_middle(content, MAX_EVENT_CHARS)
    room, media_room = MAX_EVENT_CHARS, _MAX_MEDIA_CHARS
    parts: list[Part] = []
    for block in content:
        part = _to_part(block)
        if part["type"] == "text":
            part["text"] = without_middle(part["text"], max(room, 1000))
            room -= len(part["text"])
        else:
            chars = len(part["source"]["value"])
            if chars > media_room:
                part = {"type": "text", "text": f"(Left out: {part['type']}, {chars:,} characters of base64.)"}
            else:
                media_room -= chars
        parts.append(part)
    return parts


def _to_part(block: Mapping[str, Any]) -> Part:
    kind, source = block.get("type"), block.get("source")
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind in _MEDIA and isinstance(source, Mapping):
        value: Any = None
        match source.get("type"):
            case "base64":
                value = {"type": "data", "value": source.get("data"), "mimeType": source.get("media_type")}
            case "text" if isinstance(source.get("data"), str):
                text = source["data"].encode("utf-8", "replace")
                value = {"type": "data", "value": base64.b64encode(text).decode(), "mimeType": "text/plain"}
            case "url":
                value = {"type": "url", "value": source.get("url")}
            case "file":
                value = {"type": "file", "value": source.get("file_id"), "provider": "anthropic"}
            case _:
                pass
        if value is not None and all(isinstance(item, str) for item in value.values()):
            return {"type": kind, "source": value}
    return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}


def to_blocks(content: str | Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the content of an AG-UI message in the API's form. A text replaces and names each unsupported part."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = [_to_block(part) for part in content]
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()]  # the API refuses blank text


def _to_block(part: Mapping[str, Any]) -> Block:
    kind, source = part.get("type"), part.get("source")
    if kind == "text":
        return {"type": "text", "text": str(part.get("text", ""))}
    if kind in _MEDIA and isinstance(source, Mapping):
        value, media_type = source.get("value"), source.get("mimeType")
        match source.get("type"):
            case "data" if kind == "document" and str(media_type).startswith("text/"):
                text = _decoded(str(value))
                if text is not None:
                    return {"type": kind, "source": {"type": "text", "media_type": "text/plain", "data": text}}
            case "data":
                return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": value}}
            case "url":
                return {"type": kind, "source": {"type": "url", "url": value}}
            case "file" if source.get("provider") in (None, "anthropic"):
                return {"type": kind, "source": {"type": "file", "file_id": value}}
    return {"type": "text", "text": f"(Left out: {kind}.)"}


def _decoded(data: str) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


# --- fields other than text -------------------------------------------------------------------------------------------


def with_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata field of an event, a message or a call. Empty if there is no metadata."""
    return {"metadata": {METADATA_KEY: bounded(metadata)}} if metadata else {}


def omission(record: Mapping[str, Any]) -> str:
    """Return the text that replaces a text that is no longer kept."""
    chars = record.get("omitted_chars")
    return f"[{chars:,} characters are no longer kept]" if chars else ""


def bounded(value: Any) -> Any:
    """Return `value`, or a note in its place if it is too large for an event."""
    chars = len(json.dumps(value))
    return value if chars <= MAX_EVENT_CHARS else {"leftOut": f"{chars:,} characters"}


def token_usage(usage: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    """Return the API's token counts in AG-UI's form. The total input includes tokens that a cache read or wrote."""

    def count(name: str) -> int:
        value = usage.get(name)
        return value if type(value) is int and 0 <= value <= _MAX_COUNT else 0

    read, written = count("cache_read_input_tokens"), count("cache_creation_input_tokens")
    inputs = min(count("input_tokens") + read + written, _MAX_COUNT)
    outputs = count("output_tokens")
    if not inputs and not outputs:
        return {}
    tokens: dict[str, Any] = {"provider": "anthropic", **({"model": model} if model else {})}
    tokens |= {"inputTokens": inputs, "outputTokens": outputs, "totalTokens": min(inputs + outputs, _MAX_COUNT)}
    return tokens | {"cachedInputTokens": read, "cacheWriteInputTokens": written}
