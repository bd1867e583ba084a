"""Content in ACP's form: inputs, results and prompts. Each is bounded, and has nothing that a strict reader refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eagerstream import JSON, Block
from eagerstream._support.inspecting import without_middle
from eagerstream._support.json_values import encodable, is_deeper
from eagerstream._support.terms import IMAGE_TYPES, PDF_TYPE

from .._exact import marked
from .._merge import text_size

MAX_TEXT_CHARS: Final = 1024 * 1024
"""Maximum text of an update, for an input, a diff or a result. Clients refuse messages over 32 MiB, and one character
may take six bytes in each of two places.
"""

MAX_DEPTH: Final = 64
"""Maximum depth of a value. Readers in Rust refuse a message with more than 128 levels, and with it the connection."""

_MAX_MEDIA_CHARS: Final = 6 * 1024 * 1024
_MAX_PROGRESS_CHARS: Final = 2_000


def shown(value: Mapping[str, JSON]) -> JSON:
    """Return an input as an editor can read it. Integers that a double would round are marked, see `record_schema`.

    Texts of a very large input are shortened. An input that is too deep, or still too large, becomes a text about it.
    """
    plain = dict(value)
    if is_deeper(plain, MAX_DEPTH):
        return "(too deeply nested to be shown)"
    if text_size(plain) > MAX_TEXT_CHARS:
        plain = _mapped(plain, lambda text: without_middle(text, MAX_TEXT_CHARS // 64))
    if (chars := text_size(plain)) > MAX_TEXT_CHARS:
        return f"({chars:,} characters, too large to be shown)"
    return marked(_mapped(encodable(plain), str))


def _mapped(value: Any, change: Any) -> Any:
    """Return a copy with changed texts, and with a text in place of each number that JSON does not have."""
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _mapped(item, change) for key, item in value.items()}
        case list():
            return [_mapped(item, change) for item in value]
        case float() if not math.isfinite(value):  # a number beyond the doubles makes the input invalid at its end
            return str(value)
        case _:
            return value


def text_content(text: str) -> dict[str, Any]:
    """Return a text as the content of a call."""
    return {"type": "content", "content": {"type": "text", "text": encodable(without_middle(text, MAX_TEXT_CHARS))}}


def progress_content(value: JSON) -> dict[str, Any]:
    """Return the progress of a tool as the content of its call."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text_content(without_middle(text, _MAX_PROGRESS_CHARS))


def result_contents(content: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the result of a call as contents: texts, and images. Any other block becomes its JSON."""
    if isinstance(content, str):
        return [text_content(content)] if content else []
    room, media_room = MAX_TEXT_CHARS, _MAX_MEDIA_CHARS
    found = []
    for block in [content] if isinstance(content, Mapping) else content:
        image = _image(block, media_room)
        if image is not None:
            media_room -= len(image["data"])
            found.append({"type": "content", "content": image})
            continue
        text = block.get("text") if block.get("type") == "text" else None
        if not isinstance(text, str):
            text = json.dumps(block, ensure_ascii=False)
        found.append(text_content(without_middle(text, max(room, 1_000))))
        room -= len(text)
    return found


def _image(block: Mapping[str, Any], room: int) -> dict[str, Any] | None:
    source = block.get("source")
    if block.get("type") != "image" or not isinstance(source, Mapping) or source.get("type") != "base64":
        return None
    data, mime_type = source.get("data"), source.get("media_type")
    if not isinstance(data, str) or mime_type not in IMAGE_TYPES or len(data) > room or not data.isascii():
        return None
    return {"type": "image", "data": data, "mimeType": mime_type}


def prompt_blocks(prompt: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the content of a prompt as blocks of the API. Files that the editor adds become documents.

    Args:
        prompt: The content blocks of `session/prompt` in their JSON form.

    Raises:
        ValueError: A block has a form that the API does not take. Or there is nothing but blank text.
    """
    blocks = [_prompt_block(each) for each in prompt]
    found: list[Block] = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    if not found:
        raise ValueError("the prompt is empty")
    return found


def _prompt_block(each: Mapping[str, Any]) -> Block:
    resource: Mapping[str, Any] = each.get("resource") or {}
    match each["type"]:
        case "text":
            return {"type": "text", "text": each["text"]}
        case "image" if each["mimeType"] in IMAGE_TYPES:
            return _media("image", each["mimeType"], each["data"])
        case "resource_link":
            return {"type": "text", "text": f"[{each['name']}]({each['uri']})"}
        case "resource" if "text" in resource:
            source = {"type": "text", "media_type": "text/plain", "data": resource["text"]}
            return {"type": "document", "source": source, "title": resource["uri"][:500]}
        case "resource" if resource.get("mimeType") in IMAGE_TYPES:
            return _media("image", resource["mimeType"], resource["blob"])
        case "resource" if resource.get("mimeType") == PDF_TYPE:
            return _media("document", PDF_TYPE, resource["blob"])
        case kind:
            raise ValueError(f"a prompt cannot have this content: {kind}")


def _media(kind: str, media_type: str, data: str) -> Block:
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}
