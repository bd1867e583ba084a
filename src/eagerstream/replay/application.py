"""The Messages API double as an ASGI application: check the request, ask the scenario, play the recording.

Every answer is a `Recording`, errors too, and `_Playback` alone writes to the wire.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..recording import Recording
from .endings import ASGIMessage, Send
from .injection import Answer, break_reply
from .received import ReceivedRequest, RequestLog
from .refusals import request_faults
from .scenario import Scenario
from .schedule import Faults
from .scripted import http_error

if TYPE_CHECKING:
    from starlette.requests import Request

Receive: TypeAlias = Callable[[], Awaitable[ASGIMessage]]
ASGIApplication: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

TRANSPORT_STATE: Final = "eagerstream.transport"
"""Key in the state of a scope: the connection that the request came over, for faults that HTTP does not have."""

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""The API's own bound on the body of a request."""

# Headers of a recorded response that were about its own connection; a recording's chunks hold decoded bytes.
_NOT_REPLAYED: Final = frozenset(
    {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"}
)


class _Refused(Exception):
    """Not an error of ours: the answer to a request that the API would refuse."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message

    def answer(self, request_id: str | None = None) -> Recording:
        return http_error(self.status, self.error_type, self.message, request_id=request_id)


def make_application(
    scenario: Scenario, log: RequestLog, *, speed: float, faults: Faults | None = None
) -> ASGIApplication:
    """The application: `POST /v1/messages` is answered by `scenario`, and everything else as the API would.

    Raises:
        ImportError: starlette is not installed.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def messages(request: Request) -> Any:
        arrived_s = monotonic()
        received = log.add(request.headers, request.scope["query_string"].decode("latin-1"))
        try:
            try:
                received.body = _parse_body(await _read_body(request))
                answer = Answer(_answer(scenario, received.body))
            except _Refused as refused:
                answer = Answer(refused.answer(received.request_id))
            else:
                answer = _with_fault(answer.recording, received, faults)
        except ClientDisconnect:
            received.disconnected = True
            received.end()
            return _say_nothing
        received.status = answer.recording.status if answer.headers else None
        return _Playback(answer, received, arrived_s=arrived_s, speed=speed)

    async def about(_: Request) -> PlainTextResponse:
        return PlainTextResponse("A Messages API double that replays recorded streams: POST /v1/messages\n")

    async def refuse(request: Request, error: Exception) -> Any:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            refused = _Refused(404, "not_found_error", f"Not found: {request.scope['path']}")
        else:
            refused = _Refused(error.status_code, "invalid_request_error", error.detail)
        return _Playback(Answer(refused.answer()))

    application = Starlette(
        routes=[Route("/", about), Route("/v1/messages", messages, methods=["POST"])],
        exception_handlers={HTTPException: refuse},
    )
    application.router.redirect_slashes = False  # the API does not either, and a redirected POST hides a wrong URL
    return application


# --- the request ------------------------------------------------------------------------------------------------------


async def _read_body(request: Request) -> bytes:
    """The body of the request; one that is too large is read to its end, since clients read no answer before that."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_REQUEST_BYTES:
            parts.append(part)
        else:
            parts.clear()
    if size > MAX_REQUEST_BYTES:
        raise _Refused(413, "request_too_large", "Request exceeds the maximum size")
    return b"".join(parts)


def _parse_body(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _Refused(400, "invalid_request_error", f"The request body is not valid JSON: {error}") from error


def _answer(scenario: Scenario, body: object) -> Recording:
    if not isinstance(body, dict):
        raise _Refused(400, "invalid_request_error", "Input should be an object")
    for fault in request_faults(body):
        raise _Refused(400, "invalid_request_error", fault)  # the API, too, tells one at a time
    if body.get("stream") is not True:
        raise _Refused(400, "invalid_request_error", "stream: only streamed replies are replayed; it must be true")
    try:
        return scenario.answer(body)
    except Exception as error:
        # A function of the scenario failed. Its author sees why, in the client's own exception.
        what = f"the scenario failed: {type(error).__name__}: {error}"
        raise _Refused(500, "api_error", what) from error


def _with_fault(recording: Recording, received: ReceivedRequest, faults: Faults | None) -> Answer:
    """The reply, and what the schedule has for it. What is an error anyway meets no fault, and uses none up."""
    fault = faults.draw(received.body, recording) if faults is not None and recording.status == 200 else None
    received.fault = fault
    return Answer(recording) if fault is None else break_reply(recording, fault, received.request_id)


# --- the answer -------------------------------------------------------------------------------------------------------


class _Playback:
    """Writes a reply, each chunk on its own and at its time, until it ends or nobody listens any more."""

    def __init__(
        self,
        answer: Answer,
        received: ReceivedRequest | None = None,
        *,
        arrived_s: float = 0.0,
        speed: float = 1.0,
    ) -> None:
        self._recording, self._ending, self._has_headers = answer
        self._received = received
        self._arrived_s = arrived_s
        self._speed = speed

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
        """True where all of it was written; what an ending follows stays open."""
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
                continue  # and there is nothing in the chunk
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
            headers["request-id"] = self._received.request_id
        recorded = {name.lower(): value for name, value in self._recording.headers.items()}
        headers.update((name, value) for name, value in recorded.items() if name not in _NOT_REPLAYED)
        return [(name.encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers.items()]


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the rest of a body that nobody reads


async def _wait_until(due_s: float, gone: asyncio.Future[None]) -> bool:
    """Wait for a time of the monotonic clock; False where the client is gone before it."""
    delay_s = due_s - monotonic()
    if delay_s > 0:
        await asyncio.wait((gone,), timeout=delay_s)
    else:
        await asyncio.sleep(0)  # lets a disconnect be noticed, and other replies have their turn
    return not gone.done()


async def _say_nothing(_scope: MutableMapping[str, Any], _receive: Receive, _send: Send) -> None:
    """The answer to a client that has left."""
