"""The types of clients that `stream` and `run` accept, and whether one has a key."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from ..errors import UsageError
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


_KEY_HEADERS: Final = frozenset({"authorization", "x-api-key"})


def check_key(client: object, request: Callable[[], Mapping[str, Any]]) -> None:
    """Check that a client of the anthropic package has a key. It would say so with the first request, and at length.

    Args:
        client: Any object. Only `AsyncAnthropic` itself is looked at: other platforms sign in in their own ways.
        request: Returns the body of the request, whose `extra_headers` may have a key of their own.

    Raises:
        UsageError: The client has no key.
    """
    names = ("api_key", "auth_token", "credentials")
    if type(client).__name__ != "AsyncAnthropic" or any(getattr(client, name, None) is not None for name in names):
        return
    headers = [getattr(client, "default_headers", None), request().get("extra_headers")]
    if any(name.lower() in _KEY_HEADERS for given in headers if isinstance(given, Mapping) for name in given):
        return
    raise UsageError(
        "the client has no key: set ANTHROPIC_API_KEY, or give it an api_key. To try a program without one, run it as "
        "`eagerstream serve --script -- python program.py`"
    )
