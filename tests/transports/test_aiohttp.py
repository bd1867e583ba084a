"""`HTTPTransport` treats requests and responses the same with aiohttp, httpx2 and httpx."""

from __future__ import annotations

import gc
import gzip
import json
import select
import threading
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import anyio
import anyio.to_thread
import pytest
from packaging.version import Version

from eagerstream.errors import APIError, LimitError, ProtocolError, StreamInterrupted
from eagerstream.limits import Limits
from eagerstream.transports import HTTPTransport, StreamedReply
from eagerstream.transports._http_clients import Library
from tests.streaming.streams import error_of, finished
from tests.streams import REQUEST
from tests.transports.peers import (
    HALF,
    HELLO,
    PATIENCE_S,
    Answer,
    Connection,
    Peer,
    Request,
    made_client,
    served,
    tls_of,
    waits,
    waits_in_body,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("chars", [10, 1_100_000])  # aiohttp treats a body of more than 2**20 bytes differently
@pytest.mark.filterwarnings("error")
async def test_the_request(http_library: Library, chars: int) -> None:
    """The same headers and bytes, however long they are, and their size is known."""
    messages = [{"role": "user", "content": "ö" + "x" * chars}]
    with Peer() as peer:
        async with HTTPTransport(base_url=f"{peer.url}/a%2Fb", api_key="k", library=http_library) as transport:
            async with transport.open({**REQUEST, "messages": messages}, Limits()) as reply:
                assert isinstance(reply, StreamedReply)
                sent_bytes = reply.sent_bytes
    (request,) = peer.requests
    assert (request.method, request.target) == ("POST", "/a%2Fb/v1/messages")
    assert json.loads(request.body) == {**REQUEST, "messages": messages, "stream": True}
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


async def test_headers_of_a_response(http_library: Library) -> None:
    """Found in any case; a name that comes twice is one; and bytes that are no ASCII make text that can be written."""

    def answer(connection: Connection, _: Request) -> None:
        connection.respond(REQUEST_ID="req_\xe9", x_twice="a\r\nx-twice: b")

    async with served(http_library, answer) as (_, transport):
        async with transport.open(REQUEST, Limits()) as reply:
            assert isinstance(reply, StreamedReply)
            assert reply.request_id == "req_\xe9"
            assert reply.headers["X-Twice"] == "a, b"


@pytest.mark.parametrize(("header_bytes", "number"), [(20_000, 1), (1_000_000, 1), (1_000, 1_000)])
async def test_bounds_of_headers(http_library: Library, header_bytes: int, number: int) -> None:
    """Headers may be longer than policies are; a peer that sends megabytes of them is given up."""

    def answer(connection: Connection, _: Request) -> None:
        with suppress(OSError):
            connection.respond(HELLO, **{f"x_{index}": "a" * header_bytes for index in range(number)})

    async with served(http_library, answer) as (_, transport):
        if header_bytes * number < 30_000:
            await finished(transport)
            return
        error = await error_of(transport)
    assert error.reason.startswith("the API could not be reached: ")
    assert "aaaa" not in error.reason
    assert error.retryable


async def test_a_compressed_body(http_library: Library) -> None:
    """It is unpacked here, within the bounds of a reply."""
    packed = gzip.compress(HELLO)
    async with served(http_library, lambda c, _: c.respond(packed, content_encoding="gzip")) as (_, transport):
        stream = await finished(transport)
    assert stream.message["content"] == [{"type": "text", "text": "Hello."}]


_BOMB = gzip.compress(b": x\n" * 500_000, 6)


@pytest.mark.parametrize(
    ("coding", "kind"), [("gzip", LimitError), ("br", ProtocolError), ("gzip\r\ncontent-encoding: gzip", ProtocolError)]
)
async def test_a_bomb(http_library: Library, coding: str, kind: type[Exception]) -> None:
    """Some kilobytes stand for 2 MB; and what was not asked for is not unpacked at all."""
    async with served(http_library, lambda c, _: c.respond(_BOMB, content_encoding=coding)) as (_, transport):
        await error_of(transport, kind, limits=Limits(max_reply_bytes=250_000))


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_an_error_without_an_end(http_library: Library, coding: str) -> None:
    """A part of it is enough to give up, packed or not, and the connection is closed."""
    piece = b'{"error": {"message": "no"}}' + b" " * 100_000

    def answer(connection: Connection, _: Request) -> None:
        connection.begin(status="529 Overloaded", content_encoding=coding, request_id="req_1")
        while True:
            connection.send(gzip.compress(piece) if coding == "gzip" else piece)

    async with served(http_library, answer) as (peer, transport):
        error = await error_of(transport)
        (connection,) = peer.connections
        assert await anyio.to_thread.run_sync(connection.ended.wait, PATIENCE_S)
    assert (error.status_code, error.request_id, error.retryable) == (529, "req_1", True)


async def test_a_slow_consumer(http_library: Library) -> None:
    """It holds the peer back: what it does not read stays there, apart from the buffers of the sockets."""
    accepted = 0
    is_full = threading.Event()

    def answer(connection: Connection, _: Request) -> None:
        nonlocal accepted
        connection.begin()
        connection.send(HELLO[:HALF])
        connection.socket.setblocking(False)
        writable = select.poll()
        writable.register(connection.socket, select.POLLOUT)
        while accepted < 100_000_000 and writable.poll(100):
            accepted += connection.socket.send(b": ping\n" * 10_000)
        is_full.set()

    async with served(http_library, answer) as (_, transport):
        async with transport.open(REQUEST, Limits()) as reply:
            await reply.receive()
            assert await anyio.to_thread.run_sync(is_full.wait, PATIENCE_S)
    assert accepted < 30_000_000


def _waits_in_error(connection: Connection, _: Request) -> None:
    connection.begin(status="500 No", content_length="1000")
    connection.send(b"{")
    waits(connection)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("place", ["handshake", "upload", "headers", "body", "error"])
async def test_cancelled_anywhere(http_library: Library, place: str) -> None:
    """The connection is closed, and the transport goes on, wherever a request is cancelled."""
    if place == "handshake" and http_library != "aiohttp" and Version(version("anyio")) < Version("4.9"):
        pytest.skip("before anyio 4.9, httpx and httpx2 keep the socket of a cancelled handshake")
    is_there = threading.Event()

    def accepted(connection: Connection) -> bool | None:
        if len(peer.connections) > 1 or place not in ("handshake", "upload"):
            return None
        is_there.set()
        # A peer that reads nothing more: the first byte shows that the client has got so far.
        connection.socket.recv(1)
        return None if place == "upload" and connection.ended.wait(PATIENCE_S) else waits(connection)

    def answer(connection: Connection, request: Request) -> None:
        if len(peer.requests) > 1 or place not in ("headers", "body", "error"):
            connection.respond()
            return
        is_there.set()
        places: dict[str, Answer] = {"headers": waits, "body": waits_in_body, "error": _waits_in_error}
        places[place](connection, request)

    tls = tls_of("127.0.0.1") if place == "handshake" else None
    with Peer(answer, accepted=accepted, tls=tls) as peer:
        transport = HTTPTransport(base_url=peer.url, library=http_library)
        content = "x" * (15_000_000 if place == "upload" else 10)  # more than the buffers of the sockets
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
                await finished(transport)


async def _finish_quietly(transport: HTTPTransport, content: str) -> None:
    with suppress(APIError):
        await finished(transport, messages=[{"role": "user", "content": content}])


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
            waits_in_body(connection, request)
        else:
            connection.respond()

    with Peer(answer) as peer:
        async with made_client(http_library, **options) as http_client:
            transport = HTTPTransport(base_url=peer.url, http_client=http_client)
            async with transport.open(REQUEST, Limits()) as reply:
                await reply.receive()
                await error_of(transport, StreamInterrupted, limits=Limits(idle_timeout_s=0.1))
            await finished(transport)
    assert len(peer.requests) == 2
