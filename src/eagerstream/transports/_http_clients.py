"""The HTTP clients that an `HTTPTransport` can send with: one of aiohttp, httpx2 or httpx."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from .._support.event_loops import event_loop, is_asyncio
from ..errors import MissingExtraError, UsageError
from . import _http_settings as settings

Library: TypeAlias = Literal["aiohttp", "httpx2", "httpx"]
"""An HTTP library."""

# In the order of their costs. One event per write takes 0.4 (aiohttp), 1.0 (httpx2) and 1.1 (httpx) of CPU, see
# `benchmarks/transport.py`. Importing them takes 110, 35 and 60 ms.
LIBRARIES: Final[tuple[Library, ...]] = get_args(Library)


class HTTPClient(Protocol):
    """A client of one library, for requests to one address."""

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Any:
        """Send a request, and return its response when its headers are there; its redirect, if it is one.

        The response has the attributes of one of httpx that `streamed` needs: `status_code`, `headers`, `aiter_raw`,
        `is_stream_consumed`, `aclose`. Close it, also when cancelled.

        Raises:
            Exception: Those of the library, see `refusal`.
        """
        ...

    async def aclose(self) -> None:
        """Close the client and its connections."""
        ...


class HTTPXClient:
    """An `AsyncClient` of httpx or httpx2."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    def make(cls, library: Any, url: str, proxy: str | None) -> HTTPXClient:
        """Return a client with our settings, of the module `library`."""
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        return cls(
            library.AsyncClient(
                # Loading certificates blocks the event loop.
                verify=settings.tls_context() if url.startswith("https:") else False,
                proxy=proxy,
                trust_env=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                limits=library.Limits(
                    max_connections=settings.MAX_CONNECTIONS,
                    max_keepalive_connections=settings.MAX_IDLE_CONNECTIONS,
                    keepalive_expiry=settings.IDLE_CONNECTION_S,
                ),
            )
        )

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Any:
        """See `HTTPClient.post`."""
        timeout = (settings.CONNECT_TIMEOUT_S, None, None, None)  # one for writing would be for the whole request
        request = self._client.build_request("POST", url, headers=headers, content=content, timeout=timeout)
        # A redirect could send the key and the prompt to any address.
        return await self._client.send(request, stream=True, follow_redirects=False)

    async def aclose(self) -> None:
        """See `HTTPClient.aclose`."""
        await self._client.aclose()


def client_of(http_client: Any) -> HTTPClient:
    """Return the client for one that the user made.

    Raises:
        UsageError: It is none of the three.
    """
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(http_client).__mro__}
    if ("aiohttp", "ClientSession") in kinds:
        from ._aiohttp import AIOHTTPClient

        return AIOHTTPClient(http_client)
    if hasattr(http_client, "aclose") and hasattr(http_client, "build_request"):
        return HTTPXClient(http_client)
    name = type(http_client).__name__
    raise UsageError(f"http_client must be an async client of aiohttp, httpx2 or httpx, not {name}")


def make_client(given: Library | None, url: str) -> HTTPClient:
    """Return a new client for requests to `url`, in the running event loop.

    Args:
        given: The library; None for the cheapest installed one that runs here.
        url: Decides about the proxy and certificates.

    Raises:
        MissingExtraError: The library is not installed.
        UsageError: It cannot run in this event loop, or cannot use the proxy or the certificates of the environment.
    """
    proxy = settings.proxy_for(url)
    problem = None
    if not is_asyncio(event_loop()):
        problem = "aiohttp runs only on asyncio: on trio, use httpx2 or httpx"
    elif proxy is not None and not proxy.startswith(("http://", "https://")):
        problem = (
            "aiohttp can use only a proxy with http or https, and the environment names another: use httpx2 or httpx"
        )
    library: Library
    if given is None:
        usable = LIBRARIES[1:] if problem else LIBRARIES
        library = next((name for name in usable if find_spec(name)), "httpx")  # which is always installed
    elif given == "aiohttp" and problem:
        raise UsageError(problem)
    else:
        library = given
    try:
        module = import_module(library)
    except ModuleNotFoundError as error:
        raise MissingExtraError(library, library) from error
    if library == "aiohttp":
        from ._aiohttp import AIOHTTPClient

        return AIOHTTPClient.make(url, proxy)
    try:
        return HTTPXClient.make(module, url, proxy)
    except (ImportError, ValueError) as error:  # the package for SOCKS, or an unknown kind of proxy
        raise UsageError(f"{library} cannot use the proxy of the environment: {type(error).__name__}") from error


def check_library(library: object) -> None:
    """Check the name of a library.

    Raises:
        UsageError: It is none of the three.
    """
    if library is not None and library not in LIBRARIES:
        raise UsageError(f"library must be one of {', '.join(LIBRARIES)}, not {library!r:.80}")
