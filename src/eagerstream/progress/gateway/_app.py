"""The endpoint: a client asks for a run, and reads its records at its own speed."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ..._serving.access import Access
from ..._support.redaction import redact_excerpt
from ...errors import EagerStreamError, UsageError
from ...loop import Run
from ...streaming import FeedEnd
from .._endpoint import application, begin, json_response, public_error
from .._exact import marked
from .._hub import Hub
from .._record import Fault, Record
from .._recorder import RunRecorder
from .._request_body import MAX_BODY_BYTES, BadBody, RequestBodies, json_object
from .._sse import STALL_S, EventStream, Write, encode_json
from ._slots import RunsFull, RunSlots

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

_log = logging.getLogger(__name__)

Start: TypeAlias = "Callable[[Mapping[str, Any]], Run | Awaitable[Run]]"
"""Makes the run that a client asks for: an `eagerstream.run(...)` that is not entered yet."""

_MAX_REASON_CHARS: Final = 2_000
_MAX_WAITING_MESSAGES: Final = 100


def gateway_app(
    start: Start,
    *,
    slots: RunSlots,
    hub: Hub | None = None,
    path: str = "/runs",
    max_body_bytes: int = MAX_BODY_BYTES,
    stall_s: float = STALL_S,
    hosts: Collection[str] | None = (),
    origins: Collection[str] = (),
) -> Starlette:
    """Return an ASGI application that holds runs for clients.

    ===============================  ===================================================================================
    `POST /runs`                     starts a run and streams its records, one per server-sent event, from `run_start`
                                     to `run_stop`; 503 with `retry-after` if the gateway is full
    `GET /runs`                      `{"held": ..., "max_runs": ..., "waiting": ..., "max_waiting": ...}`
    `POST /runs/{run}/messages`      `{"message": ..., "when": ...}` speaks to a run, by the `run` of its `run_start`;
                                     see `Run.say`. 202, 404 if it is not held, 429 if 100 messages wait
    `POST /runs/{run}/cancel`        ends a run, see `Run.cancel`: its records go on to `run_stop`. 202, or 404
    ===============================  ===================================================================================

    The run lives in its request. If the client leaves, the run is cancelled: its connection is closed, and its tools
    are cancelled, on other machines too. Events go directly from the run to the client. With `buffer="wait"`, a run is
    read no faster than its client reads, and the rest of the response waits at the API. With `"merge"`, the run
    continues, and its client gets larger deltas. Neither slows other runs, and watchers of the hub slow none.

    The application around it must check who may ask. Requests under other host names, from pages of other origins, and
    with bodies other than JSON are refused.

    Args:
        start: Takes the JSON object from the client, which is not to be trusted, and returns a run; may be async. Its
            `UsageError` is answered with HTTP 400 and its text, an `HTTPException` with its status.
        slots: Places for runs. A request takes one after its body has been read, so slow clients take none.
        hub: Shows the runs to watchers under the id in `run_start`, and approves calls.
        path: The path of the endpoint.
        max_body_bytes: Maximum size of a request; a larger one gets HTTP 413. So does one with more than one value for
            each 40 of these bytes. At the default, parsing takes about 0.1 s, in a thread.
        hosts: Names under which clients reach the application, beside those of loopback, with or without a port. A
            request under another name gets HTTP 421. None allows any, if the application around it checks them.
        origins: Origins of pages that may use it, beside its own, such as `"http://localhost:3000"`. Others get HTTP
            403.
        stall_s: Seconds after which a client that accepts nothing is dropped, and its run cancelled.

    Raises:
        UsageError: A host or an origin is malformed.
        MissingExtraError: The extra `web` is not installed.
    """
    watched = hub or Hub(max_runs=1)  # ended runs are not needed here
    bodies = RequestBodies(max_body_bytes)
    held: dict[str, Run] = {}

    async def post(request: Request) -> ASGIApp:
        async def converse(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                asked = await bodies.read_json(request, json_object)
                async with slots.hold():
                    try:
                        run = await begin(start, asked)
                    except UsageError as error:
                        raise BadBody(400, redact_excerpt(str(error), _MAX_REASON_CHARS)) from error
                    await EventStream(_Telling(run, watched, held).produce, stall_s=stall_s)(scope, receive, send)
            except BadBody as bad:
                await json_response({"error": bad.text}, bad.status)(scope, receive, send)
            except RunsFull as full:
                headers = {"retry-after": str(math.ceil(full.retry_after_s))}
                await json_response({"error": "the gateway is full"}, 503, headers)(scope, receive, send)

        return converse

    async def say(request: Request) -> Response:
        try:
            asked = await bodies.read_json(request, json_object)
            # After the body, which may have taken its time: the run may have ended.
            if (run := held.get(request.path_params["run"])) is None:
                raise BadBody(404, "there is no such run")
            if len(run.result.undelivered) >= _MAX_WAITING_MESSAGES:
                raise BadBody(429, "too many messages wait for this run")
            # Only texts: other blocks may name files and addresses, and the client is not to be trusted.
            if not isinstance(message := asked.get("message"), str):
                raise BadBody(400, "message: a text is required")
            try:
                run.say(message, asked.get("when", "next_turn"))
            except UsageError as error:
                raise BadBody(400, redact_excerpt(str(error), _MAX_REASON_CHARS)) from error
        except BadBody as bad:
            return json_response({"error": bad.text}, bad.status)
        return json_response({}, 202)

    async def cancel(request: Request) -> Response:
        # A body is required, though empty, so that a page of another origin needs a preflight request here, too.
        try:
            await bodies.read_json(request, json_object)
        except BadBody as bad:
            return json_response({"error": bad.text}, bad.status)
        if (run := held.get(request.path_params["run"])) is None:
            return json_response({"error": "there is no such run"}, 404)
        run.cancel()
        return json_response({}, 202)

    async def tell(_: Request) -> Response:
        names = ("held", "max_runs", "waiting", "max_waiting")
        return json_response({name: getattr(slots, name) for name in names})

    return application(
        [
            ("POST", path, post),
            ("GET", path, tell),
            ("POST", f"{path}/{{run}}/messages", say),
            ("POST", f"{path}/{{run}}/cancel", cancel),
        ],
        Access(hosts=hosts, origins=origins),
    )


class _Telling:
    """Runs one run, and writes its records as the iteration takes its events. Meanwhile `held` has it."""

    wants_deltas = False  # as an observer: it needs only the end

    def __init__(self, run: Run, hub: Hub, held: dict[str, Run]) -> None:
        self._run = run
        self._held = held
        self._log = hub.observe(run)
        self._records: list[Record] = []
        self._recorder = RunRecorder(self._records.extend, id=self._log.id, model=run.model)
        self._end = FeedEnd("error", 0, {}, {"type": "Error", "text": "the run did not start"})
        run.observe(self)

    def take(self, events: Sequence[object]) -> None:
        """Do nothing: the events come from the iteration."""

    def end(self, end: FeedEnd) -> None:
        """Keep the end of the run: its record must come after all others."""
        self._end = end

    async def produce(self, write: Write) -> None:
        """Write until the run has ended. If this is cancelled, it leaves the run, which closes all of its parts."""
        try:
            async with self._run as run:
                self._held[self._log.id] = run
                async for event in run:
                    self._recorder.take((event,))
                    await self._write(write)
        except EagerStreamError:
            pass  # the last record reports it
        except Exception as error:
            # An error of a run may quote a model.
            _log.error("a run of the gateway failed: %s", type(error).__name__)
        finally:
            self._held.pop(self._log.id, None)
            self._log.close()  # if the run never started, too, so that its watchers end
        self._recorder.end(self._end)
        await self._write(write)

    async def _write(self, write: Write) -> None:
        records, self._records[:] = self._records[:], []
        if records:
            await write(b"".join(encode_json(marked(_public(record))) for record in records))


def _public(record: Record) -> dict[str, Any]:
    """Return a record for the client, without the details of foreign errors."""
    match record:
        case {"type": "turn_stop" | "restarted" | "run_stop", "error": {} as error}:
            return {**record, "error": public_error(cast("Fault", error))}
        case _:
            return cast("dict[str, Any]", record)
