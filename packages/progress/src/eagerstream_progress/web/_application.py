"""`web_app`: the page, the events that it reads, and the endpoints by which it acts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.to_thread

from eagerstream._support.redaction import redact_excerpt
from eagerstream._support.serving.access import Access, Refused
from eagerstream._support.serving.asgi_server import ASGIApplication
from eagerstream._support.serving.cross_origin import CrossOrigin
from eagerstream._support.serving.guard import as_text
from eagerstream.errors import LimitError, UsageError

from .._actions import ACTION_PATHS, MAX_REASON_CHARS, Decide, read_action
from .._endpoint import Endpoint, application, no_content
from .._hub import Hub
from .._log import WatcherDropped
from .._record import Record
from .._request_body import RequestBodies, json_object
from .._saved import saved_lines
from .._sse import EventStream, Write, encode_json
from ._access import PageGuard
from ._journal_pages import JournalPages
from ._one_file import page_of
from ._static import StaticFiles

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ._journal_pages import WatchedJournal

_MAX_BODY_BYTES: Final = 16_384
_RETRY_MS: Final = 1_000
_DOWNLOADS: Final = {"jsonl": "application/jsonl", "html": "text/html"}
_PLACE_OF_LINK: Final = b"<!-- journal -->"


def web_app(
    hub: Hub,
    *,
    token: str | None,
    hosts: Collection[str] | None = (),
    origins: Collection[str] = (),
    journal: WatchedJournal | None = None,
) -> ASGIApplication:
    """Return the page as an ASGI application, to be mounted under any path that ends with a slash.

    ::

        app = Starlette(routes=[Mount("/runs", web_app(hub, token=None, hosts=["tools.example.org"]))])

    Programs and other pages can use its other paths. Programs send the token as `Authorization: Bearer`.

    - `events` (GET) sends server-sent events with JSON:

      - `runs`: the list of runs, now and at each change.
      - `records`: with `?run=ID`, its records as `Batch.json`. The event's id is the number to continue from, as
        `Last-Event-ID` or `?after=`.
      - `clock`: `{"elapsed_s": ...}`, the seconds since the start of a live run, without gaps before it was resumed.
      - `end`: sent after the last record of the run.
      - `gone`: the run is not kept.
      - `alive`: sent after 15 s of silence, so that a page can tell a quiet run from a lost connection.
      - `dropped`: the client was too slow, and should connect again.

    - `runs/ID/records.jsonl` (GET) sends the records of a run as `save_records` writes them, with secrets masked.
      `runs/ID/page.html` (GET) sends the file that `save_page` writes.
    - `runs/ID/decide` (POST) decides about a call. The body is JSON: `block`, `approved`, `reason`.
    - `runs/ID/messages` (POST) says something to the model: `message`, and perhaps `when`, see `Run.say`.
    - `runs/ID/cancel` (POST) cancels the run. With `block`, and perhaps `reason`, it cancels only that call.

      These three answer with 204 when it is done, and with 409 if nothing waits for it. If the run is in another
      process, see `Hub`, which cannot be reached or does not answer, the status is 503: it may be done or not.
    - `journal` (GET), if there is one, is a page with its runs. `journal/runs` (GET) sends them as JSON.
      `journal/run?id=ID` (GET) sends the history of one as text, as `eagerstream runs show` prints it.
      `journal/decide` (POST) decides about a call that waits: `run`, `call`, `approved`, `reason`. `journal/cancel`
      (POST) cancels a run: `run`.
    - `static/records.js` (GET) is a JavaScript module, the built package `eagerstream-records`: `follow(url)` reads
      `events` and resumes after a lost connection, `RunReader` builds the state of a run, and
      `applyPatch(value, patch)` applies the patch of an `input_delta` record.

    Args:
        hub: The runs.
        token: The secret that opens the page, see `new_token`. Pass None only if the application around it checks
            access.
        hosts: Names under which the page is requested, beside those of loopback, with or without a port. None allows
            any, if the application around it checks them.
        origins: Origins of pages from elsewhere that may use its other paths, for reading and for acting. Responses
            allow it to their browsers (CORS). Such a page sends the token as programs do, because cookies are not sent.
        journal: A journal whose runs have a page, too. Everyone who can open the page can decide about their calls.

    Raises:
        UsageError: The token is not 16 to 256 letters, digits or `-._~`, or a host or an origin is malformed.
    """
    access = Access(hosts=hosts, origins=origins, token=token, has_pages=True)
    return guarded_page(hub, access, journal)


def guarded_page(hub: Hub, access: Access, journal: WatchedJournal | None) -> ASGIApplication:
    """Return the application of `web_app`, with this rule."""
    static = StaticFiles()
    pages = _Pages(hub, static, has_journal=journal is not None)
    routes: list[tuple[str, str, Endpoint]] = [
        ("GET", "/", pages.page),
        ("GET", "/static/{digest}/{name}", static.get),
        ("GET", "/static/{name}", static.get),
        ("GET", "/events", pages.events),
        ("GET", "/runs/{run}/records.jsonl", pages.records),
        ("GET", "/runs/{run}/page.html", pages.saved_page),
        *(("POST", f"/runs/{{run}}/{path}", partial(pages.act, path)) for path in ACTION_PATHS),
    ]
    if journal is not None:
        routes += JournalPages(journal, static).routes()
    return CrossOrigin(PageGuard(application(routes, form=as_text), access), access)


class _Pages:
    """The endpoints."""

    def __init__(self, hub: Hub, static: StaticFiles, *, has_journal: bool) -> None:
        self._hub = hub
        self._bodies = RequestBodies(_MAX_BODY_BYTES)
        self._saving = anyio.CapacityLimiter(1)  # a download at a time: masking takes long
        link = b'<p><a id="journal-link" href="journal">Runs of the journal</a></p>' if has_journal else b""
        self._page = static.page("page.html").replace(_PLACE_OF_LINK, link)

    async def page(self, _: Request) -> Response:
        from starlette.responses import Response

        return Response(self._page, media_type="text/html")

    async def records(self, request: Request) -> Response:
        return await self._download(request, "jsonl", lambda records: saved_lines(records, redact=True))

    async def saved_page(self, request: Request) -> Response:
        return await self._download(request, "html", lambda records: page_of([records]).encode())

    async def _download(self, request: Request, kind: str, make: Callable[[list[Record]], bytes]) -> Response:
        """Return a run as a file. Secrets are masked: such a file is passed on."""
        from starlette.responses import Response

        run: str = request.path_params["run"]
        try:
            log = await self._hub.find(run)
        except KeyError as error:
            raise Refused(404, "This run is not kept.") from error
        except OSError as error:
            raise Refused(503, "The program of this run cannot be reached.") from error
        if log.ends[0] is None:
            raise Refused(409, "This run has not started.")
        body = await anyio.to_thread.run_sync(lambda: make(log.records()), limiter=self._saving)
        name = re.sub(r"[^\w.-]+", "_", run, flags=re.ASCII)[:100]
        headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
        return Response(body, media_type=_DOWNLOADS[kind], headers=headers)

    async def events(self, request: Request) -> Any:
        run = request.query_params.get("run")
        # A browser that reconnects requests the same URL, and sends its position in a header.
        after = _number(request.headers.get("last-event-id")) or _number(request.query_params.get("after"))

        async def produce(write: Write) -> None:
            await write(b"retry: %d\n\n" % _RETRY_MS)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write_runs, write)
                if run is not None and not await self._write_records(write, run, after):
                    tasks.cancel_scope.cancel()  # the client reconnects and gets a snapshot

        # No comment: a browser shows those to no page.
        return EventStream(produce, heartbeat=encode_json({}, event="alive"))

    async def _write_runs(self, write: Write) -> None:
        async with aclosing(self._hub.changes()) as changes:
            async for _ in changes:
                await write(encode_json(self._hub.summaries(), event="runs"))

    async def _write_records(self, write: Write, run: str, after: int) -> bool:
        """Write the records of one run to its end. Return False if the client has to connect again for them."""
        try:
            log = await self._hub.find(run)
        except KeyError:
            await write(encode_json({}, event="gone"))
            return True
        except OSError:
            return False
        if self._hub.is_live(run) and (start := cast("dict[str, Any] | None", log.latest_start)) is not None:
            # The newest record may be old, for example if a call waits for a person.
            elapsed = datetime.now(UTC) - datetime.fromisoformat(start["started_at"])
            await write(encode_json({"elapsed_s": start["at_s"] + elapsed.total_seconds()}, event="clock"))
        is_within = False  # inside a message in pieces: the client discards an unfinished one, and no other can follow
        try:
            async with log.watch(after=after) as watcher:
                async for batch in watcher:
                    head = b"event: records\nid: %d\ndata: " % batch.seq
                    message = chain((head,), await watcher.encoded(batch), (b"\n\n",))
                    is_within = batch.is_large
                    await write(message if is_within else b"".join(message))
                    is_within = False
                    del batch, message  # the next one may take long
        except WatcherDropped as error:
            if not is_within:
                await write(encode_json({"reason": str(error)}, event="dropped"))
            return False
        await write(encode_json({}, event="end"))
        return True

    async def act(self, path: str, request: Request) -> Response:
        """Decide about a call, say something to the model, or cancel."""
        fields = await self._bodies.read_json(request, json_object)
        try:
            action = read_action(path, fields)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        try:
            await self._hub.act(request.path_params["run"], action)
        except KeyError as error:
            is_decision = isinstance(action, Decide)
            text = "This call no longer waits for a decision." if is_decision else "This is not under way here."
            raise Refused(409, text) from error
        except LimitError as error:
            raise Refused(429, "Too many messages wait for this run.") from error
        except UsageError as error:
            raise Refused(409, redact_excerpt(str(error), MAX_REASON_CHARS)) from error
        except OSError as error:
            raise Refused(503, "The program of this run does not answer. It may have been done, or not.") from error
        return no_content()


def _number(text: str | None) -> int:
    """Return a number that a client got from us; 0, the start, for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 15 else 0
