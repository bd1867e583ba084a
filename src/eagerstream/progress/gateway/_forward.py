"""Pass a request on to the process that has its run, and pass the response back at the speed of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel

from ..._serving.asgi_server import TRANSPORT_STATE, Receive, Send
from ...capture._upstream import Headers, end_to_end, request_headers
from .._sse import STALL_S
from ._owners import Address

_CONNECT_S: Final = 5.0
_SCHEMES: Final = {"http": (b"http", 80), "https": (b"https", 443)}
_WAS_FORWARDED: Final = b"x-eagerstream-forwarded"


class Unreachable(Exception):
    """The other process is gone, and nothing was sent to the client: somebody else can answer the request."""


def was_forwarded(scope: Any) -> bool:
    """Return True if another machine passed this request on: it must not be passed on to a third one."""
    return any(name == _WAS_FORWARDED for name, _ in scope["headers"])


def target_of(scope: Any) -> bytes:
    """Return the target of a request as the client sent it: the path, and the query if there is one."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


async def forward(address: Address, scope: Any, receive: Receive, send: Send) -> None:
    """Answer a request with the response of another process.

    Neither body is kept: of each, at most a chunk is held. If the client leaves, or accepts nothing for 30 s, the
    connection to the process is closed, so that the process notices. If the process dies, the client's connection is
    cut. Cancelling this closes both.

    Raises:
        Unreachable: The process does not listen, or died before it responded to a GET request.
    """
    import httpcore

    has_body = anyio.Event()

    async def body() -> AsyncIterator[bytes]:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Left
            yield message.get("body", b"")
            if not message.get("more_body", False):
                has_body.set()
                return

    async def notice_leaving() -> None:
        await has_body.wait()
        while (await receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    # A connection of its own: closing it is how the process learns that the client has left.
    origin = _origin(address)
    connection = httpcore.AsyncHTTPConnection(origin, uds=address.socket)
    request = httpcore.Request(
        scope["method"],
        httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target_of(scope)),
        headers=_headers(scope),
        content=body(),
        extensions={"timeout": {"connect": _CONNECT_S}},
    )
    is_cut = is_started = False
    try:
        async with anyio.create_task_group() as group, _closing(connection):
            group.start_soon(notice_leaving)
            try:
                response = await connection.handle_async_request(request)
                headers = end_to_end(response.headers)
                is_started = True
                await send({"type": "http.response.start", "status": response.status, "headers": headers})
                chunks: Any = response.aiter_stream()
                async with aclosing(chunks):
                    async for chunk in chunks:
                        with anyio.fail_after(STALL_S):
                            await send({"type": "http.response.body", "body": chunk, "more_body": True})
                        await anyio.lowlevel.checkpoint_if_cancelled()
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                raise Unreachable from error
            except _Left:
                pass
            except (httpcore.NetworkError, httpcore.ProtocolError, TimeoutError) as error:
                # The process died, or the client stalls.
                if not is_started and scope["method"] == "GET":
                    raise Unreachable from error
                is_cut = True
            group.cancel_scope.cancel()
    except* Unreachable:
        raise Unreachable from None
    if is_cut:
        await _cut(scope, receive, send, is_started=is_started)


def _origin(address: Address) -> Any:
    import httpcore

    if address.socket is not None:
        return httpcore.Origin(b"http", b"gateway", 80)
    parts = urlsplit(address.url)
    scheme, port = _SCHEMES[parts.scheme]
    return httpcore.Origin(scheme, (parts.hostname or "").encode(), parts.port or port)


@asynccontextmanager
async def _closing(connection: Any) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await connection.aclose()


def _headers(scope: Any) -> Headers:
    """Return the headers for the process: the client's, with its address, as any reverse proxy sends it."""
    own = {b"host", b"x-forwarded-for", b"x-forwarded-proto", _WAS_FORWARDED}
    headers = [
        (name, value) for name, value in request_headers(scope["headers"], uncompressed=False) if name not in own
    ]
    hosts = [value for name, value in scope["headers"] if name == b"host"]  # of two, the process refuses both
    headers += [(b"host", b", ".join(hosts)), (b"x-forwarded-proto", scope["scheme"].encode()), (_WAS_FORWARDED, b"1")]
    if client := scope.get("client"):
        headers.append((b"x-forwarded-for", client[0].encode()))
    names = {name for name, _ in headers}
    if b"content-length" not in names and any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        headers.append((b"transfer-encoding", b"chunked"))
    return headers


async def _cut(scope: Any, receive: Receive, send: Send, *, is_started: bool) -> None:
    """Cut the response, so that the client does not take it for complete; before it has started, answer with 502."""
    if not is_started:
        body = b'{"error":"the process of this run has ended"}'
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 502, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})
        return
    transport = scope.get("state", {}).get(TRANSPORT_STATE)
    if transport is not None:
        transport.abort()
        while (await receive())["type"] != "http.disconnect":
            pass


class _Left(Exception):
    """The client left before its request was complete."""
