"""`AWSEventStreamDecoder` beside botocore and the anthropic package's own decoder, however the body is cut."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, strategies as st
from packages.wire.tests.decoding import decoded
from tests.aws_frames import (
    Header,
    chunk_frame,
    event_frame,
    exception_frame,
    frame,
    frame_of,
    header_bytes,
    read_by_botocore,
)
from tests.fuzz.aws_event_stream import by_botocore
from tests.fuzz.cost import check_kept, executed_lines, peak_bytes
from tests.streams import cuts_of, one_by_one, written
from tests.tables import rows

from eagerstream_wire import AWSEventStreamDecoder, LimitError, ParsingLimits, ProtocolError, WireEvent
from eagerstream_wire._aws_event_stream import _decode_headers

PING: WireEvent = {"type": "ping"}
_PING = chunk_frame(PING)


def failure_of(body: bytes) -> ProtocolError:
    """What a body without a single event fails with."""
    with pytest.raises(ProtocolError) as caught:
        AWSEventStreamDecoder().feed(body)
    return caught.value


# --- any cut ----------------------------------------------------------------------------------------------------------

_FRAMES = [
    _PING,
    chunk_frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "é"}}),
    chunk_frame({"amazon-bedrock-invocationMetrics": {"invocationLatency": 1}}),
    event_frame(b"{}", "initial-response"),
    exception_frame("throttlingException", b'{"message": "slow down"}'),
    frame({":message-type": "error", ":error-code": "500", ":error-message": "broken"}),
    frame({}),
]
_FAULTS = [
    _PING[:-1] + bytes((_PING[-1] ^ 1,)),
    chunk_frame(b"[]"),
    event_frame(b"{}"),
    frame_of(b"\x05a", b""),
    frame_of(b"", b"", more_bytes=-1),
    _PING[:13],
    b"event: ping\ndata: {}\n\n",
]
bodies = st.lists(st.sampled_from([*_FRAMES, *_FRAMES, *_FAULTS]), max_size=8).map(b"".join)


@given(st.data(), bodies, st.sampled_from([10_000, 150, 90]))
def test_any_cut_gives_the_same_events(data: st.DataObject, body: bytes, bound: int) -> None:
    """The network cuts where it likes; events, and the failure behind them, are those of the whole."""
    whole = decoded(AWSEventStreamDecoder(max_event_bytes=bound), [body])
    assert decoded(AWSEventStreamDecoder(max_event_bytes=bound), data.draw(cuts_of(body))) == whole
    assert decoded(AWSEventStreamDecoder(max_event_bytes=bound), one_by_one(body)) == whole


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_arbitrary_bytes_raise_only_documented_errors(chunks: list[bytes]) -> None:
    """Noise has a checksum that is wrong, and gives no events."""
    events, failure = decoded(AWSEventStreamDecoder(), chunks)
    assert events == []
    assert failure.startswith("ProtocolError") == (sum(map(len, chunks)) >= 12)


def test_events_come_with_their_last_byte() -> None:
    """No event waits for the next one."""
    decoder = AWSEventStreamDecoder()
    for _ in range(3):
        assert decoder.feed(_PING[:-1]) == []
        assert decoder.feed(_PING[-1:]) == [PING]
    assert decoder.feed(_PING + _PING[:50]) == [PING]
    assert decoder.feed(_PING[50:] + _PING + _PING) == [PING] * 3


def test_an_unfinished_frame_is_no_event() -> None:
    """A body that ends inside a frame has lost it, as one that ends inside a server-sent event has."""
    for length in range(1, len(_PING)):
        assert decoded(AWSEventStreamDecoder(), [_PING + _PING[:length]]) == ([PING], "")


# --- beside botocore, and the client of the anthropic package ---------------------------------------------------------

_HEADER_NAMES = st.sampled_from(
    [b":event-type", b":message-type", b":exception-type", b"a", b"b", b"", b"\xc3\xa9", b"n" * 255]
)
_HEADER_VALUES = st.one_of(
    st.tuples(st.sampled_from([0, 1]), st.none()),
    st.tuples(st.just(2), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just(3), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(4), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.sampled_from([5, 8]), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(6), st.binary(max_size=9)),
    st.tuples(st.just(7), st.text(st.characters(exclude_categories=["Cs"]), max_size=9).map(str.encode)),
    st.tuples(st.just(9), st.binary(min_size=16, max_size=16)),
)
_headers = st.lists(st.tuples(_HEADER_NAMES, _HEADER_VALUES), max_size=6, unique_by=lambda header: header[0]).map(
    lambda headers: [(name, *value) for name, value in headers]
)


@given(_headers)
def test_headers_of_every_type(headers: list[Header]) -> None:
    """Those that are texts are what botocore reads, whatever the types of those around them."""
    (message,), error = read_by_botocore(frame_of(header_bytes(headers), b""))
    assert error is None
    assert _decode_headers(header_bytes(headers)) == {
        name: value for name, value in message[0].items() if isinstance(value, str)
    }


@given(
    _headers,
    st.integers(0, 200),
    st.sampled_from([b"", b"\x00", b"\x01a\x0a", b"\x01\xff\x00", b"\x01a\x07\x00\x01\xff"]),
)
def test_headers_that_cannot_be_read(headers: list[Header], length: int, rest: bytes) -> None:
    """Cut off, of an unknown type, no UTF-8: what botocore refuses is refused, and what is cut off besides."""
    data = header_bytes(headers)
    data = data[:length] + rest
    body = frame_of(data, b"")
    messages, error = read_by_botocore(body)
    try:
        ours = _decode_headers(data)
    except ProtocolError as refused:
        assert str(failure_of(body)) == str(refused)  # botocore takes a value that is cut off for a shorter one
    else:
        assert error is None
        assert ours == {name: value for name, value in messages[0][0].items() if isinstance(value, str)}


_EVENTS = st.builds(
    lambda kind, value: {"type": kind, "value": value},
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    ),
)
_frames = st.one_of(
    _EVENTS.map(chunk_frame),
    st.text(min_size=1).map(
        lambda text: exception_frame("validationException", json.dumps({"message": text}).encode())
    ),
    st.binary(max_size=20).map(lambda payload: event_frame(payload, "later")),
    st.builds(
        frame_of, _headers.map(lambda headers: header_bytes([h for h in headers if h[0][:1] != b":"])), st.binary()
    ),
)


@given(st.lists(_frames, max_size=6).map(b"".join))
def test_frames_are_what_botocore_reads(body: bytes) -> None:
    """Lengths, checksums, headers and payloads."""
    events, failure = decoded(AWSEventStreamDecoder(), [body])
    expected, fault = by_botocore(body)
    assert fault is None
    assert (written(events), failure) == (written(expected), "")


# --- faults of the frame ----------------------------------------------------------------------------------------------


@rows("body", [_PING, exception_frame("validationException", b"{}")])
def test_any_flipped_bit_is_noticed(body: bytes) -> None:
    """One wrong bit, of a length, a checksum, a header or the payload, is never a wrong event, nor a long wait."""
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        assert "checksum" in str(failure_of(bytes(flipped)))


@rows(
    "body, words",
    [
        (frame_of(b"", b"", more_bytes=-1), "shorter than its stated contents"),
        (frame_of(b"", b"", more_bytes=-16), "shorter than its stated contents"),
        (frame_of(b"", b"", more_headers_bytes=1), "shorter than its stated contents"),
        (frame_of(b"", b"x" * 5, more_headers_bytes=6), "shorter than its stated contents"),
        (frame_of(b"", b"x" * 5, more_headers_bytes=5), "headers of a frame cannot be read"),
        (frame_of(b"", b"", more_headers_bytes=-1), "shorter than its stated contents"),
        (frame_of(bytes(131_073), b""), "more than 131072 bytes"),
        (frame_of(b"\x01a\x04\x00\x00", b""), "headers of a frame are cut off"),
        (frame_of(b"\x01a\x07\x00\x05abc", b""), "headers of a frame are cut off"),
        (frame_of(b"\x01a\x07\x00", b""), "headers of a frame cannot be read"),
        (frame_of(b"\x09a", b""), "headers of a frame cannot be read"),
        (frame_of(b"\x01a\x00\x01a\x01", b""), "a header of a frame comes twice"),
        (frame_of(b"\x01a\x0a", b""), "headers of a frame cannot be read"),
        (frame_of(b"\x01\xff\x00", b""), "headers of a frame cannot be read"),
    ],
)
def test_lengths_that_cannot_be(body: bytes, words: str) -> None:
    """Right checksums do not make a frame right."""
    assert words in str(failure_of(body))


def test_as_many_headers_as_the_format_allows() -> None:
    """The bound is exact, and is botocore's."""
    for more in (0, 1):
        body = frame_of(header_bytes([(b"a", 6, bytes(65_531)), (b"b", 6, bytes(65_531 + more))]), b"")
        assert (
            (read_by_botocore(body)[1] is None) is (decoded(AWSEventStreamDecoder(), [body]) == ([], "")) is (more == 0)
        )


def test_events_before_a_fault_are_handed_out_first() -> None:
    """What arrived whole is not lost because of what came after it in the same chunk."""
    decoder = AWSEventStreamDecoder()
    assert decoder.feed(_PING * 2 + b"x" * 12 + _PING) == [PING] * 2
    for _ in range(2):
        with pytest.raises(ProtocolError, match="checksum of a frame's prelude"):
            decoder.feed(_PING)


# --- payloads ---------------------------------------------------------------------------------------------------------


_NO_BASE64: list[Any] = [None, 5, [], {}, "é", "====", "e30", "e30=\n", "e3 0=", "e30=x"]


@rows(
    "payload",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"5",
        b'"bytes"',
        b"{",
        b"\xff",
        b"[" * 10_000,
        *(json.dumps({"bytes": value}).encode() for value in _NO_BASE64),
    ],
)
def test_a_chunk_without_base64(payload: bytes) -> None:
    """Whatever is in the place of the event, it is the peer's fault, and is shown in short."""
    failure = failure_of(event_frame(payload))
    assert str(failure) in ("a chunk frame contains no base64", "the data of an event is not JSON")
    assert failure.excerpt == payload[:80].decode("utf-8", "replace")


@rows(
    "data, words",
    [
        (b"", "not JSON"),
        (b"oops", "not JSON"),
        (b'{"type": "ping"} x', "not JSON"),
        (b"[" * 40_000, "not JSON"),
        (b"[DONE]", "not JSON"),
        (b"[]", "not an object with a type"),
        (b'"type"', "not an object with a type"),
        (b"null", "not an object with a type"),
        (b'{"type": 5}', "not an object with a type"),
        (b'{"type": null}', "not an object with a type"),
    ],
)
def test_a_chunk_without_an_event(data: bytes, words: str) -> None:
    """Going on would be guessing, as it would be in server-sent events."""
    failure = failure_of(chunk_frame(data))
    assert words in str(failure)
    assert failure.excerpt == data[:80].decode()


@rows(
    "data",
    [
        b'{"type":"x","text":"a\xffb"}',
        b'{"type":"x","text":"\\ud83d"}',
        b'{"type":"x","value":' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"type":"x","type":"y"}',
        b' {"type":"x"}\n',
        b'{"type":""}',
    ],
)
def test_what_the_standard_library_reads_passes(data: bytes) -> None:
    """Invalid UTF-8, lone surrogates and deep nesting are no reason to give up a reply."""
    events, failure = decoded(AWSEventStreamDecoder(), [chunk_frame(data)])
    assert (written(events), failure) == (written([json.loads(data.decode("utf-8", "replace"))]), "")


@rows(
    "data",
    [
        b"{}",
        b'{"amazon-bedrock-invocationMetrics":{"inputTokenCount":1}}',
        b'{"metrics":"\\ud83d"}',
        b'{"metrics":' + b"[" * 500 + b"]" * 500 + b"}",
    ],
)
def test_objects_without_a_type_are_left_out(data: bytes) -> None:
    """Bedrock sends metrics beside the reply; however they are read, they are no events of it."""
    assert decoded(AWSEventStreamDecoder(), [chunk_frame(data) + _PING]) == ([PING], "")


@rows(
    "other",
    [
        event_frame(b"\xff", "initial-response"),
        event_frame(b'{"bytes": "e30="}', "later"),  # a later kind
        frame({":message-type": "event"}, b"x"),  # no kind
        frame({":message-type": "later", ":event-type": "later"}, b"x"),  # a later type
        frame({}, b"x"),  # no headers
        # Headers of other types.
        frame_of(header_bytes([(b":event-type", 6, b"chunk"), (b":message-type", 0, None)]), b"x"),
    ],
)
def test_frames_of_other_kinds_are_left_out(other: bytes) -> None:
    """What the service may add is not looked into."""
    assert decoded(AWSEventStreamDecoder(), [other + _PING + other]) == ([PING], "")


# --- exceptions and errors --------------------------------------------------------------------------------------------


_EXCEPTIONS = {
    "internalServerException",
    "modelStreamErrorException",
    "modelTimeoutException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
}


@rows("kind", [*sorted(_EXCEPTIONS), "laterException"])
@rows(
    "payload, message",
    [
        (b'{"message":"for a reason"}', "for a reason"),
        (b'{"Message":"for a reason"}', "for a reason"),
        (b'{"message":"for a reason","originalStatusCode":424,"originalMessage":"another"}', "for a reason"),
        (b'{"originalStatusCode":424,"originalMessage":"another"}', "another"),
        (b'{"message":"","originalMessage":"another"}', "another"),
        (b'{"message":null,"Message":["x"],"originalMessage":5}', None),
        (b'{"message":"half \\ud83d"}', "half \ud83d"),
        (b'{"message":"\xff"}', "\ufffd"),
        (b"", None),
        (b"not JSON", None),
        (b"[]", None),
        (b'"text"', None),
        (b"\xff", None),
        (b"[" * 200_000, None),
    ],
)
def test_exceptions(kind: str, payload: bytes, message: str | None) -> None:
    """Each is an `error` event of its own type; where it says nothing, its type is all that is known."""
    error = {"type": kind, "message": message or kind}
    assert decoded(AWSEventStreamDecoder(), [_PING + exception_frame(kind, payload) + _PING]) == (
        [PING, {"type": "error", "error": error}, PING],
        "",
    )


def test_the_kinds_of_exceptions_are_those_of_the_service() -> None:
    """A kind that botocore has learnt of should be among those that are tried above."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    shape = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2")).shape_for("ResponseStream")
    assert set(shape.members) == {"chunk", *_EXCEPTIONS}


@rows(
    "headers, error",
    [
        ({":error-code": "internal", ":error-message": "broken"}, {"type": "internal", "message": "broken"}),
        ({":error-code": "internal"}, {"type": "internal", "message": "internal"}),
        ({":error-message": "broken"}, {"type": "error", "message": "broken"}),
        ({":error-code": "", ":error-message": ""}, {"type": "error", "message": "error"}),
        ({}, {"type": "error", "message": "error"}),
    ],
)
@rows("message_type", ["error", "exception"])
def test_errors_that_the_service_has_no_model_of(
    headers: dict[str, str], error: dict[str, str], message_type: str
) -> None:
    """They say what they are in their headers."""
    assert decoded(AWSEventStreamDecoder(), [frame({":message-type": message_type, **headers})]) == (
        [{"type": "error", "error": error}],
        "",
    )


# --- the limit --------------------------------------------------------------------------------------------------------


def test_the_limit_is_exact() -> None:
    """A frame of just so many bytes is let through, one byte more is not; frames do not add up."""
    size = len(_PING)
    for chunks in ([_PING * 3], one_by_one(_PING * 3)):
        assert decoded(AWSEventStreamDecoder(max_event_bytes=size), chunks) == ([PING] * 3, "")
        failure = f"LimitError: a frame of the event stream is over the limit max_event_bytes={size - 1}"
        assert decoded(AWSEventStreamDecoder(max_event_bytes=size - 1), chunks) == ([], failure)


@rows("length", [ParsingLimits().max_event_bytes + 1, 2**32 - 1])
def test_the_limit_strikes_at_the_prelude(length: int) -> None:
    """A frame that says that it is too long is refused by its first twelve bytes."""
    prelude = struct.pack("!II", length, 0)
    prelude += struct.pack("!I", crc32(prelude))
    decoder = AWSEventStreamDecoder()
    assert decoder.feed(_PING + prelude[:-1]) == [PING]
    with pytest.raises(LimitError) as caught:
        decoder.feed(prelude[-1:])
    assert (caught.value.limit, caught.value.bound) == ("max_event_bytes", ParsingLimits().max_event_bytes)


def test_the_default_limit() -> None:
    """The decoder's own default is the one of `Limits`."""
    data = bytes(ParsingLimits().max_event_bytes - 16)
    assert decoded(AWSEventStreamDecoder(), [frame_of(b"", data)]) == ([], "")
    with pytest.raises(LimitError):
        AWSEventStreamDecoder().feed(frame_of(b"", data + b"x"))


# --- cost -------------------------------------------------------------------------------------------------------------


def test_a_large_frame_in_thousands_of_chunks() -> None:
    """A buffer that is copied, or looked through, for each chunk would take minutes: the client's own does, and takes."""
    text = "x" * 1_500_000
    body = chunk_frame({"type": "x", "text": text})
    chunks = [body[at : at + 1_000] for at in range(0, len(body), 1_000)]
    assert len(chunks) > 2_000
    results: list[tuple[list[WireEvent], str]] = []
    lines = executed_lines(lambda: results.append(decoded(AWSEventStreamDecoder(), chunks)))
    assert results == [([{"type": "x", "text": text}], "")]
    assert lines < 20 * len(chunks)
    assert peak_bytes(lambda: decoded(AWSEventStreamDecoder(), chunks)) < 4 * len(body)


@pytest.mark.slow
def test_each_frame_costs_the_same() -> None:
    """Whatever came before it, and however much of that in one chunk; nothing is kept of it afterwards."""

    def lines(frames: int) -> int:
        return executed_lines(lambda: decoded(AWSEventStreamDecoder(), [_PING * frames]))

    assert lines(1_000) - lines(500) == 5 * (lines(200) - lines(100))
    decoder = AWSEventStreamDecoder()

    def fill() -> AWSEventStreamDecoder:
        for _ in range(1_000):
            decoder.feed(_PING[30:] + _PING[:30])
        return decoder

    decoder.feed(_PING[:30])
    check_kept(fill, len(_PING))


def test_base64_is_read_in_one_go() -> None:
    """Of any length: the encoder pads, and so do the pieces that a naive decoder would cut it into."""
    for length in range(300):
        event = {"type": "x", "text": "é" * length}
        payload = json.dumps({"bytes": b64encode(json.dumps(event).encode()).decode()}).encode()
        assert decoded(AWSEventStreamDecoder(), [event_frame(payload)]) == ([event], "")
