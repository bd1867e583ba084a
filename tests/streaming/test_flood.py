"""A peer that always has bytes ready can be stopped, in every way and on every client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Self

import anyio
import pytest

import eagerstream
from eagerstream.errors import LimitError
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream_testing import encode_event
from tests.streams import block_start, message_start, text_delta

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

_BEGINNING = encode_event(message_start()) + encode_event(block_start(0, "text", text=""))
_CHUNKS = {"text": encode_event(text_delta(0, "a")) * 20, "line feeds": b"\n" * 2_000}
_ENOUGH = 5_000  # chunks: a stream that reads so many was not stopped


class _Done:
    """Waits for a future that is done already, in a step of its own, as a socket with bytes makes a task do.

    anyio does not cancel a task that waits for such a future, whenever it looks.
    """

    def __await__(self) -> Generator[Any, None, None]:
        future = asyncio.get_running_loop().create_future()
        future.set_result(None)
        future._asyncio_future_blocking = True
        yield future


class _Flood:
    """The body of a response, as `aiohttp` hands it out: each chunk is all that has arrived."""

    takes_all = True

    def __init__(self, chunk: bytes) -> None:
        self._chunk = chunk
        self.count = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await _Done()
        self.count += 1
        if self.count > _ENOUGH:
            raise StopAsyncIteration
        return _BEGINNING if self.count == 1 else self._chunk


class _Response:
    """A response of httpx, as far as it is looked at."""

    status_code = 200
    is_stream_consumed = False

    def __init__(self, body: _Flood) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self.body = body

    def aiter_raw(self) -> AsyncIterator[bytes]:
        return self.body

    aiter_bytes = aiter_raw


async def _iterate(stream: Any) -> None:
    async for _ in stream:
        pass


async def _finish(stream: Any) -> None:
    await stream.finish()


@pytest.mark.parametrize("read", [_iterate, _finish])
@pytest.mark.parametrize("what", _CHUNKS)
async def test_a_flood_can_be_stopped(what: str, read: Callable[[Any], Awaitable[None]]) -> None:
    """Cancellation by a scope, natively, and by our own limits reaches a task whose future is always done."""

    async def consume(limits: Limits = DEFAULT_LIMITS) -> None:
        body.append(_Flood(_CHUNKS[what]))
        async with eagerstream.events(_Response(body[-1]), limits=limits) as stream:
            await read(stream)

    body: list[_Flood] = []
    with anyio.move_on_after(0.02) as scope:
        await consume()
    assert scope.cancelled_caught
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await consume()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consume(), 0.02)
    task = asyncio.create_task(consume())
    await asyncio.sleep(0.02)
    task.cancel()  # as Ctrl-C does
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(LimitError, match="max_reply_s"):
        await consume(Limits(max_reply_s=0.02))
    assert [flood.count <= _ENOUGH for flood in body] == [True] * 5


@pytest.mark.parametrize("chunk", [_CHUNKS["text"][:100], _CHUNKS["text"] * 4, b"\n" * 100_000])
async def test_other_tasks_get_their_turn(chunk: bytes) -> None:
    """A source that never waits does not hold up the loop: it turns after about 45 small chunks, or after 16 KiB."""
    count = most = 0

    async def ready() -> AsyncIterator[bytes]:
        nonlocal count
        for _ in range(200):
            count += 1
            yield chunk

    async with eagerstream.events(ready()) as stream:
        reading = asyncio.create_task(_finish(stream))
        while not reading.done():
            before = count
            await asyncio.sleep(0)
            most = max(most, count - before)
        await asyncio.gather(reading, return_exceptions=True)  # it is no whole response
    assert 1 <= most <= (50 if len(chunk) < 512 else 3)
