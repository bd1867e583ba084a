"""Cancellation of a request of an `HTTPTransport` at each wait: the same with aiohttp, httpx2 and httpx."""

from __future__ import annotations

import gc
import ssl
import threading
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trustme

from eagerstream.errors import APIError, StreamInterrupted
from eagerstream.limits import Limits
from eagerstream.transports import HTTPTransport
from eagerstream.transports._http_clients import Library
from tests.support import REQUEST
from tests.transports.peers import (
    PATIENCE_S,
    Answer,
    Connection,
    Peer,
    Request,
    error_of,
    finish,
    made_client,
    waits,
    waits_in_body,
)

_CA = trustme.CA()


def _tls(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _CA.issue_cert(name).configure_cert(context)
    return context


def _waits_in_error(connection: Connection, _: Request) -> None:
    connection.begin(status="500 No", content_length="1000")
    connection.send(b"{")
    waits(connection)


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
        return None if place == "upload" and connection.ended.wait(PATIENCE_S) else waits(connection)

    def answer(connection: Connection, request: Request) -> None:
        if len(peer.requests) > 1 or place not in ("headers", "body", "error"):
            connection.respond()
            return
        is_there.set()
        places: dict[str, Answer] = {"headers": waits, "body": waits_in_body, "error": _waits_in_error}
        places[place](connection, request)

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
                await finish(transport)


async def _finish_quietly(transport: HTTPTransport, content: str) -> None:
    with suppress(APIError):
        await finish(transport, messages=[{"role": "user", "content": content}])


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
            waits_in_body(connection, request)
        else:
            connection.respond()

    with Peer(answer) as peer:
        async with made_client(http_library, **options) as http_client:
            transport = HTTPTransport(base_url=peer.url, http_client=http_client)
            async with transport.open(REQUEST, Limits()) as reply:
                await reply.receive()
                await error_of(transport, StreamInterrupted, limits=Limits(idle_timeout_s=0.1))
            await finish(transport)
    assert len(peer.requests) == 2
