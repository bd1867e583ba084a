"""Bytes that a program on this machine has not read yet from a TCP connection over loopback, as the kernel counts them.

A server that waits for zero knows that its client has read each event by itself, however busy the machine is.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress
from typing import Final, Self

_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST: Final = 1  # NLM_F_REQUEST
_ANY: Final = 0xFFFFFFFF
_RECEIVE_QUEUE_OFFSET: Final = 72  # `idiag_rqueue`, after the header of netlink
_ANSWER_BYTES: Final = 4_096


class Unread:
    """Counter of the bytes that the other end of `connection` has not read. See `sock_diag(7)` of Linux."""

    def __init__(self, connection: socket.socket) -> None:
        (here, our_port), (there, their_port) = connection.getsockname(), connection.getpeername()
        ends = [socket.inet_aton(address).ljust(16, b"\0") for address in (there, here)]
        asked = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY)
        asked += struct.pack("!HH", their_port, our_port) + b"".join(ends) + struct.pack("=III", 0, _ANY, _ANY)
        self._request = struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST, 0, 0) + asked
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)

    @classmethod
    def of(cls, connection: socket.socket) -> Self | None:
        """Return the counter for a connection. None if the system has none."""
        if sys.platform == "linux":
            with suppress(OSError, ValueError):  # not TCP, or no such module in the kernel
                counter = cls(connection)
                counter.count()
                return counter
        return None

    def count(self) -> int:
        """Return the number of bytes; 0 if the other end has closed the connection."""
        self._kernel.send(self._request)
        answer = self._kernel.recv(_ANSWER_BYTES)
        _, kind = struct.unpack_from("=IH", answer)
        return struct.unpack_from("=I", answer, _RECEIVE_QUEUE_OFFSET)[0] if kind == _BY_FAMILY else 0

    def close(self) -> None:
        self._kernel.close()
