"""`decode_event`, `WireDecoder` and `to_wire_event`: what is an event, and what is refused."""

from __future__ import annotations

import json
from math import inf
from types import MappingProxyType
from typing import Any

import pytest
from anthropic import types
from hypothesis import given, strategies as st

from eagerstream.errors import EagerStreamError, LimitError, ProtocolError, UsageError
from eagerstream.wire import SSEDecoder, WireDecoder, WireEvent, decode_event
from eagerstream.wire._decoding import to_wire_event
from tests.support import cuts_of, one_by_one, written
from tests.wire.json_texts import texts


@pytest.mark.parametrize(
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
    ids=lambda data: ascii(data)[:40],
)
def test_an_event_is_an_object_with_a_type(data: str) -> None:
    """Whatever the API adds passes, lone surrogates and deep nesting too, as the standard library would read it."""
    assert written(decode_event(data)) == written(json.loads(data))


@pytest.mark.parametrize(
    "data",
    [
        *("", " ", "{", "[]", "null", '"ping"', "1", "{}", '{"type":null}', '{"type":5}', "event", '{"type":"ping"} x'),
        "[" * 100_000,
        '{"type":"x","n":' + "1" * 5_000 + "}",
    ],
    ids=lambda data: ascii(data)[:40],
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


@pytest.mark.parametrize("sick", [b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\xbd"], ids=repr)
def test_bytes_that_are_no_utf_8_become_replacement_characters(sick: bytes) -> None:
    """One broken character is no reason to give up a reply; read as bytes or as text, it comes out the same."""
    data = b'{"type":"x","text":"a' + sick + b'b"}'
    assert decode_event(data) == decode_event(data.decode("utf-8", "replace"))
    assert decode_event(data)["text"].startswith("a\ufffd")


# --- WireDecoder ------------------------------------------------------------------------------------------------------


def decoded(chunks: list[bytes], *, max_event_bytes: int = 10_000) -> tuple[list[WireEvent], str]:
    """The events of a body, and the failure that ended it."""
    decoder = WireDecoder(max_event_bytes=max_event_bytes)
    events: list[WireEvent] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        decoder.close()
    except EagerStreamError as failure:
        with pytest.raises(type(failure)):
            decoder.feed(b"")
        with pytest.raises(type(failure)):
            decoder.close()
        return events, f"{type(failure).__name__}: {failure}"
    return events, ""


_LINES = [
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
_bodies = st.lists(st.sampled_from(_LINES), max_size=16).map(b"".join)


@given(st.data(), _bodies, st.integers(10, 60))
def test_any_cut_gives_the_same_wire_events(data: st.DataObject, body: bytes, bound: int) -> None:
    """The same events and the same failure, wherever the network cuts, and the same as by the two steps one by one."""
    whole = decoded([body], max_event_bytes=bound)
    assert decoded(data.draw(cuts_of(body)), max_event_bytes=bound) == whole
    events: list[WireEvent] = []
    failure = ""
    sse = SSEDecoder(max_event_bytes=bound)
    try:
        for chunk in one_by_one(body):
            events += [decode_event(event.data) for event in sse.feed(chunk) if event.data not in ("", "[DONE]")]
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
    assert decoded([b'data: {"type":"a"}\n\ndata:\n\ndata: [DONE]\n\n']) == ([{"type": "a"}], "")


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


@pytest.mark.parametrize("event", [None, "ping", 5, ["ping"], (1,), (1, "x", 2), object(), b"{}"])
def test_what_is_no_event_is_the_callers_error(event: object) -> None:
    """Feeding bytes or strings is the likeliest mistake; it is told by name."""
    with pytest.raises(UsageError, match=type(event).__name__):
        to_wire_event(event)
