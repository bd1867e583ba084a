"""Replies written by hand."""

from __future__ import annotations

import json
from math import nan
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.streams import blocks_of, wire_events
from tests.tables import rows

from eagerstream.errors import UsageError
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
from eagerstream_wire import MessageAssembler, MessageState, Outcome


def _assembled(body: bytes) -> MessageAssembler:
    assembler = MessageAssembler()
    for event in wire_events(body):
        assembler.feed(event)
    assembler.close()
    return assembler


def test_wire_format() -> None:
    """The bytes are those that the API sends, down to the first ping and the empty first fragment."""
    recording = reply(
        tool_use("get_weather", {"city": "Oslo"}, id="toolu_1", fragment_chars=9), message_id="msg_1", model="m"
    )
    assert [(chunk.at_s, chunk.data) for chunk in recording.chunks] == [(0, recording.body)]
    events = wire_events(recording.body)
    assert recording.body == b"".join(encode_event(event) for event in events)
    assert encode_event({"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    delta = {"type": "input_json_delta"}
    assert events == [
        {"type": "message_start", "message": message},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}},
        },
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {**delta, "partial_json": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {**delta, "partial_json": '{"city": '}},
        {"type": "content_block_delta", "index": 0, "delta": {**delta, "partial_json": '"Oslo"}'}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {**usage, "output_tokens": 4},
        },
        {"type": "message_stop"},
    ]


@pytest.mark.slow
@given(
    words=st.text(),
    thought=st.text(),
    input=st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.lists(st.booleans()))),
    size=st.integers(1, 50),
)
def test_what_is_asked_for_comes_out(words: str, thought: str, input: dict[str, Any], size: int) -> None:
    """Whatever the texts are and however they are cut, the assembler gets back exactly the blocks that were given."""
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    recording = reply(
        thinking(thought, signature="sig", fragment_chars=size),
        text(words, fragment_chars=size),
        server_tool_use("web_search", {"query": "x"}, id="srvtoolu_1"),
        block(result),
        tool_use("f", input, id="toolu_1", fragment_chars=size),
        message_id="msg_1",
        usage={"output_tokens": 7},
    )
    assembler = _assembled(recording.body)
    assert assembler.state is MessageState.STOPPED
    assert assembler.message["content"] == [
        {"type": "thinking", "thinking": thought, "signature": "sig"},
        {"type": "text", "text": words},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        result,
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": input},
    ]
    assert assembler.message["usage"]["output_tokens"] == 7
    assert assembler.stop_reason == "tool_use"


@rows(
    "raw, closed, outcome",
    [
        ("", True, Outcome.VALID),
        ('{"a": 1}', True, Outcome.VALID),
        ('{"a": nope}', True, Outcome.INVALID),
        ('{"a": "\ud800', False, Outcome.INCOMPLETE),
    ],
)
def test_raw_inputs_are_verbatim(*, raw: str, closed: bool, outcome: Outcome) -> None:
    """A text is sent as it is: what no serializer would write can be scripted, half a surrogate pair too."""
    stop_reason = None if closed else "max_tokens"
    inputs = _assembled(reply(tool_use("f", raw, closed=closed), stop_reason=stop_reason).body).inputs
    assert (inputs[0].raw, inputs[0].outcome) == (raw, outcome)


def test_open_blocks() -> None:
    """Any block can be left open: no stop, and no signature for a thinking."""
    for scripted in (text("a", closed=False), thinking("a", closed=False), tool_use("f", "{", closed=False)):
        events = wire_events(reply(scripted).body)
        assert "content_block_stop" not in [event["type"] for event in events]
        assert all(event.get("delta", {}).get("type") != "signature_delta" for event in events)


def test_error_event_ends_the_reply() -> None:
    """After an `error` event nothing comes, no `message_stop` either; asking for more is a mistake."""
    error = error_event("overloaded_error", "Overloaded")
    events = wire_events(reply(text("Let me", closed=False), error).body)
    assert events[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert "message_delta" not in [event["type"] for event in events]
    with pytest.raises(UsageError, match="nothing may follow"):
        reply(error, text("more"))


@rows(
    "blocks, stop_reason",
    [
        ((), "end_turn"),
        ((text("a"),), "end_turn"),
        ((server_tool_use("s", ""),), "end_turn"),
        ((tool_use("f", ""),), "tool_use"),
    ],
)
def test_stop_reason(blocks: tuple[Scripted, ...], stop_reason: str) -> None:
    """Only a call for the client to run ends a turn with `tool_use`; what is given goes before what is guessed."""
    assert _assembled(reply(*blocks).body).stop_reason == stop_reason
    assert _assembled(reply(*blocks, stop_reason="refusal").body).stop_reason == "refusal"


def test_ids() -> None:
    """Ids follow from the content: the same for the same reply, different between calls and between replies."""

    def ids(message_id: str | None = None, city: str = "Oslo") -> list[str]:
        calls = [
            tool_use("get_weather", {"city": city}),
            tool_use("get_weather", {"city": city}),
            server_tool_use("s", ""),
        ]
        message = _assembled(reply(*calls, message_id=message_id).body).message
        return [message["id"], *(call["id"] for call in blocks_of(message))]

    assert ids() == ids()
    assert len({*ids(), *ids("msg_2"), *ids(city="Rome")}) == 12
    assert [name.partition("_")[0] for name in ids()] == ["msg", "toolu", "toolu", "srvtoolu"]


def test_http_error() -> None:
    """An HTTP error has the API's shape, and the same request id in header and body."""
    recording = http_error(529, "overloaded_error", "Overloaded", request_id="req_1")
    assert recording.status == 529
    assert recording.headers == {"content-type": "application/json", "request-id": "req_1"}
    assert json.loads(recording.body) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
        "request_id": "req_1",
    }
    assert http_error(529, "a", "b") == http_error(529, "a", "b") != http_error(529, "a", "c")
    with pytest.raises(UsageError, match="status"):
        http_error(600, "a", "b")


def test_bad_scripts() -> None:
    """What cannot be written is refused where it is given."""
    for input in ({"a": nan}, {"a": object()}):
        with pytest.raises(UsageError, match="input of f"):
            tool_use("f", input)
    with pytest.raises(UsageError, match="fragment_chars"):
        text("abc", fragment_chars=0)
