"""The Messages API double refuses what the API refuses, over a real socket, and plays nothing for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest
from anthropic import BadRequestError
from tests.streams import REQUEST, USER
from tests.support import anthropic_client

import eagerstream
from eagerstream.errors import APIError
from eagerstream.transports import HTTPTransport
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, retime, text

SLOWLY_S = 15
_REPLY = retime(reply(text("Hello, world.")), Timing.instant())
_CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
_RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"}
_TEXT: dict[str, Any] = {"type": "text", "text": "Hi"}
_TOOL: dict[str, Any] = {"name": "now", "input_schema": {"type": "object"}}
_WITHOUT = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)


class _Played:
    """A scenario of one reply, and how often it was asked for."""

    def __init__(self) -> None:
        self.count = 0
        self.scenario = Scenario.of(self._play)

    def _play(self, _body: Any) -> Any:
        self.count += 1
        return _REPLY


@pytest.fixture
def played() -> _Played:
    return _Played()


@pytest.fixture
def server(played: _Played) -> Iterator[ReplayServer]:
    with ReplayServer(played.scenario) as running:
        yield running


def _turns(*contents: list[dict[str, Any]]) -> dict[str, Any]:
    """A conversation that goes on after the first message, by turns."""
    roles = ("assistant", "user") * len(contents)
    return {"messages": [USER, *({"role": role, "content": said} for role, said in zip(roles, contents, strict=False))]}


# `packages/wire/tests/test_history.py` has the other faults of a history, in the same words.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "model: Field required"),
    "no messages": ({"messages": None}, "messages: Field required"),
    "no max_tokens": ({"max_tokens": None}, "max_tokens: Field required"),
    "messages that are no list": ({"messages": {}}, "messages: Input should be a valid list"),
    "tools that are no list": ({"tools": 5}, "tools: Input should be a valid list"),
    "no message": ({"messages": []}, "messages: at least one message is required"),
    "no result": (_turns([_CALL], [_TEXT]), _WITHOUT),
    "text before the result": (_turns([_CALL], [_TEXT, _RESULT]), _WITHOUT),
    "two results": (
        _turns([_CALL], [_RESULT, _RESULT]),
        (
            "messages.2.content.1: each tool_use must have a single result. "
            "Found multiple `tool_result` blocks with id: toolu_1"
        ),
    ),
    "an id with a colon": (
        _turns([_CALL | {"id": "call:1"}], [_RESULT | {"tool_use_id": "call:1"}]),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "the id of a server call from elsewhere": (
        _turns([{"type": "server_tool_use", "id": "call_1", "name": "web_search", "input": {}}]),
        "messages.1.content.0.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'",
    ),
    "a name with a dot": (
        {"tools": [_TOOL | {"name": "a.b"}]},
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "one name twice": ({"tools": [_TOOL, _TOOL]}, "tools: Tool names must be unique."),
    "a tool that is missing": (
        _turns([{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {}}, _CALL], [_RESULT]),
        "messages.1: `web_fetch` tool use with id `srvtoolu_1` was found, but no `web_fetch` tool was provided",
    ),
}
RIGHT: dict[str, dict[str, Any]] = {
    "a question": {},
    "a result": _turns([_CALL], [_RESULT]),
    "a result, and text after it": _turns([_TEXT, _CALL], [_RESULT, _TEXT]) | {"tools": [_TOOL]},
    "what is not known here": {"new": 1, "messages": [{"role": "user", "content": [{"type": "from_the_future"}]}]},
}


def test_a_wrong_request_is_refused(server: ReplayServer, played: _Played) -> None:
    """It is answered with the API's status and body, and the scenario is not even asked."""
    with httpx.Client(base_url=server.base_url, timeout=SLOWLY_S) as client:
        for name, (change, message) in WRONG.items():
            response = client.post("/v1/messages", json={**REQUEST, "stream": True, **change})
            assert response.status_code == 400, name
            assert response.headers["content-type"] == "application/json"
            assert response.json() == {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": message},
                "request_id": response.headers["request-id"],
            }, name
            assert played.count == 0, name
            request = server.requests[-1]
            assert (request.status, request.request_id) == (400, response.headers["request-id"])


def test_a_right_request_is_played(server: ReplayServer, played: _Played) -> None:
    """It gets the recorded reply, byte for byte."""
    with httpx.Client(base_url=server.base_url, timeout=SLOWLY_S) as client:
        for count, (name, change) in enumerate(RIGHT.items(), 1):
            response = client.post("/v1/messages", json={**REQUEST, "stream": True, **change})
            assert (response.status_code, response.content) == (200, _REPLY.body), name
            assert played.count == count, name


def test_a_refusal_does_not_end_the_connection(server: ReplayServer, played: _Played) -> None:
    """The request that was put right goes through, on the same connection."""
    with httpx.Client(base_url=server.base_url, timeout=SLOWLY_S) as client:
        for _ in range(3):
            wrong = client.post("/v1/messages", json={**REQUEST, "stream": True, **_turns([_CALL])})
            assert (wrong.status_code, wrong.json()["error"]["message"]) == (400, _WITHOUT)
            assert client.post("/v1/messages", json={**REQUEST, "stream": True}).content == _REPLY.body
    assert played.count == 3


@pytest.mark.anyio
async def test_with_the_anthropic_client(server: ReplayServer, played: _Played) -> None:
    """The client's own exception, with the body that it knows from the API. Some of the requests are enough for that."""
    with anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            for change, message in [*WRONG.values()][::5]:
                body: dict[str, Any] = {**REQUEST, "stream": True, **change}
                with pytest.raises(BadRequestError) as caught:
                    await client.post("/v1/messages", cast_to=object, body=body)
                error = caught.value
                assert error.status_code == 400
                assert isinstance(error.body, dict)
                assert error.body["error"] == {"type": "invalid_request_error", "message": message}
                assert error.request_id == server.requests[-1].request_id
    assert played.count == 0


@pytest.mark.anyio
async def test_with_the_methods_of_the_anthropic_client(server: ReplayServer, played: _Played) -> None:
    """`messages.create` and `messages.stream` both raise at once, before any event."""
    wrong: dict[str, Any] = {**REQUEST, **_turns([_CALL], [_TEXT])}
    with anyio.fail_after(SLOWLY_S):
        async with anthropic_client(server.base_url) as client:
            with pytest.raises(BadRequestError, match="tool_use"):
                await client.messages.create(stream=True, **wrong)
            with pytest.raises(BadRequestError, match="tool_use"):
                async with client.messages.stream(**wrong):
                    raise AssertionError("there is nothing to read")
            async with client.messages.stream(**{**REQUEST, **_turns([_CALL], [_RESULT])}) as stream:
                assert await stream.get_final_text() == "Hello, world."
    assert played.count == 1


@pytest.mark.anyio
@pytest.mark.parametrize("plain", [False, True], ids=["anthropic", "http"])
async def test_with_a_stream(server: ReplayServer, played: _Played, *, plain: bool) -> None:
    """An `APIError` that says what the API said, through either transport; and nothing is sent again."""
    with anyio.fail_after(SLOWLY_S):
        async with (
            anthropic_client(server.base_url) as official,
            HTTPTransport(base_url=server.base_url, api_key="k") as transport,
        ):
            client: Any = transport if plain else official
            for messages, said in (
                (_turns([_CALL], [_TEXT])["messages"], _WITHOUT),
                ([USER, {"role": "user", "content": " "}], "text content blocks must contain non-whitespace text"),
            ):
                before = len(server.requests)
                with pytest.raises(APIError) as caught:
                    async with eagerstream.stream(client, **{**REQUEST, "messages": messages}) as stream:
                        async for _ in stream:
                            raise AssertionError("nothing is played")
                error = caught.value
                assert (error.status_code, error.error_type) == (400, "invalid_request_error")
                assert not error.retryable
                assert said in str(error)
                assert len(server.requests) == before + 1
                assert error.request_id == server.requests[-1].request_id
            async with eagerstream.stream(client, **{**REQUEST, **_turns([_CALL], [_RESULT])}) as stream:
                await stream.finish()
            assert stream.message["content"] == [{"type": "text", "text": "Hello, world."}]
    assert played.count == 1


def test_an_id_that_is_a_list(server: ReplayServer, played: _Played) -> None:
    """Whatever JSON is sent, the answer is one of the API's."""
    with httpx.Client(base_url=server.base_url, timeout=SLOWLY_S) as client:
        body = {**REQUEST, "stream": True, **_turns([_CALL], [_RESULT | {"tool_use_id": ["toolu_1"]}])}
        response = client.post("/v1/messages", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert played.count == 0
