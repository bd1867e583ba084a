"""`events`: a response that somebody else has requested gives the same events as `stream`, whatever form it has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import httpx
import httpx2
import pytest

import eagerstream
from eagerstream import MessageStream, UsageError
from eagerstream_testing import ReplayServer, reply, text, tool_use
from tests.streams import REQUEST, event_line
from tests.support import anthropic_client

pytestmark = pytest.mark.anyio

REPLY = reply(text("I look."), tool_use("get_weather", {"city": "Braga"}))
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


async def lines(stream: MessageStream) -> list[Any]:
    """The events of a stream, written down."""
    with anyio.fail_after(10):
        async with stream:
            return [event_line(event) async for event in stream]


def unordered(lines: list[Any]) -> list[Any]:
    """The same without the order of fields, which the anthropic package changes."""
    return [
        [json.loads(part) if isinstance(part, str) and part[:1] + part[-1:] == "{}" else part for part in line]
        for line in lines
    ]


async def pieces(size: int) -> AsyncIterator[bytes]:
    """The bytes of the response in pieces."""
    for at in range(0, len(REPLY.body), size):
        yield REPLY.body[at : at + size]


async def test_one_transcript_from_every_source() -> None:
    """Bytes, responses of two HTTP libraries, the stream of the anthropic package, and wire events."""
    decoder = eagerstream.SSEDecoder()
    wire_events = [json.loads(event.data) for event in decoder.feed(REPLY.body)]
    with ReplayServer(REPLY) as server:
        url, body = f"{server.base_url}/v1/messages", {**REQUEST, "stream": True}
        async with anthropic_client(server.base_url) as client:
            expected = await lines(eagerstream.stream(client, **REQUEST, buffer="wait"))
            response = await client.messages.create(**REQUEST, stream=True)
            found = await lines(eagerstream.events(response, buffer="wait"))
            assert unordered(found) == unordered(expected)
        for library in (httpx, httpx2):
            async with library.AsyncClient(headers=HEADERS) as http, http.stream("POST", url, json=body) as response:
                assert await lines(eagerstream.events(response, buffer="wait")) == expected
    for size in (1, 7, 10**6):
        assert await lines(eagerstream.events(pieces(size), buffer="wait")) == expected
    assert await lines(eagerstream.events(wire_events, buffer="wait")) == expected


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_response_of_aiohttp() -> None:
    """Its body is in an attribute. It runs on asyncio only."""
    with ReplayServer(REPLY) as server:
        url, body = f"{server.base_url}/v1/messages", {**REQUEST, "stream": True}
        async with aiohttp.ClientSession(headers=HEADERS) as session, session.post(url, json=body) as response:
            found = await lines(eagerstream.events(response, buffer="wait"))
        async with aiohttp.ClientSession() as session, session.post(f"{url}/none", json=body) as response:
            with pytest.raises(UsageError, match="HTTP status 404"):
                await lines(eagerstream.events(response))
    assert found == await lines(eagerstream.events(pieces(100), buffer="wait"))


@pytest.mark.parametrize("source", ["text", b"bytes", {"type": "ping"}, 3, None])
async def test_no_source(source: Any) -> None:
    """A text or one event is an iterable too, and is refused like anything else, at once."""
    with pytest.raises(UsageError, match="is no source of events"):
        eagerstream.events(source)


async def test_options() -> None:
    """Options of inputs and events are those of `stream`. Parameters of a request have nobody to go to."""
    stream = eagerstream.events(pieces(7), invalid_key="BAD", min_chars=1000)
    assert len(await lines(stream)) < len(await lines(eagerstream.events(pieces(7), buffer="wait")))
    options: Any = {"model": "m"}
    with pytest.raises(UsageError, match="events has no option model"):
        eagerstream.events(pieces(7), **options)
