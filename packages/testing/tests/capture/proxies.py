"""Both sides of a proxy, byte by byte, on real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eagerstream import Recording
from eagerstream_testing.capture import RecordingProxy

TIMEOUT_S = 20
JSON = b"Content-Type: application/json"
HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def load(folder: Path) -> list[Recording]:
    """The recordings in a folder, by name; the proxy is closed, so they are written."""
    assert not list(folder.glob("*.part"))
    return [Recording.load(path) for path in sorted(folder.glob("*.jsonl"))]


class Wire:
    """A server that answers each connection with these bytes, and remembers what it was sent.

    Each answer but the last says that its connection ends with it: it would be used again, now and then, in the moment
    before it is closed.

    Attributes:
        received: By connection, everything until the answer was sent.
    """

    def __init__(self, *answers: bytes) -> None:
        self.received: list[bytes] = []
        self._answers = [
            *(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) for answer in answers[:-1]),
            *answers[-1:],
        ]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __call__(self) -> None:
        for answer in self._answers:
            connection, _ = self._listener.accept()
            with connection:
                received = b""
                while b"\r\n\r\n" not in received:
                    piece = connection.recv(65_536)
                    if not piece:
                        return  # it was closed without any request
                    received += piece
                head, _, body = received.partition(b"\r\n\r\n")
                lines = [line.partition(b":") for line in head.lower().split(b"\r\n")[1:]]
                size = int(next((value for name, _, value in lines if name == b"content-length"), b"0"))
                while len(body) < size:
                    body += connection.recv(65_536)
                self.received.append(head + b"\r\n\r\n" + body)
                connection.sendall(answer)

    def close(self) -> None:
        """Also where no request came."""
        with suppress(OSError), socket.create_connection(self._listener.getsockname(), timeout=TIMEOUT_S):
            pass
        self._listener.close()


@contextmanager
def wire(*answers: bytes) -> Iterator[Wire]:
    upstream = Wire(*answers)
    thread = threading.Thread(target=upstream, daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.close()
        thread.join(TIMEOUT_S)


def exchange(proxy: RecordingProxy, request: bytes) -> bytes:
    """All that comes back, until the connection is closed or reset; the host `proxy` stands for the proxy's own."""
    request = request.replace(b"Host: proxy\r\n", b"Host: 127.0.0.1:%d\r\n" % proxy.port, 1)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while piece := connection.recv(65_536):
                answer += piece
        except ConnectionResetError:
            answer += b"<reset>"
        return answer


def post(path: bytes, *headers: bytes, body: bytes = b"{}") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: proxy", b"Content-Length: %d" % len(body), b"Connection: close"]
    return b"\r\n".join((*lines, JSON, *headers, b"", body))
