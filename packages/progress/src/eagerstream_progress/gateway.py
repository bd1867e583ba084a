"""A gateway: one process that holds a limited number of runs for HTTP clients.

::

    def start(asked: Mapping[str, Any]) -> eagerstream.Run:
        return eagerstream.run(client, messages=asked["messages"], buffer="wait", model=..., max_tokens=...)

    app = gateway_app(start, slots=RunSlots(1_000))  # uvicorn program:app --timeout-graceful-shutdown 30

A slow client delays only its own run. A slow watcher of the hub delays no run.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio

from eagerstream._support.checks import check_count, check_positive
from eagerstream._support.logs import logger_of
from eagerstream._support.redaction import redact_excerpt
from eagerstream._support.serving.access import Access, Refused
from eagerstream.errors import EagerStreamError, LimitError, UsageError
from eagerstream.loop import Run
from eagerstream.streaming import FeedEnd

from ._endpoint import Begun, application, begin, json_response, public_error
from ._exact import marked
from ._hub import MAX_WAITING_MESSAGES, Hub
from ._record import Fault, Record
from ._recorder import RunRecorder
from ._request_body import MAX_BODY_BYTES, RequestBodies, json_object
from ._sse import STALL_S, EventStream, Write, encode_json

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["RunSlots", "RunsFull", "Start", "gateway_app"]

_log = logger_of(__name__)

Start: TypeAlias = "Callable[[Mapping[str, Any]], Begun | Awaitable[Begun]]"
"""Makes the run that a client asks for: an `eagerstream.run(...)` that is not entered yet, or a `resume(...)`."""

_MAX_REASON_CHARS: Final = 2_000


class RunsFull(LimitError):
    """There is no place for another run, nor in the queue, or the wait was too long.

    Attributes:
        retry_after_s: Seconds after which to ask again.
    """

    def __init__(self, max_runs: int, retry_after_s: float) -> None:
        super().__init__("max_runs", max_runs, "one more run")
        self.retry_after_s = retry_after_s


class RunSlots:
    """Places for runs.

    ::

        slots = RunSlots(100, max_waiting=20)

        async with slots.hold():
            async with eagerstream.run(...) as run:
                ...

    Waiting runs get a place in the order of asking. Use it in one event loop, on asyncio or trio.

    Args:
        max_runs: Maximum number of runs held at once.
        max_waiting: Maximum number of runs that wait for a place. Others are refused at once.
        max_wait_s: Maximum time that a run waits before it is refused, in seconds.
        retry_after_s: Seconds after which a refused client should ask again.

    Raises:
        UsageError: `max_runs` is not a whole number from 1, or `max_waiting` not one from 0; or a time is not positive
            and finite.
    """

    def __init__(
        self, max_runs: int, *, max_waiting: int = 0, max_wait_s: float = 10.0, retry_after_s: float = 1.0
    ) -> None:
        check_count("max_runs", max_runs)
        check_count("max_waiting", max_waiting, least=0)
        check_positive("max_wait_s", max_wait_s, is_finite=True)
        check_positive("retry_after_s", retry_after_s, is_finite=True)
        self.max_runs = max_runs
        self.max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._retry_after_s = retry_after_s
        self._limiter = anyio.CapacityLimiter(max_runs)

    @property
    def held(self) -> int:
        """Number of runs that have a place."""
        return int(self._limiter.borrowed_tokens)

    @property
    def waiting(self) -> int:
        """Number of runs that wait for a place."""
        return self._limiter.statistics().tasks_waiting

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a place for the time of the block. If it is cancelled while it waits, it leaves the queue.

        Raises:
            RunsFull: No place is free and the queue is full, or the wait was too long.
        """
        place = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(place)
        except anyio.WouldBlock:
            await self._wait_for(place)
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(place)

    async def _wait_for(self, place: object) -> None:
        if self.waiting < self.max_waiting:
            with anyio.move_on_after(self._max_wait_s):
                await self._limiter.acquire_on_behalf_of(place)
                return
        raise RunsFull(self.max_runs, self._retry_after_s)


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

    All of them have to reach one process, the one that holds the run: several workers of uvicorn are refused.

    The run lives in its request. If the client leaves, the run is cancelled: its connection is closed, and its tools
    are cancelled, on other machines too. Events go directly from the run to the client. With `buffer="wait"`, a run is
    read no faster than its client reads, and the rest of the response waits at the API. With `"merge"`, the run
    continues, and its client gets larger deltas. Neither slows other runs, and watchers of the hub slow none.

    The application around it must check who may ask. Requests under other host names, from pages of other origins, and
    with bodies other than JSON are refused.

    Args:
        start: Takes the JSON object from the client, which is not to be trusted, and returns a run; may be async. Its
            `UsageError` is answered with HTTP 400 and its text, an `HTTPException` with its status. If the run has the
            option `pings`, the client gets records of the API's signs of life, too.
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
        UsageError: A host or an origin is malformed, or uvicorn runs this program with more than one worker.
    """
    # The supervisor of uvicorn's workers starts each with `config=`, which no public name has.
    # With `--reload`, it starts only one.
    config = getattr(multiprocessing.current_process(), "_kwargs", {}).get("config")
    if getattr(config, "workers", 1) > 1 and not getattr(config, "should_reload", False):
        raise UsageError("a gateway is one process: start uvicorn without --workers, and without WEB_CONCURRENCY")
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
                        raise _refused(error) from error
                    await EventStream(_Telling(run, watched, held).produce, stall_s=stall_s)(scope, receive, send)
            except RunsFull as full:
                headers = {"retry-after": str(math.ceil(full.retry_after_s))}
                await json_response({"error": "the gateway is full"}, 503, headers)(scope, receive, send)

        return converse

    async def run_of(request: Request) -> tuple[Run, dict[str, Any]]:
        """Return the run of a request, and the object in its body."""
        asked = await bodies.read_json(request, json_object)
        # After the body, which may have taken its time: the run may have ended.
        if (run := held.get(request.path_params["run"])) is None:
            raise Refused(404, "there is no such run")
        return run, asked

    async def say(request: Request) -> Response:
        run, asked = await run_of(request)
        if len(run.result.undelivered) >= MAX_WAITING_MESSAGES:
            raise Refused(429, "too many messages wait for this run")
        # Only texts: other blocks may name files and addresses, and the client is not to be trusted.
        if not isinstance(message := asked.get("message"), str):
            raise Refused(400, "message: a text is required")
        try:
            run.say(message, asked.get("when", "next_turn"))
        except UsageError as error:
            raise _refused(error) from error
        return json_response({}, 202)

    async def cancel(request: Request) -> Response:
        # A body is required, though empty, so that a page of another origin needs a preflight request here, too.
        run, _ = await run_of(request)
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


def _refused(error: UsageError) -> Refused:
    return Refused(400, redact_excerpt(str(error), _MAX_REASON_CHARS))


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
