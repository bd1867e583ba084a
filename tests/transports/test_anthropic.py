"""The anthropic package's async clients, by what they can do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

import eagerstream
from eagerstream.errors import APIError, StreamInterrupted
from eagerstream.replay import ReplayServer, Scenario, http_error, reply, text, tool_use
from eagerstream.wire import MessageStop, WireDecoder
from tests.support import REQUEST, LocalAPI, anthropic_client, anthropic_http_library, event_line, message_start

WEATHER = reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo"}))
WIRE = WireDecoder().feed(WEATHER.body)


class BinaryFrames:
    """A client whose replies are no event streams: it decodes them itself, as those of Bedrock are."""

    def __init__(self, *events: Any, error: Exception | None = None) -> None:
        self.arguments: dict[str, Any] = {}
        self.closed = 0
        self._events = events
        self._error = error
        self.messages = SimpleNamespace(create=self._create, with_streaming_response=SimpleNamespace(create=self._open))

    async def _create(self, *, model: str, max_tokens: int, messages: Any, stream: bool, extra_body: Any = None) -> Any:
        raise AssertionError

    def _open(self, **arguments: Any) -> Any:
        self.arguments = arguments
        return self

    async def __aenter__(self) -> Any:
        headers = {"content-type": "application/vnd.amazon.eventstream", "request-id": "req_frames"}
        return SimpleNamespace(headers=headers, parse=self._parse, close=self._close)

    async def _parse(self, *, to: Any) -> AsyncIterator[Any]:
        async def decoded() -> AsyncIterator[Any]:
            for event in self._events:
                yield event
            if self._error is not None:
                raise self._error

        return decoded()

    async def _close(self) -> None:
        self.closed += 1


@pytest.mark.anyio
async def test_replies_that_are_no_event_streams() -> None:
    """The client's own decoding gives the same events; what is not an event of the API is passed over."""
    client = BinaryFrames(*WIRE[:1], {"metrics": 1}, *WIRE[1:])
    async with eagerstream.stream(client, **REQUEST) as stream:
        lines = [event_line(event) async for event in stream]
    async with eagerstream.stream(WEATHER, **REQUEST) as played:
        assert [event_line(event) async for event in played] == lines
    assert stream.request_id == "req_frames"
    assert client.closed == 1


@pytest.mark.anyio
async def test_a_client_that_raises_the_error_event() -> None:
    """A decoding client turns an `error` event into an exception of its own: it is an `APIError` all the same."""
    library = anthropic_http_library()
    from anthropic import InternalServerError

    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    response = library.Response(200, headers={"request-id": "req_7"}, request=library.Request("POST", "http://local"))
    raised = InternalServerError("Overloaded", response=response, body=body)
    with pytest.raises(APIError, match="Overloaded") as caught:
        async with eagerstream.stream(BinaryFrames(message_start(), error=raised), **REQUEST) as stream:
            await stream.finish()
    error = caught.value
    assert (error.status_code, error.error_type, error.retryable) == (None, "overloaded_error", True)
    assert error.request_id == "req_7"
    assert error.__cause__ is raised
    assert error.message is not None


@pytest.mark.anyio
async def test_a_client_that_loses_its_connection() -> None:
    """A loss while the client decodes is an interruption."""
    lost = anthropic_http_library().ReadError("gone")
    client = BinaryFrames(message_start(), error=lost)
    with pytest.raises(StreamInterrupted, match="gone") as caught:
        async with eagerstream.stream(client, **REQUEST) as stream:
            await stream.finish()
    assert caught.value.request_id == "req_frames"
    assert client.closed == 1


@pytest.mark.anyio
async def test_an_exception_that_nobody_knows() -> None:
    """What is no exception of an HTTP client is a mistake somewhere, and comes out as it is."""
    with pytest.raises(ZeroDivisionError):
        async with eagerstream.stream(BinaryFrames(error=ZeroDivisionError()), **REQUEST) as stream:
            await stream.finish()


@pytest.mark.anyio
async def test_parameters_that_a_client_does_not_know() -> None:
    """They travel in its `extra_body`, beside what the caller put there."""
    client = BinaryFrames(*WIRE)
    async with eagerstream.stream(client, **REQUEST, thinking={"type": "x"}, extra_body={"a": 1}) as stream:
        await stream.finish()
    assert client.arguments == {**REQUEST, "stream": True, "extra_body": {"a": 1, "thinking": {"type": "x"}}}


@pytest.mark.anyio
async def test_options_of_the_client() -> None:
    """What a client's own method takes beside the API's parameters reaches it, and not the body."""
    async with ReplayServer(WEATHER) as server, anthropic_client(server.base_url) as client:
        async with eagerstream.stream(client, **REQUEST, extra_headers={"x-note": "a"}, timeout=30) as stream:
            await stream.finish()
        (request,) = server.requests
    assert request.headers["x-note"] == "a"
    assert request.body == {**REQUEST, "stream": True}


@pytest.mark.anyio
async def test_the_beta_endpoint() -> None:
    """A request with betas goes where the client sends such requests, with parameters that only that place has."""
    async with ReplayServer(WEATHER) as server, anthropic_client(server.base_url) as client:
        async with eagerstream.stream(client, **REQUEST, betas=["a-2025-01-01"], mcp_servers=[]) as stream:
            events = [event async for event in stream]
        (request,) = server.requests
    assert isinstance(events[-1], MessageStop)
    assert request.headers["anthropic-beta"] == "a-2025-01-01"
    assert request.body == {**REQUEST, "stream": True, "mcp_servers": []}


@pytest.mark.anyio
async def test_retries_are_the_client_s() -> None:
    """A client that retries by itself still does, and what comes then is streamed."""
    attempts = 0

    def answer(_: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return http_error(529, "overloaded_error", "Overloaded") if attempts == 1 else WEATHER

    async with (
        ReplayServer(Scenario.of(answer)) as server,
        anthropic_client(server.base_url) as client,
        eagerstream.stream(client.with_options(max_retries=1), **REQUEST) as stream,
    ):
        await stream.finish()
    assert attempts == 2
    assert stream.stop_reason == "tool_use"


@pytest.mark.anyio
async def test_the_client_stays_open() -> None:
    """Whoever made a client closes it."""
    api = LocalAPI([WEATHER])
    client = api.anthropic()
    for _ in range(2):
        async with eagerstream.stream(client, **REQUEST) as stream:
            await stream.finish()
    assert not client.is_closed()
    assert all(exchange.closed for exchange in api.exchanges)
    assert [json.dumps(exchange.body, sort_keys=True) for exchange in api.exchanges] == [
        json.dumps({**REQUEST, "stream": True}, sort_keys=True)
    ] * 2
