"""Content blocks for the results of tools: text, images and documents, from what programs have at hand."""

from __future__ import annotations

import base64
from typing import Any, Final

from ..errors import UsageError
from ..wire.events import Block

IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What the API takes as an image."""

_PDF: Final = "application/pdf"


def text_block(text: str) -> Block:
    """A text block."""
    return {"type": "text", "text": text}


def image_bytes(data: bytes, media_type: str | None = None) -> Block:
    """An image block.

    Args:
        data: A whole PNG, JPEG, GIF or WebP file.
        media_type: For example `"image/jpeg"`; told from the first bytes where it is None.

    Raises:
        UsageError: The API takes no such image.
    """
    media_type = media_type or media_type_of(data)
    if media_type not in IMAGE_TYPES:
        raise UsageError(f"an image must be one of {', '.join(IMAGE_TYPES)}, not {media_type or 'of an unknown kind'}")
    return {"type": "image", "source": _base64(data, media_type)}


def document_text(text: str, *, title: str | None = None) -> Block:
    """A document block of plain text."""
    block: Block = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    return block if title is None else {**block, "title": title}


def document_bytes(data: bytes, *, title: str | None = None) -> Block:
    """A document block of a whole PDF file.

    Raises:
        UsageError: It is no PDF.
    """
    if media_type_of(data) != _PDF:
        raise UsageError("a document of bytes must be a PDF; text is for document_text")
    block: Block = {"type": "document", "source": _base64(data, _PDF)}
    return block if title is None else {**block, "title": title}


def block_of_bytes(data: bytes) -> Block | None:
    """The image or document block that a file's bytes are; None where they are neither."""
    media_type = media_type_of(data)
    if media_type == _PDF:
        return document_bytes(data)
    return image_bytes(data, media_type) if media_type else None


def media_type_of(data: bytes) -> str | None:
    """What a file is by its first bytes, among what the API takes; None for anything else."""
    start = bytes(data[:16])
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return _PDF if start.startswith(b"%PDF-") else None


def _base64(data: bytes, media_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode("ascii")}
