"""`ReplyDeadline`: how long a response may be silent, send nothing but pings, or go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import pytest

import eagerstream
from eagerstream.errors import APIError, StreamInterrupted
from eagerstream.limits import Limits
from eagerstream.recordings import Chunk, Recording
from eagerstream.streaming import StreamEvent
from eagerstream.transports import HTTPTransport
from eagerstream_testing import ReplayServer
from eagerstream_wire import MessageStart, MessageStop
from tests.streaming.streams import (
    HELD,
    NEVER_S,
    SLOWLY_S,
    WEATHER,
    a_client,
    both_clients,
    each_source,
    events_of,
    failure_of,
    finished,
    kinds,
    long_input,
)
from tests.streams import MESSAGE_STOP, REQUEST, block_start, block_stop, message_delta, message_start, text_delta
from tests.support import Gate, LocalAPI, Piece
from tests.virtual_time import in_virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture
def one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the deadline read the clock of the event loop, which may be virtual."""
    monkeypatch.setattr("eagerstream.streaming._deadline.time", SimpleNamespace(monotonic=anyio.current_time))


@pytest.mark.usefixtures("one_clock")
def test_a_slow_consumer_is_not_the_peer_s_silence() -> None:
    """While the reader waits for the consumer nothing can come: that time does not count against the peer."""

    async def read() -> list[StreamEvent]:
        api = LocalAPI(long_input(400))
        options: dict[str, Any] = {"buffer": "wait", "limits": Limits(idle_timeout_s=5)}
        async with eagerstream.stream(api.transport(), **REQUEST, **options) as stream:
            await anext(stream)
            await anyio.sleep(60)
            return [event async for event in stream]

    assert isinstance(in_virtual_time(read)[-1], MessageStop)


@each_source
async def test_idle_timeout(kind: str) -> None:
    """Silence for too long is an interruption."""
    if kind == "recording":
        events, error = await failure_of(HELD, limits=Limits(idle_timeout_s=0.3))
    else:
        async with ReplayServer(HELD) as server, a_client(kind, server.base_url) as client:
            events, error = await failure_of(client, limits=Limits(idle_timeout_s=0.3))
            (request,) = server.requests
            assert await anyio.to_thread.run_sync(request.wait_ended, SLOWLY_S)
            assert request.disconnected
    assert type(error) is StreamInterrupted
    assert "0.3 s" in str(error)
    assert isinstance(events[0], MessageStart)


class _Patient(HTTPTransport):
    """Its opening may take for ever, as that of a client with many retries."""

    def opening_timeout_s(self, limits: Limits) -> float:
        return NEVER_S


@pytest.mark.parametrize("pieces", [[], [message_start()]], ids=["before the first byte", "after it"])
async def test_silence_after_an_opening_that_may_take_long(pieces: list[Piece]) -> None:
    """What the opening was allowed is no allowance for the reply: once it has begun, the ordinary silence holds."""
    api = LocalAPI([*pieces, Gate()])
    with anyio.fail_after(SLOWLY_S):
        transport = _Patient(base_url="http://local", http_client=api.client(httpx))
        _, error = await failure_of(transport, limits=Limits(idle_timeout_s=0.1))
    assert type(error) is StreamInterrupted
    assert "0.1 s" in str(error)


@pytest.mark.parametrize("status", [200, 500])
async def test_a_server_that_never_answers(status: int) -> None:
    """Silence before the first byte of a reply, or of an error, is silence too."""
    if status == 200:
        silent = Recording((Chunk(NEVER_S, b""),))
    else:
        silent = Recording((Chunk(0, b"{"), Chunk(NEVER_S, b"}")), status=500)
    with anyio.fail_after(5):
        async with ReplayServer(silent) as server, a_client("httpx", server.base_url) as client:
            _, error = await failure_of(client, limits=Limits(idle_timeout_s=0.1))
    assert isinstance(error, APIError)
    assert error.retryable


@pytest.mark.usefixtures("one_clock")
def test_any_byte_ends_the_silence() -> None:
    """A reply that comes slowly is not silent, pings and half events included."""
    body = WEATHER.body
    slow = Recording(
        tuple(Chunk(number * 4.0, body[at : at + 200]) for number, at in enumerate(range(0, len(body), 200)))
    )
    assert slow.duration_s > 5
    events = in_virtual_time(lambda: events_of(slow, limits=Limits(idle_timeout_s=5)))
    assert isinstance(events[-1], MessageStop)


@both_clients
async def test_a_body_held_open_after_the_message(kind: str) -> None:
    """The message is whole: the iteration ends soon, not after two minutes of silence."""
    held = Recording((Chunk(0.0, WEATHER.body), Chunk(NEVER_S, b"")))
    with anyio.fail_after(10):
        async with ReplayServer(held) as server, a_client(kind, server.base_url) as client:
            events = await events_of(client)
    assert isinstance(events[-1], MessageStop)


async def test_a_body_held_open_with_a_short_patience() -> None:
    """Silence after the whole message is no interruption."""
    api = LocalAPI([WEATHER, Gate()])
    events = await events_of(api.anthropic(), limits=Limits(idle_timeout_s=0.5))
    assert isinstance(events[-1], MessageStop)


@pytest.mark.usefixtures("one_clock")
def test_text_is_progress() -> None:
    """A long text without any input is not mistaken for a body of nothing but pings."""
    pieces: list[Piece] = [message_start(), block_start(0, "text", text="")]
    for _ in range(30):
        pieces += [text_delta(0, "word "), 1.0]

    async def read() -> Any:
        api = LocalAPI([*pieces, block_stop(0), message_delta("end_turn"), MESSAGE_STOP])
        limits = Limits(idle_timeout_s=60, progress_timeout_s=10)
        stream = await finished(api.transport(), limits=limits)
        return stream.message

    assert in_virtual_time(read)["content"][0]["text"] == "word " * 30


@pytest.mark.usefixtures("one_clock")
def test_a_slow_consumer_of_a_short_reply() -> None:
    """The time that the reply waits for its consumer is not its own."""
    pieces = [message_start(), block_start(0, "text", text=""), *[text_delta(0, "x")] * 300]

    async def read() -> Any:
        api = LocalAPI([*pieces, block_stop(0), message_delta("end_turn"), MESSAGE_STOP])
        limits = Limits(max_reply_s=6)
        async with eagerstream.stream(api.transport(), **REQUEST, limits=limits, buffer="wait") as stream:
            async for event in stream:
                if kinds([event]) == ["BlockStart"]:
                    await anyio.sleep(8)
        return stream.message

    assert in_virtual_time(read)["stop_reason"] == "end_turn"


class _NeverOpens(HTTPTransport):
    def open(self, request: Any, limits: Limits) -> Any:
        @asynccontextmanager
        async def never() -> AsyncIterator[Any]:
            await anyio.sleep_forever()
            yield

        return never()


async def test_an_opening_that_never_ends() -> None:
    """The wait for the head of a reply is bounded, whatever the transport does."""
    transport = _NeverOpens(base_url="http://local", api_key="k")
    with anyio.fail_after(10), pytest.raises(StreamInterrupted, match=r"no response started within 0\.1 s"):
        await finished(transport, limits=Limits(idle_timeout_s=0.1))
