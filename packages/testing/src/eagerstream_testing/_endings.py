"""Endings of a response on the connection itself, which HTTP cannot express.

Each ending runs after the bytes before it were passed to the connection. It returns when the connection is gone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from eagerstream._support.serving.asgi_server import ASGIMessage, Send

Ending: TypeAlias = Callable[[asyncio.Transport, Send, "asyncio.Future[None]"], Awaitable[None]]
"""Ends a response. Takes its connection, its `send`, and a future that is done once the connection is gone."""

_NO_CHUNK: Final = b"this is not the size of a chunk\r\n"
_LINGER: Final = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)  # on, 0 seconds: closing sends an RST
_SIOCOUTQNSD: Final = 0x894B  # linux/sockios.h: bytes of the send queue that are not sent yet
_POLL_S: Final = 0.001


async def stall(_transport: asyncio.Transport, _send: Send, gone: asyncio.Future[None]) -> None:
    """Send nothing more until the client disconnects."""
    await asyncio.wait((gone,))


async def close(transport: asyncio.Transport, _send: Send, gone: asyncio.Future[None]) -> None:
    """Close the connection after all earlier bytes are written. The client reads to the end."""
    transport.close()
    await asyncio.wait((gone,))


async def break_chunking(transport: asyncio.Transport, send: Send, gone: asyncio.Future[None]) -> None:
    """Send bytes that are not a chunk of HTTP's chunked coding, then close the connection."""
    transport.write(_NO_CHUNK)
    await close(transport, send, gone)


async def reset(transport: asyncio.Transport, send: Send, gone: asyncio.Future[None]) -> None:
    """Reset the connection after all earlier bytes are sent, because a reset discards unsent bytes."""
    transport.set_write_buffer_limits(high=0)
    if transport.get_write_buffer_size():
        await send(_body(b""))  # returns when the buffer is empty, or the client is gone
    connection = transport.get_extra_info("socket")
    while not transport.is_closing() and _unsent_bytes(connection):
        await asyncio.wait((gone,), timeout=_POLL_S)  # the system reports no event when they are sent
    if not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        transport.abort()
    await asyncio.wait((gone,))


class Repeat:
    """Sends `data` repeatedly, as fast as the client reads it, until the client disconnects."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def __call__(self, _transport: asyncio.Transport, send: Send, gone: asyncio.Future[None]) -> None:
        """See `Ending`."""
        message = _body(self.data)
        while not gone.done():
            await send(message)  # waits while the client does not read
            await asyncio.sleep(0)  # other responses get their turn


def _body(data: bytes) -> ASGIMessage:
    return {"type": "http.response.body", "body": data, "more_body": True}


def _unsent_bytes(connection: Any) -> int:
    """Return the bytes that the system holds back because the client's window is full. Only on Linux; elsewhere 0."""
    if sys.platform != "linux":
        return 0
    import fcntl

    (size,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), _SIOCOUTQNSD, bytes(4)))
    return int(size)
