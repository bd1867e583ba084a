"""The endpoint: a client of AG-UI asks for a run, and gets its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from eagerstream._support.logs import logger_of
from eagerstream._support.serving.access import Access, Refused
from eagerstream.errors import EagerStreamError, MissingExtraError, UsageError

from .._endpoint import Begun, application, begin, public_error
from .._held import Approval, HeldRun
from .._hub import Hub
from .._request_body import MAX_BODY_BYTES, RequestBodies
from .._sse import EventStream, Write, encode_json
from ._encoder import AGUIEncoder, Event
from ._history import answers_of, check_tools

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp

_MAX_FAULTS: Final = 1_000
_FAILED: Final = "a run of an AG-UI client failed: %s"

_log = logger_of(__name__)

Start: TypeAlias = "Callable[[RunAgentInput], Begun | Awaitable[Begun]]"
"""Makes the run that a client asks for: an `eagerstream.run(...)` that is not entered yet, or a `resume(...)`."""


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
    `Route`. If the client leaves, the run is cancelled: its connection is closed, and its tools are cancelled. If the
    run waits only for a person (`approve=hub.approve`), the client gets an interrupt for each call. The run waits here
    until a request has the answers (`resume`), or its `approve_timeout_s` is over. A run that a journal keeps may end
    meanwhile; `start` then gets the answers, see `answers_of`. Any other error becomes a `RUN_ERROR`: errors of
    eagerstream with their text, without secrets; all others with their class only. The others, and all errors that
    `start` raises, are logged.

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

    agents = _Agents(start, hub or Hub(max_runs=1), RequestBodies(max_body_bytes), min_interval_s)
    return application([("POST", "/{path:path}", agents.answer)], Access(hosts=hosts, origins=origins))


@dataclass(slots=True, eq=False)
class _Agents:
    """The endpoint, and the runs by their ids."""

    start: Start
    hub: Hub
    bodies: RequestBodies
    min_interval_s: float
    held: dict[str, HeldRun[AGUIEncoder]] = field(default_factory=dict)

    async def answer(self, request: Request) -> ASGIApp:
        """Start a run, or continue one that waits for the answers of this request."""
        accepted = {kind.partition(";")[0].strip().lower() for kind in request.headers.get("accept", "").split(",")}
        if not accepted & {"", "*/*", "text/*", "text/event-stream"}:
            raise Refused(406, "events are sent as text/event-stream")
        plain, input = await self.bodies.read_json(request, run_input)
        answers = answers_of(input)
        held = self.held.get(answers[0].run) if answers else None
        if held is not None and all(each.run == held.log.id for each in answers):
            return EventStream(partial(self._continue, held, answers, input, plain.get("state")))
        messages = _before(plain["messages"], {each.call for each in answers})
        new_encoder = partial(AGUIEncoder, thread_id=input.thread_id, messages=messages)
        return EventStream(partial(self._converse, new_encoder, input, plain.get("state")))

    async def _converse(
        self, new_encoder: Callable[..., AGUIEncoder], input: RunAgentInput, state: Any, write: Write
    ) -> None:
        """Drive a run, and send its events. It has left the run when it returns, or the run waits for a person.

        If this is cancelled, so is the run.
        """
        encoder = new_encoder(run_id=input.run_id, state=state)
        has_begun = False
        try:
            run = await begin(self.start, input)
            has_begun = True
            log = self.hub.observe(run)
            held = self.held[log.id] = HeldRun(run, log, self.hub, new_encoder)
            async with held.driving(partial(self._ended, held)):
                # With answers, it is resumed: the run that had asked for them slept in its journal.
                await self._send(held, encoder, write, after=[each for each in answers_of(input) if each.run == run.id])
            if held.failure is not None:
                raise held.failure
        except Exception as error:
            await self._fail(encoder, error, write, has_begun=has_begun)
        await _tell(write, encoder.fail("The run ended early.", code="ended_early"))

    def _ended(self, held: HeldRun[AGUIEncoder], failure: Exception | None) -> None:
        del self.held[held.log.id]
        # No request is left that would report it: that of the start has ended with the question.
        if held.has_asked and failure is not None and not isinstance(failure, EagerStreamError):
            _log.error(_FAILED, type(failure).__name__)

    async def _continue(
        self, held: HeldRun[AGUIEncoder], answers: list[Approval], input: RunAgentInput, state: Any, write: Write
    ) -> None:
        """Decide, and send what comes after that. Cancelling this cancels the run."""
        encoder = held.new_encoder(run_id=input.run_id, state=state)
        try:
            with held.reading():  # before the run goes on
                for each in answers:
                    held.decide(each)
                await self._send(held, encoder, write, after=answers)
        except Exception as error:
            await self._fail(encoder, error, write, has_begun=True)
        await _tell(write, encoder.fail("The run ended early.", code="ended_early"))

    async def _send(
        self, held: HeldRun[AGUIEncoder], encoder: AGUIEncoder, write: Write, after: Sequence[Approval] = ()
    ) -> None:
        async def send(events: list[Event]) -> None:
            await _tell(write, events)
            if encoder.awaits_application:
                held.run.cancel()

        with held.reading():
            await held.read(encoder, send, parks=True, min_interval_s=self.min_interval_s, after=after)

    async def _fail(self, encoder: AGUIEncoder, error: Exception, write: Write, *, has_begun: bool) -> None:
        if not (encoder.is_ended and isinstance(error, EagerStreamError)):  # if not, the records reported it
            # Errors of the application's own code are logged completely. An error of a run may quote a model.
            trace = None if has_begun or isinstance(error, EagerStreamError) else error
            _log.error(_FAILED, type(error).__name__, exc_info=trace)
        told = public_error({"type": type(error).__name__, "text": str(error)})
        await _tell(write, encoder.fail(told["text"], code=told["type"]))


def _before(messages: list[dict[str, Any]], calls: Collection[str]) -> list[dict[str, Any]]:
    """Return the messages before those with these calls: the run that made them is resumed, and tells them again."""
    has_calls = (any(call.get("id") in calls for call in message.get("toolCalls") or ()) for message in messages)
    place = next((place for place, found in enumerate(has_calls) if found), len(messages))
    return messages[:place]


async def _tell(write: Write, events: list[Event]) -> None:
    if events:
        await write(b"".join(encode_json(event) for event in events))


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
