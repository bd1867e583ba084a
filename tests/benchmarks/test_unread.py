"""The count of unread bytes, which paces the server of two benchmarks: without it, a busy machine makes clients cheaper."""

from __future__ import annotations

import socket
import sys

import pytest
from benchmarks.unread import Unread


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts them for others")
def test_unread_bytes() -> None:
    """They are those of the other end, and none after it has read or left."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            server, _ = listener.accept()
            unread = Unread.of(server)
            assert unread is not None
            server.sendall(b"abc")
            assert unread.count() == 3
            client.recv(2)
            assert unread.count() == 1
            client.recv(2)
            assert unread.count() == 0
        assert unread.count() == 0
        unread.close()
        server.close()


def test_a_socket_that_is_no_connection() -> None:
    """The server then paces by time alone."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert Unread.of(ours) is None
