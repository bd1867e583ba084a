"""A peer that does with a connection whatever a test wants, in threads of its own."""

from __future__ import annotations

import importlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

import trustme

from eagerstream.transports import HTTPTransport
from eagerstream.transports._http_clients import Library
from eagerstream_testing import reply, text

HELLO: Final = reply(text("Hello.")).body
HALF: Final = len(HELLO) // 2
PATIENCE_S: Final = 20.0
CA: Final = trustme.CA()
"""Signs the certificates of peers."""


def tls_of(name: str) -> ssl.SSLContext:
    """The TLS of a peer with a certificate for this name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert(name).configure_cert(context)
    return context


@dataclass
class Request:
    """A request that came, with its body."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[["Connection", Request], object]


@dataclass
class Connection:
    """One connection of a client.

    Attributes:
        ended: Set when the client closed the connection, or its peer did.
    """

    socket: socket.socket
    ended: threading.Event = field(default_factory=threading.Event)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def respond(self, body: bytes = HELLO, *, status: str = "200 OK", **headers: str) -> None:
        """Send a whole response. An underscore in the name of a header stands for a hyphen."""
        self.begin(status=status, content_length=str(len(body)), **headers)
        self.send(body)

    def begin(self, *, status: str = "200 OK", **headers: str) -> None:
        """Send the head of a response."""
        fields = {"content_type": "text/event-stream", **headers}
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items()]
        self.send(f"HTTP/1.1 {status}\r\n{''.join(lines)}\r\n".encode("latin-1"))

    def receive(self) -> Request | None:
        """The next request; None at the end of the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := self.socket.recv(65_536)):
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            if not (more := self.socket.recv(1_048_576)):
                return None
            body += more
        method, target, _ = first.split(" ")
        return Request(method, target, headers, body)


class Peer:
    """Listens on loopback, and calls `answer` with each request, in a thread for each connection.

    Args:
        answer: Answers a request. If it raises an `OSError`, the connection ends.
        tls: With it, the peer speaks TLS.
        host: The address.
        accepted: Called with each connection before anything is read from it. If it returns True, nothing is.
    """

    def __init__(
        self,
        answer: Answer = lambda connection, _: connection.respond(),
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        accepted: Callable[[Connection], object] = lambda _: None,
    ) -> None:
        self.requests: list[Request] = []
        self.connections: list[Connection] = []
        self._answer = answer
        self._tls = tls
        self._accepted = accepted
        self._listener = socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=200
        )
        port = self._listener.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.url = f"{'https' if tls else 'http'}://{self.address}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._listener.close()
        for connection in self.connections:
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
            connection.ended.wait(PATIENCE_S)

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                connection = Connection(accepted)
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            if self._accepted(connection):
                while connection.socket.recv(1):
                    pass
                return
            if self._tls is not None:
                connection.socket = self._tls.wrap_socket(connection.socket, server_side=True)
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := connection.receive()) is not None:
                self.requests.append(request)
                self._answer(connection, request)
        except OSError:
            pass
        finally:
            connection.socket.close()
            connection.ended.set()


@asynccontextmanager
async def made_client(library: Library, **options: Any) -> AsyncIterator[Any]:
    """A client as a user makes one."""
    module = importlib.import_module(library)
    if library == "aiohttp":
        async with module.ClientSession(**options) as session:
            yield session
    else:
        async with module.AsyncClient(verify=False, **options) as client:
            yield client


@asynccontextmanager
async def served(library: Library, *answer: Answer, **options: Any) -> AsyncIterator[tuple[Peer, HTTPTransport]]:
    """A peer that answers so, with these options, and a transport to it."""
    with Peer(*answer, **options) as peer:
        async with HTTPTransport(base_url=peer.url, library=library) as transport:
            yield peer, transport


def waits(connection: Connection, _: Request | None = None) -> bool:
    """Read until the client closes the connection."""
    while connection.socket.recv(1):
        pass
    return True


def waits_in_body(connection: Connection, _: Request) -> None:
    """Send half of a response."""
    connection.begin(content_length="1000")
    connection.send(HELLO[:HALF])
    waits(connection)
