"""What counts as a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic, Omit

import eagerstream
from eagerstream.errors import UsageError
from eagerstream.limits import Limits
from eagerstream.transports import HTTPTransport, Reply, RequestBody, Transport, as_transport
from eagerstream.transports._anthropic import AnthropicTransport
from eagerstream.transports._playback import PlaybackTransport
from eagerstream_testing import reply, text
from eagerstream_wire import MessageStop, WireEvent
from tests.streams import MESSAGE_STOP, REQUEST, message_delta, message_start
from tests.tables import rows


def test_each_kind() -> None:
    """Recordings, transports and anthropic clients each become what they are."""
    assert isinstance(as_transport(reply(text("Hi"))), PlaybackTransport)
    assert isinstance(as_transport(AsyncAnthropic(api_key="k")), AnthropicTransport)
    transport = HTTPTransport(base_url="http://local")
    assert as_transport(transport) is transport


class _Source(Transport):
    """A transport of one's own: the wire events come from a list."""

    def __init__(self) -> None:
        self.request: RequestBody = {}
        self._events: list[list[WireEvent]] = [[message_start()], [], [message_delta("end_turn"), MESSAGE_STOP]]
        self.request_id: str | None = "req_own"

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        self.request = request
        yield self

    async def receive(self) -> list[WireEvent] | None:
        return self._events.pop(0) if self._events else None


@pytest.mark.anyio
async def test_a_transport_of_one_s_own() -> None:
    """The bytes may come from anywhere: a subclass says from where."""
    source = _Source()
    async with eagerstream.stream(source, **REQUEST, temperature=0) as stream:
        events = [event async for event in stream]
    assert isinstance(events[-1], MessageStop)
    assert stream.request_id == "req_own"
    assert source.request == {**REQUEST, "temperature": 0}


@rows(
    "headers, betas",
    [
        ({}, []),
        ({"x-note": "a"}, []),
        ({"anthropic-beta": "one"}, ["one"]),
        ({"Anthropic-Beta": "one, two,,three"}, ["one", "two", "three"]),
        ({"anthropic-beta": Omit()}, []),
    ],
)
def test_default_betas(headers: dict[str, Any], betas: list[str]) -> None:
    """What a client sends by itself can be kept by who adds to it, however the header is written."""
    client = AsyncAnthropic(api_key="k", default_headers=headers)
    assert list(as_transport(client).default_betas) == betas
    if all(isinstance(value, str) for value in headers.values()):
        assert list(HTTPTransport(base_url="http://local", headers=headers).default_betas) == betas
    assert list(_Source().default_betas) == []


def test_default_betas_of_what_is_only_like_a_client() -> None:
    """A stand-in need not have headers."""
    messages = AsyncAnthropic(api_key="k").messages
    assert list(as_transport(SimpleNamespace(messages=messages)).default_betas) == []
    assert list(as_transport(SimpleNamespace(messages=messages, default_headers=None)).default_betas) == []


class _LooksSynchronous(Anthropic):
    """A subclass of the user's own."""


@rows("client", [Anthropic(api_key="k"), _LooksSynchronous(api_key="k")])
def test_synchronous_clients(client: Any) -> None:
    """Said with the name of the class that would do, also for subclasses."""
    with pytest.raises(UsageError, match="Async"):
        as_transport(client)


@rows(
    "client",
    [None, 1, "x", object(), AsyncAnthropic, open],
)
def test_what_is_no_client(client: Any) -> None:
    """Refused with the kinds that there are."""
    with pytest.raises(UsageError, match="HTTPTransport"):
        as_transport(client)
