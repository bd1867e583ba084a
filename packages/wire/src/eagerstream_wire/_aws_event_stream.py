"""Decoding of AWS event-stream frames, the format of Amazon Bedrock's responses, to wire events.

A frame consists of its length, the length of its headers, a CRC-32 of both, the headers, the payload, and a CRC-32 of
everything before; integers are big-endian. https://smithy.io/2.0/aws/amazon-eventstream.html

The anthropic client has a decoder for these frames, which uses botocore and copies its buffer with each chunk. "Bedrock
frames" in `benchmarks/RESULTS.md` measured 20 us per event for it, and 4 to 5 us for this one. One event of 6,000,000
characters took 1,257 ms, compared with 44 ms. Frames decoded here also have the limits and the errors of every other
body. The fuzz target `aws_event_stream` compares this decoder with botocore.

mypyc does not compile this module: compiled code keeps a reference to a frame for longer.
"""

from __future__ import annotations

import struct
from binascii import a2b_base64, crc32
from collections.abc import Mapping
from typing import Any, Final

from ._checks import check_positive
from ._decoder import Decoder
from ._decoding import as_wire_event, decode_json
from ._errors import LimitError, ProtocolError
from ._events import WireEvent
from ._limits import DEFAULT_LIMITS
from ._value_count import check_values

_PRELUDE: Final = struct.Struct("!III")
_CRC: Final = struct.Struct("!I")
_LENGTH: Final = struct.Struct("!H")
_LEAST_BYTES: Final = _PRELUDE.size + _CRC.size
_MAX_HEADERS_BYTES: Final = 128 * 1024  # the format's own bound; dicts of more take hundreds of megabytes
_STRING: Final = 7
# Bytes of a header's value by its type: true, false, byte, short, integer, long, timestamp, uuid. Byte arrays and
# strings carry their own length.
_VALUE_BYTES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_MEASURED: Final = (6, _STRING)


class AWSEventStreamDecoder(Decoder[WireEvent]):
    """Turns chunks of an `application/vnd.amazon.eventstream` body, cut anywhere, into wire events.

    Each `chunk` frame holds one wire event in base64. An exception or error frame becomes an `error` event, whose type
    is the exception's (`throttlingException`). Frames of other kinds, and events without a type (metrics), are skipped.
    Work and memory are linear in the bytes fed.

    `feed` raises `ProtocolError` if a checksum is wrong, or a frame is not in Bedrock's format.

    Args:
        max_event_bytes: Maximum bytes of one frame.
        max_values: Maximum number of JSON values in one event. Beyond it: `LimitError`, before the event is parsed.

    Raises:
        UsageError: A bound is not a positive number.
    """

    media_type = "application/vnd.amazon.eventstream"

    def __init__(
        self,
        *,
        max_event_bytes: int = DEFAULT_LIMITS.max_event_bytes,
        max_values: int = DEFAULT_LIMITS.max_values,
    ) -> None:
        super().__init__(max_event_bytes=max_event_bytes)
        check_positive("max_values", max_values)
        self._max_values = max_values
        # A bytearray grows in place, and is read again only when the current frame is complete: its first bytes give
        # its length. A copy per chunk would be quadratic for a frame of 8 MB in 8,000 chunks.
        self._unfinished = bytearray()
        self._frame_bytes = _PRELUDE.size  # minimum size of the current frame
        self._known_headers = b""
        self._headers: Mapping[str, str] = {}

    def _forget(self) -> None:
        self._unfinished.clear()
        self._known_headers = b""
        self._headers = {}

    def _take(self, chunk: bytes, events: list[WireEvent]) -> None:
        if self._unfinished:
            self._unfinished += chunk
            if len(self._unfinished) < self._frame_bytes:
                return
            chunk = bytes(self._unfinished)
            self._unfinished.clear()
        start = 0
        while len(chunk) - start >= _PRELUDE.size:
            # The checksum first: a length is trusted, and memory kept for it, only if the peer really wrote it.
            frame_bytes, headers_bytes, crc = _PRELUDE.unpack_from(chunk, start)
            if crc32(chunk[start : start + 8]) != crc:
                raise ProtocolError("the checksum of a frame's prelude is wrong")
            if frame_bytes < _LEAST_BYTES + headers_bytes:
                raise ProtocolError("a frame is shorter than its stated contents")
            if headers_bytes > _MAX_HEADERS_BYTES:
                raise ProtocolError(f"the headers of a frame have more than {_MAX_HEADERS_BYTES} bytes")
            if frame_bytes > self._max_event_bytes:
                raise LimitError("max_event_bytes", self._max_event_bytes, "a frame of the event stream")
            if len(chunk) - start < frame_bytes:
                self._frame_bytes = frame_bytes
                break
            event = self._decode(chunk[start : start + frame_bytes], headers_bytes)
            if event is not None:
                events.append(event)
            start += frame_bytes
        else:
            self._frame_bytes = _PRELUDE.size
        self._unfinished += chunk[start:]

    def _decode(self, frame: bytes, headers_bytes: int) -> WireEvent | None:
        """Return the wire event of a complete frame; None if it has none."""
        (crc,) = _CRC.unpack_from(frame, len(frame) - _CRC.size)
        if crc32(frame[: -_CRC.size]) != crc:
            raise ProtocolError("the checksum of a frame is wrong")
        payload_start = _PRELUDE.size + headers_bytes
        headers = frame[_PRELUDE.size : payload_start]
        if headers != self._known_headers:  # nearly all frames of a response have the same headers
            self._headers = _decode_headers(headers)
            self._known_headers = headers
        payload = frame[payload_start : -_CRC.size]
        match self._headers:
            case {":message-type": "exception" | "error"}:
                return _error_event(self._headers, payload, self._max_values)
            case {":event-type": "chunk"}:
                check_values(payload, self._max_values)
                data = _chunk_data(payload)
                check_values(data, self._max_values)
                event = decode_json(data)
                if isinstance(event, dict) and not event.keys() & {"type", "error"}:
                    return None  # metrics of the service
                return as_wire_event(event, data)
            case _:
                # A kind of event before or during the response. It is skipped, because the service may add others; an
                # error would end responses that are fine.
                return None


def _chunk_data(payload: bytes) -> bytes:
    held = decode_json(payload)
    text: Any = held.get("bytes") if isinstance(held, dict) else None
    try:
        # Strict: otherwise base64 would skip characters outside of its alphabet, and a damaged event could pass.
        return a2b_base64(text, strict_mode=True)
    except (ValueError, TypeError) as error:
        excerpt = payload[:80].decode("utf-8", "replace")
        raise ProtocolError("a chunk frame contains no base64", excerpt=excerpt) from error


def _error_event(headers: Mapping[str, str], payload: bytes, max_values: int) -> WireEvent:
    """Return the `error` event for an exception frame (modelled by the service) or an error frame (not modelled)."""
    try:
        check_values(payload, max_values)
        said = decode_json(payload)
    except (ProtocolError, LimitError):
        said = None  # the headers name the error: a fault in its text must not hide the service's error
    details = said if isinstance(said, dict) else {}
    words = (details.get(name) for name in ("message", "Message", "originalMessage"))
    message = next((word for word in words if isinstance(word, str) and word), headers.get(":error-message", ""))
    kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
    return {"type": "error", "error": {"type": kind, "message": message or kind}}


def _decode_headers(data: bytes) -> dict[str, str]:
    """Return the headers with string values. The others are not needed here."""
    headers: dict[str, str] = {}
    names: set[str] = set()
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name = data[at + 1 : name_end].decode()
            if name in names:
                # Readers disagree on which one counts, and botocore refuses the frame.
                raise ProtocolError("a header of a frame comes twice")
            names.add(name)
            kind = data[name_end]
            at = name_end + 1
            if kind in _MEASURED:
                (size,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
            else:
                size = _VALUE_BYTES[kind]
            value = data[at : at + size]
            at += size
            if kind == _STRING:
                headers[name] = value.decode()
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise ProtocolError("the headers of a frame cannot be read") from error
    if at != len(data):
        raise ProtocolError("the headers of a frame are cut off")
    return headers
