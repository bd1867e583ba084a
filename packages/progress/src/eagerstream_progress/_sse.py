"""Server-sent events as the response to a request. A silence has heartbeats, and stalled clients are dropped."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.lowlevel

from eagerstream._support.json_values import encodable
from eagerstream._support.serving.asgi_server import TRANSPORT_STATE

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

Write: TypeAlias = Callable[[bytes | Iterable[bytes]], Awaitable[None]]
"""Sends one message or several, and returns when the connection has accepted them.

Bytes are cut into pieces. The items of an iterable are pieces already and are sent unchanged. Many responses may share
them; each holds only the piece that it sends.
"""

KEEP_ALIVE_S: Final = 15.0
"""Silence after which a heartbeat is sent. The WHATWG recommends it, since proxies close silent connections."""

STALL_S: Final = 30.0
"""Time without progress after which a client is dropped."""

_PIECE_BYTES: Final = 65_536
"""Size of the pieces of long messages. A client on a slow line that accepts pieces does not count as stalled."""

_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",  # otherwise nginx would buffer the messages
}


def encode_message(data: str, *, event: str | None = None, id: str | int | None = None) -> bytes:
    """Return one message: `data` line by line, with a type and an id if they are given.

    Half a surrogate pair cannot be sent and becomes U+FFFD. `event` and `id` must not contain line ends.
    """
    lines = [f"event: {event}"] if event is not None else []
    if id is not None:
        lines.append(f"id: {id}")
    # Only CR, LF and CRLF end a line here. `splitlines` knows more line ends.
    lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    text = "\n".join(lines) + "\n\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        mended: str = encodable(text)
        return mended.encode()


def encode_json(value: object, *, event: str | None = None, id: str | int | None = None) -> bytes:
    """Return one message with `value` as JSON on one line.

    Raises:
        ValueError: The value contains NaN or an infinity, which JSON does not have.
    """
    data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return encode_message(data, event=event, id=id)


class EventStream:
    """An ASGI response that is written by a function. Starlette's routes may return it.

    ::

        async def produce(write: Write) -> None:
            async for value in values:
                await write(encode_json(value))

        return EventStream(produce)

    It takes a function, not an async iterator, because the writer is often inside a `run`. An iterator must not yield
    out of its task group. The function runs in the task of the request. If the client leaves, or accepts nothing for
    `stall_s`, the function is cancelled without an error. Its own errors pass through and cut the response. Works on
    asyncio and trio.

    Args:
        produce: Writes all messages.
        headers: Headers to add or replace.
        heartbeat: Sent after a silence: a comment, unless the client has to see it.
        keep_alive_s: Seconds of silence after which it is sent.
        stall_s: Seconds after which a client that accepts nothing is dropped.
    """

    def __init__(
        self,
        produce: Callable[[Write], Awaitable[None]],
        *,
        headers: Mapping[str, str] | None = None,
        heartbeat: bytes = b":\n\n",
        keep_alive_s: float = KEEP_ALIVE_S,
        stall_s: float = STALL_S,
    ) -> None:
        self._produce = produce
        self._headers = {**_HEADERS, **(headers or {})}
        self._heartbeat = heartbeat
        self._keep_alive_s = keep_alive_s
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond as an ASGI application. Return when all messages are written, or no client reads any more.

        If it is cancelled, `produce` is cancelled too, and the response is cut. Errors of `produce` pass through.
        """
        failure: Exception | None = None
        stalled = False
        lock = anyio.Lock()  # a heartbeat must not split a message
        sent_s = anyio.current_time()

        async with anyio.create_task_group() as group:

            async def send_in_time(message: Message) -> None:
                nonlocal sent_s, stalled
                try:
                    with anyio.fail_after(self._stall_s):
                        await send(message)
                # Not only TimeoutError: some servers raise other errors if the client has left.
                except OSError as error:
                    stalled = isinstance(error, TimeoutError)
                    group.cancel_scope.cancel()
                    await anyio.lowlevel.checkpoint()  # raises the cancellation here, so that no more is written
                sent_s = anyio.current_time()

            async def write(messages: bytes | Iterable[bytes]) -> None:
                async with lock:
                    pieces = (
                        (messages[at : at + _PIECE_BYTES] for at in range(0, len(messages), _PIECE_BYTES))
                        if isinstance(messages, bytes)
                        else messages
                    )
                    for body in pieces:
                        await send_in_time({"type": "http.response.body", "body": body, "more_body": True})

            async def keep_alive() -> None:
                while True:
                    await anyio.sleep_until(sent_s + self._keep_alive_s)
                    if anyio.current_time() >= sent_s + self._keep_alive_s:
                        await write(self._heartbeat)

            async def notice_leaving() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass  # the rest of an unread body
                group.cancel_scope.cancel()

            headers = [
                (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self._headers.items()
            ]
            await send_in_time({"type": "http.response.start", "status": 200, "headers": headers})
            group.start_soon(keep_alive)
            group.start_soon(notice_leaving)
            try:
                await self._produce(write)
                await send_in_time({"type": "http.response.body", "body": b"", "more_body": False})
            except Exception as error:
                failure = error  # raised below: the group would wrap it
            group.cancel_scope.cancel()
        if stalled:
            await _cut(scope, receive)
        if failure is not None:
            raise failure


async def _cut(scope: Scope, receive: Receive) -> None:
    """Cut the connection, if the server lets us. An orderly close would wait for the client, too."""
    transport = scope.get("state", {}).get(TRANSPORT_STATE)
    if transport is not None:
        transport.abort()
        while (await receive())["type"] != "http.disconnect":
            pass
