"""Replies in the binary frames of Bedrock: what is put into them comes out again, and breaks where it is asked to."""

from __future__ import annotations

import json
from base64 import b64decode
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from packages.wire.tests.decoding import decoded
from packages.wire.tests.recordings import for_recordings
from tests.aws_frames import chunk_frame, frame, read_by_botocore
from tests.streams import random_pieces, written
from tests.tables import rows

from eagerstream._support.bodies import body_events
from eagerstream.errors import ProtocolError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Fault, FaultKind, Timing, encode_event, reply, retime, text, tool_use
from eagerstream_testing._faults import BYTEWISE, ERROR_STATUS, INSTEAD
from eagerstream_testing._framing import AWS_EVENT_STREAM, AWS_EXCEPTIONS, SSE, aws_frame, framing_of, in_aws_frames
from eagerstream_testing._injection import break_reply
from eagerstream_wire import AWSEventStreamDecoder, WireDecoder, WireEvent

_REPLY = retime(
    reply(text("Let me look."), tool_use("make_file", {"name": 'a"b\\', "lines": ["one", "två"]})),
    Timing(tokens_per_second=10, cut=50),
)
_WHOLE = retime(_REPLY, Timing(tokens_per_second=10, cut="event"))
_FRAMED = in_aws_frames(_WHOLE)
_METRICS = "amazon-bedrock-invocationMetrics"
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _decoded(recording: Recording) -> tuple[list[WireEvent], str]:
    """The events of a body in either framing, and what ends them early; the metrics that only frames have are left out."""
    decoder = AWSEventStreamDecoder() if framing_of(recording) is AWS_EVENT_STREAM else WireDecoder()
    events: list[WireEvent] = []
    try:
        for chunk in recording.chunks:
            events += decoder.feed(chunk.data)
        decoder.close()
    except ProtocolError as error:
        return events, str(error)
    finally:
        for event in events:
            event.pop(_METRICS, None)
    return events, ""


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.dictionaries(st.text(st.characters(codec="ascii"), max_size=20), _TEXTS, max_size=4), st.binary(max_size=50))
def test_frames(headers: dict[str, str], payload: bytes) -> None:
    """Lengths, headers, payload and checksums are those that botocore reads."""
    assert aws_frame(headers, payload) == frame(headers, payload)
    assert read_by_botocore(aws_frame(headers, payload) * 2) == ([(headers, payload)] * 2, None)


@given(st.binary(max_size=200))
def test_any_data_in_the_place_of_an_event(data: bytes) -> None:
    """It stands in a frame byte for byte, and the padding beside it is of many lengths."""
    ((headers, payload),), error = read_by_botocore(AWS_EVENT_STREAM.wrap(data))
    assert error is None
    assert headers == {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    held = json.loads(payload)
    assert b64decode(held["bytes"]) == data
    assert 1 <= len(held["p"]) <= 62


@given(st.dictionaries(_TEXTS, st.none() | st.integers() | _TEXTS | st.lists(_TEXTS), max_size=4), _TEXTS)
def test_events(fields: dict[str, Any], kind: str) -> None:
    """Whatever an event holds comes out of its frame as it went in."""
    event = {**fields, "type": f"later_{kind}"}
    assert written(AWSEventStreamDecoder().feed(AWS_EVENT_STREAM.encode(event))) == written([event])


def test_the_last_event_has_metrics() -> None:
    """As Bedrock sends them, with the event that ends the reply."""
    (event,) = AWSEventStreamDecoder().feed(AWS_EVENT_STREAM.encode({"type": "message_stop"}))
    assert event == {"type": "message_stop", _METRICS: {"invocationLatency": 0}}


@rows("error_type", ERROR_STATUS)
def test_errors(error_type: str) -> None:
    """Each of the API's types has a name at Amazon, which begins with a small letter inside a reply."""
    event = {"type": "error", "error": {"type": error_type, "message": "for a reason"}}
    (error,) = AWSEventStreamDecoder().feed(AWS_EVENT_STREAM.encode(event))
    kind = error["error"]["type"]
    assert kind[:1].islower()
    assert kind[:1].upper() + kind[1:] == AWS_EXCEPTIONS[error_type]
    assert error["error"]["message"] == "for a reason"


@rows("odd", [None, "boom", 5, [], ["x"], {}, {"type": 5, "message": ["x"]}, {"type": []}])
def test_odd_errors(odd: Any) -> None:
    """A recording may hold an `error` event of any shape; in a frame it is an exception all the same."""
    (error,) = AWSEventStreamDecoder().feed(AWS_EVENT_STREAM.encode({"type": "error", "error": odd}))
    assert error["error"] == {"type": "internalServerException", "message": "internalServerException"}
    body = b"data: " + json.dumps({"type": "error", "error": odd}).encode() + b"\n\n"
    assert _decoded(in_aws_frames(Recording.from_body(body))) == ([error], "")


# --- where events stand -----------------------------------------------------------------------------------------------


def test_places_of_events() -> None:
    """Each event ends where its frame does; frames without one, and frames that are broken, have their places too."""
    broken = bytearray(chunk_frame(b'{"type":"a"}'))
    broken[-1] ^= 1
    frames = [
        chunk_frame(b'{"type":"a"}'),
        frame({":event-type": "initial-response"}),
        chunk_frame(b"oops"),
        bytes(broken),
        chunk_frame(b'{"type":"b"}'),
    ]
    events = list(AWS_EVENT_STREAM.events(b"".join(frames)))
    ends = [0, *(event.end for event in events)]
    assert [end - start for start, end in pairwise(ends)] == [len(data) for data in frames]
    assert [event.data for event in events] == [{"type": "a"}, {}, {}, {}, {"type": "b"}]


def test_bytes_after_the_last_event_belong_to_none() -> None:
    """As in a body of server-sent events."""
    body = _FRAMED.body
    ends = [event.end for event in AWS_EVENT_STREAM.events(body)]
    assert ends[-1] == len(body)
    for length in (0, 1, 3, 4, 11, ends[0] - 1, ends[0], ends[0] + 1, len(body) - 1):
        assert [event.end for event in AWS_EVENT_STREAM.events(body[:length])] == [end for end in ends if end <= length]


@given(
    st.lists(
        st.one_of(st.binary(max_size=6), st.sampled_from([b"\0\0\0\0", b"\0\0\0\4", b"\0\0\0\5x", chunk_frame(b"{}")]))
    )
)
def test_any_body_has_places(parts: list[bytes]) -> None:
    """Of a recording that is not what it says nothing is expected but an end."""
    body = b"".join(parts)
    ends = [0, *(event.end for event in AWS_EVENT_STREAM.events(body))]
    assert all(start < end <= len(body) for start, end in pairwise(ends))


# --- a recording in frames --------------------------------------------------------------------------------------------


def test_a_recording_in_frames() -> None:
    """The same events, at the times at which they were whole; only the content type is another."""
    recording = Recording(_REPLY.chunks, headers={"Content-Type": "text/event-stream", "x-more": "1"}, note="n")
    framed = in_aws_frames(recording)
    assert framed.headers == {"content-type": AWS_EVENT_STREAM.media_type, "x-more": "1"}
    assert (framed.status, framed.note) == (recording.status, recording.note)
    assert _decoded(framed) == _decoded(recording)
    assert [(at_s, len(events)) for at_s, events in _arrivals(framed)] == [
        (at_s, len(events)) for at_s, events in _arrivals(recording) if events
    ]


def _arrivals(recording: Recording) -> list[tuple[float, list[WireEvent]]]:
    decoder = AWSEventStreamDecoder() if framing_of(recording) is AWS_EVENT_STREAM else WireDecoder()
    return [(at_s, decoder.feed(data)) for at_s, data in recording.chunks]


@rows("line_end", [b"\n", b"\r\n", b"\r"])
@rows("rest", [b"", b"data: {", b"event: ping", b'data: {"type":"ping"}\n', b": here still"])
def test_a_body_that_ends_inside_an_event(line_end: bytes, rest: bytes) -> None:
    """It ends inside a frame, which is no event, either."""
    body = (encode_event({"type": "ping"}) + rest).replace(b"\n", line_end)
    framed = in_aws_frames(Recording((Chunk(0.0, body[:20]), Chunk(2.0, body[20:]))))
    assert _decoded(framed) == ([{"type": "ping"}], "")
    whole = [event.end for event in AWS_EVENT_STREAM.events(framed.body)]
    assert len(whole) == 1
    assert (whole[0] < len(framed.body)) is bool(rest)
    assert framed.duration_s == 2


@rows("chunks", [(), (Chunk(0.0, b""),), (Chunk(0.0, b"\n\n"),), (Chunk(0.0, b": here still\n\n"),)])
def test_a_body_without_events(chunks: tuple[Chunk, ...]) -> None:
    """Nothing becomes nothing, or less than a frame."""
    assert _decoded(in_aws_frames(Recording(chunks))) == ([], "")


def test_what_gateways_add() -> None:
    """Events that every reader of server-sent events here leaves out must not become frames that none can read."""
    recording = Recording.from_body(encode_event({"type": "ping"}) + b"data:\n\ndata: [DONE]\n\n")
    assert _decoded(recording) == _decoded(in_aws_frames(recording)) == ([{"type": "ping"}], "")


def test_data_stays_as_it_was_written() -> None:
    """Spaces, the order of keys, numbers that Python would write otherwise, and what is no event at all."""
    for data in (b'{ "type": "x", "a": 1.0E+2,"\xc3\xa9":0 }', b"oops", b'{"type": 5}'):
        ((_, payload),), _ = read_by_botocore(in_aws_frames(Recording.from_body(b"data: " + data + b"\n\n")).body)
        assert b64decode(json.loads(payload)["bytes"]) == data


@rows(
    "content_type, framing",
    [
        ("application/vnd.amazon.eventstream", AWS_EVENT_STREAM),
        ("Application/VND.Amazon.EventStream; x=y", AWS_EVENT_STREAM),
        ("application/vnd.amazon.eventstreams", SSE),
        ("text/event-stream", SSE),
        ("text/html", SSE),
        ("", SSE),
    ],
)
def test_which_framing(content_type: str, framing: object) -> None:
    """Told by the content type, however its header is written."""
    assert framing_of(Recording((), headers={"Content-TYPE": content_type})) is framing
    assert framing_of(Recording(())) is SSE


# --- faults -----------------------------------------------------------------------------------------------------------

_ENDS = [0, *(event.end for event in AWS_EVENT_STREAM.events(_FRAMED.body))]
_KINDS = sorted(set(FaultKind) - INSTEAD)


def test_the_same_events_in_both_framings() -> None:
    """What follows compares the two, so they have to be alike at first."""
    assert len(_ENDS) == len(list(body_events(_REPLY.body))) + 1
    assert _decoded(_FRAMED) == _decoded(_REPLY)


@rows("after", [*range(len(_ENDS) + 1), 1_000])
@rows("kind", _KINDS)
def test_each_fault_at_each_event(kind: FaultKind, after: int) -> None:
    """A fault leaves of a reply in frames exactly what it leaves of the same reply in server-sent events."""
    fault = Fault(kind, after_events=after, error_type="overloaded_error" if kind is FaultKind.ERROR_EVENT else None)
    framed, plain = break_reply(_FRAMED, fault), break_reply(_WHOLE, fault)
    assert framing_of(framed.recording) is AWS_EVENT_STREAM
    assert (framed.ending is None, framed.headers) == (plain.ending is None, plain.headers)
    events, failure = _decoded(framed.recording)
    expected, expected_failure = _decoded(plain.recording)
    if kind is FaultKind.ERROR_EVENT:
        error = events.pop()
        assert error["error"] == {**expected.pop()["error"], "type": "serviceUnavailableException"}
    assert (written(events), failure) == (written(expected), expected_failure)
    assert (failure != "") is (kind is FaultKind.GARBAGE)
    assert framed.recording.duration_s == plain.recording.duration_s


@given(st.integers(0, len(_FRAMED.body) + 3), st.sampled_from(sorted(BYTEWISE)))
def test_bytes(offset: int, kind: FaultKind) -> None:
    """What comes before any byte stays as it was; a frame that is broken there is noticed."""
    offset = min(offset, len(_FRAMED.body))
    broken = break_reply(_FRAMED, Fault(kind, after_bytes=offset)).recording
    assert broken.body[:offset] == _FRAMED.body[:offset]
    events, failure = _decoded(broken)
    whole, _ = _decoded(_FRAMED)
    assert events == whole[: len([end for end in _ENDS[1:] if end <= offset])]
    # Behind the last frame a few bytes are less than a prelude.
    assert (failure != "") is (kind is FaultKind.GARBAGE and offset < len(_FRAMED.body))


@rows("kind", sorted(INSTEAD))
def test_instead_of_the_reply(kind: FaultKind) -> None:
    """What is no reply at all has no frames."""
    broken = break_reply(_FRAMED, Fault(kind, status=429 if kind is FaultKind.HTTP_ERROR else None)).recording
    assert framing_of(broken) is not AWS_EVENT_STREAM
    assert (broken.body == _FRAMED.body) is (kind is FaultKind.CONTENT_TYPE)


@for_recordings
def test_recordings_are_what_the_anthropic_client_reads(recording: Path) -> None:
    """Every reply gives the events that the client's own decoder gives."""
    from anthropic.lib.bedrock import _stream_decoder

    body = in_aws_frames(Recording.load(recording)).body
    theirs = _stream_decoder.AWSEventStreamDecoder().iter_bytes(iter([body]))
    expected: list[Any] = []
    try:
        for sse in theirs:
            expected.append(json.loads(sse.data))
    except ValueError:
        pass  # what older versions make of an exception frame
    events, failure = decoded(AWSEventStreamDecoder(), random_pieces(body, seed=5, largest=300))
    assert failure == ""
    assert written(events[: len(expected)]) == written(expected)
    assert {event["type"] for event in events[len(expected) :]} <= {"error"}
    assert events
