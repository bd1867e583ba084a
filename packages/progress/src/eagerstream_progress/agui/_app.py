"""The endpoint: a client of AG-UI asks for a run, and gets its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from eagerstream._support.logs import logger_of
from eagerstream._support.serving.access import Access, Refused
from eagerstream.errors import EagerStreamError, MissingExtraError, UsageError
from eagerstream.loop import Run

from .._endpoint import application, begin, drive, public_error
from .._hub import Hub
from .._request_body import MAX_BODY_BYTES, RequestBodies
from .._sse import EventStream, Write, encode_json
from ._encoder import AGUIEncoder, Event
from ._history import check_tools

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp

_MAX_FAULTS: Final = 1_000

_log = logger_of(__name__)

Start: TypeAlias = "Callable[[RunAgentInput], Run | Awaitable[Run]]"
"""Makes the run that a client asks for: an `eagerstream.run(...)` that is not entered yet."""


def agui_app(
    start: Start,
    *,
    hub: Hub | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    min_interval_s: float = 0.05,
    hosts: Collection[str] | None = (),
    origins: Collection[str] = (),
) -> Starlette:
    """Return an ASGI application that speaks AG-UI. Each POST starts a run and streams its events.

        def start(input: RunAgentInput) -> eagerstream.Run:
            return eagerstream.run(client, tools=[make_file], messages=messages_of(input), model=..., max_tokens=...)

        app = agui_app(start)

    It responds at any path. Run it alone, or mount it: `Mount("/agent", agui_app(start))`, or as the endpoint of a
    `Route`. The run lives in its request. If the client leaves, the run is cancelled: its connection is closed, and its
    tools are cancelled. Any other error becomes a `RUN_ERROR`: errors of eagerstream with their text, without secrets;
    all others with their class only. The others, and all errors that `start` raises, are logged.

    The application around it must check who may ask. Requests under other host names, from pages of other origins, and
    with bodies other than JSON are refused.

    Args:
        start: Takes the request as `ag_ui.core.RunAgentInput` and returns a run; may be async. Do not trust the
            client's data in it: see `messages_of`, `system_of` and `frontend_tools`.
        hub: Shows the runs to watchers too, for example on the web page. Its `approve` works as usual.
        max_body_bytes: Maximum size of a request; a larger one gets HTTP 413. So does one with more than one value for
            each 40 of these bytes. Raise it for conversations with images: the client sends them again with each
            message.
        hosts: Names under which clients reach the application, beside those of loopback, with or without a port. A
            request under another name gets HTTP 421. None allows any, if the application around it checks them.
        origins: Origins of pages that may use it, beside its own, such as `"http://localhost:3000"`. Others get HTTP
            403.
        min_interval_s: Fragments that come within this time are sent as one, in seconds.

    Raises:
        UsageError: A host or an origin is malformed.
        MissingExtraError: The extra `agui` is not installed.
    """
    try:
        import_module("ag_ui.core")  # needed at the first request
    except ImportError as error:
        raise MissingExtraError("agui", error.name or "ag_ui", package="eagerstream-progress") from error

    bodies = RequestBodies(max_body_bytes)

    async def answer(request: Request) -> ASGIApp:
        accepted = {kind.partition(";")[0].strip().lower() for kind in request.headers.get("accept", "").split(",")}
        if not accepted & {"", "*/*", "text/*", "text/event-stream"}:
            raise Refused(406, "events are sent as text/event-stream")
        plain, input = await bodies.read_json(request, run_input)
        encoder = AGUIEncoder(
            thread_id=input.thread_id, run_id=input.run_id, messages=plain["messages"], state=plain.get("state")
        )

        async def produce(write: Write) -> None:
            async def tell(events: list[Event]) -> None:
                if events:
                    await write(b"".join(encode_json(event) for event in events))

            has_begun = False
            try:
                run = await begin(start, input)
                has_begun = True
                await _converse(run, hub or Hub(), encoder, tell, min_interval_s)
            except Exception as error:
                if not (encoder.is_ended and isinstance(error, EagerStreamError)):  # if not, the records reported it
                    # Errors of the application's own code are logged completely. An error of a run may quote a model.
                    trace = None if has_begun or isinstance(error, EagerStreamError) else error
                    name = type(error).__name__
                    _log.error("a run of an AG-UI client failed: %s", name, exc_info=trace)
                told = public_error({"type": type(error).__name__, "text": str(error)})
                await tell(encoder.fail(told["text"], code=told["type"]))
            await tell(encoder.fail("The run ended early.", code="ended_early"))

        return EventStream(produce)

    return application([("POST", "/{path:path}", answer)], Access(hosts=hosts, origins=origins))


def run_input(plain: Any) -> tuple[dict[str, Any], RunAgentInput]:
    """Return the value of a body, and the request that it contains.

    Raises:
        Refused: The body is not a request (422), is nested too deep (400), or has a tool with too large a schema (413).
    """
    from ag_ui.core import RunAgentInput
    from pydantic import ValidationError

    try:
        input = RunAgentInput.model_validate(plain)
        check_tools(input)
    except ValidationError as error:
        # pydantic describes each fault. If there are very many, the answer has only their number.
        if (count := error.error_count()) > _MAX_FAULTS:
            told = f"it has {count:,} faults"
        else:
            faults = error.errors(include_input=False, include_url=False)
            told = ", ".join(".".join(map(str, fault["loc"])) for fault in faults[:10])
        raise Refused(422, f"not a RunAgentInput: {told:.1000}") from None
    except RecursionError as error:
        raise Refused(400, "the body is nested too deep") from error
    except UsageError as error:
        raise Refused(413, str(error)) from error
    return plain, input


async def _converse(
    run: Run,
    hub: Hub,
    encoder: AGUIEncoder,
    tell: Callable[[list[Event]], Awaitable[None]],
    min_interval_s: float,
) -> None:
    """Drive the run to its end, and send its events. It has left the run when it returns.

    If this is cancelled, so is the run.
    """
    failure: Exception | None = None  # the group would wrap it
    log = hub.observe(run)

    async def drive_run() -> None:
        nonlocal failure
        failure = await drive(run, log)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drive_run)
        try:
            async with log.watch(min_interval_s=min_interval_s) as watcher:
                async for batch in watcher:
                    await tell(encoder.feed(batch.records))
                    if encoder.awaits_application:
                        run.cancel()
        except Exception as error:
            tasks.cancel_scope.cancel()
            failure = error
    if failure is not None:
        raise failure
