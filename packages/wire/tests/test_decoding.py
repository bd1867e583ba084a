"""Decode wire events: what is an event and what is refused, and two decoders of bodies that say the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from anthropic import types
from hypothesis import given, strategies as st
from packages.wire.tests.decoding import decoded
from packages.wire.tests.json_texts import texts
from packages.wire.tests.recordings import for_recordings
from tests.streams import cuts_of, input_delta, message_delta, one_by_one, text_delta, written
from tests.tables import rows

from eagerstream_wire import (
    EagerStreamError,
    FragmentDecoder,
    InputFragment,
    LimitError,
    ProtocolError,
    SSEDecoder,
    TextFragment,
    UsageError,
    WireDecoder,
    WireEvent,
    decode_event,
)
from eagerstream_wire._decoding import to_wire_event


@rows(
    "name, data, event",
    [
        ("ping", "2026-02-20 08:40", {"type": "ping"}),
        ("ping", '{"error": "none"}', {"type": "ping"}),
        ("ping", '{"type": 5}', {"type": "ping"}),
        ("ping", '{"type": "ping", "at": 5}', {"type": "ping", "at": 5}),
        ("heartbeat", "17", {"type": "heartbeat", "data": 17}),
        ("heartbeat", '{"error": {}}', {"type": "heartbeat", "error": {}}),
        ("heartbeat", '{"type": null}', {"type": "heartbeat"}),
        ("message_stop", "{}", {"type": "message_stop"}),
        ("exception", '{"error": {"message": "no"}}', {"type": "error", "error": {"message": "no"}}),
        ("error", "Overloaded", {"type": "error", "error": {"type": "api_error", "message": "Overloaded"}}),
        ("error", '"Overloaded"', {"type": "error", "error": {"type": "api_error", "message": "Overloaded"}}),
        ("error", '[{"error": {"message": "no"}}]', {"type": "error", "error": {"message": "no"}}),
        ("error", '{"code": 429, "msg": "no"}', {"type": "error", "error": {"code": 429, "msg": "no"}}),
        (
            "error",
            '{"type": "api_error", "message": "no"}',
            {"type": "error", "error": {"type": "api_error", "message": "no"}},
        ),
        ("error", '{"type": "error", "error": {"message": "no"}}', {"type": "error", "error": {"message": "no"}}),
    ],
)
def test_events_that_say_their_type_by_their_name(name: str, data: str, event: Any) -> None:
    """Heartbeats and errors of gateways. What begins, changes or ends a message is never guessed."""
    assert decode_event(data, name) == event
    assert WireDecoder().feed(f"event: {name}\ndata: {data}\n\n".encode()) == [event]
    for kind in ("content_block_delta", "message", ""):
        with pytest.raises(ProtocolError):
            decode_event("17", kind)


def spelled_out(event: WireEvent | InputFragment) -> WireEvent:
    """The wire event that a fragment stands for."""
    if isinstance(event, TextFragment):
        return text_delta(*event)
    return input_delta(*event) if isinstance(event, tuple) else event


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
    return body.replace(b"}\n\n", b" " * (len(body) % 32) + b"}\n\n")


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
    st.builds(text_delta, st.integers(0, 1), _fragments),
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


@rows("writer", [as_the_api, padded, with_spaces])
@rows("together", [1, 4])
@rows("kind", [input_delta, text_delta])
def test_what_stands_before_a_fragment_is_learned_once(writer: Writer, together: int, kind: Any) -> None:
    """From the first fragment of a block on, whatever is in the others."""
    texts = ['{"', 'a": "', "\\", 'n}}"}}', "😀 é", "", '"}']
    parts = [writer(kind(index, text)) for index in (0, 3) for text in texts]
    chunks = [b"".join(parts[at : at + together]) for at in range(0, len(parts), together)]
    events = check_same([b": the first event of a body is never learned from\n\n", *chunks])
    learned = [event for event in events if isinstance(event, tuple)]
    assert learned == [(index, text) for index in (0, 3) for text in texts[1:]]
    assert {type(event) for event in learned} == {TextFragment if kind is text_delta else tuple}


@rows("writer", [in_another_order, without_name, with_crlf])
def test_what_cannot_be_learned_is_decoded_as_ever(writer: Writer) -> None:
    """Other orders of the fields, other lines."""
    events = check_same([writer(input_delta(0, f"{number}")) for number in range(40)])
    assert all(isinstance(event, dict) for event in events)


_WHOLE = b'"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":'


@rows(
    "blocks",
    [
        [b'event: p\ndata: {"type":"ping"}', b'\n"abc"}}'],  # three line feeds: a line of no event
        # An index that equals one.
        [
            b'event: x\ndata: {"type":"content_block_delta","index":%s,"delta":{"type":"input_json_delta",'
            b'"partial_json":"x"}%s}' % (index, again)
            for index in (b"true", b"1.0")
            for again in (b',"index":1', b"", b',"index":1', b"")
        ],
        # Data before the data.
        [
            b'data: {"q":\ndata: {%s"x"}},%s"z"}}' % (_WHOLE, _WHOLE),
            b'data: {"q":\ndata: {%s"y"}}' % _WHOLE,
        ],
        # Another first line.
        [b"retry: 5\ndata: {%s%s}}" % (_WHOLE, text) for text in (b'"x"', b'"y"', b'"z"')],
    ],
)
@rows("together", [True, False])
def test_nothing_is_learned_that_was_not_understood(blocks: list[bytes], *, together: bool) -> None:
    """What comes out is what the standard and the API's own form say, and no text is made up."""
    chunks = [b'event: ping\ndata: {"type":"ping"}\n\n', *(block + b"\n\n" for block in blocks)]
    events = check_same([b"".join(chunks)] if together else chunks)
    assert not any(isinstance(event, tuple) for event in events)


@for_recordings
def test_recorded_streams(recording: Path) -> None:
    """Real bytes, in chunks of an event and of a byte."""
    body = recording.read_bytes()
    check_same([body], max_event_bytes=1_000_000)
    check_same([part + b"\n\n" for part in body.split(b"\n\n")], max_event_bytes=1_000_000)
    if len(body) < 50_000:
        check_same(one_by_one(body), max_event_bytes=1_000_000)


@rows(
    "data",
    [
        '{"type":"ping"}',
        '{"type":"ping"}   ',
        '{"type":"new kind","of":[{"event":null}]}',
        '{"type":"x","text":"\\ud83d"}',
        '{"type":"x","text":"\ud83d"}',
        '{"type":"x","deep":' + "[" * 300 + "]" * 300 + "}",
        '{"type":"x","n":123456789012345678901234567890}',
        '{"type":"x","twice":1,"twice":2}',
        '{"type":"x","usage":{"output_tokens":3,"cache":null,"share":0.5}}',
    ],
)
def test_an_event_is_an_object_with_a_type(data: str) -> None:
    """Whatever the API adds passes, lone surrogates and deep nesting too, as the standard library would read it."""
    assert written(decode_event(data)) == written(json.loads(data))


@rows(
    "data",
    [
        *("", " ", "{", "[]", "null", '"ping"', "1", "{}", '{"type":null}', '{"type":5}', "event", '{"type":"ping"} x'),
        "[" * 100_000,
        '{"type":"x","n":' + "1" * 5_000 + "}",
    ],
)
def test_anything_else_breaks_the_protocol(data: str) -> None:
    """Going on would be guessing; the error shows the beginning of what came, and no more."""
    with pytest.raises(ProtocolError) as caught:
        decode_event(data)
    assert caught.value.excerpt == data[:80]
    assert len(str(caught.value)) < 500


@given(st.one_of(texts, st.text(), texts.map(lambda text: f'{{"type":"x","value":{text}}}')))
def test_arbitrary_data_raises_only_protocol_errors(data: str) -> None:
    """A peer's noise has one name."""
    try:
        event = decode_event(data)
    except ProtocolError:
        return
    assert isinstance(event["type"], str)
    # written() refuses nothing here that the standard library reads
    assert written(event) == written(json.loads(data))


@rows("sick", [b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\xbd"])
def test_bytes_that_are_no_utf_8_become_replacement_characters(sick: bytes) -> None:
    """One broken character is no reason to give up a reply; read as bytes or as text, it comes out the same."""
    data = b'{"type":"x","text":"a' + sick + b'b"}'
    assert decode_event(data) == decode_event(data.decode("utf-8", "replace"))
    assert decode_event(data)["text"].startswith("a\ufffd")


# --- WireDecoder ------------------------------------------------------------------------------------------------------

_SMALL_LINES = [
    b"data: ",
    b"data:",
    b'{"type":"a"}',
    b'{"type":"\xc3\xa9\xff"}',
    b"[]",
    b"[DONE]",
    b"\n",
    b"\n\n",
    b"\r\n",
    b": c",
    b"event: e",
]

_small_bodies = st.lists(st.sampled_from(_SMALL_LINES), max_size=16).map(b"".join)


@given(st.data(), _small_bodies, st.integers(10, 60))
def test_any_cut_gives_the_same_wire_events(data: st.DataObject, body: bytes, bound: int) -> None:
    """The same events and the same failure, wherever the network cuts, and the same as by the two steps one by one."""
    whole = decoded(WireDecoder(max_event_bytes=bound), [body])
    assert decoded(WireDecoder(max_event_bytes=bound), data.draw(cuts_of(body))) == whole
    events: list[WireEvent] = []
    failure = ""
    sse = SSEDecoder(max_event_bytes=bound)
    try:
        for chunk in one_by_one(body):
            events += [
                decode_event(event.data, event.event) for event in sse.feed(chunk) if event.data not in ("", "[DONE]")
            ]
    except EagerStreamError as caught:
        failure = f"{type(caught).__name__}: {caught}"
    assert (events, failure) == whole


def test_what_is_no_event_ends_the_decoding_after_what_was_one() -> None:
    """Events that arrived whole in the same chunk are handed out first; then the failure comes, and stays."""
    decoder = WireDecoder()
    assert decoder.feed(b'data: {"type":"a"}\n\ndata: oops\n\ndata: {"type":"b"}\n\n') == [{"type": "a"}]
    for _ in range(2):
        with pytest.raises(ProtocolError) as caught:
            decoder.feed(b"")
        assert caught.value.excerpt == "oops"
    with pytest.raises(ProtocolError):
        decoder.close()


def test_the_limit_of_a_wire_decoder() -> None:
    """It has the limit of any decoder of event streams."""
    decoder = WireDecoder(max_event_bytes=10)
    with pytest.raises(LimitError):
        decoder.feed(b'data: {"type":"a"}')


def test_what_gateways_add_is_no_event() -> None:
    """An event without data, and the "[DONE]" of other protocols, say nothing."""
    assert decoded(WireDecoder(), [b'data: {"type":"a"}\n\ndata:\n\ndata: [DONE]\n\n']) == ([{"type": "a"}], "")


# --- to_wire_event ----------------------------------------------------------------------------------------------------


def test_mappings_stay_what_they_are() -> None:
    """No copy is made of an event, and any kind of mapping will do."""
    event = {"type": "ping"}
    assert to_wire_event(event) is event
    proxy = MappingProxyType(event)
    assert to_wire_event(proxy) is proxy


def test_event_objects_become_what_was_sent() -> None:
    """Fields that the object knows and the wire did not bring must not appear; unknown ones must not get lost."""
    sent: dict[str, Any] = {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "n", "input": {"a": 1}, "later": [None]},
    }
    assert to_wire_event(types.RawContentBlockStartEvent.model_validate(sent)) == sent
    assert to_wire_event(types.RawContentBlockStartEvent.construct(**sent)) == sent


def test_an_infinity_in_an_event_object_stays_one() -> None:
    """As null it would make a valid input of one that cannot be sent back."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "n", "input": {"a": inf}}
    event = types.RawContentBlockStartEvent.construct(type="content_block_start", index=0, content_block=block)
    assert to_wire_event(event) == {"type": "content_block_start", "index": 0, "content_block": block}


def test_a_fragment_gets_its_dicts_back() -> None:
    """Whoever looks at the type of an event need not know that fragments may come without one."""
    delta = {"type": "input_json_delta", "partial_json": '{"a'}
    assert to_wire_event((3, '{"a')) == {"type": "content_block_delta", "index": 3, "delta": delta}


@rows("event", [None, "ping", 5, ["ping"], (1,), (1, "x", 2), object(), b"{}"])
def test_what_is_no_event_is_the_callers_error(event: object) -> None:
    """Feeding bytes or strings is the likeliest mistake; it is told by name."""
    with pytest.raises(UsageError, match=type(event).__name__):
        to_wire_event(event)
