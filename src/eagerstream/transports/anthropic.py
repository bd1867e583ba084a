"""Any async client of the anthropic package as a transport: first-party, Bedrock, Vertex and the others.

They share no base class, so the client is taken by what it can do. The body is read as bytes where it is a
`text/event-stream`, and through the client's own decoder where it is not (Bedrock's binary frames).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from ..errors import APIError, LimitError, UsageError
from ..limits import Limits
from ..wire import WireEvent, encodable
from .base import (
    Reply,
    RequestBody,
    SSEReply,
    Transport,
    close_quietly,
    interruption,
    media_type,
    not_a_stream,
    raise_as,
    refusal,
    unwind,
)

_EVENT_STREAMS = ("text/event-stream",)
_OTHER_STREAMS = ("application/vnd.amazon.eventstream",)


class AnthropicTransport(Transport):
    """Sends requests through `client.messages` (or `client.beta.messages` where the request has `betas`).

    Retries, time-outs and the key are the client's own business; so is closing the client.

    Raises:
        UsageError: `client` is not an async client of the anthropic package, nor like one.
    """

    def __init__(self, client: Any) -> None:
        if any(base.__name__ == "SyncAPIClient" for base in type(client).__mro__):
            name = type(client).__name__
            raise UsageError(f"{name} is a synchronous client; eagerstream needs an async one: Async{name}")
        if not hasattr(getattr(client, "messages", None), "with_streaming_response"):
            raise UsageError(
                "the client must be an async client of the anthropic package, an HTTPTransport or a Recording, "
                f"not {type(client).__name__}"
            )
        self._client = client

    def opening_timeout_s(self, limits: Limits) -> float:
        """See `Transport.opening_timeout_s`: the client pauses before each retry as the peer asks, without a bound."""
        return (self._retries + 1) * limits.idle_timeout_s + self._retries * limits.max_retry_after_s

    @property
    def _retries(self) -> int:
        retries = getattr(self._client, "max_retries", 0)
        return retries if type(retries) is int and retries > 0 else 0

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        """See `Transport.open`."""
        try:
            response = await self._send(request)
        except UnicodeEncodeError:
            # A history may hold lone surrogates that a model wrote. Looking for them in every request would cost more
            # than this second attempt, before which nothing was sent.
            response = await self._send(encodable(request))
        chunks: AsyncIterator[Any] | None = None
        try:
            reply, chunks = await _reply(response, limits)
            yield reply
        finally:
            if chunks is not None:
                await unwind(chunks)
            await close_quietly(response)

    async def _send(self, request: RequestBody) -> Any:
        messages = self._client.beta.messages if "betas" in request else self._client.messages
        create = messages.with_streaming_response.create
        try:
            return await create(**_as_arguments(messages.create, request), stream=True).__aenter__()
        except Exception as error:
            refused = refusal(error)
            if isinstance(refused, APIError):
                refused.retried = refused.retryable and self._retries > 0
            raise_as(refused, error)


def _as_arguments(create: Any, request: RequestBody) -> dict[str, Any]:
    """Request fields that this version of the client does not know travel in its `extra_body`."""
    known = inspect.signature(create).parameters
    arguments = {name: value for name, value in request.items() if name in known}
    unknown = {name: value for name, value in request.items() if name not in known}
    if unknown:
        arguments["extra_body"] = {**(arguments.get("extra_body") or {}), **unknown}
    return arguments


async def _reply(response: Any, limits: Limits) -> tuple[Reply, AsyncIterator[Any]]:
    """The reply, and the iteration under it, which must be ended."""
    request_id = response.headers.get("request-id")
    content_type = media_type(response)
    if content_type in _EVENT_STREAMS:
        chunks = response.http_response.aiter_bytes()
        return SSEReply(chunks, request_id=request_id, limits=limits), chunks
    if content_type in _OTHER_STREAMS:
        from anthropic import AsyncStream

        events = aiter(await response.parse(to=AsyncStream[object]))
        return _DecodedReply(events, request_id, limits), events
    raise not_a_stream(content_type)


class _DecodedReply:
    """A reply that the client has decoded into wire dicts."""

    def __init__(self, events: AsyncIterator[object], request_id: str | None, limits: Limits) -> None:
        self.request_id = request_id
        self._events = events
        self._max_bytes = limits.max_reply_bytes
        self._bytes = 0

    async def receive(self) -> list[WireEvent] | None:
        """See `Reply.receive`."""
        try:
            event = await anext(self._events, None)
        except Exception as error:
            raise_as(interruption(error, self.request_id), error)
        if event is None:
            return None
        # Before 1.0 the Bedrock client also yields a dict of metrics that has no type.
        if not isinstance(event, dict) or "type" not in event:
            return []
        self._bytes += _size(event)
        if self._bytes > self._max_bytes:
            raise LimitError("max_reply_bytes", self._max_bytes, "the reply")
        return [event]


_EVENT_BYTES: Final = 64
"""About what the frame of an event takes; the client has decoded it, and tells no bytes."""


def _size(event: WireEvent) -> int:
    delta = event.get("delta")
    texts = delta.values() if isinstance(delta, dict) else ()
    return _EVENT_BYTES + sum(len(text) for text in texts if isinstance(text, str))
