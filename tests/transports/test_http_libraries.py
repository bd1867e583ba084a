"""`HTTPTransport` behaves the same with aiohttp, httpx2 and httpx: settings, bounds, cancellation, wording."""

from __future__ import annotations

import asyncio
import gc
import gzip
import logging
import select
import ssl
import sys
import threading
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trustme

import eagerstream
from eagerstream.errors import APIError, LimitError, MissingExtraError, ProtocolError, StreamInterrupted, UsageError
from eagerstream.limits import Limits
from eagerstream.testing import ReplayServer, reply, text
from eagerstream.transports import HTTPTransport, StreamedReply
from eagerstream.transports._http_clients import LIBRARIES, Library
from tests.support import REQUEST
from tests.transports.peers import HELLO, PATIENCE_S, Answer, Connection, Peer, Request, made_client

_CA = trustme.CA()
_HALF = len(HELLO) // 2
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
    _CA.cert_pem.write_to_path(path)
    return path


def _tls(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _CA.issue_cert(name).configure_cert(context)
    return context


async def _finish(transport: HTTPTransport, **options: Any) -> eagerstream.MessageStream[Any]:
    with anyio.fail_after(PATIENCE_S):
        async with eagerstream.stream(transport, **{**REQUEST, **options}) as stream:
            await stream.finish()
    return stream


async def _error(transport: HTTPTransport, kind: type[Any] = APIError, **options: Any) -> Any:
    with pytest.raises(kind) as caught:
        await _finish(transport, **options)
    assert type(caught.value) is kind
    return caught.value


# --- certificates -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_certificates_of_the_environment(
    http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path
) -> None:
    """An authority of one's own is named by the environment; without it, the peer is not trusted."""
    with Peer(tls=_tls("127.0.0.1")) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            error = await _error(transport)
            assert error.retryable
            assert "the API could not be reached: " in error.reason
            assert "certificate verify failed" in error.reason.lower().replace("_", " ")
        assert peer.requests == []
        environment.setenv("SSL_CERT_FILE", str(ca_file))
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            await _finish(transport)
            await _finish(transport)
    assert len(peer.requests) == 2


@pytest.mark.anyio
async def test_a_certificate_of_somebody_else(
    http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path
) -> None:
    """The name of the host is checked, too."""
    environment.setenv("SSL_CERT_FILE", str(ca_file))
    with Peer(tls=_tls("thief.example")) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            assert "mismatch" in (await _error(transport)).reason
    assert peer.requests == []


@pytest.mark.anyio
async def test_a_peer_with_tls_that_is_cancelled(
    http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path
) -> None:
    """The connection is closed at once, though the peer never says goodbye itself."""
    environment.setenv("SSL_CERT_FILE", str(ca_file))

    def hold(connection: Connection, _: Request) -> None:
        connection.begin(content_length="1000")
        connection.send(HELLO[:_HALF])
        while connection.socket.recv(1):  # raises an error, or returns nothing, when the connection is closed
            pass

    with Peer(hold, tls=_tls("127.0.0.1")) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            with anyio.fail_after(PATIENCE_S):
                async with eagerstream.stream(transport, **REQUEST) as stream:
                    await anext(stream)
                (connection,) = peer.connections
                assert await anyio.to_thread.run_sync(connection.ended.wait, PATIENCE_S)


# --- proxies ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_of_the_environment(
    http_library: Library, environment: pytest.MonkeyPatch, variable: str
) -> None:
    """The request goes to the proxy, which gets its own password, and no other one."""
    with Peer() as proxy:
        environment.setenv(variable, f"http://me:hunter2@{proxy.address}")
        async with HTTPTransport(base_url="http://api.example", library=http_library) as transport:
            await _finish(transport)
    (request,) = proxy.requests
    assert request.target == "http://api.example/v1/messages"
    assert request.headers["host"] == "api.example"
    assert request.headers["proxy-authorization"] == "Basic bWU6aHVudGVyMg=="
    assert "authorization" not in request.headers


@pytest.mark.anyio
@pytest.mark.parametrize("no_proxy", ["127.0.0.1", "*", "localhost, 127.0.0.1"])
async def test_no_proxy(http_library: Library, environment: pytest.MonkeyPatch, no_proxy: str) -> None:
    """Requests to these hosts go straight to them."""
    with Peer() as proxy, Peer() as peer:
        environment.setenv("HTTP_PROXY", proxy.url)
        environment.setenv("NO_PROXY", no_proxy)
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            await _finish(transport)
    assert (len(proxy.requests), len(peer.requests)) == (0, 1)


def _tunnel(connection: Connection, request: Request) -> None:
    """Connect a client with the host that it asks for, whatever its port."""
    assert request.method == "CONNECT"
    host, _, port = request.target.partition(":")
    with __import__("socket").create_connection((host, int(port))) as there:
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        ends = {connection.socket: there, there: connection.socket}
        while True:
            for end in select.select(list(ends), [], [], PATIENCE_S)[0]:
                if not (data := end.recv(65_536)):
                    raise ConnectionError
                ends[end].sendall(data)


@pytest.mark.anyio
async def test_a_tunnel(http_library: Library, environment: pytest.MonkeyPatch, ca_file: Path) -> None:
    """What is encrypted goes through the proxy as it is: the key and the certificate are not its business."""
    environment.setenv("SSL_CERT_FILE", str(ca_file))
    with Peer(_tunnel) as proxy, Peer(tls=_tls("127.0.0.1")) as peer:
        environment.setenv("HTTPS_PROXY", f"http://me:hunter2@{proxy.address}")
        async with HTTPTransport(base_url=peer.url, api_key="k", library=http_library) as transport:
            await _finish(transport)
    (asked,) = proxy.requests
    (request,) = peer.requests
    assert asked.headers["proxy-authorization"] == "Basic bWU6aHVudGVyMg=="
    assert "x-api-key" not in asked.headers
    assert request.headers["x-api-key"] == "k"
    assert "proxy-authorization" not in request.headers


@pytest.mark.anyio
async def test_a_proxy_that_refuses(
    http_library: Library, environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It could not be reached, in the same terms; and nobody reads the password."""
    caplog.set_level(logging.DEBUG)
    with Peer(lambda connection, _: connection.respond(b"no", status="407 Proxy Authentication Required")) as proxy:
        environment.setenv("HTTPS_PROXY", f"http://me:hunter2@{proxy.address}")
        async with HTTPTransport(base_url="https://api.example", library=http_library) as transport:
            error = await _error(transport)
    assert error.reason.startswith("the API could not be reached: ")
    assert "407" in error.reason
    assert error.retryable
    assert "hunter2" not in f"{error!r} {error} {error.__cause__!r} {error.__cause__} {caplog.text}"


@pytest.mark.anyio
async def test_a_proxy_that_is_not_there(http_library: Library, environment: pytest.MonkeyPatch) -> None:
    """As if the API itself were not there."""
    with Peer() as proxy:
        environment.setenv("HTTP_PROXY", f"http://me:hunter2@{proxy.address}")
    async with HTTPTransport(base_url="http://api.example", library=http_library) as transport:
        error = await _error(transport)
    assert error.reason.startswith("the API could not be reached: ")
    assert error.retryable
    assert "hunter2" not in f"{error!r} {error} {error.__cause__!r}"


@pytest.mark.anyio
async def test_a_proxy_of_another_kind(environment: pytest.MonkeyPatch, anyio_backend: str) -> None:
    """aiohttp has no SOCKS: it is not chosen, and is refused by name. The others need a package for it."""
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    environment.setitem(sys.modules, "socksio", None)
    for library in (*LIBRARIES, None):
        if library == "aiohttp" and anyio_backend != "asyncio":
            continue
        error = await _error(HTTPTransport(base_url="http://api.example", library=library), UsageError)
        assert "proxy" in str(error)
        assert ("aiohttp can" in str(error)) == (library == "aiohttp")


# --- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_connections_are_used_again(http_library: Library) -> None:
    """Requests after one another share a connection, since each reply is read to its end."""
    with Peer() as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            for _ in range(3):
                await _finish(transport)
                async with eagerstream.run(transport, **REQUEST) as run:
                    await run.finish()
    assert len(peer.requests) == 6
    assert len(peer.connections) == 1


@pytest.mark.anyio
async def test_a_cut_response_spoils_no_connection(http_library: Library) -> None:
    """The next request goes over another one, and nothing is left of the first."""

    has_begun = threading.Event()

    def cut_first(connection: Connection, _: Request) -> None:
        if len(peer.requests) > 1:
            connection.respond()
            return
        connection.begin(transfer_encoding="chunked")
        connection.send(b"%x\r\n%s\r\n" % (_HALF, HELLO[:_HALF]))
        has_begun.wait(PATIENCE_S)
        connection.send(b"hunter2\r\n")  # in place of a size
        _waits(connection)

    with Peer(cut_first) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            with pytest.raises(StreamInterrupted) as caught:
                async with eagerstream.stream(transport, **REQUEST) as stream:
                    await anext(stream)
                    has_begun.set()
                    await stream.finish()
            assert caught.value.reason.startswith("the connection was lost: ")
            assert "hunter2" not in f"{caught.value!r} {caught.value}"
            await _finish(transport)
        assert len(peer.connections) == 2


@pytest.mark.slow
@pytest.mark.anyio
async def test_many_replies_at_once(http_library: Library) -> None:
    """More than a client has connections for by default, and none of them waits for another."""
    async with (
        ReplayServer(reply(text("Hello."))) as server,
        HTTPTransport(base_url=server.base_url, library=http_library) as transport,
        AsyncExitStack() as stack,
    ):
        for _ in range(120):
            await stack.enter_async_context(transport.open(REQUEST, Limits()))
        assert len(server.requests) == 120


@pytest.mark.anyio
async def test_an_address_of_ipv6(http_library: Library) -> None:
    """Brackets and all."""
    with Peer(host="::1") as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            await _finish(transport)
    assert peer.requests[0].headers["host"] == peer.address


@pytest.mark.anyio
async def test_no_cookies(http_library: Library) -> None:
    """A transport may serve many users: a peer cannot mark one of them."""
    with Peer(lambda connection, _: connection.respond(set_cookie="a=1; Path=/")) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            await _finish(transport)
            await _finish(transport)
    assert [request.headers.get("cookie") for request in peer.requests] == [None, None]


@pytest.mark.anyio
async def test_a_redirect(http_library: Library) -> None:
    """The peer cannot send the key and the prompt elsewhere."""
    with Peer() as thief, Peer(lambda peer, _: peer.respond(b"", status="307 Go", location=thief.url)) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            assert (await _error(transport)).status_code == 307
    assert thief.requests == []


# --- the request and its response -------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("chars", [10, 3_000_000])
@pytest.mark.filterwarnings("error")
async def test_the_request(http_library: Library, chars: int) -> None:
    """The same headers and bytes, however long they are, and their size is known."""
    content = "x" * chars
    messages = [{"role": "user", "content": content}]
    with Peer() as peer:
        async with HTTPTransport(base_url=f"{peer.url}/a%2Fb", api_key="k", library=http_library) as transport:
            async with transport.open({**REQUEST, "messages": messages}, Limits()) as reply:
                assert isinstance(reply, StreamedReply)
                sent_bytes = reply.sent_bytes
    (request,) = peer.requests
    assert (request.method, request.target) == ("POST", "/a%2Fb/v1/messages")
    assert sent_bytes == len(request.body) == int(request.headers["content-length"]) > chars
    names = ("accept", "accept-encoding", "anthropic-version", "content-type", "x-api-key")
    assert {name: request.headers[name] for name in names} == {
        "accept": "text/event-stream",
        "accept-encoding": "gzip",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
        "x-api-key": "k",
    }
    assert "transfer-encoding" not in request.headers


@pytest.mark.anyio
async def test_headers_of_a_response(http_library: Library) -> None:
    """Found in any case; a name that comes twice is one; and bytes that are no ASCII make text that can be written."""

    def answer(connection: Connection, _: Request) -> None:
        connection.respond(REQUEST_ID="req_\xe9", x_twice="a\r\nx-twice: b")

    with Peer(answer) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            async with transport.open(REQUEST, Limits()) as reply:
                assert isinstance(reply, StreamedReply)
                assert reply.request_id == "req_\xe9"
                assert reply.headers["X-Twice"] == "a, b"


@pytest.mark.anyio
@pytest.mark.parametrize(("header_bytes", "number"), [(20_000, 1), (1_000_000, 1), (1_000, 1_000)])
async def test_bounds_of_headers(http_library: Library, header_bytes: int, number: int) -> None:
    """Headers may be longer than policies are; a peer that sends megabytes of them is given up."""

    def answer(connection: Connection, _: Request) -> None:
        with suppress(OSError):
            connection.respond(HELLO, **{f"x_{index}": "a" * header_bytes for index in range(number)})

    with Peer(answer) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            if header_bytes * number < 30_000:
                await _finish(transport)
                return
            error = await _error(transport)
    assert error.reason.startswith("the API could not be reached: ")
    assert "aaaa" not in error.reason
    assert error.retryable


@pytest.mark.anyio
async def test_a_compressed_body(http_library: Library) -> None:
    """It is unpacked here, within the bounds of a reply."""
    packed = gzip.compress(HELLO)
    with Peer(lambda connection, _: connection.respond(packed, content_encoding="gzip")) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            stream = await _finish(transport)
    assert stream.message["content"] == [{"type": "text", "text": "Hello."}]


_BOMB = gzip.compress(b": x\n" * 2_000_000, 6)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("coding", "kind"), [("gzip", LimitError), ("br", ProtocolError), ("gzip\r\ncontent-encoding: gzip", ProtocolError)]
)
async def test_a_bomb(http_library: Library, coding: str, kind: type[Exception]) -> None:
    """Some kilobytes stand for 8 MB; and what was not asked for is not unpacked at all."""
    with Peer(lambda connection, _: connection.respond(_BOMB, content_encoding=coding)) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            await _error(transport, kind, limits=Limits(max_reply_bytes=1_000_000))


@pytest.mark.anyio
@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_an_error_without_an_end(http_library: Library, coding: str) -> None:
    """A part of it is enough to give up, packed or not, and the connection is closed."""
    piece = b'{"error": {"message": "no"}}' + b" " * 100_000

    def answer(connection: Connection, _: Request) -> None:
        connection.begin(status="529 Overloaded", content_encoding=coding, request_id="req_1")
        while True:
            connection.send(gzip.compress(piece) if coding == "gzip" else piece)

    with Peer(answer) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            error = await _error(transport)
            (connection,) = peer.connections
            assert await anyio.to_thread.run_sync(connection.ended.wait, PATIENCE_S)
    assert (error.status_code, error.request_id, error.retryable) == (529, "req_1", True)


@pytest.mark.anyio
async def test_a_slow_consumer(http_library: Library) -> None:
    """It holds the peer back: what it does not read stays there, apart from the buffers of the sockets."""
    accepted = 0
    is_full = threading.Event()

    def answer(connection: Connection, _: Request) -> None:
        nonlocal accepted
        connection.begin()
        connection.send(HELLO[:_HALF])
        connection.socket.setblocking(False)
        while accepted < 100_000_000 and select.select([], [connection.socket], [], 0.3)[1]:
            accepted += connection.socket.send(b": ping\n" * 10_000)
        is_full.set()

    with Peer(answer) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            async with transport.open(REQUEST, Limits()) as reply:
                await reply.receive()
                assert await anyio.to_thread.run_sync(is_full.wait, PATIENCE_S)
    assert accepted < 30_000_000


# --- cancellation -----------------------------------------------------------------------------------------------------


def _waits(connection: Connection, _: Request | None = None) -> bool:
    while connection.socket.recv(1):
        pass
    return True


def _waits_in_body(connection: Connection, _: Request) -> None:
    connection.begin(content_length="1000")
    connection.send(HELLO[:_HALF])
    _waits(connection)


def _waits_in_error(connection: Connection, _: Request) -> None:
    connection.begin(status="500 No", content_length="1000")
    connection.send(b"{")
    _waits(connection)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.anyio
@pytest.mark.parametrize("place", ["handshake", "upload", "headers", "body", "error"])
async def test_cancelled_anywhere(http_library: Library, place: str) -> None:
    """The connection is closed, and the transport goes on, wherever a request is cancelled."""
    is_there = threading.Event()

    def accepted(connection: Connection) -> bool | None:
        if len(peer.connections) > 1 or place not in ("handshake", "upload"):
            return None
        is_there.set()
        # A peer that reads nothing more: the first byte shows that the client has got so far.
        connection.socket.recv(1)
        return None if place == "upload" and connection.ended.wait(PATIENCE_S) else _waits(connection)

    def answer(connection: Connection, request: Request) -> None:
        if len(peer.requests) > 1 or place not in ("headers", "body", "error"):
            connection.respond()
            return
        is_there.set()
        waits: dict[str, Answer] = {"headers": _waits, "body": _waits_in_body, "error": _waits_in_error}
        waits[place](connection, request)

    tls = _tls("127.0.0.1") if place == "handshake" else None
    with Peer(answer, accepted=accepted, tls=tls) as peer:
        transport = HTTPTransport(base_url=peer.url, library=http_library)
        content = "x" * (30_000_000 if place == "upload" else 10)
        async with transport:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_finish_quietly, transport, content)
                assert await anyio.to_thread.run_sync(is_there.wait, PATIENCE_S)
                tasks.cancel_scope.cancel()
            (connection,) = peer.connections
            if place == "upload":
                connection.ended.set()
            with anyio.fail_after(PATIENCE_S):
                while not await anyio.to_thread.run_sync(connection.ended.wait, 0.1):
                    gc.collect()  # httpcore leaves the socket of a cancelled handshake to it
            if place != "handshake":
                await _finish(transport)


async def _finish_quietly(transport: HTTPTransport, content: str) -> None:
    with suppress(APIError):
        await _finish(transport, messages=[{"role": "user", "content": content}])


@pytest.mark.anyio
async def test_cancelled_while_it_waits_for_a_connection(http_library: Library) -> None:
    """A client may bound its connections: who waits for one can leave, and takes none with it."""
    options: dict[str, Any]
    if http_library == "aiohttp":
        import aiohttp

        options = {"connector": aiohttp.TCPConnector(limit=1)}
    else:
        options = {"limits": __import__(http_library).Limits(max_connections=1)}

    def answer(connection: Connection, request: Request) -> None:
        if len(peer.requests) == 1:
            _waits_in_body(connection, request)
        else:
            connection.respond()

    with Peer(answer) as peer:
        async with made_client(http_library, **options) as http_client:
            transport = HTTPTransport(base_url=peer.url, http_client=http_client)
            async with transport.open(REQUEST, Limits()) as reply:
                await reply.receive()
                await _error(transport, StreamInterrupted, limits=Limits(idle_timeout_s=0.1))
            await _finish(transport)
    assert len(peer.requests) == 2


# --- which client, and whose ------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_client_of_the_user(http_library: Library) -> None:
    """It is used as it is, with its own settings for the library, and stays open."""
    with Peer(lambda connection, _: connection.respond(gzip.compress(HELLO), content_encoding="gzip")) as peer:
        async with made_client(http_library, headers={"x-mine": "1"}) as http_client:
            async with HTTPTransport(base_url=peer.url, http_client=http_client) as transport:
                await _finish(transport)
            assert not (http_client.closed if http_library == "aiohttp" else http_client.is_closed)
        error = await _error(HTTPTransport(base_url=peer.url, http_client=http_client), UsageError)
    assert "closed" in str(error)
    assert peer.requests[0].headers["x-mine"] == "1"


def test_clients_that_do_not_do() -> None:
    """A mistake is told when it is made."""
    for client in (
        object(),
        __import__("httpx").Client(verify=False),
        __import__("http.client").client.HTTPConnection("a"),
    ):
        with pytest.raises(UsageError, match="http_client must be an async client of aiohttp, httpx2 or httpx, not "):
            HTTPTransport(base_url="http://local", http_client=client)
    for library in ("requests", "", 5, ["httpx"]):
        with pytest.raises(UsageError, match="library must be one of aiohttp, httpx2, httpx, not "):
            HTTPTransport(base_url="http://local", library=library)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="either"):
        HTTPTransport(
            base_url="http://local", library="httpx", http_client=__import__("httpx").AsyncClient(verify=False)
        )


@pytest.mark.anyio
async def test_the_library_that_is_taken(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest that is installed and runs here; one that is named, or an error that says how to get it."""
    installed = list(LIBRARIES)
    find = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "eagerstream.transports._http_clients.find_spec", lambda name: find(name) if name in installed else None
    )
    agents = []
    with Peer() as peer:
        while installed:
            async with HTTPTransport(base_url=peer.url) as transport:
                await _finish(transport)
            agents.append(peer.requests[-1].headers["user-agent"])
            monkeypatch.setitem(sys.modules, installed.pop(0), None)
        for library in LIBRARIES[:2] if anyio_backend == "asyncio" else LIBRARIES[1:2]:
            error = await _error(HTTPTransport(base_url=peer.url, library=library), MissingExtraError)
            assert f"eagerstream[{library}]" in str(error)
    words = ["aiohttp/", "python-httpx2/", "python-httpx/"]
    if anyio_backend != "asyncio":
        words[0] = words[1]
    assert all(word in agent for word, agent in zip(words, agents, strict=True)), agents


@pytest.mark.parametrize("given", [True, False])
def test_aiohttp_on_trio(given: bool) -> None:
    """It is refused in words, not by a failure somewhere in asyncio."""

    async def send() -> None:
        transport = (
            HTTPTransport(base_url="http://127.0.0.1:1", http_client=sessions[0])
            if given
            else HTTPTransport(base_url="http://127.0.0.1:1", library="aiohttp")
        )
        error = await _error(transport, UsageError)
        assert "aiohttp runs only on asyncio" in str(error)

    async def make() -> None:
        async with made_client("aiohttp") as session:
            sessions.append(session)

    sessions: list[Any] = []
    asyncio.run(make())
    anyio.run(send, backend="trio")


# The sockets of an event loop that has ended are closed by the garbage collector, with each library.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_transport_that_nobody_closes(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """It may live at the top of a module, for several event loops: nothing is logged about what it leaves."""

    async def send(transport: HTTPTransport) -> None:
        await _finish(transport)
        await _finish(transport)

    with Peer() as peer:
        transport = HTTPTransport(base_url=peer.url, library=library)
        for _ in range(2):
            asyncio.run(send(transport))
        assert len(peer.requests) == 4
        assert len(transport._made) == 1
        asyncio.run(_finish_one_of_its_own(peer, library))
        del transport
        gc.collect()
    assert not caplog.records


async def _finish_one_of_its_own(peer: Peer, library: Library) -> None:
    await _finish(HTTPTransport(base_url=peer.url, library=library))
    gc.collect()
    connection = peer.connections[-1]
    assert library != "aiohttp" or await anyio.to_thread.run_sync(connection.ended.wait, PATIENCE_S)


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not for Windows")
@pytest.mark.parametrize("library", LIBRARIES)
def test_uvloop(library: Library) -> None:
    """The other event loop of asyncio: a stream, a run, and a lost connection."""
    import uvloop

    def answer(connection: Connection, _: Request) -> None:
        if len(peer.requests) < 3:
            connection.respond()
            return
        connection.begin(content_length="1000")
        connection.send(HELLO[:_HALF])
        raise ConnectionError

    async def use() -> None:
        async with HTTPTransport(base_url=peer.url, library=library) as transport:
            stream = await _finish(transport)
            assert stream.message["content"] == [{"type": "text", "text": "Hello."}]
            async with eagerstream.run(transport, **REQUEST) as run:
                await run.finish()
            assert run.result.text == "Hello."
            await _error(transport, StreamInterrupted)

    with Peer(answer) as peer:
        uvloop.run(use())
