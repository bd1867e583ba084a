"""Framings of events in a response body: server-sent events, or the binary frames of Amazon Bedrock."""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final
from zlib import crc32

from eagerstream import AWSEventStreamDecoder, SSEDecoder
from eagerstream._support.bodies import BodyEvent, body_events
from eagerstream.errors import EagerStreamError
from eagerstream.recordings import Chunk, Recording

from ._scripted import encode_event


class Framing(ABC):
    """A way to encode wire events as bytes."""

    media_type: ClassVar[str]

    @abstractmethod
    def encode(self, event: Mapping[str, Any]) -> bytes:
        """Return a wire event as bytes of a body."""

    @abstractmethod
    def wrap(self, data: bytes) -> bytes:
        """Return any data in the place of a wire event."""

    @abstractmethod
    def events(self, body: bytes) -> Iterator[BodyEvent]:
        """Yield the events of `body`, in order. Bytes after the last complete event belong to none."""


class _SSE(Framing):
    media_type = SSEDecoder.media_type

    def encode(self, event: Mapping[str, Any]) -> bytes:
        return encode_event(event)

    def wrap(self, data: bytes) -> bytes:
        return b"data: " + data + b"\n\n"

    def events(self, body: bytes) -> Iterator[BodyEvent]:
        return body_events(body)


class _AWSEventStream(Framing):
    media_type = AWSEventStreamDecoder.media_type

    def encode(self, event: Mapping[str, Any]) -> bytes:
        if event.get("type") == "error":
            error = event.get("error")
            error = error if isinstance(error, Mapping) else {}
            kind = AWS_EXCEPTIONS.get(str(error.get("type")), "InternalServerException")
            headers = {":exception-type": kind[:1].lower() + kind[1:], ":content-type": "application/json"}
            payload = json.dumps({"message": error.get("message")}).encode()
            return aws_frame({**headers, ":message-type": "exception"}, payload)
        if event.get("type") == "message_stop":
            event = {**event, "amazon-bedrock-invocationMetrics": {"invocationLatency": 0}}
        # The data of an event, without the lines around it. Only `encode_event` writes JSON as the API does.
        return self.wrap(encode_event(event).partition(b"\ndata: ")[2].rstrip(b"\n"))

    def wrap(self, data: bytes) -> bytes:
        # Bedrock pads, so the length of a frame reveals little of its content.
        payload = {"bytes": b64encode(data).decode(), "p": _PADDING[: 1 + len(data) % len(_PADDING)]}
        return aws_frame(_CHUNK_HEADERS, json.dumps(payload, separators=(",", ":")).encode())

    def events(self, body: bytes) -> Iterator[BodyEvent]:
        at = 0
        while len(body) - at >= _LENGTH.size:
            (frame_bytes,) = _LENGTH.unpack_from(body, at)
            if not _LENGTH.size <= frame_bytes <= len(body) - at:
                return
            try:
                decoded = AWSEventStreamDecoder(max_event_bytes=len(body)).feed(body[at : at + frame_bytes])
            except EagerStreamError:
                decoded = []
            at += frame_bytes
            yield BodyEvent(at, decoded[0] if decoded else {})


class _OnePiece(Framing):
    """A body that is not streamed. It has no events. Equal parts of it count as events."""

    media_type = "application/json"

    def encode(self, event: Mapping[str, Any]) -> bytes:
        return json.dumps(event).encode()

    def wrap(self, data: bytes) -> bytes:
        return data

    def events(self, body: bytes) -> Iterator[BodyEvent]:
        for start in range(0, len(body), PART_BYTES):
            yield BodyEvent(min(start + PART_BYTES, len(body)), {})


PART_BYTES: Final = 16
"""Bytes of a body in one piece that count as an event."""

SSE: Final[Framing] = _SSE()
AWS_EVENT_STREAM: Final[Framing] = _AWSEventStream()
ONE_PIECE: Final[Framing] = _OnePiece()

AWS_EXCEPTIONS: Final = {
    "invalid_request_error": "ValidationException",
    "authentication_error": "UnrecognizedClientException",
    "billing_error": "AccessDeniedException",
    "permission_error": "AccessDeniedException",
    "not_found_error": "ResourceNotFoundException",
    "conflict_error": "ConflictException",
    "request_too_large": "ValidationException",
    "rate_limit_error": "ThrottlingException",
    "api_error": "InternalServerException",
    "timeout_error": "ModelTimeoutException",
    "overloaded_error": "ServiceUnavailableException",
}
"""Amazon's exception for each of the API's error types."""

_LENGTH: Final = struct.Struct("!I")
_CHUNK_HEADERS: Final = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
_PADDING: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_STRING: Final = 7


def framing_of(recording: Recording) -> Framing:
    """Return the framing of a recording's body, by its content type."""
    others = (AWS_EVENT_STREAM, ONE_PIECE)
    return next((framing for framing in others if framing.media_type == recording.media_type), SSE)


def aws_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one frame of an AWS event stream. `eagerstream_wire._aws_event_stream` describes its layout."""
    encoded = b"".join(
        struct.pack(f"!B{len(name)}sBH", len(name), name.encode(), _STRING, len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(encoded) + len(payload), len(encoded))
    frame = prelude + _LENGTH.pack(crc32(prelude)) + encoded + payload
    return frame + _LENGTH.pack(crc32(frame))


def in_aws_frames(recording: Recording) -> Recording:
    """Return the response in the frames of Bedrock, each at the time when its server-sent event was complete.

    A body that ends inside an event ends inside a frame. Gateways add data for readers of other protocols (empty data,
    `[DONE]`). Such data has no frame.
    """
    decoder = SSEDecoder(max_event_bytes=len(recording.body) + 1)
    chunks: list[Chunk] = []
    for at_s, data in recording.chunks:
        frames = [_reframed(event.data) for event in decoder.feed(data) if event.data not in ("", "[DONE]")]
        chunks.append(Chunk(at_s, b"".join(frames)))
    whole = max((event.end for event in body_events(recording.body)), default=0)
    if rest := recording.body[whole:].strip():
        frame = AWS_EVENT_STREAM.wrap(rest)
        chunks.append(Chunk(recording.duration_s, frame[: len(frame) // 2]))
    headers = {name: value for name, value in recording.headers.items() if name.lower() != "content-type"}
    return replace(
        recording,
        chunks=tuple(chunk for chunk in chunks if chunk.data),
        headers={**headers, "content-type": AWS_EVENT_STREAM.media_type},
    )


def _reframed(data: str) -> bytes:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        event = None
    if isinstance(event, dict) and event.get("type") in ("error", "message_stop"):
        return AWS_EVENT_STREAM.encode(event)
    return AWS_EVENT_STREAM.wrap(data.encode())  # verbatim: spaces and the order of keys stay
