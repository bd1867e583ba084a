"""A session of aiohttp as the client of an `HTTPTransport`. Its parser is C, so it is the cheapest of the three."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Self

import aiohttp
from multidict import CIMultiDict

from .._support.event_loops import event_loop, is_asyncio
from ..errors import UsageError
from . import _http_settings as settings

_READ_BUFFER_BYTES: Final = 65_536
"""Half of the bytes of one response that may wait for a slow consumer. Then the socket is no longer read."""

_MAX_HEADER_BYTES: Final = 32_768
"""Maximum size of one header of a response; aiohttp bounds their number. By default 8 KB, which policies exceed."""

_LARGE_BODY_BYTES: Final = 1_048_576
"""aiohttp warns of a longer body in one piece, and writes a file of any size in pieces."""


class AIOHTTPClient:
    """A `ClientSession`."""

    def __init__(self, session: aiohttp.ClientSession, proxy: str | None = None) -> None:
        self._session = session
        self._loop: asyncio.AbstractEventLoop | None = None  # of a session that was made here
        self._proxy = self._password = None
        if proxy is not None:
            self._proxy, self._password = settings.without_password(proxy)

    @classmethod
    def make(cls, url: str, proxy: str | None) -> Self:
        """Return a client with our settings."""
        connector = aiohttp.TCPConnector(
            ssl=settings.tls_context() if url.startswith("https:") else True,
            limit=settings.MAX_CONNECTIONS,
            keepalive_timeout=settings.IDLE_CONNECTION_S,
        )
        client = cls(aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()), proxy)
        client._loop = asyncio.get_running_loop()
        return client

    def __del__(self) -> None:
        # A transport need not be closed, but aiohttp logs an error for a session that was not.
        connector = self._session.connector
        if self._loop is None or connector is None:
            return
        self._session.detach()
        close = partial(connector.__exit__, None, None, None)  # the only form without an await
        with suppress(RuntimeError):  # the loop was closed meanwhile
            if self._loop.is_running():
                self._loop.call_soon_threadsafe(close)
            else:
                close()

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> AIOHTTPResponse:
        """See `HTTPClient.post`."""
        if not is_asyncio(event_loop()):
            raise UsageError("aiohttp runs only on asyncio: on trio, use httpx2 or httpx")
        password = {"proxy-authorization": self._password} if self._password else {}
        is_tunnel = url.startswith("https:")  # only its first request is for the proxy
        response = await self._session.post(
            url,
            headers=headers if is_tunnel else {**headers, **password},
            data=content if len(content) <= _LARGE_BODY_BYTES else io.BytesIO(content),
            allow_redirects=False,  # one could send the key and the prompt to any address
            raise_for_status=False,
            auto_decompress=False,  # it would unpack each read completely, however large the result
            proxy=self._proxy,
            proxy_headers=password if is_tunnel else None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.CONNECT_TIMEOUT_S),
            read_bufsize=_READ_BUFFER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )
        return AIOHTTPResponse(response)

    async def aclose(self) -> None:
        """See `HTTPClient.aclose`."""
        await self._session.close()


class AIOHTTPResponse:
    """A response with the attributes of one of httpx, see `HTTPClient.post`, and the iterator over its body.

    Reading the body fails when its connection is lost.
    """

    # aiohttp forgets the body if its chunked coding is broken: a reader would wait until its time is up, for bytes of a
    # closed connection (test_a_cut_response_spoils_no_connection).

    is_stream_consumed = False
    takes_all = True
    """See `StreamedReply`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status_code = response.status
        self.headers = _readable(response.headers)
        self._is_lost = False
        protocol = response.connection and response.connection.protocol
        self._closed: asyncio.Future[None] | None = getattr(protocol, "closed", None)  # None if it is closed already
        if self._closed is not None:
            self._closed.remove_done_callback(_take_failure)
            self._closed.add_done_callback(self._end)

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Return the bytes as they come. Each step takes all that have arrived."""
        return self._whole() if self._response.content.at_eof() else self

    async def _whole(self) -> AsyncIterator[bytes]:
        yield await self._response.read()  # a middleware may have read it before us

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._response.content.readany()
        if chunk:
            return chunk
        if self._is_lost:
            raise aiohttp.ClientPayloadError("the body is not valid HTTP")
        raise StopAsyncIteration

    def _end(self, closed: asyncio.Future[None]) -> None:
        _take_failure(closed)
        content = self._response.content
        if not content.is_eof() and content.exception() is None:
            self._is_lost = True
            content.feed_eof()  # what has come is read before the failure

    async def aclose(self) -> None:
        """Close the connection at once, unless the body was read to its end."""
        if self._closed is not None:
            # Others may use a pooled connection now. It keeps its future, whose failure is not to be logged if nobody
            # uses it.
            self._closed.remove_done_callback(self._end)
            self._closed.add_done_callback(_take_failure)
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            # Closing would say goodbye first, and wait for half a minute for the answer of a peer with TLS.
            connection.transport.abort()
        self._response.close()


def _take_failure(closed: asyncio.Future[None]) -> None:
    if not closed.cancelled():
        closed.exception()


def _readable(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return headers as httpx has them: values of one name joined, and text that can be encoded."""
    if len({name.lower() for name in headers}) == len(headers) and all(map(str.isascii, headers.values())):
        return headers
    found: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        text = value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found
