"""Recordings are saved without their secrets: `Recording.redacted`, and `redacted_body` under it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from eagerstream.recordings import Chunk, Recording
from eagerstream.recordings._redacted_body import redacted_body
from eagerstream_testing import block, encode_event, http_error, reply, server_tool_use, text, thinking, tool_use
from eagerstream_wire import MessageAssembler
from tests.streams import cut_at, made_recordings, wire_events
from tests.tables import rows

KEY = "sk-ant-api03-Zx9_abc-DEF"
INPUT = {
    "note": f"use {KEY} and no other",
    "env": {"API_KEY": 'hun"ter\\\n2é😀', "PIN": 1, "password": 12345},
    "curl": "curl -H 'Authorization: Bearer a.b.c' https://me:hunter2@host",
    "max_tokens": 1024,
    "required": ["password", "email"],
}


def message_of(body: bytes) -> dict[str, Any]:
    """The message that a body tells."""
    assembler = MessageAssembler()
    for wire_event in wire_events(body):
        assembler.feed(wire_event)
    return {**assembler.message}


@rows("fragment_chars", [1, 2, 7, 1000])
def test_secrets_that_a_model_wrote_in_pieces(fragment_chars: int) -> None:
    """A key that stands in no single event is masked all the same, and what was valid stays valid."""
    recording = reply(
        text(f"The key is {KEY}.", fragment_chars=fragment_chars),
        thinking(f"{KEY}?", fragment_chars=fragment_chars),
        tool_use("f", INPUT, fragment_chars=fragment_chars),
        server_tool_use("g", '{"password": "hunter2 and', fragment_chars=fragment_chars),
    )
    masked = redacted_body(recording.body)
    assert len(masked) == len(recording.body)
    said, thought, call, cut = message_of(masked)["content"]
    stars = "*" * len(KEY)
    assert said["text"] == f"The key is {stars}."
    assert thought["thinking"] == f"{stars}?"
    assert thought["signature"] == "c2NyaXB0ZWQ="
    assert call["input"]["note"] == f"use {stars} and no other"
    assert set(call["input"]["env"]["API_KEY"]) == {"*"}
    assert call["input"]["env"] == {"API_KEY": call["input"]["env"]["API_KEY"], "PIN": 1, "password": 99999}
    assert call["input"]["curl"] == "curl -H 'Authorization: ************' https://me:*******@host"
    assert (call["input"]["max_tokens"], call["input"]["required"]) == (1024, ["password", "email"])
    assert cut["input"] == {"INVALID_JSON": '{"password": "***********'}


STRUCTURED = {
    "env list": {"env": [{"name": "API_KEY", "value": "hunter2"}]},
    "value before name": {"env": [{"value": ["hunter2", 12], "name": "API_KEY"}]},
    "object": {"credentials": {"user": "me", "pw": "hunter2", "pin": 123}},
    "list": {"api_keys": ["hunter2", "hunter2"]},
    "pairs": {"headers": [["x-api-key", "hunter2"], ["accept", "y"]]},
    "arguments": {
        "args": ["login", "--password", "hunter2", "--token", "--force", "--pin-token", "hunter2hunter2", "x"]
    },
    "JSON in JSON": {"body": json.dumps({"credentials": {"pw": "hunter2"}, "n": "é"}, indent=1)},
    "JSON in JSON in JSON": {"body": json.dumps({"data": json.dumps([["token", "hunter2"]])})},
    "escaped name": {"passw\u00f6rd": 1, "PASSWORD": 'hunter2\n"é😀'},
}


@rows("value", STRUCTURED.values())
@rows("fragment_chars", [1, 1000])
@rows("is_cut", [False, True])
def test_an_input_is_masked_by_its_structure(value: Any, fragment_chars: int, is_cut: bool) -> None:
    """A saved input keeps no secret that `redact` masks, and is JSON of the same structure."""
    written = json.dumps(value)
    written = written[:-1] if is_cut else written
    body = reply(tool_use("f", written, fragment_chars=fragment_chars)).body
    masked = redacted_body(body)
    assert len(masked) == len(body)
    assert redacted_body(masked) == masked
    (call,) = message_of(masked)["content"]
    raw = call["input"]["INVALID_JSON"] + "}" if is_cut else json.dumps(call["input"])
    assert "hunter2" not in raw
    assert _shape(json.loads(raw)) == _shape(value)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else type(value)


def test_secrets_that_came_whole() -> None:
    """Those of blocks that come whole, of events not known here, and of the message itself."""
    recording = reply(
        block({"type": "x", "headers": {"x-api-key": "hunter2", "n": None, "retry": True, "secret": 12}, "text": KEY})
    )
    extra = encode_event({"type": "new", KEY: {"cookies": ["hunter2", "b"]}, "u": "\\ud83d"})
    masked = redacted_body(recording.body + extra)
    assert b"hunter2" not in masked
    assert KEY.encode() not in masked
    (made,) = message_of(masked)["content"]
    assert made["headers"] == {"x-api-key": "*******", "n": None, "retry": True, "secret": 99}
    assert wire_events(masked)[-1]["u"] == "\\ud83d"


@rows(
    "body",
    [
        http_error(401, "authentication_error", f"invalid key {KEY}").body,
        json.dumps({"error": {"message": KEY}}, indent=2).encode(),
        f"<html>\n{KEY}\u00a0é</html>".encode(),
        f"data: {KEY}\n\n: {KEY}\r\rid: {KEY}\r\ndata:{KEY}".encode(),
        f'data: {{"type": "x", "cut": "{KEY}'.encode(),
        b"\xff" + KEY.encode() + b"\xfe\n",
        b'{"a": ' * 3_000 + KEY.encode(),
        json.dumps({"é": [KEY, "é"], "n": 1}, ensure_ascii=False).encode(),
    ],
)
def test_bodies_of_other_kinds(body: bytes) -> None:
    """Errors as JSON, pages, comments, bodies that are cut off, and what is no text."""
    masked = redacted_body(body)
    assert KEY.encode() not in masked
    assert masked.replace(b"*", b"") == body.replace(KEY.encode(), b"")


def test_a_private_key_in_a_page() -> None:
    """It has several lines; they stay lines, and the event behind it stays one."""
    key = b"-----BEGIN PRIVATE KEY-----\r\nProc-Type: 4\r\n\r\nMIIEvQ\r\n-----END PRIVATE KEY-----\r\n"
    masked = redacted_body(b"<pre>" + key + b'</pre>\ndata: {"type": "ping"}\n\n')
    assert masked == b"<pre>" + key.replace(b"Proc-Type: 4", b"*" * 12).replace(b"MIIEvQ", b"*" * 6) + (
        b'</pre>\ndata: {"type": "ping"}\n\n'
    )


@rows("path", made_recordings())
def test_recordings_without_secrets_stay(path: Path) -> None:
    """Nothing that the API sends is taken for a secret."""
    assert redacted_body(path.read_bytes()) == path.read_bytes()


_WRITTEN = st.lists(
    st.sampled_from(
        ["\\ud83d", "\\ude00", "\\uD83D\\uDE00", "\\n", '\\"', "\\\\", "\\u0041", "é", "😀", KEY, "password=", " ", "a"]
    )
).map("".join)


@given(st.lists(_WRITTEN, max_size=4))
def test_any_escapes(written: list[str]) -> None:
    """What a character is written as is masked whole, or not at all: the events stay what they were."""
    body = "".join(
        f'data: {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{piece}"}}}}\n\n'
        for piece in written
    ).encode()
    masked = redacted_body(body)
    assert len(masked) == len(body)
    assert KEY.encode() not in masked
    assert len(wire_events(masked)) == len(written)


@given(st.binary(max_size=200) | st.text().map(lambda said: reply(text(said), tool_use("f", said)).body))
def test_any_body(body: bytes) -> None:
    """No byte is lost, whatever the body is, and masking twice is masking once."""
    masked = redacted_body(body)
    assert len(masked) == len(body)
    assert redacted_body(masked) == masked


@settings(max_examples=10)
@given(st.lists(st.integers(0, 2000), max_size=10))
def test_chunks_stay_where_they_were(places: list[int]) -> None:
    """However the transport cut the body: also in the middle of a key."""
    body = reply(text(f"The key is {KEY}."), tool_use("f", INPUT, fragment_chars=1000)).body
    recording = Recording(tuple(Chunk(number, piece) for number, piece in enumerate(cut_at(body, places))))
    redacted = recording.redacted()
    assert [(at_s, len(data)) for at_s, data in redacted.chunks] == [
        (at_s, len(data)) for at_s, data in recording.chunks
    ]
    assert redacted.body == redacted_body(body)


def test_saving_masks_unless_told_otherwise(tmp_path: Path) -> None:
    """A file is what is handed on: keys, cookies and the organisation are not in it unless they were asked for."""
    path = tmp_path / "reply.jsonl"
    headers = {"set-cookie": "hunter2", "anthropic-organization-id": "hunter2", "request-id": "req_1"}
    recording = Recording((Chunk(0, reply(text(KEY)).body),), headers=headers, note=f"made with {KEY}")
    recording.save(path)
    assert "hunter2" not in path.read_text()
    loaded = Recording.load(path)
    assert loaded.headers["request-id"] == "req_1"
    assert loaded.note == "made with [redacted]"
    assert message_of(loaded.body)["content"][0]["text"] == "*" * len(KEY)
    recording.save(path, redact=False)
    assert Recording.load(path) == recording
