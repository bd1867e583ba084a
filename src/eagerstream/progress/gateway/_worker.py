"""`Worker`: one process of a gateway. It answers for its own runs, and passes requests about other runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from ..._serving.access import ACCESS_STATE, Access, Refused
from ..._serving.asgi_server import ASGIApplication, ASGIMessage, Receive, Send
from ..._serving.guard import as_text, refuse
from ..._support.run_ids import name_process, run_in
from ...streaming import on_every_feed
from ._forward import Unreachable, forward, target_of, was_forwarded
from ._metrics import Metrics, exposition
from ._owners import Owners, Registry, RegistryLost
from ._process import heeding_signals, listening
from ._running import Running
from ._watching import Watchers

_METRICS_PATH: Final = "/metrics"
_UNKNOWN: Final = b'{"error":"Redis does not answer: it is unknown where this run is"}'


class Worker:
    """An ASGI application around the one of the user.

    Args:
        application: The user's application.
        folder: Folder of the sockets of all workers, which only this user may open; None for a single worker.
        registry: Knows the workers of other machines; None if there are none.
        access: The rule for `GET /metrics`. Applications of this library admit what it admits.
        has_metrics: Answer `GET /metrics`.
    """

    def __init__(
        self,
        application: ASGIApplication,
        folder: Path | None,
        registry: Registry | None,
        access: Access,
        *,
        has_metrics: bool,
    ) -> None:
        self._application = application
        self._access = access
        self._owners = Owners(folder, registry)
        self._has_metrics = has_metrics
        self._metrics = Metrics(self._owners.name)
        self._running = Running(self._metrics)
        self._watchers = Watchers(self._running, self._metrics)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request from a client."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] != "http":
            await self._application(scope, receive, send)
        elif self._has_metrics and scope["method"] == "GET" and scope["path"] == _METRICS_PATH:
            await self._tell_metrics(scope, send)
        elif not await self._passed_on(scope, receive, send):
            await self._own(scope, receive, send)

    async def _tell_metrics(self, scope: Any, send: Send) -> None:
        try:
            self._access.check(scope)
        except Refused as refused:
            await refuse(scope, send, refused, as_text)
        else:
            body, content_type = exposition()
            await _respond(send, 200, body, (b"content-type", content_type.encode()))

    async def _passed_on(self, scope: Any, receive: Receive, send: Send) -> bool:
        """Pass on a request about a run of another process. Return False if it is about none, or about a lost one."""
        if (named := run_in(target_of(scope))) is None:
            return False
        try:
            address = await self._owners.find(named[0], anywhere=not was_forwarded(scope))
        except RegistryLost:
            headers = (b"content-type", b"application/json"), (b"retry-after", b"1")
            await _respond(send, 503, _UNKNOWN, *headers)
            return True
        if address is None:
            return False

        async def respond(send: Send) -> None:
            await forward(address, scope, receive, send)

        self._metrics.count_forwarded()
        try:
            if scope["method"] == "GET":
                await self._watchers.answer(respond, send, run=None, counts=False)
            else:
                await respond(send)
        except Unreachable:
            return False  # the process is gone: the application answers as for any run that is not kept
        return True

    async def _own(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request about a run of this process, or about none. Another worker may have passed it on."""
        if scope["type"] == "http":
            scope.setdefault("state", {})[ACCESS_STATE] = self._access

        async def respond(send: Send) -> None:
            await self._application(scope, receive, send)

        if scope["type"] == "http" and scope["method"] == "GET":
            named = run_in(target_of(scope))
            await self._watchers.answer(respond, send, run=named and named[1], counts=True)
        else:
            await respond(send)

    async def _live(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve the other workers from before the application's start until after its end."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._serving())
            has_answered = False

            async def send_after(message: ASGIMessage) -> None:
                nonlocal has_answered
                has_answered = True
                if message["type"].startswith("lifespan.shutdown"):
                    await stack.aclose()  # the server does not wait for anything after this message
                await send(message)

            try:
                await self._application(scope, receive, send_after)
            except Exception:
                if has_answered:
                    raise
                # It has no start and no end, as the server assumes of an application that raises here.
                await send({"type": "lifespan.startup.complete"})
                while (await receive())["type"] != "lifespan.shutdown":
                    pass
                await send_after({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        name_process(self._owners.name)
        stop_counting = on_every_feed(self._running.begin)
        socket = self._owners.socket
        try:
            async with self._owners.registered(), listening(self._own, socket) if socket else nullcontext():
                with heeding_signals(self._watchers.drain):
                    yield
        finally:
            stop_counting()
            name_process("")


async def _respond(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
