"""Frames of an AWS event stream, put together byte by byte and apart from the encoder of the package, and read by botocore."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

from botocore.eventstream import EventStreamBuffer, ParserError

from eagerstream_wire import WireEvent

Header: TypeAlias = tuple[bytes, int, Any]
"""Name, the number of its type, value: a `bool` is one of two types, 6 is bytes, 7 is text in bytes, 9 is 16 bytes."""

_NUMBERS: Final = {2: "!b", 3: "!h", 4: "!i", 5: "!q", 8: "!q"}


def header_bytes(headers: Sequence[Header]) -> bytes:
    """Headers as they stand in a frame."""
    parts: list[bytes] = []
    for name, kind, value in headers:
        parts += (bytes((len(name),)), name, bytes((kind,)))
        if kind in (6, 7):
            parts += (struct.pack("!H", len(value)), value)
        elif kind in _NUMBERS:
            parts.append(struct.pack(_NUMBERS[kind], value))
        elif kind == 9:
            parts.append(value)
    return b"".join(parts)


def frame_of(headers: bytes, payload: bytes, *, more_bytes: int = 0, more_headers_bytes: int = 0) -> bytes:
    """A frame whose checksums are right; its lengths are not where they are to say so much more than there is."""
    prelude = struct.pack(
        "!II",
        16 + len(headers) + len(payload) + more_bytes & 0xFFFFFFFF,
        len(headers) + more_headers_bytes & 0xFFFFFFFF,
    )
    checked = prelude + struct.pack("!I", crc32(prelude)) + headers + payload
    return checked + struct.pack("!I", crc32(checked))


def frame(headers: Mapping[str, str], payload: bytes = b"") -> bytes:
    """A frame with headers that are texts."""
    return frame_of(header_bytes([(name.encode(), 7, value.encode()) for name, value in headers.items()]), payload)


def event_frame(payload: bytes, kind: str = "chunk") -> bytes:
    """A frame with an event of this kind."""
    return frame({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def chunk_frame(data: bytes | WireEvent) -> bytes:
    """A frame with a wire event, or whatever is in its place."""
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return event_frame(json.dumps({"bytes": b64encode(data).decode(), "p": "abc"}).encode())


def exception_frame(kind: str, payload: bytes) -> bytes:
    """A frame with an exception that the service knows."""
    return frame({":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, payload)


def read_by_botocore(body: bytes) -> tuple[list[tuple[dict[str, Any], bytes]], Exception | None]:
    """Headers and payload of each whole frame, up to the first that botocore does not read, and why it does not."""
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    messages: list[tuple[dict[str, Any], bytes]] = []
    try:
        for message in buffer:
            messages.append((message.headers, message.payload))
    except (ParserError, UnicodeDecodeError, KeyError, struct.error) as error:
        return messages, error
    return messages, None
