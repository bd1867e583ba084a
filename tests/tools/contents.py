"""Content of results: files, blocks and half a surrogate pair."""

from __future__ import annotations

HALF = "\ud83d"

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"

JPEG_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQSkZJRgA="},
}

DOCUMENT_BLOCK = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "15 degrees"}}
