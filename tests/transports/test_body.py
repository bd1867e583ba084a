"""`BodyTransport`: bodies that are there already give the same events as a client does."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from types import AsyncGeneratorType
from typing import Any
from unittest.mock import AsyncMock

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest

import eagerstream
from eagerstream.transports import as_transport
from eagerstream.transports._body import BodyTransport
from eagerstream_testing import ReplayServer, reply, text, tool_use
from tests.streams import REQUEST, event_line
from tests.support import anthropic_client

pytestmark = pytest.mark.anyio

REPLY = reply(text("I look."), tool_use("get_weather", {"city": "Braga"}))


async def pieces(size: int) -> AsyncIterator[bytes]:
    """The bytes of the response in pieces."""
    for at in range(0, len(REPLY.body), size):
        await anyio.lowlevel.checkpoint()
        yield REPLY.body[at : at + size]


async def lines(source: Any) -> list[Any]:
    """The events of a source, written down."""
    with anyio.fail_after(10):
        async with eagerstream.stream(source, **REQUEST, buffer="wait") as stream:
            return [[in_order(field) for field in event_line(event)] async for event in stream]


def in_order(field: Any) -> Any:
    """A field of an event; objects with their keys sorted, for the anthropic package has an order of its own."""
    is_json = isinstance(field, str) and field.startswith("{") and field.endswith("}")
    return json.dumps(json.loads(field), sort_keys=True) if is_json else field


async def test_every_source_gives_the_same_events() -> None:
    """Bytes, responses of both HTTP libraries, and events of the anthropic package: one transcript."""
    with ReplayServer(REPLY) as server:
        async with anthropic_client(server.base_url) as client:
            expected = await lines(client)
            events = await client.messages.create(**REQUEST, stream=True)
            assert await lines(events) == expected
        for library in (httpx, httpx2):
            async with (
                library.AsyncClient(headers={"x-api-key": "k", "anthropic-version": "2023-06-01"}) as plain,
                plain.stream("POST", f"{server.base_url}/v1/messages", json={**REQUEST, "stream": True}) as response,
            ):
                assert await lines(response) == expected
    for size in (1, 7, 10**6):
        assert await lines(pieces(size)) == expected


async def test_a_body_is_read_once() -> None:
    """A second request cannot be answered, and says so."""
    body = pieces(100)
    transport = BodyTransport(body)
    assert await lines(transport)
    with pytest.raises(eagerstream.UsageError, match="read only once"):
        await lines(transport)


async def test_what_is_no_body() -> None:
    """Items that are neither bytes nor events, and a response that is an error."""

    async def odd() -> AsyncIterator[Any]:
        yield 5

    with pytest.raises(eagerstream.ProtocolError, match="neither bytes nor an event"):
        await lines(odd())

    async def nameless() -> AsyncIterator[Any]:
        yield {}

    with pytest.raises(eagerstream.ProtocolError, match="without a type"):
        await lines(nameless())
    assert not isinstance(as_transport(AsyncMock()), BodyTransport), "a client, although mocks can be iterated over"
    with pytest.raises(eagerstream.UsageError, match="HTTP status 529"):
        await lines(httpx.Response(529, content=b""))
    with pytest.raises(eagerstream.ProtocolError, match="not a stream of events"):
        await lines(httpx.Response(200, content=b"{}"))


async def test_a_body_that_breaks_off() -> None:
    """What came of it is kept, as with any connection."""

    async def broken() -> AsyncIterator[bytes]:
        yield REPLY.body[:300]
        raise httpx.ReadError("the peer is gone")

    with pytest.raises(eagerstream.StreamInterrupted, match="the peer is gone"):
        await lines(broken())


@pytest.mark.parametrize("fault", [b"", b"data: nonsense\n\n"])
async def test_a_body_that_is_given_up(fault: bytes) -> None:
    """Left in its middle, or no events: every generator is closed, for trio would warn about it."""
    before = {id(each) for each in gc.get_objects() if isinstance(each, AsyncGeneratorType)}
    with anyio.fail_after(10), suppress(eagerstream.ProtocolError):
        async with eagerstream.stream(a_body(fault), **REQUEST, buffer="wait") as stream:
            async for _ in stream:
                if not fault:
                    break
    left = [each for each in gc.get_objects() if isinstance(each, AsyncGeneratorType) and id(each) not in before]
    assert [each for each in left if each.ag_frame is not None] == []


async def a_body(fault: bytes) -> AsyncIterator[bytes]:
    """A response with a fault behind its first 300 bytes."""
    yield REPLY.body[:300]
    yield fault
    yield REPLY.body[300:]


async def test_a_body_that_never_waits_can_be_left() -> None:
    """Its consumer gets a turn, and leaving ends the reading."""
    taken = 0

    async def endless() -> AsyncIterator[Any]:
        nonlocal taken
        yield {"type": "message_start", "message": {}}
        while True:
            taken += 1
            yield {"type": "ping_of_a_kind"}

    with anyio.fail_after(10):
        async with eagerstream.stream(endless(), **REQUEST, buffer="wait") as stream:
            async for _ in stream:
                break
    assert taken < 2_000
