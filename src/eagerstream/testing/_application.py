"""The Messages API double as an ASGI application: check the request, ask the scenario, play the recording.

Every response is a `Recording`, including errors. Only `_Playback` writes to the connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from .._serving.asgi_server import TRANSPORT_STATE, ASGIApplication, ASGIMessage, Receive, Send
from ..recordings import Recording
from ..wire import EagerSupport
from ._chat import CHAT_DIALECTS
from ._injection import Answer, break_reply
from ._platforms import DIALECTS, PLAIN, Dialect, Platform, Refused
from ._received import ReceivedRequest, RequestLog
from ._scenario import Scenario
from ._schedule import Faults
from ._scripted import http_error
from ._threads import MessageThreads

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""The API's own bound on the body of a request."""

# Headers that describe the connection of the recorded response. The chunks of a recording hold decoded bytes.
_NOT_REPLAYED: Final = frozenset(
    {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"}
)


@dataclass(frozen=True)
class Behaviour:
    """The settings of the double.

    Attributes:
        scenario: Chooses the response to each request.
        speed: Factor by which to play faster than recorded.
        faults: The schedule of faults; `None` for no faults.
        eager: The accepted ways to ask for eager input streaming, by model. A model that is not listed accepts any.
        on_answer: Called with each request when its response starts.
        threads: Keeps the conversations of message threads; None ignores the field.
        read_bytes_per_s: Rate at which the bodies of requests are read. The response starts that much later.
    """

    scenario: Scenario
    speed: float = 1.0
    faults: Faults | None = None
    eager: Mapping[str, EagerSupport] | EagerSupport = "any"
    on_answer: Callable[[ReceivedRequest], object] | None = None
    threads: MessageThreads | None = None
    read_bytes_per_s: float = inf

    def eager_support(self, model: object) -> EagerSupport:
        """Return the ways that this model accepts."""
        return self.eager if isinstance(self.eager, str) else self.eager.get(str(model), "any")


def make_application(behaviour: Behaviour, log: RequestLog) -> ASGIApplication:
    """Return the application. It answers requests in the dialect of any platform, and all others as the API would.

    Raises:
        ImportError: starlette is not installed.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    def messages(platform: Platform | None, dialect: Dialect) -> Callable[[Request], Awaitable[Any]]:
        async def answer_request(request: Request) -> Any:
            arrived_s = monotonic()
            scope = request.scope
            query = scope["query_string"].decode("latin-1")
            received = log.add(request.headers, query, platform=platform, path=scope["path"])
            try:
                try:
                    dialect.check_credentials(request.headers)
                    raw = await _read_body(request)
                    received.body_bytes = len(raw)
                    received.body = received.complete = _parse_body(raw)
                    body = dialect.request(_checked(received.body), request.path_params)
                    betas = dialect.betas(request.headers, received.body)
                    thread = body.get("thread")
                    if behaviour.threads is not None:
                        body = behaviour.threads.complete(body, betas, received)
                    received.complete = body
                    recording = _answer(behaviour, body, betas, dialect)
                except Refused as refused:
                    answer = Answer(dialect.spoken(_answer_to(refused, received)))
                else:
                    answer = _with_fault(dialect, recording, received, behaviour.faults)
                    if behaviour.threads is not None:
                        behaviour.threads.keep(thread, body, recording, breaks_off=received.fault is not None)
            except ClientDisconnect:
                received.disconnected = True
                received.end()
                return _say_nothing
            received.status = answer.recording.status if answer.headers else None
            if behaviour.on_answer is not None:
                behaviour.on_answer(received)
            # Added to the arrival and not slept here: the time that the body took over loopback is a part of it.
            read_s = received.body_bytes / behaviour.read_bytes_per_s / behaviour.speed
            return _Playback(
                answer,
                received,
                arrived_s=arrived_s + read_s,
                speed=behaviour.speed,
                id_header=dialect.request_id_header,
            )

        return answer_request

    async def about(_: Request) -> PlainTextResponse:
        return PlainTextResponse("A Messages API double that replays recorded streams: POST /v1/messages\n")

    async def refuse(request: Request, error: Exception) -> Any:
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            refused = Refused(404, "not_found_error", f"Not found: {request.scope['path']}")
        else:
            refused = Refused(error.status_code, "invalid_request_error", error.detail)
        return _Playback(Answer(_answer_to(refused)))

    chats = [(None, dialect) for dialect in CHAT_DIALECTS.values()]
    dialects: list[tuple[Platform | None, Dialect]] = [(None, PLAIN), *DIALECTS.items(), *chats]
    application = Starlette(
        routes=[
            Route("/", about),
            *(
                Route(dialect.root + dialect.path, messages(platform, dialect), methods=["POST"])
                for platform, dialect in dialects
            ),
        ],
        exception_handlers={HTTPException: refuse},
    )
    application.router.redirect_slashes = False  # the API does not either, and a redirected POST hides a wrong URL
    return application


# --- the request ------------------------------------------------------------------------------------------------------


async def _read_body(request: Request) -> bytes:
    """Return the body of the request.

    A body that is too large is read to its end, because clients read no response before that.

    Raises:
        Refused: The body has more than `MAX_REQUEST_BYTES`.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_REQUEST_BYTES:
            parts.append(part)
        else:
            parts.clear()
    if size > MAX_REQUEST_BYTES:
        raise Refused(413, "request_too_large", "Request exceeds the maximum size")
    return b"".join(parts)


def _parse_body(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "invalid_request_error", f"The request body is not valid JSON: {error}") from error


def _checked(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise Refused(400, "invalid_request_error", "Input should be an object")
    return body


def _answer(behaviour: Behaviour, body: dict[str, Any], betas: Sequence[str], dialect: Dialect) -> Recording:
    for fault in dialect.faults(body, betas, behaviour.eager_support(body.get("model"))):
        raise Refused(400, "invalid_request_error", fault)  # the API also reports one at a time
    try:
        return behaviour.scenario.answer(body)
    except Exception as error:
        # A function of the scenario failed. Its author sees the reason in the client's exception.
        what = f"the scenario failed: {type(error).__name__}: {error}"
        raise Refused(500, "api_error", what) from error


def _answer_to(refused: Refused, received: ReceivedRequest | None = None) -> Recording:
    request_id = received.request_id if received is not None else None
    return http_error(
        refused.status, refused.error_type, refused.message, request_id=request_id, details=refused.details
    )


def _with_fault(dialect: Dialect, recording: Recording, received: ReceivedRequest, faults: Faults | None) -> Answer:
    """Return the response, with the fault that the schedule has for it. An error gets no fault, and uses none up."""
    recording = dialect.spoken(recording)
    fault = faults.draw(received.complete, recording) if faults is not None and recording.status == 200 else None
    received.fault = fault
    answer = Answer(recording) if fault is None else break_reply(recording, fault, received.request_id)
    return dialect.answered(answer, received.body)


# --- the answer -------------------------------------------------------------------------------------------------------


class _Playback:
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


async def _say_nothing(_scope: MutableMapping[str, Any], _receive: Receive, _send: Send) -> None:
    """Send nothing, because the client has disconnected."""
