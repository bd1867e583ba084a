"""Endpoints at which clients start runs: the parts that AG-UI, Vercel and the gateway share."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from eagerstream import errors
from eagerstream._support.redaction import redact_excerpt
from eagerstream._support.serving.access import Access, Refused
from eagerstream._support.serving.cross_origin import CrossOrigin
from eagerstream._support.serving.guard import Form, Guard
from eagerstream.loop import Resumed, Run

from ._log import RunLog
from ._record import Fault

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

AskedT = TypeVar("AskedT")
Begun: TypeAlias = Run | Resumed
"""A run that is not entered yet: `eagerstream.run(...)`, or `resume(...)` for one that a journal keeps."""
Endpoint: TypeAlias = Callable[..., Awaitable[Any]]
"""Takes a Starlette request and returns a response, or any other ASGI application. It may raise `Refused`."""

_MAX_ERROR_CHARS: Final = 2_000


def as_json(refused: Refused) -> tuple[str, str]:
    """Return a refusal as `{"error": ...}`."""
    return "application/json", json.dumps({"error": str(refused)})


def application(
    routes: Iterable[tuple[str, str, Endpoint]],
    access: Access | None = None,
    *,
    form: Form = as_json,
) -> Starlette:
    """Return an ASGI application with these routes: method, path, endpoint. It answers what the rule admits.

    Args:
        routes: The routes.
        access: The rule; None if the application around it has one.
        form: The form of what an endpoint refuses.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import Response
    from starlette.routing import Route

    async def refuse(_: Request, refused: Exception) -> Response:
        assert isinstance(refused, Refused)
        media_type, text = form(refused)
        return Response(text, refused.status, media_type=media_type)

    guards = [] if access is None else [Middleware(CrossOrigin, access), Middleware(Guard, access)]
    found = [Route(path, endpoint, methods=[method]) for method, path, endpoint in routes]
    return Starlette(routes=found, middleware=guards, exception_handlers={Refused: refuse})


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a JSON body."""
    from starlette.responses import JSONResponse

    return JSONResponse(value, status, headers)


def no_content() -> Response:
    """Return a response without a body."""
    from starlette.responses import Response

    return Response(status_code=204)


async def begin(start: Callable[[AskedT], Begun | Awaitable[Begun]], asked: AskedT) -> Run:
    """Return the run that a client asks for, not entered yet."""
    begun = start(asked)
    if not isinstance(begun, Run | Resumed):  # a run can be awaited, too, which would end it
        begun = await begun
    return begun if isinstance(begun, Run) else await begun.open()


async def drive(run: Run, log: RunLog) -> Exception | None:
    """Run to the end, and close the log. It is closed even if the run never started, so that its watchers end.

    If this is cancelled, it leaves the run, which closes all of its parts.

    Returns:
        The error that ended the run, or None. The records contain an `EagerStreamError` as well.
    """
    try:
        async with run:
            await run.finish()
    except Exception as error:
        return error
    finally:
        log.close()
    return None


def public_error(error: Fault) -> Fault:
    """Return an error for the client: our own with their text without secrets, all others with their type only."""
    known = getattr(errors, error["type"], None)
    if isinstance(known, type) and issubclass(known, errors.EagerStreamError):
        return {"type": error["type"], "text": redact_excerpt(error["text"], _MAX_ERROR_CHARS)}
    return {"type": error["type"], "text": "The run failed."}
