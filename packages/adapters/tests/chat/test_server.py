"""The server of chat completions, without any client: refused requests, and converted responses with faults and times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from packages.adapters.tests.chat.server import CHAT_DIALECTS, ChatDialect, ChatServer
from tests.sampling import drawn
from tests.streams import made_recordings, real_recordings
from tests.tables import rows

from eagerstream.recordings import Recording
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    Scenario,
    Timing,
    error_event,
    reply,
    retime,
    text,
    thinking,
    tool_use,
)
from eagerstream_testing._injection import Answer

USER = {"role": "user", "content": "Go."}
ADD = [tool_use("add", {"a": 1}, id="call_1"), tool_use("add", {"a": 2}, id="call_2")]
REPLY = retime(reply(thinking("Hm."), text("Hello, world."), *ADD, message_id="msg_1"), Timing.instant())
CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "1"}

each_dialect = rows("dialect", ChatDialect)


def told(dialect: ChatDialect, recording: Recording = REPLY, **request: Any) -> list[Any]:
    """The chunks of a reply; what is none as it is."""
    answer = CHAT_DIALECTS[dialect].answered(Answer(recording), {"stream": True, **request})
    data = [part.removeprefix("data: ") for part in answer.recording.body.decode().split("\n\n") if part]
    return [json.loads(each) if each.startswith("{") and each.endswith("}") else each for each in data]


def deltas(chunks: list[Any]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk != "[DONE]" and chunk["choices"]]


def pieces(chunks: list[Any]) -> list[dict[str, Any]]:
    return [piece for delta in deltas(chunks) for piece in delta.get("tool_calls", ())]


def reason(chunks: list[Any]) -> Any:
    return chunks[-2]["choices"][0]["finish_reason"]


# --- a reply in chunks ------------------------------------------------------------------------------------------------


@each_dialect
def test_every_reply_has_its_text_and_its_end(dialect: ChatDialect) -> None:
    chunks = told(dialect)
    assert deltas(chunks)[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content") or "" for delta in deltas(chunks)) == "Hello, world."
    assert chunks[-1] == "[DONE]"
    assert reason(chunks) == "tool_calls"
    assert {chunk["id"] for chunk in chunks[:-1]} == {"chatcmpl-1"}


def test_openai() -> None:
    """Id and name once, then the arguments as they are written."""
    first, *rest = pieces(told(ChatDialect.OPENAI))
    assert first == {"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}}
    assert rest[0] == {"index": 0, "function": {"arguments": '{"a": 1'}}
    assert [piece["index"] for piece in rest] == [0, 0, 1, 1, 1]


def test_vllm() -> None:
    """The last arguments come with the end, and with all that is known of their call."""
    chunks = told(ChatDialect.VLLM)
    last = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "add", "arguments": "}"}}
    assert deltas(chunks)[-1] == {"tool_calls": [last]}
    assert reason(chunks) == "tool_calls"
    assert reason(told(ChatDialect.VLLM, reply(text("Hi.")))) == "stop"


def test_ollama() -> None:
    """A call in one piece, and each with the index 0."""
    assert pieces(told(ChatDialect.OLLAMA)) == [
        {"index": 0, "id": f"call_{n}", "type": "function", "function": {"name": "add", "arguments": f'{{"a": {n}}}'}}
        for n in (1, 2)
    ]
    nothing = told(ChatDialect.OLLAMA, reply(tool_use("now", "")))
    assert pieces(nothing)[0]["function"]["arguments"] == "{}"


def test_ollama_and_calls_that_are_none() -> None:
    """An input that is not JSON is text, and an incomplete one is nothing."""
    wrong = told(ChatDialect.OLLAMA, reply(tool_use("add", '{"a": one}')))
    assert pieces(wrong) == []
    assert deltas(wrong)[1]["content"] == '{"a": one}'
    cut = told(ChatDialect.OLLAMA, reply(tool_use("add", '{"a": 1', closed=False), stop_reason="max_tokens"))
    assert pieces(cut) == []
    assert reason(cut) == "length"


@each_dialect
@rows(
    "stop_reason, finish_reason",
    [("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "content_filter"), ("stop_sequence", "stop")],
)
def test_reasons(dialect: ChatDialect, stop_reason: str, finish_reason: str) -> None:
    assert reason(told(dialect, reply(text("Hi."), stop_reason=stop_reason))) == finish_reason


@each_dialect
def test_usage(dialect: ChatDialect) -> None:
    """In a chunk without choices, where it was asked for; the others then say that they have none."""
    *chunks, usage, done = told(dialect, stream_options={"include_usage": True})
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] > 100
    assert all(chunk["usage"] is None for chunk in chunks)
    assert not any("usage" in chunk for chunk in told(dialect)[:-1])


def test_an_error_event() -> None:
    """In the form of OpenAI's errors; nothing follows."""
    chunks = told(ChatDialect.OPENAI, reply(text("Hi."), error_event("overloaded_error", "Overloaded")))
    assert chunks[-1] == {"error": {"message": "Overloaded", "type": "overloaded_error", "param": None, "code": None}}


@each_dialect
def test_times_stay(dialect: ChatDialect) -> None:
    """Each chunk comes when its event does."""
    timed = retime(REPLY, Timing(tokens_per_second=50))
    answer = CHAT_DIALECTS[dialect].answered(Answer(timed), {"stream": True}).recording
    assert [chunk.at_s for chunk in answer.chunks] == [chunk.at_s for chunk in timed.chunks]
    assert answer.body == CHAT_DIALECTS[dialect].answered(Answer(REPLY), {"stream": True}).recording.body


@rows("recording", (*made_recordings(), *drawn(real_recordings(), 8)))
def test_every_recording_is_told(recording: Path) -> None:
    """Whatever is in a reply, what comes out are chunks, or for garbage what it was."""
    played = Recording.load(recording)
    for dialect in ChatDialect:
        for chunk in told(dialect, played):
            assert not isinstance(chunk, dict) or chunk.keys() & {"choices", "error"}


# --- over a socket ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer(Scenario(REPLY, REPLY)) as running:
        yield running


_HTTP: list[httpx.Client] = []


@pytest.fixture(scope="module", autouse=True)
def _http() -> Iterator[None]:
    """One HTTP client for all tests: to make one takes longer than a request."""
    with httpx.Client(timeout=10, verify=False) as client:
        _HTTP[:] = [client]
        yield


def ask(server: ChatServer, dialect: ChatDialect = ChatDialect.OPENAI, **body: Any) -> httpx.Response:
    body = {
        name: value
        for name, value in {"model": "m", "messages": [USER], "stream": True, **body}.items()
        if value != ...
    }
    return _HTTP[0].post(f"{server.chat_url(dialect)}/chat/completions", json=body)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": ...}, "model"),
    "no messages": ({"messages": ...}, "messages"),
    "empty messages": ({"messages": []}, "messages"),
    "a role that is none": ({"messages": [{"role": "robot", "content": "x"}]}, "robot"),
    "a message that is none": ({"messages": ["x"]}, "None"),
    "no content": ({"messages": [{"role": "user", "content": None}]}, "content"),
    "several choices": ({"n": 2}, "n:"),
    "a response in one piece": ({"stream": False}, "stream:"),
    "no tools": ({"tools": []}, "empty array"),
    "a tool of the other API": ({"tools": [{"name": "f", "input_schema": {}}]}, "tools[0].function.name"),
    "a call without its result": ({"messages": [USER, CALLED, USER]}, "call_1"),
    "a call without its result at the end": ({"messages": [USER, CALLED]}, "call_1"),
    "a result without its call": ({"messages": [USER, RESULT]}, "preceding message"),
    "a result that comes twice": ({"messages": [USER, CALLED, RESULT, RESULT]}, "preceding message"),
    "arguments that are no text": (
        {"messages": [USER, {**CALLED, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]}]},
        "arguments",
    ),
    "a call that is none": ({"messages": [USER, {**CALLED, "tool_calls": ["x"]}]}, "arguments"),
}


@rows("body, word", REFUSED.values())
def test_what_is_refused(body: dict[str, Any], word: str, server: ChatServer) -> None:
    """As OpenAI does, in the form of its errors."""
    response = ask(server, **body)
    assert response.status_code == 400
    assert word in response.json()["error"]["message"]
    assert response.headers["x-request-id"]


@each_dialect
def test_a_sound_history_is_taken(dialect: ChatDialect, server: ChatServer) -> None:
    assert ask(server, dialect, messages=[USER, CALLED, RESULT]).status_code == 200


def test_ollama_parses_arguments_again(server: ChatServer) -> None:
    """Those that are not JSON are refused there only."""
    wrong = {**CALLED, "tool_calls": [{**CALL, "function": {"name": "add", "arguments": "{1}"}}]}
    messages = [USER, wrong, RESULT]
    assert ask(server, ChatDialect.OLLAMA, messages=messages).status_code == 400
    assert ask(server, ChatDialect.OPENAI, messages=messages).status_code == 200


def faulty(kind: FaultKind, **options: Any) -> httpx.Response:
    with ChatServer(REPLY, faults=Faults({0: [Fault(kind, **options)]})) as server:
        return ask(server)


def test_http_errors() -> None:
    limited = faulty(FaultKind.HTTP_ERROR, status=429, retry_after_s=2)
    assert limited.status_code == 429
    assert limited.headers["retry-after"] == "2"
    assert limited.json()["error"]["type"] == "rate_limit_error"
    assert "<html>" in faulty(FaultKind.HTML_PAGE, status=200).text
    assert faulty(FaultKind.CONTENT_TYPE).headers["content-type"] == "application/json"


def test_a_body_that_ends() -> None:
    """Between events and in the middle of one."""
    between = faulty(FaultKind.END, after_events=6).text
    assert between.endswith("}\n\n")
    assert 'finish_reason":"' not in between
    inside = faulty(FaultKind.END, after_bytes=700).text
    assert not inside.endswith("\n\n")
