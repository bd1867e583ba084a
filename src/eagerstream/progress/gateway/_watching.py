"""Responses of server-sent events to watchers, which a process has to end before it stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Final

import anyio

from ..._serving.asgi_server import ASGIMessage, Send
from ._metrics import Metrics
from ._running import Running

_LAST_RECORDS_S: Final = 2.0
"""Time for the last records of a run to reach its watchers, before they are asked to connect again."""
_POLL_S: Final = 0.1
_RESTART: Final = b'event: restart\ndata: {"reason":"this process ends: connect again"}\n\n'


class Watchers:
    """Sends responses. After `drain`, a response of events ends, since it would never end by itself.

    Its client connects again, reaches another process, and continues after the last record that it got.
    """

    def __init__(self, running: Running, metrics: Metrics) -> None:
        self._running = running
        self._metrics = metrics
        self._draining = anyio.Event()

    def drain(self) -> None:
        """End the responses: those about a run of this process after its end, all others now."""
        self._draining.set()

    async def answer(
        self, respond: Callable[[Send], Awaitable[object]], send: Send, *, run: str | None, counts: bool
    ) -> None:
        """Send a response to a GET request.

        Args:
            respond: Sends it.
            send: Takes it.
            run: The id of the watched run; None if it is in another process, or there is none.
            counts: Count a watcher. False if the process of the run counts it.
        """
        failures: list[Exception] = []
        with ExitStack() as stack:
            stream = _Stream(send, lambda: stack.enter_context(self._metrics.watching()) if counts else None)
            async with anyio.create_task_group() as group:
                group.start_soon(self._cut, stream, run, group.cancel_scope)
                try:
                    await respond(stream.send)
                except Exception as error:
                    failures.append(error)  # raised below: the group would wrap it
                group.cancel_scope.cancel()
            if failures:
                raise failures[0]
            if stream.is_cut:
                await stream.end()

    async def _cut(self, stream: _Stream, run: str | None, scope: anyio.CancelScope) -> None:
        await self._draining.wait()
        await stream.started.wait()
        if run is not None and run in self._running:
            while run in self._running:  # noqa: ASYNC110  # it may end in another thread, and no event says so
                await anyio.sleep(_POLL_S)
            await anyio.sleep(_LAST_RECORDS_S)
        stream.is_cut = True
        scope.cancel()


class _Stream:
    """Passes a response on.

    Attributes:
        started: It is one of events, and has started.
        is_cut: It is to end before its end.
    """

    def __init__(self, send: Send, on_start: Callable[[], object]) -> None:
        self._send = send
        self._on_start = on_start
        self._is_between = True  # events
        self._is_over = False
        self.started = anyio.Event()
        self.is_cut = False

    async def send(self, message: ASGIMessage) -> None:
        """Pass on one message of the response."""
        await self._send(message)
        if message["type"] == "http.response.start":
            if _is_stream(message):
                self._on_start()
                self.started.set()
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            self._is_between = body.endswith(b"\n\n") if body else self._is_between
            self._is_over = not message.get("more_body", False)

    async def end(self) -> None:
        """Tell the client to connect again, and end. A client drops the part of an event that it has got."""
        if not self._is_over:
            with anyio.move_on_after(_LAST_RECORDS_S):
                body = _RESTART if self._is_between else b""
                await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _is_stream(start: Any) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in start["headers"]
    )
