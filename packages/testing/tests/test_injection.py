"""What a fault makes of a recording."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.streams import wire_events
from tests.tables import rows

from eagerstream._support.bodies import body_events
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Fault, FaultKind, Timing, encode_event, reply, retime, server_tool_use, text, tool_use
from eagerstream_testing._faults import BYTEWISE, ERROR_STATUS, INSTEAD
from eagerstream_testing._framing import AWS_EVENT_STREAM
from eagerstream_testing._injection import _what_goes_on, break_reply
from eagerstream_testing._one_piece import final_message
from eagerstream_wire import PartialJSON

_REPLY = retime(
    reply(text("Let me look."), tool_use("make_file", {"name": 'a"b\\', "lines": ["one", "två"]})),
    Timing(tokens_per_second=10, cut=50),
)
_FRAMED = {"content-type": AWS_EVENT_STREAM.media_type}
_EVENTS = list(body_events(_REPLY.body))
_ENDS = [0, *(event.end for event in _EVENTS)]
_PARTS = [_REPLY.body[start:end] for start, end in pairwise(_ENDS)]


def _broken(kind: FaultKind, recording: Recording = _REPLY, **place: Any) -> Recording:
    return break_reply(recording, Fault(kind, **place)).recording


def _times(recording: Recording) -> list[float]:
    """When each byte comes."""
    return [at_s for at_s, data in recording.chunks for _ in data]


@rows("after", range(len(_PARTS) + 2))
def test_what_happens_to_events(after: int) -> None:
    """Beyond the end it is the last event, or the last two, to which it happens."""
    last = len(_PARTS) - 1
    n = min(after, last)
    assert _broken(FaultKind.DUPLICATE, after_events=after).body == b"".join(
        [*_PARTS[: n + 1], _PARTS[n], *_PARTS[n + 1 :]]
    )
    assert _broken(FaultKind.MISSING, after_events=after).body == b"".join([*_PARTS[:n], *_PARTS[n + 1 :]])
    n = min(after, last - 1)
    swapped = [*_PARTS[:n], _PARTS[n + 1], _PARTS[n], *_PARTS[n + 2 :]]
    assert _broken(FaultKind.REORDERED, after_events=after).body == b"".join(swapped)


@rows("after", range(len(_PARTS) + 2))
@rows("error_type", ["overloaded_error", "api_error"])
def test_error_events(after: int, error_type: str) -> None:
    """An error after any event, in the API's form, and then nothing."""
    *before, error = wire_events(_broken(FaultKind.ERROR_EVENT, after_events=after, error_type=error_type).body)
    assert before == [event.data for event in _EVENTS][:after]
    assert error["type"] == "error"
    assert error["error"].keys() == {"type", "message"}
    assert error["error"]["type"] == error_type


@rows("error_type", ERROR_STATUS)
def test_each_error_type(error_type: str) -> None:
    """An error event has each of the API's types, an HTTP error the status that goes with it, both the same words."""
    event = wire_events(_broken(FaultKind.ERROR_EVENT, error_type=error_type).body)[0]
    error = _broken(FaultKind.HTTP_ERROR, status=ERROR_STATUS[error_type])
    assert error.status == ERROR_STATUS[error_type]
    assert json.loads(error.body)["error"] == event["error"]
    assert event["error"]["message"]


@given(st.integers(0, len(_REPLY.body) + 3), st.sampled_from(sorted(BYTEWISE)))
def test_bytes_and_their_times(offset: int, kind: FaultKind) -> None:
    """What comes before any byte stays as it was, and comes when it did."""
    broken = _broken(kind, after_bytes=offset)
    offset = min(offset, len(_REPLY.body))
    assert broken.body[:offset] == _REPLY.body[:offset]
    assert _times(broken)[:offset] == _times(_REPLY)[:offset]
    if kind is FaultKind.GARBAGE:
        added = len(broken.body) - len(_REPLY.body)
        assert broken.body[offset + added :] == _REPLY.body[offset:]
        assert _times(broken)[offset + added :] == _times(_REPLY)[offset:]
        with pytest.raises(UnicodeDecodeError):
            broken.body[offset : offset + added].decode()
    else:
        assert len(broken.body) == offset
        # It happens when the byte would have come that does not.
        assert broken.duration_s == [*_times(_REPLY), _REPLY.duration_s][offset]


@pytest.mark.slow
@given(st.sampled_from(FaultKind), st.integers(0, len(_PARTS) + 2), st.sampled_from([7, 50, 10_000, "event"]))
def test_any_place_in_any_chunks(kind: FaultKind, after: int, cut: Any) -> None:
    """Whatever the chunks, the bytes are the same ones, and times never go back."""
    extra: dict[str, Any] = {"after_events": 0 if kind in INSTEAD else after}
    if kind is FaultKind.HTTP_ERROR:
        extra["status"] = 429
    if kind is FaultKind.ERROR_EVENT:
        extra["error_type"] = "api_error"
    one, other = (_broken(kind, retime(_REPLY, Timing(cut=size)), **extra) for size in (cut, "random"))
    assert one.body == other.body  # a Recording checks its times itself


def test_garbage_between_events() -> None:
    """It is an event that no reader takes for a wire event, and the events around it are whole."""
    body = _broken(FaultKind.GARBAGE, after_events=3).body
    events = [event.data for event in body_events(body)]
    assert events[:3] + events[4:] == [event.data for event in _EVENTS]
    assert events[3] == {}


@rows("after", [0, 1, 4, 9, len(_PARTS) - 1, len(_PARTS), 1000])
def test_splice(after: int) -> None:
    """The reply begins anew as another message, before the first one has ended, and its times go on."""
    recording = retime(
        reply(
            text("Hi"),
            server_tool_use("web_search", {"query": "x"}, id="srvtoolu_1"),
            tool_use("t", {"a": 1}, id="toolu_1"),
            message_id="msg_1",
        ),
        Timing(cut=33),
    )
    count = len(wire_events(recording.body))
    broken = _broken(FaultKind.SPLICE, recording, after_events=after)
    events = wire_events(broken.body)
    assert len(events) == count + min(max(after, 1), count - 1)
    again = events[-count:]
    assert [event["type"] for event in again] == [event["type"] for event in wire_events(recording.body)]
    assert sum(event["type"] == "message_stop" for event in events) == 1
    message = final_message(events)
    assert message["id"] == "msg_1_again"
    assert [block["id"] for block in message["content"] if "id" in block] == ["srvtoolu_1_again", "toolu_1_again"]
    assert message["content"][2]["input"] == {"a": 1}
    assert broken.duration_s >= recording.duration_s


def test_other_ids_are_used_throughout() -> None:
    """A result of the API's own tools names the call that it belongs to, also after a splice."""
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    start = {"type": "content_block_start", "index": 0, "content_block": result}
    body = encode_event({"type": "ping"}) + encode_event(start)
    events = wire_events(_broken(FaultKind.SPLICE, Recording.from_body(body), after_events=1).body)
    assert [event.get("content_block", {}).get("tool_use_id") for event in events] == [None, None, "srvtoolu_1_again"]


@rows("kind", [kind for kind in FaultKind if kind not in INSTEAD])
@rows(
    "recording",
    [
        Recording(()),
        Recording.from_body(b"no event"),
        Recording((), headers=_FRAMED),
        *(Recording((Chunk(1.0, body),), headers=_FRAMED) for body in (b"\0\0", bytes(8), b"no frame, and not short")),
    ],
)
def test_bodies_without_events(kind: FaultKind, recording: Recording) -> None:
    """They have no place between events, and nothing breaks there that was not asked for."""
    error_type = "api_error" if kind is FaultKind.ERROR_EVENT else None
    broken = _broken(kind, recording, error_type=error_type, after_events=3)
    if kind in (FaultKind.SPLICE, FaultKind.DUPLICATE, FaultKind.MISSING, FaultKind.REORDERED):
        assert broken.body == recording.body
    elif kind is not FaultKind.ENDLESS:
        assert broken.body.startswith(recording.body)


@rows("after", range(len(_PARTS) + 2))
def test_what_goes_on_for_ever(after: int) -> None:
    """An endless reply is one that the API could have sent so far: its blocks are open, its JSON can go on."""
    broken = break_reply(_REPLY, Fault(FaultKind.ENDLESS, after_events=after))
    passed = wire_events(broken.recording.body)
    assert passed[0]["type"] == "message_start"
    assert all(event["type"] not in ("message_delta", "message_stop") for event in passed)
    final_message(passed)
    open_blocks = {event["index"] for event in passed if event["type"] == "content_block_start"}
    open_blocks -= {event["index"] for event in passed if event["type"] == "content_block_stop"}
    assert len(open_blocks) == 1


_TEXTS = st.text(max_size=8)
_STRUCTURES = st.recursive(
    _TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3), max_leaves=4
)


@pytest.mark.slow
@given(_STRUCTURES, st.integers(0, 200))
def test_endless_inputs_stay_json(value: Any, at: int) -> None:
    """The text of an input can be gone on with for ever without becoming wrong: in a string, an escape, between."""
    raw = json.dumps({"a": value})[:at]
    start = {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": raw}
    passed = [
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    ]
    opened, more = _what_goes_on(passed)
    parser = PartialJSON()
    for event in (passed[1], *opened, more, more):
        parser.feed(event["delta"]["partial_json"])
    assert parser.error is None


@rows("status, title", [(502, "502 Bad Gateway"), (200, "200 OK"), (529, "529")])
def test_pages_of_proxies(status: int, title: str) -> None:
    """A page says its status, also one that no proxy has words for."""
    page = _broken(FaultKind.HTML_PAGE, status=status)
    assert (page.status, page.headers) == (status, {"content-type": "text/html"})
    assert f"<title>{title}</title>".encode() in page.body
    assert f"<h1>{title}</h1>".encode() in page.body


def test_content_type() -> None:
    """Only the header is wrong, however the recording writes its name."""
    recording = Recording((Chunk(1, b"x"),), headers={"Content-Type": "text/event-stream", "x-more": "1"})
    broken = _broken(FaultKind.CONTENT_TYPE, recording)
    assert broken.headers == {"content-type": "application/json", "x-more": "1"}
    assert broken.chunks == recording.chunks


@rows("wait_s, header", [(2, "2"), (0.5, "0.5"), (1e6, "1000000"), (None, None)])
def test_retry_after(wait_s: float | None, header: str | None) -> None:
    """Seconds as the header has them, or no header."""
    assert _broken(FaultKind.HTTP_ERROR, status=429, retry_after_s=wait_s).headers.get("retry-after") == header
