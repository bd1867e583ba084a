"""`AWSEventStreamDecoder`: binary frames to wire events."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from botocore.eventstream import InvalidPayloadLength

from eagerstream_wire import AWSEventStreamDecoder, LimitError, ProtocolError, WireEvent, decode_event
from eagerstream_wire._decoding import decode_json
from eagerstream_wire._limits import DEFAULT_LIMITS
from tests.aws_frames import chunk_frame, event_frame, exception_frame, frame, frame_of, header_bytes, read_by_botocore
from tests.streams import written

from .choices import Choices, pieces
from .cost import check_cost, check_kept, is_sampled
from .feeding import decoded, fed

_BOUNDS: Final = (DEFAULT_LIMITS.max_event_bytes,) * 2 + (150, 17)
_STRICTER: Final = ("shorter than", "cut off")
"""What botocore reads all the same: a length below that of an empty frame, a value that is cut off."""


def check(data: bytes) -> None:
    """Any cut gives what botocore reads, up to the limit; nothing but the documented errors is raised."""
    choices = Choices(data)
    bound = choices.pick(_BOUNDS)
    structured = choices.below(4)
    seed = Choices(choices.take(6))
    stream = b"".join(_frames(choices)) if structured else choices.rest()
    cut = pieces(seed, stream)
    events, error = decoded(_decoder(bound), cut)
    whole, whole_error = decoded(_decoder(bound), [stream])
    assert (written(events), repr(error)) == (written(whole), repr(whole_error))
    expected, fault = by_botocore(stream)
    if isinstance(error, LimitError):
        assert bound < DEFAULT_LIMITS.max_event_bytes or isinstance(fault, InvalidPayloadLength)
        assert written(events) == written(expected[: len(events)])
    elif any(words in str(error) for words in _STRICTER):
        assert written(events) == written(expected[: len(events)])
    else:
        assert written(events) == written(expected)
        assert (error is None) == (fault is None)
    if is_sampled(data, 500):
        check_cost(
            lambda: decoded(_decoder(bound), cut),
            len(stream) + 20 * len(cut),
            lines_per_unit=12,  # headers of three bytes each take most
            bytes_per_unit=64,
        )
        check_kept(lambda: fed(_decoder(bound), cut), 64 * min(len(stream), bound))


def _decoder(bound: int) -> AWSEventStreamDecoder:
    return AWSEventStreamDecoder(max_event_bytes=bound)


def by_botocore(stream: bytes) -> tuple[list[WireEvent], Exception | None]:
    """The events of the frames that botocore reads, and what ends them early."""
    messages, fault = read_by_botocore(stream)
    events: list[WireEvent] = []
    for headers, payload in messages:
        try:
            event = _event(headers, payload)
        except (ProtocolError, ValueError, TypeError, LookupError) as error:
            return events, error
        if event is not None:
            events.append(event)
    return events, fault


def _event(headers: Mapping[str, Any], payload: bytes) -> WireEvent | None:
    if headers.get(":message-type") in ("exception", "error"):
        return {"type": "error", "error": _error(headers, payload)}
    if headers.get(":event-type") != "chunk":
        return None
    held: Any = decode_json(payload)
    data = b64decode(held["bytes"], validate=True)
    event: Any = decode_json(data)
    return decode_event(data) if not isinstance(event, dict) or "type" in event else None


def _error(headers: Mapping[str, Any], payload: bytes) -> dict[str, str]:
    said: Any = None
    try:
        said = decode_json(payload)
    except ProtocolError:
        pass
    texts = [headers.get(name) for name in (":exception-type", ":error-code")]
    kind = next((text for text in texts if isinstance(text, str) and text), "error")
    names = ("message", "Message", "originalMessage") if isinstance(said, dict) else ()
    texts = [*(said.get(name) for name in names), headers.get(":error-message")]
    return {"type": kind, "message": next((text for text in texts if isinstance(text, str) and text), kind)}


# --- a grammar of frames ----------------------------------------------------------------------------------------------

_EVENTS: Final = (
    b'{"type":"ping"}', b'{"type":"message_stop","amazon-bedrock-invocationMetrics":{"outputTokenCount":1}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}', b'{"type":"x","text":"\xc3\xa9"}',
    b'{"type":"x","text":"\xff"}', b'{"type":"x","text":"\\ud83d"}', b'{"type":"x","y":' + b"[" * 250 + b"]" * 250 + b"}",
    b'{"metrics":1}', b'{"metrics":"\\ud83d"}', b'{"type":5}', b"[]", b"null", b'"type"', b"", b"oops", b"[DONE]", b"{}",
)  # fmt: skip
_PAYLOADS: Final = (
    b"", b"{}", b"[]", b"null", b"\xff", b"{", b'{"bytes":null}', b'{"bytes":5}', b'{"bytes":[]}', b'{"bytes":""}',
    b'{"bytes":"e30"}', b'{"bytes":"e30="}', b'{"bytes":"e30=\\n"}', b'{"bytes":"\\u00e9"}', b'{"bytes":"e30=","p":"\\ud83d"}',
    b'{"message":"m"}', b'{"Message":"m"}', b'{"message":""}', b'{"message":5,"originalMessage":"o"}', b'{"message":"\xff"}',
)  # fmt: skip
_KINDS: Final = ("throttlingException", "modelStreamErrorException", "later", "")
_NAMES: Final = (b":message-type", b":event-type", b":exception-type", b":error-code", b"a", b"", b"\xff", b"n" * 255)
_TEXTS: Final = (b"chunk", b"event", b"exception", b"error", b"initial-response", b"", b"\xc3\xa9", b"\xff", b"x" * 300)
_LENGTHS: Final = (0, 0, 1, -1, 2, 12, -12, -16, -17, 1 << 20, 1 << 31)


def _frames(choices: Choices) -> Iterator[bytes]:
    """Frames as Bedrock sends them, as the format allows them, and with slips, most of these under right checksums."""
    made = 0
    while choices.are_left and made < 4 * choices.room:
        times = choices.pick((1,) * 30 + (9, 40))
        made_frame = _frame(choices)
        for _ in range(times):
            made += len(made_frame)
            yield made_frame


def _frame(choices: Choices) -> bytes:
    match choices.below(16):
        case 0 | 1 | 2 | 3:
            return chunk_frame(choices.pick(_EVENTS[:7]))
        case 4:
            return chunk_frame(choices.pick(_EVENTS))
        case 5:
            return chunk_frame(choices.take(choices.below(30)))
        case 6:
            return event_frame(choices.pick(_PAYLOADS), choices.pick(("chunk", "chunk", "initial-response", "later")))
        case 7:
            data = b64encode(choices.take(choices.below(12))).decode()
            return event_frame(json.dumps({"p": "abc", "bytes": data[: choices.pick((None, None, -1, -2))]}).encode())
        case 8 | 9:
            return exception_frame(choices.pick(_KINDS), choices.pick(_PAYLOADS))
        case 10:
            named = {":error-code": choices.pick(_KINDS), ":error-message": choices.pick(("broken", ""))}
            return frame({":message-type": "error", **named}, choices.pick(_PAYLOADS))
        case 11 | 12:
            return frame_of(_headers(choices), choices.pick(_PAYLOADS))
        case 13:
            return frame_of(
                _headers(choices) + choices.take(choices.below(9)),
                b"",
                more_bytes=choices.pick(_LENGTHS),
                more_headers_bytes=choices.pick(_LENGTHS),
            )
        case 14:
            whole = bytearray(chunk_frame(choices.pick(_EVENTS[:4])))
            whole[choices.below(256) % len(whole)] ^= 1 << choices.below(8)
            return bytes(whole)
        case _:
            return choices.take(choices.below(20))


def _headers(choices: Choices) -> bytes:
    headers: list[tuple[bytes, int, Any]] = []
    for _ in range(choices.below(5)):
        name, kind = choices.pick(_NAMES), choices.pick((7, 7, 7, 0, 1, 2, 3, 4, 5, 6, 8, 9))
        value: Any = None
        if kind in (6, 7):
            value = choices.pick(_TEXTS)
        elif kind == 9:
            value = choices.take(16).ljust(16)
        elif kind > 1:
            value = choices.below(256) - 128
        headers.append((name, kind, value))
    data = header_bytes(headers)
    return data[: -choices.below(4) or None] if choices.below(8) == 0 else data
