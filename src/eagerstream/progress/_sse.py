"""Server-sent events as the answer to a request, for whatever writes them: no silence, no client that holds them up."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.lowlevel

from .._serving.asgi_server import TRANSPORT_STATE
from ..wire import encodable

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

Write: TypeAlias = Callable[[bytes | Iterable[bytes]], Awaitable[None]]
"""Sends one message, or several; returns when the connection has taken it.

Bytes are cut into pieces. An iterable has them in pieces already, which are sent as they are: many responses may share
them, and none keeps more than the one that it is sending.
"""

KEEP_ALIVE_S: Final = 15.0
"""After so long without a message a comment is sent: the WHATWG advises it, since proxies drop silent connections."""

STALL_S: Final = 30.0
"""A client that takes nothing for so long is dropped."""

_PIECE_BYTES: Final = 65_536
"""Long messages are sent in pieces: a client on a slow line, that does take them, is none that stalls."""

_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",  # nginx would collect the messages otherwise
}


def encode_message(data: str, *, event: str | None = None, id: str | int | None = None) -> bytes:
    """One message: `data` line by line, with a type and an id where they are given.

    Half a surrogate pair cannot be sent and becomes U+FFFD. `event` and `id` are our own words, without line ends.
    """
    lines = [f"event: {event}"] if event is not None else []
    if id is not None:
        lines.append(f"id: {id}")
    # Only CR, LF and CRLF end a line here, not all that `splitlines` knows.
    lines += [f"data: {line}" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    text = "\n".join(lines) + "\n\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        mended: str = encodable(text)
        return mended.encode()


def encode_json(value: object, *, event: str | None = None, id: str | int | None = None) -> bytes:
    """One message whose data is `value` as JSON, on one line.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have.
    """
    data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return encode_message(data, event=event, id=id)


class EventStream:
    """An ASGI response that is written by a function; Starlette's routes may return it.

    ::

        async def produce(write: Write) -> None:
            async for value in values:
                await write(encode_json(value))

        return EventStream(produce)

    It is a function and not an async iterator since what is written often stands in a `run`, whose task group an
    iterator must not yield out of. It runs in the task of the request. Where the client leaves, or takes nothing for
    `stall_s`, the function is cancelled, and nobody hears of it; what it raises itself passes through and cuts the
    response. Works on asyncio and trio.

    Args:
        produce: Writes all messages.
        headers: More headers, or others.
        keep_alive_s: How long the connection may be silent before a comment is sent.
        stall_s: How long the client may take nothing before it is dropped.
    """

    def __init__(
        self,
        produce: Callable[[Write], Awaitable[None]],
        *,
        headers: Mapping[str, str] | None = None,
        keep_alive_s: float = KEEP_ALIVE_S,
        stall_s: float = STALL_S,
    ) -> None:
        self._produce = produce
        self._headers = {**_HEADERS, **(headers or {})}
        self._keep_alive_s = keep_alive_s
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as any ASGI application; returns when everything is written, or nobody reads any more."""
        failure: Exception | None = None
        stalled = False
        lock = anyio.Lock()  # a comment must not get between the pieces of a message
        sent_s = anyio.current_time()

        async with anyio.create_task_group() as group:

            async def send_in_time(message: Message) -> None:
                nonlocal sent_s, stalled
                try:
                    with anyio.fail_after(self._stall_s):
                        await send(message)
                except OSError as error:  # not only TimeoutError: some servers raise others where the client is gone
                    stalled = isinstance(error, TimeoutError)
                    group.cancel_scope.cancel()
                    await anyio.lowlevel.checkpoint()  # raises the cancellation here: nothing more is written
                sent_s = anyio.current_time()

            async def write(messages: bytes | Iterable[bytes]) -> None:
                async with lock:
                    for body in _in_pieces(messages) if isinstance(messages, bytes) else messages:
                        await send_in_time({"type": "http.response.body", "body": body, "more_body": True})

            async def keep_alive() -> None:
                while True:
                    await anyio.sleep_until(sent_s + self._keep_alive_s)
                    if anyio.current_time() >= sent_s + self._keep_alive_s:
                        await write(b":\n\n")

            async def notice_leaving() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass  # the rest of a body that nobody reads
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
                failure = error  # raised below, where the group does not wrap it
            group.cancel_scope.cancel()
        if stalled:
            await _cut(scope, receive)
        if failure is not None:
            raise failure


def _in_pieces(messages: bytes) -> Iterable[bytes]:
    return (messages[at : at + _PIECE_BYTES] for at in range(0, len(messages), _PIECE_BYTES))


async def _cut(scope: Scope, receive: Receive) -> None:
    """Cut the connection itself, where the server lets us: a close in good order would wait for the client, too."""
    transport = scope.get("state", {}).get(TRANSPORT_STATE)
    if transport is not None:
        transport.abort()
        while (await receive())["type"] != "http.disconnect":
            pass
