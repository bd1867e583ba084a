"""`ThreadedServer`: connections that nobody asked for."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any

import anyio
import pytest

from eagerstream._support.serving.asgi_server import ThreadedServer, _make_server

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def _say(_scope: object, _receive: object, send: Any) -> None:
    """Answer without a length, as a stream of events does."""
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"said", "more_body": True})
    await send({"type": "http.response.body"})


def _server(**bounds: Any) -> ThreadedServer:
    return ThreadedServer(lambda: _say, name="test server", host="127.0.0.1", port=0, **bounds)


def _connect(server: ThreadedServer, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))


def _rest(connection: socket.socket) -> bytes:
    """All that comes, until the server ends the connection."""
    received = b""
    try:
        while piece := connection.recv(65_536):
            received += piece
    except ConnectionResetError:
        pass
    return received


@pytest.mark.slow
def test_half_a_request_is_not_waited_for() -> None:
    """Neither at the beginning nor behind a whole one; whoever asks is answered."""
    with _server(idle_s=0.1) as server, ExitStack() as stack:
        silent, half, second = (_connect(server, stack) for _ in range(3))
        half.send(REQUEST[:20])
        second.send(REQUEST + REQUEST[:20])
        began = time.monotonic()
        assert _rest(silent) == _rest(half) == b""
        assert b"said" in _rest(second)
        assert time.monotonic() - began < 5  # uvicorn's own bound, for connections that have had a request


@pytest.mark.slow
def test_a_connection_is_idle_from_the_end_of_its_answer() -> None:
    """One that has just been answered at length is about to ask again: cut then, its next request is lost.

    Nor is it cut during a long answer.
    """
    ended_at: list[float] = []

    async def say_slowly(scope: object, receive: object, send: Any) -> None:
        await anyio.sleep(0.5)  # two bounds and a half
        await _say(scope, receive, send)
        ended_at.append(time.monotonic())

    server = ThreadedServer(lambda: say_slowly, name="test server", host="127.0.0.1", port=0, idle_s=0.2)
    with server, ExitStack() as stack:
        connection = _connect(server, stack)
        connection.send(REQUEST)
        assert b"said" in _rest(connection)
        assert time.monotonic() - ended_at[0] >= 0.2


def test_too_many_connections_are_cut() -> None:
    """They would take all files that the program may open; those that are there go on."""
    with _server(max_connections=3) as server, ExitStack() as stack:
        first, *_ = (_connect(server, stack) for _ in range(3))
        assert [_rest(_connect(server, stack)) for _ in range(10)] == [b""] * 10
        first.send(REQUEST)
        answer = b""
        while b"said" not in answer:
            answer += first.recv(65_536)


def test_a_client_has_its_own_address() -> None:
    """Headers that a proxy would send are for the application to believe, not for the server: any client sends them."""

    async def tell(scope: Any, _receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": f"{scope['scheme']} {scope['client']}".encode()})

    server = ThreadedServer(lambda: tell, name="test server", host="127.0.0.1", port=0)
    with server, ExitStack() as stack:
        connection = _connect(server, stack)
        forged = b"x-forwarded-for: 10.9.9.9\r\nx-forwarded-proto: https\r\nconnection: close\r\n\r\n"
        connection.send(REQUEST.removesuffix(b"\r\n") + forged)
        assert f"http {connection.getsockname()}".encode() in _rest(connection)


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_that_comes_during_the_close(turns: int) -> None:
    """It is cut, in whatever state the event loop has it, instead of being left open for ever."""

    async def nothing(_scope: object, _receive: object, _send: object) -> None:
        pass

    async def connect_and_close() -> None:
        ready: Future[None] = Future()
        server: Any = _make_server(nothing, ready, max_connections=None, idle_s=10, date_header=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await asyncio.wrap_future(ready)
            with socket.create_connection(listener.getsockname(), timeout=10) as client:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await server.shutdown([listener])
                serving.cancel()
                await asyncio.wait([serving])
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b""

    asyncio.run(connect_and_close())
