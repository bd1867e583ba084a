"""Content of results: blocks of text, images and documents, and the conversion of return values to them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from eagerstream_wire._assistant_message import Block
from eagerstream_wire._block_rules import NEVER_IN_RESULTS, text_block

from .._support.json_values import dump_json, to_json
from .._support.terms import IMAGE_TYPES, PDF_TYPE
from ..errors import UsageError


def image_bytes(data: bytes, media_type: str | None = None) -> Block:
    """Return an image block.

    Args:
        data: A complete PNG, JPEG, GIF or WebP file.
        media_type: For example `"image/jpeg"`. If None, the first bytes decide.

    Raises:
        UsageError: The API does not accept this type of image.
    """
    media_type = media_type or media_type_of(data)
    if media_type not in IMAGE_TYPES:
        raise UsageError(f"an image must be one of {', '.join(IMAGE_TYPES)}, not {media_type or 'of an unknown kind'}")
    return {"type": "image", "source": _base64(data, media_type)}


def document_text(text: str, *, title: str | None = None) -> Block:
    """Return a document block of plain text."""
    block: Block = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    return block if title is None else {**block, "title": title}


def document_bytes(data: bytes, *, title: str | None = None) -> Block:
    """Return a document block of a complete PDF file.

    Raises:
        UsageError: `data` is no PDF.
    """
    if media_type_of(data) != PDF_TYPE:
        raise UsageError("a document of bytes must be a PDF; text is for document_text")
    block: Block = {"type": "document", "source": _base64(data, PDF_TYPE)}
    return block if title is None else {**block, "title": title}


def block_of_bytes(data: bytes) -> Block | None:
    """Return the image or document block for a file's bytes; None if they are neither."""
    media_type = media_type_of(data)
    if media_type == PDF_TYPE:
        return document_bytes(data)
    return image_bytes(data, media_type) if media_type else None


def media_type_of(data: bytes) -> str | None:
    """Return the media type of a file by its first bytes, if the API accepts it; None otherwise."""
    start = bytes(data[:16])
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return PDF_TYPE if start.startswith(b"%PDF-") else None


def _base64(data: bytes, media_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode("ascii")}


def content_of(returned: Any) -> str | list[Block]:
    """Convert a return value to content: text and content blocks (also lists of them) unchanged, the rest to JSON.

    The bytes of an image or a PDF become a block, alone and in a list. Other bytes become text. Numbers that JSON does
    not have (NaN, infinities) become null.

    Raises:
        TypeError: The value has no JSON form, or its bytes are neither UTF-8 nor an image or PDF.
    """
    if isinstance(returned, str):
        return returned
    if returned is None or (isinstance(returned, list | tuple) and not returned):
        return ""
    blocks: list[Block] = []
    only_texts = True
    for item in returned if isinstance(returned, list | tuple) else [returned]:
        if isinstance(item, str):
            if item:
                blocks.append(text_block(item))
        elif isinstance(item, bytes | bytearray | memoryview):
            block = block_of_bytes(bytes(item))
            only_texts = only_texts and block is None
            blocks.append(block or text_block(_decoded(bytes(item))))
        elif is_content_block(item):
            only_texts = False
            blocks.append(to_json(item))
        else:
            break
    else:
        if not only_texts:
            return blocks
    return _decoded(bytes(returned)) if isinstance(returned, bytes | bytearray | memoryview) else dump_json(returned)


class _Form(NamedTuple):
    needed: str
    types: tuple[type, ...]
    fields: frozenset[str]


def _form(needed: str, types: tuple[type, ...], *others: str) -> _Form:
    return _Form(needed, types, frozenset({"type", "cache_control", needed, *others}))


_FORMS: Final[Mapping[str, _Form]] = {
    "text": _form("text", (str,), "citations"),
    "image": _form("source", (Mapping,)),
    "document": _form("source", (Mapping,), "title", "context", "citations"),
    "search_result": _form("content", (list, tuple), "source", "title", "citations"),
    "tool_reference": _form("tool_name", (str,)),
}
"""The form of each kind of block: the required field, its types, and all fields that the API takes."""


def is_content_block(item: Any) -> bool:
    """Return True for a mapping that is certainly meant as a block: a known kind, with its required field.

    With a field that no block has, it is a value: a row of a table may have the columns `type` and `text`.
    """
    kind = _kind_of(item)
    if kind not in _FORMS:
        return kind == "browser_state"
    return may_be_in_result(item) and item.keys() <= _FORMS[kind].fields


def may_be_in_result(item: Any) -> bool:
    """Return True for a block that a result may contain: a complete one of a known kind, or one of an unknown kind."""
    kind = _kind_of(item)
    if kind in _FORMS:
        return isinstance(item.get(_FORMS[kind].needed), _FORMS[kind].types)
    return kind != "" and kind not in NEVER_IN_RESULTS


def _kind_of(item: Any) -> str:
    kind = item.get("type") if isinstance(item, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        what = "a tool returned bytes that are neither UTF-8 text nor an image or PDF of a kind that the API takes"
        raise TypeError(what) from None
