"""Recordings without what the model wrote: `Recording.redacted(contents=True)`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

from hypothesis import given, settings, strategies as st
from packages.wire.tests.recordings import for_recordings

from eagerstream.errors import EagerStreamError
from eagerstream.recordings import Chunk, Recording
from eagerstream.recordings._redacted_body import is_json
from eagerstream.recordings._redacted_contents import masked_contents
from eagerstream_testing import (
    Scripted,
    block,
    encode_event,
    error_event,
    http_error,
    reply,
    server_tool_use,
    text,
    thinking,
    tool_use,
)
from eagerstream_wire import MessageAssembler, MessageStop, SSEDecoder, WireDecoder, WireEvent
from tests.streams import blocks_of, cut_at
from tests.tables import rows

CITATION = {"type": "char_location", "cited_text": "qzcited", "document_index": 3, "document_title": "qztitle"}
RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "title": "qzpage", "url": "https://qzhost/", "page_age": None, "n": 12.5}
    ],
}
INPUT = {
    "city": "qztown",
    "qzkey": {"qzinner": [1, -0.5, 2e10, True, None, 'qz "quoted"\n\u00e9\U0001f600'], "city": "qzagain"},
    "qzyek": "",
}


def decoded(body: bytes) -> tuple[list[WireEvent], str]:
    """The events of a body, and what ends them early."""
    decoder = WireDecoder()
    events: list[WireEvent] = []
    try:
        events += decoder.feed(body)
        decoder.close()
    except EagerStreamError as error:
        return events, type(error).__name__
    return events, ""


def outcomes(body: bytes) -> list[Any]:
    """What becomes of the inputs, and how the message ends."""
    events, failure = decoded(body)
    assembler = MessageAssembler()
    ended: list[Any] = [failure]
    try:
        for event in events:
            ended += [e.stop_reason for e in assembler.feed(event) if isinstance(e, MessageStop)]
    except EagerStreamError as error:
        ended.append(type(error).__name__)
    assembler.close(cleanly=not failure)
    return [*ended, *((index, input.kind, input.name, input.outcome) for index, input in assembler.inputs.items())]


def shape(value: Any) -> Any:
    """What is left of JSON without its strings, numbers and the names of its keys."""
    match value:
        case dict():
            return [shape(item) for item in value.values()]
        case list():
            return [0, *map(shape, value)]
        case bool() | None:
            return value
        case _:
            return "string" if isinstance(value, str) else "number"


def kinds(body: bytes) -> list[Any]:
    """The type of each event, the kind of its block or delta, and their ids and names."""
    return [
        [
            event["type"],
            *(
                (part.get("type"), part.get("id"), part.get("name"), part.get("stop_reason"))
                for part in (event.get("content_block"), event.get("delta"), event.get("message"))
                if isinstance(part, dict)
            ),
            event.get("usage"),
        ]
        for event in decoded(body)[0]
    ]


def assert_masked(recording: Recording, masked: Recording) -> None:
    """Nothing moved, and nothing plays in another way."""
    assert [(at_s, len(data)) for at_s, data in masked.chunks] == [(at_s, len(data)) for at_s, data in recording.chunks]
    assert kinds(masked.body) == kinds(recording.body)
    assert outcomes(masked.body) == outcomes(recording.body)
    assert masked_contents(masked.body) == masked_contents(masked_contents(masked.body))


# --- what is masked -----------------------------------------------------------------------------------------------------


@rows("fragment_chars", [1, 2, 7, 1000])
def test_what_is_masked_and_what_stays(fragment_chars: int) -> None:
    """Of each kind of block; the keys that the request's tools declare stay, the others keep their lengths."""
    recording = reply(
        thinking("qzthought", signature="qzsignature", fragment_chars=fragment_chars),
        text("qzsaid \u00e9\n", fragment_chars=fragment_chars),
        Scripted(
            {"type": "text", "text": "qzwhole", "citations": []}, ({"type": "citations_delta", "citation": CITATION},)
        ),
        server_tool_use("web_search", {"qzquery": "qzwhat"}, fragment_chars=fragment_chars),
        block(RESULT),
        block({"type": "tool_use", "id": "toolu_2", "name": "f", "input": INPUT}),
        tool_use("get_weather", INPUT, id="toolu_1", fragment_chars=fragment_chars),
        block({"type": "redacted_thinking", "data": "qzdata"}),
        error_event("overloaded_error", "qzmessage"),
    )
    masked = recording.redacted(contents=True, input_keys={"city"})
    assert_masked(recording, masked)
    assert b"qz" not in masked.body
    assembler = MessageAssembler()
    for event in decoded(masked.body)[0][:-1]:
        assembler.feed(event)
    calls = [block for block in assembler.message["content"] if block["type"] == "tool_use"]
    for call in calls:
        made = call["input"]
        assert next(iter(made)) == "city"
        assert shape(made) == shape(INPUT)
        assert [len(key) for key in made] == [4, 5, 5]
        assert len(set(made)) == 3
    assert [call["name"] for call in calls] == ["f", "get_weather"]
    assert calls[0]["input"].keys() == calls[1]["input"].keys()  # the same keys in each place
    (found,) = [block for block in assembler.message["content"] if block["type"] == "web_search_tool_result"]
    assert found["tool_use_id"] == "srvtoolu_1"
    assert found["content"] == [
        {"type": "web_search_result", "title": "*" * 6, "url": "*" * 15, "page_age": None, "n": 11.1}
    ]


@rows(
    "body",
    [
        http_error(400, "invalid_request_error", "messages.0: qzprompt").body,
        json.dumps(
            {"id": "msg_1", "type": "message", "content": [{"type": "text", "text": "qz"}], "usage": {"n": 1}}
        ).encode(),
        b"<html>\n<h1>qzpage</h1></html>",
        b"\xff\xfeqz\x00",
        b'data: {"type": "ping", "cut": "qz',
        b": qzcomment\nqzfield: qz\nid: qz qz\ndata: qz\n\nevent: qz qz\r\rretry: qz z\n",
        b'\xef\xbb\xbfdata: {"type":\ndata: "x", "text": "qz"}\n\n',
        b'data: {"type": "x", "text": "qz\xff\xc3"}\n\ndata: [DONE]\n\n',
        b'{"a":' * 5_000 + b'"qz"',
        b'["qz", 1, {"b": "qz"}]',
    ],
)
def test_bodies_of_other_kinds(body: bytes) -> None:
    """Errors, messages that are no streams, pages, comments, events over several lines, what is no text."""
    masked = masked_contents(body)
    assert len(masked) == len(body)
    assert b"qz" not in masked
    assert re.sub(rb"[^\r\n]", b"", masked) == re.sub(rb"[^\r\n]", b"", body)
    assert is_json(masked) == is_json(body)
    assert outcomes(masked) == outcomes(body)


def test_what_an_error_says_of_itself_stays() -> None:
    """Its type and its request id; its words may quote the request."""
    masked = json.loads(masked_contents(http_error(429, "rate_limit_error", "qz", request_id="req_1").body))
    assert masked == {"type": "error", "error": {"type": "rate_limit_error", "message": "**"}, "request_id": "req_1"}


@rows(
    "raw, masked",
    [
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 1}'),  # a key that comes twice still does
        ('{"b": 1, "c": 2, "b": 3}', '{"a": 1, "b": 1, "a": 1}'),
        ('{"x": nul', '{"a": nul'),
        ('{"x": "qz', '{"a": "**'),
        ('{"x": "qz\\', '{"a": "***'),
        ('{"xy', '{"**'),
        ('{"x": 12', '{"a": 11'),
        ('{"x": -', '{"a": -'),
        ('{"x": qz, "y": 1}', '{"a": ***********'),
        ('{"x": "a\\qz"}', '{"a": *******'),
        ('{"x": "a\tqz"}', '{"a": *******'),
        ('{"x": 1} qz', '{"a": 1} **'),
        ('{"x": 1e999, "y": 2}', '{"a": *************'),
        ('{"x": 01}', '{"a": 1**'),
        ('["qz", 25]', '["**", 11]'),
        ("qz", "**"),
        ("", ""),
        (" ", " "),
        ('{"x": [1.25E+3, 3e-7, 10, -0]}', '{"a": [1.11E+0, 1e-9, 11, -1]}'),
        ('{"": 1}', '{"": 1}'),
        ('{"\\u0063ity": 1, "city": "Oslo"}', '{"\\u0063ity": 1, "city": "****"}'),
    ],
)
@rows("fragment_chars", [1, 1000])
def test_inputs(raw: str, masked: str, fragment_chars: int) -> None:
    """What was valid, invalid or cut off is so still, and up to where it went wrong of the same structure."""
    recording = reply(tool_use("f", raw, fragment_chars=fragment_chars))
    redacted = recording.redacted(contents=True, input_keys={"city"})
    assert_masked(recording, redacted)
    pieces = [
        event["delta"].get("partial_json", "")
        for event in decoded(redacted.body)[0]
        if "index" in event and "delta" in event
    ]
    joined = "".join(pieces)
    assert re.sub(r"\*+", "*", joined) == re.sub(r"\*+", "*", masked)  # an escape in the event takes more bytes


def test_a_field_whose_name_is_escaped() -> None:
    """It is the same field: the keys of an input are masked in it."""
    event = b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","\\u0069nput":{"qzkey":"qz"}}}'
    assert b"qz" not in masked_contents(b"data: " + event + b"\n\n")


def test_many_keys_stay_different() -> None:
    """As far as there are signs; a masked key is never one that the tools declare."""
    input = {**{f"k{number:03}": number for number in range(500)}, "a": 1, "***b": 2, "***a": 3}
    masked = reply(tool_use("f", input)).redacted(contents=True, input_keys={"a", "***b"})
    (call,) = [event for event in outcomes(masked.body) if isinstance(event, tuple)]
    assembler = MessageAssembler()
    for event in decoded(masked.body)[0]:
        assembler.feed(event)
    made = blocks_of(assembler.message)[0]["input"]
    assert call[3].name == "VALID"
    assert len(made) == len(input)
    assert {"a", "***b"} <= set(made)


def test_secrets_go_too() -> None:
    """Where contents are masked, ids and types are looked through for secrets all the same."""
    recording = reply(block({"type": "x", "id": "sk-ant-api03-Zx9_abc-DEF"}), text("hi"))
    assert b"sk-ant" not in recording.redacted(contents=True).body


# --- laws -------------------------------------------------------------------------------------------------------------


@for_recordings
def test_recordings_play_as_before(recording: Path) -> None:
    """Of each kind of response, and whatever is in real ones."""
    loaded = Recording.load(recording)
    assert_masked(loaded, loaded.redacted(contents=True))


_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(lambda around: f"{around}qz{around}")
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _WORDS
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3), max_leaves=8
)
_INPUTS = st.dictionaries(_WORDS, _VALUES, max_size=3)
_BROKEN = st.tuples(
    _INPUTS.map(json.dumps), st.integers(0, 80), st.sampled_from(["", "qz", '"', "\\", "}", "1", "\n"])
).map(lambda made: made[0][: made[1]] + made[2])
_SIZES = st.integers(1, 12)


def _calls() -> st.SearchStrategy[Scripted]:
    return st.builds(
        lambda kind, input, size, closed: kind("f", input, fragment_chars=size, closed=closed),
        st.sampled_from([tool_use, server_tool_use]),
        _INPUTS | _BROKEN | st.builds(json.dumps, _INPUTS, ensure_ascii=st.just(False)),
        _SIZES,
        st.booleans(),
    )


_BLOCKS = st.one_of(
    _calls(),
    st.builds(lambda said, size: text(said, fragment_chars=size), _WORDS, _SIZES),
    st.builds(lambda said, size: thinking(said, signature=f"qz{size}", fragment_chars=size), _WORDS, _SIZES),
    st.builds(lambda content: block({"type": "x_result", "tool_use_id": "t_1", "content": content}), _VALUES),
    st.builds(lambda input: block({"type": "tool_use", "id": "t_2", "name": "f", "input": input}), _INPUTS),
)
_ENDS = st.lists(st.builds(lambda said: error_event("api_error", said), _WORDS), max_size=1)


@settings(max_examples=40)
@given(st.lists(_BLOCKS, max_size=4), _ENDS, st.lists(st.integers(0, 3000), max_size=6), st.booleans())
def test_any_reply(blocks: list[Scripted], ends: list[Scripted], places: list[int], crlf: bool) -> None:
    """However it was cut: chunks, times, events, kinds and outcomes stay, and no word does."""
    body = reply(*blocks, *ends).body
    if crlf:
        body = body.replace(b"\n", b"\r\n")
    recording = Recording(tuple(Chunk(number, piece) for number, piece in enumerate(cut_at(body, places))))
    masked = recording.redacted(contents=True)
    assert_masked(recording, masked)
    for data in _datas(masked.body):
        # Keys of results are the API's, so not masked; no value and no key of an input is anybody's word.
        assert not any("qz" in said for said in _said(json.loads(data), in_input=False))
    assert not any("qz" in input.raw for input in _inputs(masked.body))


def _datas(body: bytes) -> Iterator[str]:
    return (event.data for event in SSEDecoder().feed(body))


def _inputs(body: bytes) -> list[Any]:
    assembler = MessageAssembler()
    try:
        for event in decoded(body)[0]:
            assembler.feed(event)
    except EagerStreamError:
        pass
    return list(assembler.inputs.values())


def _said(value: Any, *, in_input: bool) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                if in_input:
                    yield key
                yield from _said(item, in_input=in_input or key == "input")
        case list():
            for item in value:
                yield from _said(item, in_input=in_input)
        case str():
            yield value
        case _:
            pass  # says no word


@given(st.binary(max_size=200))
def test_any_body(body: bytes) -> None:
    """No byte is lost, and masking twice is masking once."""
    masked = masked_contents(body)
    assert len(masked) == len(body)
    assert masked_contents(masked) == masked


@rows("piece", ['{"a":', '["', "[", '"a",', "\\", "1,", "\\u0031", "1e5 "])
def test_masking_takes_linear_time(piece: str) -> None:
    """A recording may have been written to do harm."""
    body = reply(tool_use("f", '{"x":[' + piece * 15_000, fragment_chars=5_000)).body
    body += encode_event({"type": "x", "text": piece * 8_000}) + (piece * 8_000).encode()
    begin_s = process_time()
    masked_contents(body)
    assert process_time() - begin_s < 2  # quadratic, it would be more than 10 s
