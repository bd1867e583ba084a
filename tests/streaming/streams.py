"""Streams from every kind of client, read to their end, and what they tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream.errors import APIError
from eagerstream.inputs import GrowingInput
from eagerstream.recordings import Chunk, Recording
from eagerstream.streaming import MessageStream, StreamEvent
from eagerstream.transports import HTTPTransport
from eagerstream_testing import reply, text, tool_use
from eagerstream_wire import MessageAssembler, MessageState, WireDecoder
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_stop,
    event_line,
    input_delta,
    message_delta,
    message_start,
    tool_start,
    written,
)
from tests.support import LocalAPI, anthropic_client

WEATHER = reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo", "days": [1, 2, 3]}))

NEVER_S = 3600.0

HELD = Recording((Chunk(0.0, WEATHER.body[:400]), Chunk(NEVER_S, WEATHER.body[400:])))
"""A reply that stops in its middle."""

SLOWLY_S = 20


@asynccontextmanager
async def a_client(kind: str, base_url: str) -> AsyncIterator[Any]:
    """Each kind of client that `stream` takes."""
    match kind:
        case "anthropic":
            async with anthropic_client(base_url) as client:
                yield client
        case "http":
            async with HTTPTransport(base_url=base_url, api_key="k") as transport:
                yield transport
        case "httpx" | "httpx2":
            library = pytest.importorskip(kind)
            async with library.AsyncClient(verify=False) as http_client:
                yield HTTPTransport(base_url=base_url, api_key="k", http_client=http_client)
        case _:
            raise AssertionError(kind)


each_client = pytest.mark.parametrize("kind", ["anthropic", "http", "httpx", "httpx2"])

both_clients = pytest.mark.parametrize("kind", ["anthropic", "httpx"])

Told = tuple[list[tuple[Any, ...]], str, str]


def expected(body: bytes) -> Told:
    """What a stream of `body` must tell: its events, how it ends, its message."""
    assembler = MessageAssembler(input_type=GrowingInput)
    lines: list[tuple[Any, ...]] = []
    ending = ""
    for event in WireDecoder(max_event_bytes=len(body) + 1).feed(body):
        if event["type"] == "error":
            ending = "APIError"
            break
        lines += [event_line(out) for out in assembler.feed(event)]
    lines += [event_line(out) for out in assembler.close()]
    if not ending and assembler.state is not MessageState.STOPPED:
        ending = "StreamInterrupted"
    return lines, ending, written(assembler.message)


async def told(stream: MessageStream) -> Told:
    """What a stream does tell."""
    lines: list[tuple[Any, ...]] = []
    ending = ""
    async with stream:
        try:
            async for event in stream:
                lines += [event_line(event)]
        except APIError as error:
            ending = type(error).__name__
            assert written(error.message) == written(stream.message)
    return lines, ending, written(stream.message)


async def finished(client: Any, **options: Any) -> MessageStream[Any]:
    """A stream that was read to its end."""
    with anyio.fail_after(60):
        async with eagerstream.stream(client, **{**REQUEST, **options}) as stream:
            await stream.finish()
    return stream


async def error_of(client: Any, kind: type[Any] = APIError, **options: Any) -> Any:
    """The error of exactly this kind that ends a stream."""
    with pytest.raises(kind) as caught:
        await finished(client, **options)
    assert type(caught.value) is kind
    return caught.value


async def events_of(client: Any, **options: Any) -> list[StreamEvent]:
    async with eagerstream.stream(client, **{**REQUEST, **options}) as stream:
        return [event async for event in stream]


async def failure_of(client: Any, **options: Any) -> tuple[list[StreamEvent], Exception]:
    """The events before a stream fails, and how it does."""
    events = []
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.stream(client, **{**REQUEST, **options}) as stream:
            try:
                async for event in stream:
                    events += [event]
            except Exception as error:
                return events, error
    raise AssertionError("it did not fail")


@asynccontextmanager
async def turns_of_others() -> AsyncIterator[Callable[[], int]]:
    """Let another task run beside the block; the function returns the number of its turns so far."""
    turns = 0

    async def watch() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        yield lambda: turns
        tasks.cancel_scope.cancel()


def kinds(events: list[StreamEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def a_source(kind: str, recording: Recording) -> Any:
    """A client that is answered with `recording`, or the recording itself."""
    if kind == "recording":
        return recording
    api = LocalAPI([recording], status=recording.status, headers=recording.headers)
    return api.anthropic() if kind == "anthropic" else api.transport()


def long_input(count: int) -> list[Any]:
    """A reply whose one input has `count` fragments."""
    fragments = ['{"lines": ["', *(f"line {number}\\n" for number in range(count)), '"]}']
    deltas = [input_delta(0, fragment) for fragment in fragments]
    return [message_start(), tool_start(0), *deltas, block_stop(0), message_delta("tool_use"), MESSAGE_STOP]


each_source = pytest.mark.parametrize("kind", ["anthropic", "httpx", "recording"])
