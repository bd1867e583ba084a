"""Certificates and proxies of an `HTTPTransport`: the same with aiohttp, httpx2 and httpx."""

from __future__ import annotations

import logging
import selectors
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import eagerstream
from eagerstream.errors import UsageError
from eagerstream.transports import HTTPTransport
from eagerstream.transports._http_clients import LIBRARIES, Library
from tests.streaming.streams import error_of, finished
from tests.streams import REQUEST
from tests.transports.peers import (
    CA,
    HALF,
    HELLO,
    PATIENCE_S,
    Connection,
    Peer,
    Request,
    served,
    tls_of,
)

pytestmark = pytest.mark.anyio

_PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without proxies and certificates."""
    for name in _PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.fixture(scope="module")
def ca_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of the authority that signs those of the peers."""
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    CA.cert_pem.write_to_path(path)
    return path


async def test_certificates_of_the_environment(
    http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path
) -> None:
    """An authority of one's own is named by the environment; without it, the peer is not trusted."""
    with Peer(tls=tls_of("127.0.0.1")) as peer:
        url = peer.url.replace("https", "HTTPS")  # a scheme has no case
        async with HTTPTransport(base_url=url, library=http_library) as transport:
            error = await error_of(transport)
            assert error.retryable
            assert "the API could not be reached: " in error.reason
            assert "certificate verify failed" in error.reason.lower().replace("_", " ")
        assert peer.requests == []
        environment.setenv("SSL_CERT_FILE", str(ca_file))
        async with HTTPTransport(base_url=url, library=http_library) as transport:
            await finished(transport)
            await finished(transport)
    assert len(peer.requests) == 2


@pytest.mark.parametrize("content", [None, ""])
async def test_certificates_that_are_not_there(
    http_library: Library, environment: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    """The error names the file."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    environment.setenv("SSL_CERT_FILE", str(path))
    error = await error_of(HTTPTransport(base_url="https://api.example", library=http_library), UsageError)
    assert str(error).startswith(f"SSL_CERT_FILE names {path}, which cannot be used: ")


async def test_a_certificate_of_somebody_else(
    http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path
) -> None:
    """The name of the host is checked, too."""
    environment.setenv("SSL_CERT_FILE", str(ca_file))
    async with served(http_library, tls=tls_of("thief.example")) as (peer, transport):
        assert "mismatch" in (await error_of(transport)).reason
    assert peer.requests == []


async def test_a_peer_with_tls_that_is_cancelled(
    http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path
) -> None:
    """The connection is closed at once, though the peer never says goodbye itself."""
    environment.setenv("SSL_CERT_FILE", str(ca_file))

    def hold(connection: Connection, _: Request) -> None:
        connection.begin(content_length="1000")
        connection.send(HELLO[:HALF])
        while connection.socket.recv(1):  # raises an error, or returns nothing, when the connection is closed
            pass

    async with served(http_library, hold, tls=tls_of("127.0.0.1")) as (peer, transport):
        with anyio.fail_after(PATIENCE_S):
            async with eagerstream.stream(transport, **REQUEST) as stream:
                await anext(stream)
            (connection,) = peer.connections
            assert await anyio.to_thread.run_sync(connection.ended.wait, PATIENCE_S)


async def test_a_proxy_of_the_environment(http_library: Library, environment: pytest.MonkeyPatch) -> None:
    """The request goes to the proxy, which gets its own password, and no other one."""
    with Peer() as proxy:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            environment.setenv(variable, f"http://me:hunter2@{proxy.address}")
            async with HTTPTransport(base_url="http://api.example", library=http_library) as transport:
                await finished(transport)
            environment.delenv(variable)
    assert len(proxy.requests) == 3
    for request in proxy.requests:
        assert request.target == "http://api.example/v1/messages"
        assert request.headers["host"] == "api.example"
        assert request.headers["proxy-authorization"] == "Basic bWU6aHVudGVyMg=="
        assert "authorization" not in request.headers


async def test_no_proxy(http_library: Library, environment: pytest.MonkeyPatch) -> None:
    """Requests to these hosts go straight to them."""
    with Peer() as proxy, Peer() as peer:
        environment.setenv("HTTP_PROXY", proxy.url)
        for no_proxy in ("127.0.0.1", "*", "localhost, 127.0.0.1"):
            environment.setenv("NO_PROXY", no_proxy)
            async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
                await finished(transport)
            assert proxy.requests == [], no_proxy
    assert len(peer.requests) == 3


def _tunnel(connection: Connection, request: Request) -> None:
    """Connect a client with the host that it asks for, whatever its port."""
    assert request.method == "CONNECT"
    host, _, port = request.target.partition(":")
    with __import__("socket").create_connection((host, int(port))) as there:
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        with selectors.DefaultSelector() as readable:
            for end, other in ((connection.socket, there), (there, connection.socket)):
                readable.register(end, selectors.EVENT_READ, (end, other))
            while True:
                for key, _ in readable.select(PATIENCE_S):
                    end, other = key.data
                    if not (data := end.recv(65_536)):
                        raise ConnectionError
                    other.sendall(data)


async def test_a_tunnel(http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path) -> None:
    """What is encrypted goes through the proxy as it is: the key and the certificate are not its business."""
    environment.setenv("SSL_CERT_FILE", str(ca_file))
    with Peer(_tunnel) as proxy, Peer(tls=tls_of("127.0.0.1")) as peer:
        environment.setenv("HTTPS_PROXY", f"http://me:hunter2@{proxy.address}")
        for scheme in ("https", "HTTPS"):
            base_url = peer.url.replace("https", scheme)
            async with HTTPTransport(base_url=base_url, api_key="k", library=http_library) as transport:
                await finished(transport)
    assert len(proxy.requests) == len(peer.requests) == 2
    for asked in proxy.requests:
        assert asked.headers["proxy-authorization"] == "Basic bWU6aHVudGVyMg=="
        assert "x-api-key" not in asked.headers
    for request in peer.requests:
        assert request.headers["x-api-key"] == "k"
        assert "proxy-authorization" not in request.headers


async def test_a_proxy_that_refuses(
    http_library: Library, environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It could not be reached, in the same terms; and nobody reads the password."""
    caplog.set_level(logging.DEBUG)
    with Peer(lambda connection, _: connection.respond(b"no", status="407 Proxy Authentication Required")) as proxy:
        environment.setenv("HTTPS_PROXY", f"http://me:hunter2@{proxy.address}")
        async with HTTPTransport(base_url="https://api.example", library=http_library) as transport:
            error = await error_of(transport)
    assert error.reason.startswith("the API could not be reached: ")
    assert "407" in error.reason
    assert error.retryable
    assert "hunter2" not in f"{error!r} {error} {error.__cause__!r} {error.__cause__} {caplog.text}"


async def test_a_proxy_that_is_not_there(http_library: Library, environment: pytest.MonkeyPatch) -> None:
    """As if the API itself were not there."""
    with Peer() as proxy:
        environment.setenv("HTTP_PROXY", f"http://me:hunter2@{proxy.address}")
    async with HTTPTransport(base_url="http://api.example", library=http_library) as transport:
        error = await error_of(transport)
    assert error.reason.startswith("the API could not be reached: ")
    assert error.retryable
    assert "hunter2" not in f"{error!r} {error} {error.__cause__!r}"


async def test_a_proxy_that_is_no_url(http_library: Library, environment: pytest.MonkeyPatch) -> None:
    """Nothing is sent past it."""
    with Peer() as peer:
        for proxy in ("http://", "http://me:hunter2@[::bad:1", "http://me:hunter2@127.0.0.1:999999"):
            environment.setenv("ALL_PROXY", proxy)
            error = await error_of(HTTPTransport(base_url=peer.url, library=http_library), UsageError)
            assert str(error) == "the proxy that the environment names is no URL", proxy
    assert peer.requests == []


async def test_a_proxy_of_another_kind(environment: pytest.MonkeyPatch, anyio_backend: str) -> None:
    """aiohttp has no SOCKS: it is not chosen, and is refused by name. The others need a package for it."""
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    environment.setitem(sys.modules, "socksio", None)
    for library in (*LIBRARIES, None):
        if library == "aiohttp" and anyio_backend != "asyncio":
            continue
        error = await error_of(HTTPTransport(base_url="http://api.example", library=library), UsageError)
        assert "proxy" in str(error)
        assert ("aiohttp can" in str(error)) == (library == "aiohttp")
