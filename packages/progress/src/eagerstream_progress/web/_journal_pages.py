"""The page of a journal: its runs, and decisions about calls of runs that need no process meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio

from eagerstream import errors
from eagerstream._support.redaction import redact, redact_excerpt
from eagerstream._support.serving.access import Refused

from .._actions import read_reason
from .._endpoint import Endpoint, json_response, no_content
from .._request_body import RequestBodies, json_object
from ._static import StaticFiles

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MAX_RUNS: Final = 200
_MAX_WAITING: Final = 500
_MAX_RUNNING: Final = 50  # whose calls are shown: each reads all entries of a run
_MAX_INPUT_CHARS: Final = 50_000
_TOO_DEEP: Final = "[too deep]"  # in place of what `redact` does not show
_MAX_BODY_BYTES: Final = 16_384
_MAX_PAGE_CHARS: Final = 500_000
_HEAD_LINES: Final = 2
_NO_RUN: Final = "There is no such run."


class JournalCall(Protocol):
    """A call of a run that waits for a decision."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """The name of its tool."""
        ...

    @property
    def input(self) -> Any:
        """Its input; the text of the input if that is not complete."""
        ...


class JournalSummary(Protocol):
    """A run in a list. It has changed if one of the numbers has."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...

    @property
    def fence(self) -> int:
        """The number of its last owner."""
        ...

    @property
    def beat(self) -> int:
        """It grows while the owner lives."""
        ...

    @property
    def size_bytes(self) -> int:
        """Size of its entries."""
        ...

    @property
    def messages(self) -> int:
        """Number of messages in its inbox."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data: `run_id`, `status`, `owner`, `idle_s`, `messages` and `facts`."""
        ...


class JournalView(Protocol):
    """A run as its journal has it."""

    @property
    def approvals(self) -> Sequence[JournalCall]:
        """The calls that wait for a decision."""
        ...

    def lines(self) -> Iterator[str]:
        """Return the run as lines of text. The first two say how it is."""
        ...


class WatchedJournal(Protocol):
    """A journal whose runs have a page; `eagerstream_durable.journal.Journal` is one."""

    async def runs(self, status: str = "", *, limit: int) -> Sequence[JournalSummary]:
        """Return runs, the last changed one first; only those with this status, if it is given."""
        ...

    async def view(self, run_id: str) -> JournalView:
        """Return the history and the open calls of a run."""
        ...

    async def decide(self, run_id: str, call_id: str, decision: bool | str) -> object:  # noqa: FBT001 - as of the journal
        """Decide about a call."""
        ...

    async def cancel(self, run_id: str) -> object:
        """Cancel a run."""
        ...


class JournalPages:
    """The endpoints of the page of a journal."""

    def __init__(self, journal: WatchedJournal, static: StaticFiles) -> None:
        self._journal = journal
        self._bodies = RequestBodies(_MAX_BODY_BYTES)
        self._deciding = anyio.Lock()
        self._views: dict[str, tuple[tuple[int, ...], list[dict[str, Any]]]] = {}
        self._page = static.page("journal.html")

    def routes(self) -> list[tuple[str, str, Endpoint]]:
        """Return method, path and endpoint of each."""
        return [
            ("GET", "/journal", self.page),
            ("GET", "/journal/runs", self.runs),
            ("GET", "/journal/run", self.run),
            ("POST", "/journal/decide", self.decide),
            ("POST", "/journal/cancel", self.cancel),
        ]

    async def page(self, _: Request) -> Response:
        from starlette.responses import Response

        return Response(self._page, media_type="text/html")

    async def runs(self, _: Request) -> Response:
        """Return the last changed runs and those that wait, and the calls that wait for a decision."""
        try:
            found = {each.run_id: each for each in await self._journal.runs(limit=_MAX_RUNS)}
            waiting = await self._journal.runs("waiting", limit=_MAX_WAITING)
            running = await self._journal.runs("running", limit=_MAX_RUNNING)
            found |= {each.run_id: each for each in waiting}  # for days, perhaps: others were changed since
            asked = {each.run_id: await self._asked(each) for each in (*waiting, *running)}
        except errors.JournalError as error:
            return json_response({"error": str(error)}, 503)
        self._views = {run_id: view for run_id, view in self._views.items() if run_id in asked}
        return json_response([_shown(each, asked.get(each.run_id, [])) for each in found.values()])

    async def run(self, request: Request) -> Response:
        """Return the history of a run as text, as `eagerstream runs show` prints it."""
        from starlette.responses import PlainTextResponse

        try:
            view = await self._journal.view(request.query_params.get("id", ""))
        except errors.EagerStreamError as error:
            raise _refused(error) from error
        lines = [*view.lines()]
        end: list[str] = []
        left_chars = _MAX_PAGE_CHARS
        while len(lines) > _HEAD_LINES and (left_chars := left_chars - len(lines[-1]) - 1) >= 0:
            end.append(lines.pop())
        cut = ["", "(the beginning is left out; `eagerstream runs show` prints all)"] if lines[_HEAD_LINES:] else []
        return PlainTextResponse("\n".join([*lines[:_HEAD_LINES], *cut, *reversed(end), ""]))

    async def _asked(self, summary: JournalSummary) -> list[dict[str, Any]]:
        # Browsers ask every two seconds, so a run is read again only after a change.
        version = (summary.fence, summary.beat, summary.size_bytes, summary.messages)
        known, asked = self._views.get(summary.run_id, ((), []))
        if version != known:
            try:
                asked = [_shown_call(call) for call in (await self._journal.view(summary.run_id)).approvals]
            except errors.JournalError:
                asked = []  # it was deleted, or is damaged: the others can be decided about all the same
            self._views[summary.run_id] = version, asked
        return asked

    async def decide(self, request: Request) -> Response:
        match await self._bodies.read_json(request, json_object):
            case {"run": str(run), "call": str(call), "approved": bool(approved), **rest}:
                reason = rest.get("reason")
            case _:
                raise Refused(400, "A decision has texts run and call, and approved: true or false.")
        try:
            read_reason(reason)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        if not run.isprintable():
            raise Refused(404, _NO_RUN)  # half a surrogate pair, for example, which no database takes
        try:
            async with self._deciding:  # if two people decide at the same time, the second one gets a refusal
                if all(each.id != call for each in (await self._journal.view(run)).approvals):
                    raise Refused(409, "Nothing waits for a decision there.")
                await self._journal.decide(run, call, decision=approved or reason or False)
        except errors.EagerStreamError as error:
            raise _refused(error) from error
        return no_content()

    async def cancel(self, request: Request) -> Response:
        match await self._bodies.read_json(request, json_object):
            case {"run": str(run)}:
                pass
            case _:
                raise Refused(400, "A cancellation has a text run.")
        try:
            await self._journal.cancel(run)
        except errors.EagerStreamError as error:
            raise _refused(error) from error
        return no_content()


def _shown(summary: JournalSummary, asked: list[dict[str, Any]]) -> dict[str, Any]:
    known = summary.to_dict()
    facts = {name: known["facts"].get(name) for name in ("model", "turns", "tokens")}
    return {
        **{name: known[name] for name in ("run_id", "status", "owner", "idle_s", "messages")},
        **facts,
        "asked": asked,
    }


def _shown_call(call: JournalCall) -> dict[str, Any]:
    given = call.input
    text = given if isinstance(given, str) else json.dumps(redact(given), ensure_ascii=False, indent=2)
    is_cut = len(text) > _MAX_INPUT_CHARS or _TOO_DEEP in text  # nobody approves there what is not shown
    return {"id": call.id, "name": call.name, "input": redact_excerpt(text, _MAX_INPUT_CHARS), "is_cut": is_cut}


def _refused(error: errors.EagerStreamError) -> Refused:
    if isinstance(error, errors.RunNotFoundError):
        return Refused(404, _NO_RUN)
    return Refused(409 if isinstance(error, errors.LimitError | errors.UsageError) else 503, str(error))
