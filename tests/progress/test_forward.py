"""Requests that one process of a gateway passes on to another one, over a real socket: nothing is kept on the way."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest

from eagerstream.progress.gateway import _forward
from eagerstream.progress.gateway._forward import Unreachable, forward
from eagerstream.progress.gateway._owners import Address, Owners, Registry, RegistryLost
from eagerstream.progress.gateway._process import listening
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

PIECE = b"x" * 65_536


@pytest.fixture
def anyio_backend() -> str:
    """The server is uvicorn, which is on asyncio."""
    return "asyncio"


class Owner:
    """The application of the process that has the run: it sends for as long as anybody reads.

    Attributes:
        sent: Bytes that its connection has taken.
        has_ended: The client left, or the application was cancelled.
    """

    def __init__(self, *, pieces: int = 100_000, status: int = 200) -> None:
        self.sent = 0
        self.has_ended = False
        self.bodies: list[bytes] = []
        self.scopes: list[Any] = []
        self._pieces = pieces
        self._status = status

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.bodies.append(body)

        async def leaving() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leaving)
                await send({"type": "http.response.start", "status": self._status, "headers": [(b"x-own", b"1")]})
                for _ in range(self._pieces):
                    await send({"type": "http.response.body", "body": PIECE, "more_body": True})
                    self.sent += len(PIECE)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                tasks.cancel_scope.cancel()
        finally:
            self.has_ended = True


class Client:
    """The ASGI side of a client: its messages, and the responses that it takes while it may."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts) or [b""]
        self.sent: list[Any] = []
        self.left = anyio.Event()
        self.reads = anyio.Event()
        self.taken = 0

    def scope(self, method: str = "GET", **headers: str) -> Any:
        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        own = {"type": "http", "method": method, "path": "/a b", "raw_path": b"/a%20b", "query_string": b"run=1"}
        return own | {"headers": [(b"host", b"here"), *named], "scheme": "https", "client": ("10.1.2.3", 5)}

    async def receive(self) -> Any:
        if self.parts:
            return {"type": "http.request", "body": self.parts.pop(0), "more_body": bool(self.parts)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.reads.wait()
            self.taken += len(message["body"])
        self.sent.append(message)


@asynccontextmanager
async def owned(owner: Any, folder: Path) -> AsyncIterator[Address]:
    path = folder / "0123abcd.sock"
    async with listening(owner, path):
        yield Address(str(path))


@pytest.mark.anyio
async def test_a_client_that_reads_slowly(tmp_path: Path) -> None:
    """It holds up the process of the run, and no more than some buffers of sockets are full on the way."""
    owner, client = Owner(), Client()
    async with owned(owner, tmp_path) as address, anyio.create_task_group() as tasks:
        tasks.start_soon(forward, address, client.scope(), client.receive, client.send)
        await until(lambda: owner.sent)
        before = -1
        while owner.sent != before:  # until the owner waits for the client
            before = owner.sent
            await anyio.sleep(0.1)
        assert before < 4_000_000
        client.reads.set()
        await until(lambda: client.taken > before)
        client.left.set()
        await until(lambda: owner.has_ended)


@pytest.mark.anyio
async def test_a_client_that_stalls_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the run notices, although the client's connection is still open."""
    monkeypatch.setattr(_forward, "STALL_S", 0.05)
    owner, client = Owner(), Client()
    async with owned(owner, tmp_path) as address:
        await forward(address, client.scope(), client.receive, client.send)
        await until(lambda: owner.has_ended)


@pytest.mark.anyio
async def test_a_request_arrives_as_it_was_sent(tmp_path: Path) -> None:
    """Its target byte by byte, its body in pieces, the client's address; no other address that the client claims."""
    owner, client = Owner(pieces=2, status=418), Client(b"one ", b"two")
    client.reads.set()
    scope = client.scope("POST", content_length="7", x_forwarded_for="6.6.6.6", x_own="yes", connection="x-secret")
    async with owned(owner, tmp_path) as address:
        await forward(address, scope, client.receive, client.send)
    (arrived,) = owner.scopes
    assert (arrived["method"], arrived["raw_path"], arrived["query_string"]) == ("POST", b"/a%20b", b"run=1")
    assert (arrived["client"][0], arrived["scheme"]) == ("10.1.2.3", "https")
    headers = dict(arrived["headers"])
    assert (headers[b"host"], headers[b"x-own"]) == (b"here", b"yes")
    assert headers[b"x-forwarded-for"] == b"10.1.2.3"
    assert owner.bodies == [b"one two"]
    assert client.sent[0]["status"] == 418
    assert (b"x-own", b"1") in client.sent[0]["headers"]
    assert client.taken == 2 * len(PIECE)
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.anyio
async def test_a_body_without_a_length(tmp_path: Path) -> None:
    """In chunks, as it came."""
    owner, client = Owner(pieces=0), Client(b"one ", b"two")
    async with owned(owner, tmp_path) as address:
        client.reads.set()
        scope = client.scope("POST", transfer_encoding="chunked")
        await forward(address, scope, client.receive, client.send)
    assert owner.bodies == [b"one two"]


@pytest.mark.anyio
async def test_a_process_that_is_gone(tmp_path: Path) -> None:
    """Its socket may still lie in the folder. Whoever asked can answer by itself."""
    client = Client()
    path = tmp_path / "0123abcd.sock"
    with pytest.raises(Unreachable):
        await forward(Address(str(path)), client.scope(), client.receive, client.send)
    server = await asyncio.start_unix_server(lambda *_: None, str(path))
    server.close()
    if not path.exists():
        path.touch()  # newer versions of Python take the socket away
    with pytest.raises(Unreachable):
        await forward(Address(str(path)), client.scope(), client.receive, client.send)
    assert client.sent == []


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "status"), [("GET", None), ("POST", 502)])
async def test_a_process_that_dies_before_it_responds(tmp_path: Path, method: str, status: int | None) -> None:
    """A GET can be answered by another process. A decision may have arrived: nobody may repeat it."""
    path = tmp_path / "0123abcd.sock"
    server = await asyncio.start_unix_server(lambda _, writer: writer.close(), str(path))
    client = Client(b"x")
    client.reads.set()
    scope = client.scope(method, content_length="1")
    async with server:
        if status is None:
            with pytest.raises(Unreachable):
                await forward(Address(str(path)), scope, client.receive, client.send)
            assert client.sent == []
        else:
            await forward(Address(str(path)), scope, client.receive, client.send)
            assert client.sent[0]["status"] == status


@pytest.mark.anyio
async def test_a_process_that_dies_within_its_response(tmp_path: Path) -> None:
    """The client must not take what it has got for complete."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await writer.drain()
        writer.close()

    path = tmp_path / "0123abcd.sock"
    async with await asyncio.start_unix_server(respond, str(path)):
        client = Client()
        client.reads.set()
        await forward(Address(str(path)), client.scope(), client.receive, client.send)
    assert [message.get("more_body") for message in client.sent] == [None, True]


@pytest.mark.anyio
async def test_only_other_processes_are_found(tmp_path: Path) -> None:
    """Not the own one, and none without a socket."""
    owners = Owners(tmp_path, None)
    (tmp_path / "0123abcd.sock").touch()
    assert await owners.find("0123abcd", anywhere=True) == Address(str(tmp_path / "0123abcd.sock"))
    assert await owners.find("01234567", anywhere=True) is None
    assert owners.socket is not None
    owners.socket.touch()
    assert await owners.find(owners.name, anywhere=True) is None


@pytest.mark.anyio
async def test_a_registry_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows then whether a run exists elsewhere: it must not be called gone. Runs of this machine are found."""
    lost: Any = ModuleType("redis.exceptions")  # the package takes half a CPU second to import
    lost.RedisError = type("RedisError", (Exception,), {})
    monkeypatch.setitem(sys.modules, "redis", ModuleType("redis"))
    monkeypatch.setitem(sys.modules, "redis.exceptions", lost)
    redis = AsyncMock()
    redis.get.side_effect = [lost.RedisError, OSError, None, "http://127.0.0.1:3"]
    monkeypatch.setattr(Registry, "client", lambda _: redis)
    owners = Owners(tmp_path, Registry("redis://:secret@127.0.0.1:1", "http://127.0.0.1:2"))
    for _ in range(2):
        with pytest.raises(RegistryLost):
            await owners.find("0123abcd", anywhere=True)
    assert await owners.find("0123abcd", anywhere=True) is None
    assert await owners.find("0123abcd", anywhere=True) == Address(None, "http://127.0.0.1:3")
    assert await owners.find("0123abcd", anywhere=False) is None
    (tmp_path / "0123abcd.sock").touch()
    assert await owners.find("0123abcd", anywhere=True) is not None


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_redis_that_is_not_there(tmp_path: Path) -> None:
    """Its own package raises something that is known."""
    with pytest.raises(RegistryLost):
        registry = Registry("redis://:secret@127.0.0.1:1", "http://127.0.0.1:2")
        await Owners(tmp_path, registry).find("0123abcd", anywhere=True)


def test_a_password_of_redis_is_not_shown() -> None:
    """Tracebacks and logs may have the repr."""
    assert "secret" not in repr(Registry("redis://:secret@127.0.0.1:1", "http://127.0.0.1:2"))
