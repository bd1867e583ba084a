"""A server that writes each event by itself, over TCP or TLS, so that each event is a read of its own.

It writes the next event after a pause, and not before the client has read the one before it: see `unread`. Without
that, a client on a busy machine would find several events at once, which is cheaper. The server is in another process.
It has a thread for each connection and no event loop: its figures depend neither on the measured library nor on the
one that plays recordings elsewhere in these benchmarks.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from .unread import Unread

_START_S: Final = 60.0
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\nrequest-id: req_1\r\n\r\n"
)
_LAST: Final = b"0\r\n\r\n"
_READ_BYTES: Final = 1 << 16
_BACKLOG: Final = 2_048

Conversation = Sequence[Sequence[bytes]]
"""Responses of a conversation, each as its events."""


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate for `localhost`, which clients trust as an authority."""

    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """Write a new certificate.

        Raises:
            LookupError: The command openssl is not installed.
        """
        if (openssl := shutil.which("openssl")) is None:
            raise LookupError("openssl is not installed")
        made = cls(folder / "certificate.pem", folder / "key.pem")
        named = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        kind = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
        command = [openssl, *kind, *named, "-keyout", str(made.key), "-out", str(made.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        return made


@contextmanager
def paced(
    conversations: Mapping[str, Conversation], pace_s: float, certificate: Certificate | None = None
) -> Iterator[str]:
    """Run a server in a new process. Yield its URL.

    Args:
        conversations: By the `model` of a request. A request with `n` assistant messages gets response `n`.
        pace_s: Seconds between two writes, at least.
        certificate: For TLS. Without one, the server speaks plain HTTP.

    Raises:
        RuntimeError: The server did not start.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, conversations, pace_s, certificate), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_START_S):
            raise RuntimeError("the server did not start")
        yield f"{'https' if certificate else 'http'}://localhost:{ours.recv()}"
    finally:
        ours.close()  # signals the server to stop
        process.join()


def _serve(
    parent: Connection, conversations: Mapping[str, Conversation], pace_s: float, certificate: Certificate | None
) -> None:
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)

    def answer(request: Mapping[str, Any]) -> Sequence[bytes]:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        return conversations[request["model"]][turn]

    parent.send(listen(answer, pace_s, context))
    parent.poll(None)  # its end; the threads end with the process


Answer = Callable[[Mapping[str, Any]], Sequence[bytes]]
"""Returns the events of the response to a request. Called in the thread of the connection."""


def listen(answer: Answer, pace_s: float, context: ssl.SSLContext | None = None) -> int:
    """Serve in daemon threads, until the process ends. Return the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    threading.Thread(target=_accept, args=(listener, answer, pace_s, context), daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def _accept(listener: socket.socket, answer: Answer, pace_s: float, context: ssl.SSLContext | None) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_talk, args=(connection, answer, pace_s, context), daemon=True).start()


def _talk(connection: socket.socket, answer: Answer, pace_s: float, context: ssl.SSLContext | None) -> None:
    with suppress(OSError):  # the client has left
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            received = b""
            while True:
                body, received = _request(connection, received)
                events = answer(json.loads(body))
                connection.sendall(_HEAD)
                _play(connection, events, pace_s)
                connection.sendall(_LAST)


def _request(connection: socket.socket, received: bytes) -> tuple[bytes, bytes]:
    """Return the body of the next request, and the bytes after it."""
    while b"\r\n\r\n" not in received:
        received += _read(connection)
    head, _, rest = received.partition(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    body = bytearray(rest)  # grows in place: a request may have megabytes
    while len(body) < length:
        body += _read(connection)
    return bytes(body[:length]), bytes(body[length:])


def _read(connection: socket.socket) -> bytes:
    if not (piece := connection.recv(_READ_BYTES)):
        raise ConnectionResetError
    return piece


def _play(connection: socket.socket, events: Sequence[bytes], pace_s: float) -> None:
    unread = Unread.of(connection)
    due = time.perf_counter()
    for event in events:
        connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))
        due = max(due + pace_s, time.perf_counter())
        time.sleep(max(0.0, due - time.perf_counter()))
        while unread is not None and unread.count():
            time.sleep(pace_s / 4)
    if unread is not None:
        unread.close()
