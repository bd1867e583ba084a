"""The Messages API over a plain HTTP client, for gateways and local servers that speak it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, Self
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from eagerstream_wire._settled_messages import request_json

from .._support.cancellation import close_quietly
from .._support.event_loops import event_loop, has_ended
from .._support.terms import BETA_HEADER, betas_in, media_type
from .._support.unpacking import ACCEPT_ENCODING
from ..errors import APIError, UsageError
from ..limits import Limits
from ._base import Reply, RequestBody, Transport, streamed
from ._error_bodies import read_error
from ._error_responses import body_error
from ._failures import raise_as, refusal
from ._http_clients import HTTPClient, Library, check_library, client_of, make_client
from ._http_settings import without_password
from ._opening import Opening

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where a request ends. A wrong one would let a server read its rest as the next request."""


class HTTPTransport(Transport):
    """Posts to `{base_url}/v1/messages` and reads server-sent events.

    It sends with aiohttp, httpx2 or httpx: one that you name, one whose client you pass, or the cheapest installed one.
    Requests and responses are the same with each. aiohttp takes about half of the CPU of httpx2 for each event, but
    runs only on asyncio.

    A client made here reads the environment: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`,
    `SSL_CERT_DIR`. It keeps no cookies, and unused connections for 5 seconds. For other settings, pass a client.
    `Limits.idle_timeout_s` bounds silence in any case, and connecting may take 10 seconds.

    Redirects are not followed, even if the client would follow them: a redirect is an `APIError`. A response may be
    compressed only with gzip.

    As an async context manager, it closes the client that it made. A client that was passed in stays open.

    Args:
        base_url: For example `"https://api.anthropic.com"`, `"https://gateway/anthropic"` or `"http://127.0.0.1:8080"`.
            A `/v1` (local servers often name it) or `/v1/messages` at its end makes no difference. A user and password
            in it are sent as the header `authorization`, and appear in no log.
        api_key: Sent as `x-api-key`. None sends no key.
        headers: Sent with every request, overriding the defaults, for example `{"authorization": "Bearer ..."}`.
        library: The library of the client that the first request in an event loop makes, for at most 1,000 concurrent
            responses. None takes the first installed one of aiohttp (on asyncio only), httpx2 and httpx.
        http_client: An `aiohttp.ClientSession`, or an `AsyncClient` of httpx2 or httpx, instead of a client made here.

    Raises:
        UsageError: `base_url` is not an http(s) URL, or has a query or fragment; a header cannot be sent; `library` is
            none of the three, or given beside `http_client`; or `http_client` is not an async client of one of them.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        library: Library | None = None,
        http_client: Any = None,
    ) -> None:
        check_library(library)
        if library is not None and http_client is not None:
            raise UsageError("library chooses the client that is made here: pass either library or http_client")
        self._url, password = without_password(_messages_url(base_url))
        self._headers = {
            "accept": "text/event-stream",
            "accept-encoding": ACCEPT_ENCODING,
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
            **({"authorization": password} if password else {}),
            **_sendable({"x-api-key": api_key} if api_key else {}),
            **_sendable(headers or {}),
        }
        self._library: Library | None = library
        self._given = None if http_client is None else client_of(http_client)
        self._made: WeakKeyDictionary[Any, HTTPClient] = WeakKeyDictionary()  # by event loop

    def __repr__(self) -> str:
        return f"<HTTPTransport {_redacted(self._url)}>"  # without the headers: one of them is the key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client that was made in this event loop, if any. A cancellation takes effect afterwards."""
        if (client := self._made.pop(event_loop(), None)) is not None:
            await close_quietly(client)

    def _client(self) -> HTTPClient:
        if self._given is not None:
            return self._given
        # A connection belongs to its event loop. A transport may outlive several calls of `asyncio.run`.
        loop = event_loop()
        client = self._made.get(loop)
        if client is None:
            for other in filter(has_ended, list(self._made)):  # a client of aiohttp keeps its loop alive
                del self._made[other]
            client = self._made[loop] = make_client(self._library, self._url)
        return client

    @property
    def base_url(self) -> str:
        """The URL of the requests, without a password."""
        return self._url

    @property
    def default_betas(self) -> Sequence[str]:
        """See `Transport.default_betas`."""
        return betas_in(self._headers)

    def open(self, request: RequestBody, limits: Limits) -> AbstractAsyncContextManager[Reply]:
        """See `Transport.open`. Leaving the context closes the response, also when cancelled.

        Raises:
            UsageError: The request has no JSON form, or has `timeout` or `extra_query`; or the library cannot run in
                this event loop, or cannot use the proxy or the certificates of the environment.
            MissingExtraError: The library is not installed.
            APIError: The API refused the request, or could not be reached.
            ProtocolError: The response is not a stream of events, or has another content coding than requested.
        """
        return Opening(partial(self._send, request, limits))

    async def _send(self, request: RequestBody, limits: Limits, opening: Opening) -> Reply:
        body = dict(request)
        for option in ("timeout", "extra_query"):
            if option in body:
                raise UsageError(f"{option} is an option of the anthropic client; HTTPTransport has none")
        body.update(body.pop("extra_body", None) or {})
        headers = dict(self._headers)
        headers.update(_sendable(body.pop("extra_headers", None) or {}))
        if betas := body.pop("betas", None):
            always = [headers[BETA_HEADER]] if BETA_HEADER in headers else []
            headers[BETA_HEADER] = ",".join([*always, *betas])
        try:
            content = request_json({**body, "stream": True})
        except (TypeError, ValueError) as error:
            raise UsageError(f"the request has no JSON form: {error}") from error
        try:
            opening.response = response = await self._client().post(self._url, headers, content)
        except Exception as error:
            raise_as(refusal(error, self._url), error)
        if response.status_code != 200:
            raise await _response_error(response)
        reply = await streamed(response, limits)
        reply.sent_bytes = len(content)
        return await opening.enter(reply)


def _messages_url(base_url: str) -> str:
    """Return the URL for requests. The part of the path that `base_url` already contains is not doubled."""
    if not isinstance(base_url, str):
        raise UsageError(f"base_url must be a text, not {type(base_url).__name__}")
    try:
        url = urlsplit(base_url)
        # Reading the port validates it.
        is_usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        raise _not_a_url(base_url) from None
    # urlsplit accepts blanks and line ends (from a file, for example), but the clients would use a wrong address.
    if not is_usable or " " in base_url or not base_url.isprintable():
        raise _not_a_url(base_url)
    if "?" in base_url or "#" in base_url:
        told = f"{_redacted(base_url)!r:.200}"
        raise UsageError(f"base_url must end with its path, not {told}: set parameters on the http_client")
    # Only in the path: a host may be named v1.
    given = next((known for known in ("/v1/messages", "/v1") if url.path.rstrip("/").endswith(known)), "")
    # With its scheme in lower case, by which the clients choose TLS and the proxy.
    return url.scheme + base_url[len(url.scheme) :].rstrip("/") + "/v1/messages".removeprefix(given)


def _not_a_url(base_url: str) -> UsageError:
    told = f"{_redacted(base_url)!r:.200}"
    return UsageError(f"base_url must be a URL that starts with http:// or https://, not {told}")


def _redacted(url: str) -> str:
    from .._support.redaction import redact_text  # only for messages, not before the first request

    return redact_text(url)


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers by lower-case name.

    The most common mistake is a key read from a file with its line end. The clients report it late, as a connection
    error, and show the value.

    Raises:
        UsageError: A name or a value is not printable ASCII, or has blanks around it; or HTTP has no such name, or it
            frames the request, which is the client's business.
    """
    for name, value in headers.items():
        for text in (name, value):
            if not (type(text) is str and text.isascii() and text.isprintable() and text == text.strip()):
                raise UsageError(f"the header {name!r} must be printable ASCII without blanks around it")
        if not _HEADER_NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be the name of a header")
        if name.lower() in _FRAMING:
            raise UsageError(f"the header {name!r} is set by the HTTP client")
    return {name.lower(): value for name, value in headers.items()}


async def _response_error(response: Any) -> APIError:
    """Return the error of a response, of which only the start is read."""
    if response.is_stream_consumed:  # by a hook of the client, which has unpacked it
        content = await read_error(response.aiter_bytes(), "")
    else:
        content = await read_error(response.aiter_raw(), response.headers.get("content-encoding", ""))
    text = content.decode("utf-8-sig", "replace").strip()
    told = f"the server answered with HTTP {response.status_code}"
    # Even in an unknown shape, the peer's own text is better than none, unless it is a page.
    is_page = media_type(response.headers.get("content-type", "")) == "text/html"
    shown = f"{told}: {text}" if text and not is_page else told
    return body_error(response.status_code, text, response.headers, shown)
