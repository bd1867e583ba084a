"""A response body that was already received, as a transport: bytes, an HTTP response, or decoded events."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeGuard

import anyio.lowlevel

from eagerstream_wire import FragmentDecoder, InputFragment, WireEvent
from eagerstream_wire._decoding import to_wire_event

from .._support.cancellation import unwind
from ..errors import ProtocolError, UsageError
from ..limits import Limits
from ._base import Reply, RequestBody, StreamedReply, Transport, portions_of, streamed
from ._failures import interruption, raise_as

_ITEMS_IN_ONE_GO: Final = 32


def is_body(source: object) -> TypeGuard[AsyncIterable[Any]]:
    """Return True for the inputs of `BodyTransport`: an async iterable, or a response of httpx, httpx2 or aiohttp."""
    return isinstance(source, AsyncIterable) or hasattr(source, "aiter_bytes") or _is_aiohttp(source)


def _is_aiohttp(source: object) -> bool:
    # In this order: `content` of a response of httpx raises an error while the response is still being received.
    return not hasattr(source, "aiter_bytes") and hasattr(getattr(source, "content", None), "iter_any")


class BodyTransport(Transport):
    """Answers one request with a body that was already received. Nothing is sent.

    Args:
        source: An async iterable of `bytes` in any pieces, a streaming response of httpx, httpx2 or aiohttp, or
            an async iterable of events: mappings, or those of the anthropic package (`AsyncStream`). You close a
            response. An iterator that was not read to its end is closed here.
    """

    def __init__(self, source: AsyncIterable[Any]) -> None:
        self._source = source
        self._is_taken = False

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:  # noqa: ARG002
        """See `Transport.open`. The request is ignored.

        Raises:
            UsageError: The body was read before, or its HTTP status is not 200.
            ProtocolError: The body is not a stream of events.
        """
        if self._is_taken:
            raise UsageError("the body of a response can be read only once: pass a client to send another request")
        self._is_taken = True
        source: Any = self._source
        if (status := getattr(source, "status_code", getattr(source, "status", 200))) != 200:
            raise UsageError(f"the response has the HTTP status {status}, and no stream of events")
        if _is_aiohttp(source):
            source = source.content.iter_any()
        if not hasattr(source, "aiter_bytes"):
            items = _Items(aiter(source), limits)
            try:
                yield items
            finally:
                await items.aclose()
            return
        async with await streamed(source, limits) as reply:
            yield reply


class _Items:
    """A response whose items are all bytes or all events. The first item decides which."""

    request_id: str | None = None

    def __init__(self, items: AsyncIterator[Any], limits: Limits) -> None:
        self._items = items
        self._limits = limits
        self._bytes: StreamedReply | None = None
        self._in_a_row = 0
        self._portions: Iterator[Sequence[WireEvent | InputFragment]] = iter(())  # the rest of an event

    async def receive(self) -> Sequence[WireEvent | InputFragment] | None:
        """See `Reply.receive`."""
        if self._bytes is not None:
            return await self._bytes.receive()
        portion = next(self._portions, None)
        if portion is not None:
            await anyio.lowlevel.checkpoint()
            return portion
        try:
            await self._pause()
            item = await anext(self._items, None)
        except Exception as error:
            raise_as(interruption(error, None), error)
        if item is None:
            return None
        if not isinstance(item, bytes | bytearray | memoryview):
            try:
                event = dict(to_wire_event(item))
            except UsageError as error:
                raise ProtocolError("an item of the body is neither bytes nor an event") from error
            if not isinstance(event.get("type"), str):
                raise ProtocolError("an item of the body is an event without a type")
            self._portions = portions_of([event])
            return next(self._portions)
        self._bytes = StreamedReply(
            self._chunks(bytes(item)), request_id=None, limits=self._limits, decoder=FragmentDecoder
        )
        return await self._bytes.receive()

    async def aclose(self) -> None:
        """End the iteration: the innermost first, which is left to the garbage collector otherwise."""
        if self._bytes is not None:
            await self._bytes.__aexit__()
        await unwind(self._items)

    async def _pause(self) -> None:
        """Let other tasks run and check for cancellation, because the items may come without any wait."""
        self._in_a_row += 1
        if self._in_a_row == _ITEMS_IN_ONE_GO:
            self._in_a_row = 0
            await anyio.lowlevel.checkpoint()

    async def _chunks(self, first: bytes) -> AsyncIterator[bytes]:
        yield first
        async for item in self._items:
            await self._pause()
            yield bytes(item)
