"""How a reply ends on the connection itself, in ways that no response of HTTP does.

Each ending runs once the bytes before it are handed to the connection, and returns when the connection is gone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from .._serving.asgi_server import ASGIMessage, Send

Ending: TypeAlias = Callable[[asyncio.Transport, Send, "asyncio.Future[None]"], Awaitable[None]]
"""Given the connection, what writes to the response, and a future that is done once the connection is gone."""

_NO_CHUNK: Final = b"this is not the size of a chunk\r\n"
_LINGER: Final = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)  # on, 0 seconds: closing sends an RST
_SIOCOUTQNSD: Final = 0x894B  # linux/sockios.h: bytes of the send queue that were not sent yet
_POLL_S: Final = 0.001


async def stall(_transport: asyncio.Transport, _send: Send, gone: asyncio.Future[None]) -> None:
    """Nothing more, until the client leaves."""
    await asyncio.wait((gone,))


async def close(transport: asyncio.Transport, _send: Send, gone: asyncio.Future[None]) -> None:
    """The connection is closed once everything before is written; the client reads to its end."""
    transport.close()
    await asyncio.wait((gone,))


async def break_chunking(transport: asyncio.Transport, send: Send, gone: asyncio.Future[None]) -> None:
    """Something that is no chunk comes next."""
    transport.write(_NO_CHUNK)
    await close(transport, send, gone)


async def reset(transport: asyncio.Transport, send: Send, gone: asyncio.Future[None]) -> None:
    """The connection is reset, once everything before is on its way: a reset throws away what is still here."""
    transport.set_write_buffer_limits(high=0)
    if transport.get_write_buffer_size():
        await send(_body(b""))  # comes back when the buffer is empty, or the client gone
    connection = transport.get_extra_info("socket")
    while not transport.is_closing() and _unsent_bytes(connection):
        await asyncio.wait((gone,), timeout=_POLL_S)  # no event tells when the system has sent it
    if not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        transport.abort()
    await asyncio.wait((gone,))


class Repeat:
    """`data` again and again, as fast as the client reads it, until it leaves."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def __call__(self, _transport: asyncio.Transport, send: Send, gone: asyncio.Future[None]) -> None:
        """See `Ending`."""
        message = _body(self.data)
        while not gone.done():
            await send(message)  # waits while the client does not read
            await asyncio.sleep(0)  # other replies have their turn


def _body(data: bytes) -> ASGIMessage:
    return {"type": "http.response.body", "body": data, "more_body": True}


def _unsent_bytes(connection: Any) -> int:
    """What the system holds back because the client's window is full; only Linux tells, elsewhere 0."""
    if sys.platform != "linux":
        return 0
    import fcntl

    (size,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), _SIOCOUTQNSD, bytes(4)))
    return int(size)
