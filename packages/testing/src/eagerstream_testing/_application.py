"""The Messages API double as an ASGI application: read the request, ask its endpoint, play the response.

Every response is a `Recording`, including errors. Only `Playback` writes to the connection.
"""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from eagerstream._support.serving.asgi_server import ASGIApplication
from eagerstream.recordings import Recording

from ._endpoints import Asked, Behaviour, Endpoint, count_endpoint, message_endpoint
from ._injection import Answer
from ._platforms import DIALECTS, PLAIN, UNVERSIONED, Dialect, Platform, Refused
from ._playback import Playback, say_nothing
from ._received import ReceivedRequest, RequestLog
from ._scripted import http_error

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import Route

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""The API's own bound on the body of a request."""


def make_application(behaviour: Behaviour, log: RequestLog) -> ASGIApplication:
    """Return the application. It answers requests in the dialect of any platform, and all others as the API would.

    Raises:
        ImportError: starlette is not installed.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def about(_: Request) -> PlainTextResponse:
        return PlainTextResponse("A Messages API double that replays recorded streams: POST /v1/messages\n")

    async def refuse(request: Request, error: Exception) -> Any:
        assert isinstance(error, HTTPException)
        query = request.scope["query_string"].decode("latin-1")
        received = log.other(request.method, request.headers, query, path=request.scope["path"])
        received.status = error.status_code
        if behaviour.on_answer is not None:
            behaviour.on_answer(received)
        if error.status_code == 404:
            refused = Refused(404, "not_found_error", f"Not found: {request.scope['path']}")
        else:
            refused = Refused(error.status_code, "invalid_request_error", error.detail)
        return Playback(Answer(_answer_to(refused, received)), received)

    dialects: list[tuple[Platform | None, Dialect]] = [(None, PLAIN), (None, UNVERSIONED), *DIALECTS.items()]
    routes = [Route("/", about)]
    for platform, dialect in dialects:
        # The first path that fits a request answers it.
        served: list[tuple[str, Endpoint]] = []
        if dialect.count_path is not None:
            served.append((dialect.count_path, count_endpoint))
        if dialect.whole_path is None:
            served.append((dialect.path, message_endpoint(streams=None)))
        else:
            served.append((dialect.path, message_endpoint(streams=True)))
            served.append((dialect.whole_path, message_endpoint(streams=False)))
        routes += [route(behaviour, log, platform, dialect, each) for each in served]
    application = Starlette(routes=routes, exception_handlers={HTTPException: refuse})
    application.router.redirect_slashes = False  # the API does not either, and a redirected POST hides a wrong URL
    return application


def route(
    behaviour: Behaviour, log: RequestLog, platform: Platform | None, dialect: Dialect, served: tuple[str, Endpoint]
) -> Route:
    """Return the route of a path and its endpoint. It logs each request, and plays its response."""
    path, endpoint = served
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route

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
                asked = Asked(request.headers, _checked(received.body), request.path_params, received)
                answer = endpoint(behaviour, dialect, asked)
            except Refused as refused:
                answer = Answer(dialect.spoken(_answer_to(refused, received)))
        except ClientDisconnect:
            received.disconnected = True
            received.end()
            return say_nothing
        received.status = answer.recording.status if answer.headers else None
        if behaviour.on_answer is not None:
            behaviour.on_answer(received)
        # Added to the arrival and not slept here: the time that the body took over loopback is a part of it.
        read_s = received.body_bytes / behaviour.read_bytes_per_s / behaviour.speed
        return Playback(
            answer,
            received,
            arrived_s=arrived_s + read_s,
            speed=behaviour.speed,
            id_header=dialect.request_id_header,
        )

    return Route(dialect.root + path, answer_request, methods=["POST"])


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


def _answer_to(refused: Refused, received: ReceivedRequest) -> Recording:
    return http_error(
        refused.status, refused.error_type, refused.message, request_id=received.request_id, details=refused.details
    )
