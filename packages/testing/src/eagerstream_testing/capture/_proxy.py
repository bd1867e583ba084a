"""`RecordingProxy`: passes on any client's traffic with the API, and records it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, MutableMapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from eagerstream._support.cancellation import close_quietly, unwind
from eagerstream._support.logs import logger_of
from eagerstream._support.serving.access import Access, Refused, new_token, token_for
from eagerstream._support.serving.asgi_server import TRANSPORT_STATE, ASGIApplication, Receive, Send, ThreadedServer
from eagerstream._support.serving.guard import as_api_error, refuse

from .._endings import close, reset
from ._admission import Admission
from ._folder import RecordingFolder
from ._tape import Recorder, Tape
from ._upstream import Upstream, end_to_end, request_headers

if TYPE_CHECKING:
    import httpx


DEFAULT_UPSTREAM: Final = "https://api.anthropic.com"
_MAX_CONNECTIONS: Final = 256
"""Maximum number of connections. Each takes two file descriptors, and a program may have only a thousand."""


class RecordingProxy(ThreadedServer):
    """Proxy that passes requests on to one server of the Messages API, and records the responses.

    ::

        with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
            client = AsyncAnthropic(base_url=proxy.base_url)

    A client gets exactly the bytes that the upstream sends, each chunk at once: status, end-to-end headers, and every
    byte. If the upstream breaks off, the client's connection breaks in the same way. If the upstream cannot be reached
    in 10 seconds, the client gets an HTTP 502 in the format of the API's errors. If a client leaves, its request is
    cancelled. Every response to `POST .../messages` is recorded, errors too. Responses to other paths are passed on
    without recording. The client's own API key is passed on, and is neither stored nor logged.

    Every program and every page in a browser on this machine can connect to the proxy. So it refuses requests under
    another host name, requests from pages, and paths that could leave the upstream's path (`..`, `//`, escaped or not).
    If the URL of the upstream has a name and a password, the proxy adds them to requests without an `authorization`
    header. Only requests with the proxy's token get that far. `base_url` has the token as the first segment of its
    path.

    It runs in its own thread, see `ThreadedServer`. Closing it waits for the files.

    Args:
        upstream: URL of the upstream, with a path prefix if it has one, for example `"https://gateway/anthropic"`.
        folder: Folder for the recordings. A path is a folder with the defaults: secrets masked, contents kept.
        host: Address to listen on. Traffic is not encrypted. Stay on loopback, or others on the network can read the
            keys.
        port: Port to listen on; 0 takes a free one.
        hosts: Further names of the proxy for clients, with or without a port, such as this machine's name. `host` and
            the names of loopback are always allowed, at any port.
        origins: Origins of pages that may use the proxy, such as `"https://app.example"`. None by default.
        token: Token that clients must know. Default: a new one if the upstream's URL has a password or `host` is not
            loopback, otherwise none.

    Raises:
        UsageError: The URL is malformed, the port does not exist, a host, an origin or the token is malformed, or the
            folder cannot be created.
    """

    def __init__(
        self,
        upstream: str = DEFAULT_UPSTREAM,
        folder: RecordingFolder | str | os.PathLike[str] = "recordings",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        token: str | None = None,
    ) -> None:
        self.upstream: Upstream = Upstream.parse(upstream)
        if token is None and self.upstream.authorization is not None:
            token = new_token()
        self._access = Access(hosts=hosts, origins=origins, token=token_for(host, token), host=host)
        self.folder: RecordingFolder = folder if isinstance(folder, RecordingFolder) else RecordingFolder(folder)
        self._forwarding: Forwarding | None = None
        super().__init__(
            self._make_forwarding,
            name="recording proxy",
            host=host,
            port=port,
            max_connections=_MAX_CONNECTIONS,
            date_header=False,  # the upstream's passes
        )

    @property
    def base_url(self) -> str:
        """Base URL for clients, for example `"http://127.0.0.1:49152"`. If there is a token, it is in the path.

        Raises:
            UsageError: The proxy is not running.
        """
        return super().base_url + (f"/{self._access.token}" if self._access.token is not None else "")

    def close(self) -> None:
        """Stop the proxy. Responses in progress are cut. On return, the thread has ended and the files are written."""
        if self._forwarding is not None:
            self._forwarding.is_closing = True
        super().close()
        self.folder.flush()

    def _make_forwarding(self) -> Forwarding:
        self._forwarding = Forwarding(self.upstream, self.folder, Admission(self._access))
        return self._forwarding


def forwarding_app(upstream: str, recorder: Recorder) -> ASGIApplication:
    """Return what `RecordingProxy` serves, as an ASGI application with a recorder of your own.

    It admits requests of this machine, under its loopback names, and not those of pages. It has no token.

    Args:
        upstream: As for `RecordingProxy`.
        recorder: Gets each request to `POST .../messages`, and a tape of its response.

    Raises:
        UsageError: The URL is malformed.
    """
    return Forwarding(Upstream.parse(upstream), recorder, Admission(Access()))


# --- as an ASGI application: passes a request on, returns the response byte for byte, and records it ------------------

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of a request body, as in the API."""

_RECORDED_PATH: Final = b"/messages"
_LEFT: Final = "the client left before its end"
_CLOSED: Final = "the proxy was closed before its end"
_BROKEN: Final = "it broke off: the connection to the upstream was lost"

_log = logger_of(__name__)


class Forwarding:
    """ASGI application that passes requests on to one upstream.

    Args:
        upstream: The upstream.
        recorder: Records the responses to `POST .../messages`. Others are only passed on.
        admission: Decides which requests to pass on.

    Attributes:
        is_closing: True if connections that end from now on are ended by the proxy, not by clients.
    """

    def __init__(self, upstream: Upstream, recorder: Recorder, admission: Admission) -> None:
        import httpx

        self.is_closing = False
        self._upstream = upstream
        url = httpx.URL(upstream.url)
        self._base_path = url.raw_path.rstrip(b"/")
        # httpx logs the URL of each request. A path or a query may be secret, so they are not in it.
        self._url = url.copy_with(raw_path=b"/")
        self._recorder = recorder
        self._admission = admission
        self._client = upstream.client()
        self._holder: asyncio.Task[None] | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request. Cancelling this closes its connection to the upstream."""
        try:
            path, body = await self._admitted(scope, receive)
        except Refused as refusal:
            await _refuse(scope, send, refusal)
        except _ClientLeft:
            pass
        else:
            await self._answer(path, body, scope, receive, send)

    async def _admitted(self, scope: MutableMapping[str, Any], receive: Receive) -> tuple[bytes, bytes]:
        """Return the path and the body of a request to pass on.

        Raises:
            Refused: The request must not be passed on.
            _ClientLeft: The client left before the request was complete.
        """
        try:
            path = self._admission.path_of(scope)
        except Refused:
            await _read_body(receive, 0)  # clients read no response before they have sent the complete body
            raise
        body = await _read_body(receive, MAX_REQUEST_BYTES)
        if body is None:
            raise Refused(413, f"the proxy takes no request over {MAX_REQUEST_BYTES} bytes")
        return path, body

    async def _answer(
        self, path: bytes, body: bytes, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        if self._holder is None:
            self._holder = asyncio.create_task(self._hold_client())
        is_recorded = scope["method"] == "POST" and path.endswith(_RECORDED_PATH)
        request = self._request(path, body, scope, uncompressed=is_recorded)
        tape = self._recorder.begin(body, host=self._upstream.host, headers=request.headers) if is_recorded else None
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
                tape.end(cut)  # does nothing if the tape has ended
        if not passing.cancelled() and (error := passing.exception()) is not None:
            _log.error("a response could not be passed on: %s", type(error).__name__)  # nothing of its content
            scope["state"][TRANSPORT_STATE].abort()
            await _left(receive)

    async def _hold_client(self) -> None:
        """Keep the client open until the event loop ends and cancels this task. Then close its connections."""
        async with self._client:
            await asyncio.Event().wait()

    def _request(
        self, path: bytes, body: bytes, scope: MutableMapping[str, Any], *, uncompressed: bool
    ) -> httpx.Request:
        import httpx

        query = scope["query_string"]
        target = self._base_path + path + (b"?" + query if query else b"")
        headers = request_headers(
            scope["headers"], uncompressed=uncompressed, authorization=self._upstream.authorization
        )
        # httpx would put a part of the URL in order, and log it. httpcore from 1.0.4 on sends the target as it is.
        return httpx.Request(scope["method"], self._url, headers=headers, content=body, extensions={"target": target})

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
            response = await self._client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            what = f"the proxy cannot reach {self._upstream.host} ({type(error).__name__})"
            await _refuse(scope, send, Refused(502, what))
            return
        except Exception as error:
            await _break_off(error, scope, send, leaving)
            return
        chunks = response.aiter_raw()
        try:
            if tape is not None:
                raw = response.headers.raw  # as text they might be read as UTF-8, which the format of recordings lacks
                received = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]
                codings = [value for name, value in received if name.lower() == "content-encoding"]
                tape.begin(response.status_code, received, content_encoding=", ".join(codings))
            headers = _dated(end_to_end(response.headers.raw))
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            async for chunk in chunks:
                if tape is not None:
                    tape.take(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                # A read may bring hundreds of chunks: let other tasks run, and notice a client that has left.
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


# --- the request ------------------------------------------------------------------------------------------------------


class _ClientLeft(Exception):
    """Error for a request that does not arrive completely."""


async def _read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the body, or `None` if it is larger than `max_bytes`. A larger body is read to its end and dropped.

    Raises:
        _ClientLeft: The client left before the body was complete.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientLeft
        part = message.get("body", b"")
        size += len(part)
        if size <= max_bytes:
            parts.append(part)
        else:
            parts.clear()
        if not message.get("more_body", False):
            return b"".join(parts) if size <= max_bytes else None


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# --- the answer -------------------------------------------------------------------------------------------------------


def _dated(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add a `Date` to a response without one, as RFC 9110, section 6.6.1, requires of a recipient."""
    if any(name.lower() == b"date" for name, _ in headers):
        return headers
    return [*headers, (b"date", formatdate(usegmt=True).encode())]


async def _refuse(scope: MutableMapping[str, Any], send: Send, refusal: Refused) -> None:
    """Send an error of the proxy, in the format of the API's errors."""
    await refuse(scope, send, refusal, as_api_error, *_dated([]))


async def _break_off(
    error: Exception, scope: MutableMapping[str, Any], send: Send, leaving: asyncio.Future[None]
) -> None:
    """Break the client's connection in the way that the upstream's broke, never with a regular end.

    If the upstream closed the connection or sent invalid HTTP, close it. Without the last chunk the client sees that
    the body is incomplete, unless it is too old for chunks. For everything else, reset the connection.
    """
    import httpx

    if not isinstance(error, httpx.TransportError):
        _log.error("a request could not be passed on: %s", type(error).__name__)  # nothing of its content
    ending = close if isinstance(error, httpx.RemoteProtocolError) and scope["http_version"] != "1.0" else reset
    await ending(scope["state"][TRANSPORT_STATE], send, leaving)
