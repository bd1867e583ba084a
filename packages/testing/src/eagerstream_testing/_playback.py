"""Writes a response to the connection, each chunk at its time."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from time import monotonic
from typing import Any, Final

from eagerstream._support.serving.asgi_server import TRANSPORT_STATE, ASGIMessage, Receive, Send

from ._injection import Answer
from ._received import ReceivedRequest

# Headers that describe the connection of the recorded response. The chunks of a recording hold decoded bytes.
_NOT_REPLAYED: Final = frozenset(
    {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"}
)


class Playback:
    """Writes a response, each chunk separately and at its time, until it ends or the client disconnects."""

    def __init__(
        self,
        answer: Answer,
        received: ReceivedRequest | None = None,
        *,
        arrived_s: float = 0.0,
        speed: float = 1.0,
        id_header: str = "request-id",
    ) -> None:
        self._recording, self._ending, self._has_headers = answer
        self._received = received
        self._arrived_s = arrived_s
        self._speed = speed
        self._id_header = id_header

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        whole = False
        try:
            whole = await self._write(send, gone)
            if whole and self._ending is not None:
                whole = False
                await self._ending(scope["state"][TRANSPORT_STATE], send, gone)
        finally:
            gone.cancel()
            await asyncio.wait((gone,))
            if self._received is not None:
                self._received.disconnected = not whole
                self._received.end()

    async def _write(self, send: Send, gone: asyncio.Future[None]) -> bool:
        """Write the response. Return True if all of it was written; a response with an ending then stays open."""
        start: ASGIMessage = {
            "type": "http.response.start",
            "status": self._recording.status,
            "headers": self._headers(),
        }
        for number, chunk in enumerate(self._recording.chunks):
            # Times count from the request, not from the chunk before: late timers must not add up.
            if not await _wait_until(self._arrived_s + chunk.at_s / self._speed, gone):
                return False
            if not self._has_headers:
                continue  # the chunk is empty
            if number == 0:
                await send(start)  # with the first chunk, since that is when the API's own headers arrive
            await send({"type": "http.response.body", "body": chunk.data, "more_body": True})
        if not self._recording.chunks:
            await send(start)
        if self._ending is None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        if self._received is not None:
            headers[self._id_header] = self._received.request_id
        recorded = {name.lower(): value for name, value in self._recording.headers.items()}
        headers.update((name, value) for name, value in recorded.items() if name not in _NOT_REPLAYED)
        return [(name.encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers.items()]


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # skips the rest of the request's body


async def _wait_until(due_s: float, gone: asyncio.Future[None]) -> bool:
    """Wait until a time of the monotonic clock. Return False if the client has disconnected."""
    delay_s = due_s - monotonic()
    if delay_s > 0:
        await asyncio.wait((gone,), timeout=delay_s)
    else:
        await asyncio.sleep(0)  # a disconnect is noticed here, and other responses get their turn
    return not gone.done()


async def say_nothing(_scope: MutableMapping[str, Any], _receive: Receive, _send: Send) -> None:
    """Send nothing, because the client has disconnected."""
