"""The proxy as an ASGI application: a request goes on, its reply comes back byte for byte, and is taken down."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import MutableMapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ..replay.endings import close, reset
from ..serving import TRANSPORT_STATE, Receive, Send
from ..transports.base import close_quietly, unwind
from .folder import RecordingFolder
from .headers import end_to_end, request_headers
from .tape import Tape
from .upstream import Upstream

if TYPE_CHECKING:
    import httpx

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""The API's own bound on the body of a request."""

_RECORDED_PATH: Final = b"/messages"
_SIGNS_OF_PATHS: Final = "/?%&=+,;:@!$'()*"
_LEFT: Final = "the client left before its end"
_CLOSED: Final = "the proxy was closed before its end"
_BROKEN: Final = "it broke off: the connection to the upstream was lost"

_log = logging.getLogger(__name__)


class Forwarding:
    """Passes requests on to one upstream.

    Args:
        upstream: Where to.
        folder: Takes the replies to `POST .../messages`; others only pass.

    Attributes:
        is_closing: Connections that end from now on are ended here, not by clients.
    """

    def __init__(self, upstream: Upstream, folder: RecordingFolder) -> None:
        import httpx

        self.is_closing = False
        self._upstream = upstream
        self._url = httpx.URL(upstream.url)
        self._folder = folder
        self._client = upstream.client()
        self._holder: asyncio.Task[None] | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One request. Cancelling it closes its connection to the upstream."""
        body, gone = await _read_body(receive)
        if gone:
            return
        if body is None:
            await _refuse(send, 413, "request_too_large", f"the proxy takes no request over {MAX_REQUEST_BYTES} bytes")
            return
        if not scope["raw_path"].startswith(b"/"):  # the address of another server, or of none
            await _refuse(send, 400, "invalid_request_error", "the proxy passes on paths of its upstream only")
            return
        if self._holder is None:
            self._holder = asyncio.create_task(self._hold_client())
        is_recorded = scope["method"] == "POST" and scope["raw_path"].endswith(_RECORDED_PATH)
        request = self._request(scope, body, uncompressed=is_recorded)
        tape = self._folder.begin(body, host=self._upstream.host) if is_recorded else None
        del body
        leaving = asyncio.ensure_future(_left(receive))
        passing = asyncio.ensure_future(self._pass_on(request, tape, scope, send, leaving))
        cut = _CLOSED
        try:
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
            cut = _CLOSED if self.is_closing else _LEFT
        finally:
            for task in (passing, leaving):
                task.cancel()
            await asyncio.wait((passing, leaving))
            if tape is not None:
                tape.end(cut)  # does nothing where it has ended
        if not passing.cancelled() and (error := passing.exception()) is not None:
            _log.error("a reply could not be passed on: %s", type(error).__name__)  # and nothing of what is in it
            scope["state"][TRANSPORT_STATE].abort()
            await _left(receive)

    async def _hold_client(self) -> None:
        """Until the event loop ends, which cancels what runs in it: then its connections are closed."""
        async with self._client:
            await asyncio.Event().wait()

    def _request(self, scope: MutableMapping[str, Any], body: bytes, *, uncompressed: bool) -> httpx.Request:
        import httpx

        query = scope["query_string"]
        path = self._url.raw_path.rstrip(b"/") + scope["raw_path"] + (b"?" + query if query else b"")
        headers = request_headers(scope["headers"], uncompressed=uncompressed)
        # What is a part of the URL is put in order: `..` resolved, signs escaped, or refused. httpcore from 1.0.4 on
        # sends the target instead, as it is.
        url = self._url.copy_with(raw_path=quote(path, safe=_SIGNS_OF_PATHS).encode())
        return httpx.Request(scope["method"], url, headers=headers, content=body, extensions={"target": path})

    async def _pass_on(
        self,
        request: httpx.Request,
        tape: Tape | None,
        scope: MutableMapping[str, Any],
        send: Send,
        leaving: asyncio.Future[None],
    ) -> None:
        import httpx

        try:
            response = await self._client.send(request, stream=True, auth=self._upstream.credentials)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            what = f"the proxy cannot reach {self._upstream.host} ({type(error).__name__})"
            await _refuse(send, 502, "api_error", what)
            return
        except Exception as error:
            await _break_off(error, scope, send, leaving)
            return
        chunks = response.aiter_raw()
        try:
            if tape is not None:
                self._begin(tape, response)
            headers = _dated(end_to_end(response.headers.raw))
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            async for chunk in chunks:
                if tape is not None:
                    tape.take(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                # A read may bring hundreds of chunks: others get their turn, and a client that has left is noticed.
                await asyncio.sleep(0)
            if tape is not None:
                tape.end()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception as error:
            if tape is not None:
                tape.end(_BROKEN)
            await _break_off(error, scope, send, leaving)
        finally:
            await unwind(chunks)
            await close_quietly(response)

    def _begin(self, tape: Tape, response: httpx.Response) -> None:
        if response.headers.get("content-encoding", "identity").strip().lower() == "identity":
            raw = response.headers.raw  # as text they may be taken for UTF-8, which the format of recordings has not
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]
            tape.begin(response.status_code, headers)
        else:
            self._folder.tell_once("compressed replies are not recorded, though the upstream was asked for others")


# --- the request ------------------------------------------------------------------------------------------------------


async def _read_body(receive: Receive) -> tuple[bytes | None, bool]:
    """The body, and whether the client has left; None for one that is too large, which is read to its end."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None, True
        part = message.get("body", b"")
        size += len(part)
        if size <= MAX_REQUEST_BYTES:
            parts.append(part)
        else:
            parts.clear()
        if not message.get("more_body", False):
            return (b"".join(parts) if size <= MAX_REQUEST_BYTES else None), False


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# --- the answer -------------------------------------------------------------------------------------------------------


def _dated(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """With a `Date`: who passes on a response without one adds it (RFC 9110, section 6.6.1)."""
    if any(name.lower() == b"date" for name, _ in headers):
        return headers
    return [*headers, (b"date", formatdate(usegmt=True).encode())]


async def _refuse(send: Send, status: int, error_type: str, message: str) -> None:
    """An error of the proxy's own, in the shape of the API's."""
    body = json.dumps({"type": "error", "error": {"type": error_type, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": _dated(headers)})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _break_off(
    error: Exception, scope: MutableMapping[str, Any], send: Send, leaving: asyncio.Future[None]
) -> None:
    """Break the client's connection as that to the upstream broke: never an end that looks like one.

    A close where the upstream closed, or sent what is no HTTP: without the last chunk the client sees that more was to
    come, unless it is too old for chunks. A reset for everything else.
    """
    import httpx

    if not isinstance(error, httpx.TransportError):
        _log.error("a request could not be passed on: %s", type(error).__name__)  # and nothing of what it is about
    ending = close if isinstance(error, httpx.RemoteProtocolError) and scope["http_version"] != "1.0" else reset
    await ending(scope["state"][TRANSPORT_STATE], send, leaving)
