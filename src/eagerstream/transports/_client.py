"""The types of clients that `stream` and `run` accept."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from ..recordings import Recording
from ._base import Transport


class AsyncMessages(Protocol):
    """The `messages` of an async client of the anthropic package, as far as type checkers need it."""

    @property
    def create(self) -> Callable[..., Awaitable[Any]]:
        """Send a request. With a synchronous client, the result cannot be awaited."""
        ...


class AsyncClient(Protocol):
    """An async client of the anthropic package, for any platform: `AsyncAnthropic`, `AsyncAnthropicBedrock`, ..."""

    # A protocol instead of the classes: loading the anthropic package takes 0.5 s, and wrappers of a client have the
    # same form.

    @property
    def messages(self) -> AsyncMessages:
        """The resource that sends the requests."""
        ...


class AsyncBody(Protocol):
    """A streaming response of httpx or httpx2."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the body in pieces."""
        ...


class AsyncContent(Protocol):
    """The content of a response of aiohttp."""

    def iter_any(self) -> AsyncIterable[bytes]:
        """Return the body in pieces."""
        ...


class AsyncResponse(Protocol):
    """A streaming response of aiohttp."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def content(self) -> AsyncContent:
        """The body."""
        ...


Client: TypeAlias = AsyncClient | Transport | Recording | AsyncIterable[Any] | AsyncBody | AsyncResponse
"""A client, a transport, a `Recording` to play back, or the body of one response."""
