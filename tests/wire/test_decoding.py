"""`FragmentDecoder`: what it gives is what `WireDecoder` gives, with input fragments in their short form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream.errors import EagerStreamError
from eagerstream.wire import FragmentDecoder, InputFragment, WireDecoder, WireEvent
from tests.support import cuts_of, each_recording, input_delta, message_delta, one_by_one, text_delta


def spelled_out(event: WireEvent | InputFragment) -> WireEvent:
    """The wire event that an `InputFragment` stands for."""
    return input_delta(*event) if isinstance(event, tuple) else event


def decoded(decoder: WireDecoder | FragmentDecoder, chunks: Iterable[bytes]) -> tuple[list[Any], str]:
    """The events of a body, and the failure that ended it."""
    events: list[Any] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
    except EagerStreamError as failure:
        return events, f"{type(failure).__name__}: {failure}"
    return events, ""


def check_same(chunks: list[bytes], *, max_event_bytes: int = 10_000) -> list[Any]:
    """Both decoders say the same; what the `FragmentDecoder` gave."""
    events, failure = decoded(FragmentDecoder(max_event_bytes=max_event_bytes), chunks)
    same = [spelled_out(event) for event in events]
    assert (same, failure) == decoded(WireDecoder(max_event_bytes=max_event_bytes), chunks)
    return events


Writer = Callable[[WireEvent], bytes]


def as_the_api(event: WireEvent) -> bytes:
    """An event as the API writes it."""
    return b"event: %s\ndata: %s\n\n" % (
        event["type"].encode(),
        json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"),
    )


def padded(event: WireEvent) -> bytes:
    """An event with the API's padding, which is of another length in each."""
    body = as_the_api(event)
    return body.replace(b"}\n\n", b" " * (len(body) % 40) + b"}\n\n")


def with_spaces(event: WireEvent) -> bytes:
    """An event as gateways write it that use the standard library's encoder."""
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode())


def in_another_order(event: WireEvent) -> bytes:
    """An event whose fields come the other way round: nothing can be learned of it."""
    event = {name: event[name] for name in reversed(event)}
    if isinstance(event.get("delta"), dict):
        event["delta"] = dict(reversed(event["delta"].items()))
    return as_the_api({**event, "type": event.pop("type")})


def without_name(event: WireEvent) -> bytes:
    return b"data: %s\n\n" % json.dumps(event, separators=(",", ":")).encode()


def with_crlf(event: WireEvent) -> bytes:
    return as_the_api(event).replace(b"\n", b"\r\n")


WRITERS: list[Writer] = [as_the_api, padded, with_spaces, in_another_order, without_name, with_crlf]

_fragments = st.one_of(
    st.text(),
    st.text('{}[]",:\\ \n\r\x00é😀a', max_size=12),
    st.sampled_from(['"}}', '"}}\n\n', '\\"}}', '","x":"', '"} }', "", "\ud83d", "data: ", "\n\nevent: "]),
)
_events = st.one_of(
    st.builds(input_delta, st.integers(0, 2), _fragments),
    st.builds(input_delta, st.just(0), _fragments),
    st.builds(text_delta, st.integers(0, 1), st.text(max_size=5)),
    st.just(message_delta("tool_use")),
    st.just({"type": "ping"}),
)
_spoilt = st.sampled_from(
    [
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a","x":"b"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a","partial_json":"b"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a"},"index":7,"x":{"y":"b"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a"}}\nid: 1\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a\nb"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a"\n}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\xff"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":true,"delta":{"type":"input_json_delta","partial_json":"a"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"a"}}\n\n',
        b'event: content_block_delta\ndata: {"partial_json":"x","type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a"}}\n\n',
        b"event: content_block_delta\n\n",
        b": comment\n\n",
        b"\n",
        b"event: content_block_delta\n",
    ]
)


@st.composite
def _bodies(draw: st.DrawFn) -> list[bytes]:
    writer = draw(st.sampled_from(WRITERS))
    parts = draw(st.lists(st.one_of(_events.map(writer), _events.map(writer), _spoilt), max_size=12))
    return list(parts)


@given(st.data(), _bodies(), st.integers(60, 400))
def test_both_decoders_say_the_same(data: st.DataObject, parts: list[bytes], bound: int) -> None:
    """Whatever a peer writes, however the network cuts it, and with any limit."""
    body = b"".join(parts)
    for chunks in ([body], parts, data.draw(cuts_of(body))):
        check_same(chunks)
        check_same(chunks, max_event_bytes=bound)


@pytest.mark.parametrize("writer", [as_the_api, padded, with_spaces], ids=lambda writer: writer.__name__)
@pytest.mark.parametrize("together", [1, 4])
def test_what_stands_before_a_fragment_is_learned_once(writer: Writer, together: int) -> None:
    """From the first fragment of an input on, whatever is in the others."""
    texts = ['{"', 'a": "', "\\", 'n}}"}}', "😀 é", "", '"}']
    parts = [writer(input_delta(index, text)) for index in (0, 3) for text in texts]
    chunks = [b"".join(parts[at : at + together]) for at in range(0, len(parts), together)]
    events = check_same([b": the first event of a body is never learned from\n\n", *chunks])
    learned = [event for event in events if isinstance(event, tuple)]
    assert learned == [(index, text) for index in (0, 3) for text in texts[1:]]


@pytest.mark.parametrize("writer", [in_another_order, without_name, with_crlf], ids=lambda writer: writer.__name__)
def test_what_cannot_be_learned_is_decoded_as_ever(writer: Writer) -> None:
    """Other orders of the fields, other lines."""
    events = check_same([writer(input_delta(0, f"{number}")) for number in range(40)])
    assert all(isinstance(event, dict) for event in events)


_WHOLE = b'"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":'


@pytest.mark.parametrize(
    "blocks",
    [
        [b'event: p\ndata: {"type":"ping"}', b'\n"abc"}}'],  # three line feeds: a line of no event
        [
            b'event: x\ndata: {"type":"content_block_delta","index":%s,"delta":{"type":"input_json_delta",'
            b'"partial_json":"x"}%s}' % (index, again)
            for index in (b"true", b"1.0")
            for again in (b',"index":1', b"", b',"index":1', b"")
        ],
        [
            b'data: {"q":\ndata: {%s"x"}},%s"z"}}' % (_WHOLE, _WHOLE),
            b'data: {"q":\ndata: {%s"y"}}' % _WHOLE,
        ],
        [b"retry: 5\ndata: {%s%s}}" % (_WHOLE, text) for text in (b'"x"', b'"y"', b'"z"')],
    ],
    ids=["a line of nothing", "an index that equals one", "data before the data", "another first line"],
)
@pytest.mark.parametrize("together", [True, False])
def test_nothing_is_learned_that_was_not_understood(blocks: list[bytes], *, together: bool) -> None:
    """What comes out is what the standard and the API's own form say, and no text is made up."""
    chunks = [b'event: ping\ndata: {"type":"ping"}\n\n', *(block + b"\n\n" for block in blocks)]
    events = check_same([b"".join(chunks)] if together else chunks)
    assert not any(isinstance(event, tuple) for event in events)


@each_recording
def test_recorded_streams(recording: Path) -> None:
    """Real bytes, in chunks of an event and of a byte."""
    body = recording.read_bytes()
    check_same([body], max_event_bytes=1_000_000)
    check_same([part + b"\n\n" for part in body.split(b"\n\n")], max_event_bytes=1_000_000)
    if len(body) < 50_000:
        check_same(one_by_one(body), max_event_bytes=1_000_000)
