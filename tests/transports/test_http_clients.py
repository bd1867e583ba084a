"""The clients of an `HTTPTransport`: which library, whose client, and its connections."""

from __future__ import annotations

import asyncio
import gc
import gzip
import sys
import threading
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.to_thread
import pytest

import eagerstream
from eagerstream.errors import MissingExtraError, StreamInterrupted, UsageError
from eagerstream.limits import Limits
from eagerstream.transports import HTTPTransport
from eagerstream.transports._http_clients import LIBRARIES, Library
from eagerstream_testing import ReplayServer, reply, text
from tests.streaming.streams import error_of, finished
from tests.streams import REQUEST
from tests.transports.peers import (
    HALF,
    HELLO,
    PATIENCE_S,
    Connection,
    Peer,
    Request,
    made_client,
    served,
    waits,
)

pytestmark = pytest.mark.anyio


async def test_connections_are_used_again(http_library: Library) -> None:
    """Requests after one another share a connection, since each reply is read to its end."""
    async with served(http_library) as (peer, transport):
        for _ in range(3):
            await finished(transport)
            async with eagerstream.run(transport, **REQUEST) as run:
                await run.finish()
    assert len(peer.requests) == 6
    assert len(peer.connections) == 1


async def test_a_cut_response_spoils_no_connection(http_library: Library) -> None:
    """The next request goes over another one, and nothing is left of the first."""

    has_begun = threading.Event()

    def cut_first(connection: Connection, _: Request) -> None:
        if len(peer.requests) > 1:
            connection.respond()
            return
        connection.begin(transfer_encoding="chunked")
        connection.send(b"%x\r\n%s\r\n" % (HALF, HELLO[:HALF]))
        has_begun.wait(PATIENCE_S)
        connection.send(b"hunter2\r\n")  # in place of a size
        waits(connection)

    with Peer(cut_first) as peer:
        async with HTTPTransport(base_url=peer.url, library=http_library) as transport:
            with pytest.raises(StreamInterrupted) as caught:
                async with eagerstream.stream(transport, **REQUEST) as stream:
                    await anext(stream)
                    has_begun.set()
                    await stream.finish()
            assert caught.value.reason.startswith("the connection was lost: ")
            assert "hunter2" not in f"{caught.value!r} {caught.value}"
            await finished(transport)
        assert len(peer.connections) == 2


@pytest.mark.slow
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


async def test_an_address_of_ipv6(http_library: Library) -> None:
    """Brackets and all."""
    async with served(http_library, host="::1") as (peer, transport):
        await finished(transport)
    assert peer.requests[0].headers["host"] == peer.address


@pytest.mark.parametrize("library", LIBRARIES[1:])
async def test_only_connecting_has_a_time_limit(library: Library) -> None:
    """A large request over a slow line may take long. aiohttp has no limit for it."""
    module = pytest.importorskip(library)
    limits = []

    def respond(request: Any) -> Any:
        limits.append(request.extensions["timeout"])
        return module.Response(200, headers={"content-type": "text/event-stream"}, content=HELLO)

    async with module.AsyncClient(transport=module.MockTransport(respond)) as client:
        await finished(HTTPTransport(base_url="http://local", http_client=client))
    assert limits == [{"connect": 10.0, "read": None, "write": None, "pool": None}]


async def test_a_head_that_is_cut(http_library: Library) -> None:
    """The error does not show the headers that had come."""

    def cut(connection: Connection, _: Request) -> None:
        connection.send(b"HTTP/1.1 200 OK\r\nset-cookie: hunter2\r\n")
        raise ConnectionError

    async with served(http_library, cut) as (_, transport):
        error = await error_of(transport)
    assert "the API could not be reached: " in error.reason
    assert "hunter2" not in f"{error.reason} {error}"


async def test_no_cookies(http_library: Library) -> None:
    """A transport may serve many users: a peer cannot mark one of them."""
    async with served(http_library, lambda connection, _: connection.respond(set_cookie="a=1; Path=/")) as (
        peer,
        transport,
    ):
        await finished(transport)
        await finished(transport)
    assert [request.headers.get("cookie") for request in peer.requests] == [None, None]


async def test_a_redirect(http_library: Library) -> None:
    """The peer cannot send the key and the prompt elsewhere."""
    with Peer() as thief:
        async with served(http_library, lambda c, _: c.respond(b"", status="307 Go", location=thief.url)) as (
            _,
            transport,
        ):
            assert (await error_of(transport)).status_code == 307
    assert thief.requests == []


async def test_a_client_of_the_user(http_library: Library) -> None:
    """It is used as it is, with its own settings for the library, and stays open."""
    with Peer(lambda connection, _: connection.respond(gzip.compress(HELLO), content_encoding="gzip")) as peer:
        async with made_client(http_library, headers={"x-mine": "1"}) as http_client:
            async with HTTPTransport(base_url=peer.url, http_client=http_client) as transport:
                await finished(transport)
            assert not (http_client.closed if http_library == "aiohttp" else http_client.is_closed)
        error = await error_of(HTTPTransport(base_url=peer.url, http_client=http_client), UsageError)
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
                await finished(transport)
            agents.append(peer.requests[-1].headers["user-agent"])
            monkeypatch.setitem(sys.modules, installed.pop(0), None)
        for library in LIBRARIES[:2] if anyio_backend == "asyncio" else LIBRARIES[1:2]:
            error = await error_of(HTTPTransport(base_url=peer.url, library=library), MissingExtraError)
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
        error = await error_of(transport, UsageError)
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
    gc.freeze()  # the collections below need not look at what other tests left

    async def send(transport: HTTPTransport) -> None:
        await finished(transport)
        await finished(transport)

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
    await finished(HTTPTransport(base_url=peer.url, library=library))
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
        connection.send(HELLO[:HALF])
        raise ConnectionError

    async def use() -> None:
        async with HTTPTransport(base_url=peer.url, library=library) as transport:
            stream = await finished(transport)
            assert stream.message["content"] == [{"type": "text", "text": "Hello."}]
            async with eagerstream.run(transport, **REQUEST) as run:
                await run.finish()
            assert run.result.text == "Hello."
            await error_of(transport, StreamInterrupted)

    with Peer(answer) as peer:
        uvloop.run(use())
