"""`mcp_apps_app`: an ASGI application that streams the notifications for the apps of a run to the page of a host."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eagerstream._support.serving.access import Access, Refused
from eagerstream.errors import UsageError

from .._endpoint import application
from .._hub import Hub
from .._log import Batch, RunLog, WatcherDropped
from .._merge import in_parts, last_seq
from .._sse import EventStream, Write, encode_json
from ._encoder import AppMessage, MCPAppsEncoder

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

_RETRY_MS: Final = 1_000
_PART_CHARS: Final = 65_536
"""Size of the records of a run to encode at once for a new page. A slow page holds no more than these make."""
_POSITION: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


def mcp_apps_app(
    hub: Hub,
    resources: Mapping[str, str],
    *,
    path: str = "/apps",
    min_interval_s: float = 0.05,
    hosts: Collection[str] | None = (),
    origins: Collection[str] = (),
) -> Starlette:
    """Return an ASGI application for the page of a host: `GET /apps/RUN` streams what the apps of a run get.

    ::

        hub = Hub(data=True)  # with the structured content of results
        app = Starlette(routes=[..., Mount("/", mcp_apps_app(hub, ui_resources(tools)))])

    The page reads it with an `EventSource`, which resumes a lost connection by itself:

    - A message without a type is a JSON array of `AppMessage`. Its id is the position to resume from.
    - `reset`: remove all apps of the run. Messages with their current state follow. It is the first message of a page,
      and comes again only if the connection was lost and the missed records are no longer kept.
    - `end`: the run has ended. Close the `EventSource`, or it would connect again.

    Messages that a page has got do not come again. So each app gets its complete arguments once, and its result once.

    The page decides about everything that an app asks for (`tools/call`, `ui/message`, `ui/open-link`): nothing that
    an app sends comes here. The application around this one must check who may ask: the id of a run opens its stream.
    A run that is not kept is answered with HTTP 404. Requests under other host names and from pages of other origins
    are refused.

    Args:
        hub: Has the runs. With `Hub(data=True)`, results have `structuredContent`, which most apps show.
        resources: Maps the names of tools to the URIs of their apps, see `ui_resources`. It may change.
        path: The path before the id of the run.
        min_interval_s: As for `RunLog.watch`. A page shows about 20 partials of a call in each second at most.
        hosts: Names under which pages reach the application, beside those of loopback, with or without a port. A
            request under another name gets HTTP 421. None allows any, if the application around it checks them.
        origins: Origins of pages that may use it, beside its own, such as `"http://localhost:3000"`. Others get HTTP
            403.

    Raises:
        UsageError: The hub has no contents, or a host or an origin is malformed.
    """
    if not hub.has_contents:
        raise UsageError("apps show the inputs and the results of calls: this hub has contents=False")
    streams = _Streams(hub, resources, min_interval_s)
    return application([("GET", f"{path}/{{run}}", streams.stream)], Access(hosts=hosts, origins=origins))


@dataclass(frozen=True, slots=True)
class _Streams:
    """The endpoint."""

    hub: Hub
    resources: Mapping[str, str]
    min_interval_s: float

    async def stream(self, request: Request) -> Any:
        try:
            log = await self.hub.find(request.path_params["run"])
        except KeyError as error:
            raise Refused(404, "no such run is kept") from error
        except OSError as error:
            raise Refused(503, "the program of this run cannot be reached") from error
        # A browser that reconnects requests the same URL, and sends its position in a header.
        position = request.headers.get("last-event-id", "")
        after = int(position) if _POSITION.fullmatch(position) else 0
        return EventStream(partial(self._write, log, after))

    async def _write(self, log: RunLog, after: int, write: Write) -> None:
        """Write the run to its end. A page that was too slow is cut off without `end`, so that it connects again."""
        await write(b"retry: %d\n\n" % _RETRY_MS)
        after = after if after <= log.seq else 0  # the position in a log of another process
        encoder = MCPAppsEncoder(self.resources)
        is_first = True
        try:
            # A snapshot has no records of void calls, but the page may have their apps.
            async with log.watch(min_interval_s=self.min_interval_s, merges=not after) as watcher:
                async for batch in watcher:
                    if is_first and not log.keeps(0):
                        after = 0
                    if is_first and not after:
                        await self._write_state(encoder, batch, write)
                    else:
                        await _write_rest(encoder, batch, after, write)
                    is_first = False
                    del batch  # the next one may take long
        except WatcherDropped:
            return
        await write(encode_json({}, event="end"))

    async def _write_state(self, encoder: MCPAppsEncoder, batch: Batch, write: Write) -> None:
        # Without an id until all of it was sent: a page that loses the connection before gets all of it again.
        await write(encode_json({}, event="reset", id=""))
        for part in in_parts(batch.records, _PART_CHARS):
            await _write_messages(encoder.encode(part), None, write)
        await _write_messages([], batch.seq, write)


async def _write_rest(encoder: MCPAppsEncoder, batch: Batch, after: int, write: Write) -> None:
    """Write what comes after a position. One message has all of it: a page has either got a batch, or not."""
    encoder.encode(record for record in batch.records if last_seq(record) <= after)
    messages = encoder.encode(record for record in batch.records if last_seq(record) > after)
    if messages:
        await _write_messages(messages, batch.seq, write)


async def _write_messages(messages: list[AppMessage], id: int | None, write: Write) -> None:
    if messages or id is not None:
        await write(encode_json(messages, id=id))
