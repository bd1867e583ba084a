"""`vercel_app`: an ASGI endpoint that starts a run for each message of a chat and streams it as UI message chunks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from eagerstream._support.logs import logger_of
from eagerstream._support.serving.access import Access, Refused
from eagerstream.calls import RunStatus
from eagerstream.errors import EagerStreamError
from eagerstream.loop import Run

from .._actions import MAX_REASON_CHARS
from .._endpoint import Begun, application, begin, no_content
from .._held import Approval, HeldRun
from .._hub import Hub
from .._log import WatcherDropped
from .._request_body import MAX_BODY_BYTES, RequestBodies, json_object
from .._sse import EventStream, Write, encode_message
from ._encoder import Chunk, SDKVersion, UIMessageEncoder, describe_error
from ._messages import UIMessageError, to_messages

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

_log = logger_of(__name__)

_HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
"""The SDK's headers, except `connection: keep-alive`: HTTP/2 forbids it, and it is the default of HTTP/1.1."""

_MAX_ENDED: Final = 20

_DONE: Final = encode_message("[DONE]")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request of `useChat`.

    Attributes:
        id: The id of the chat. The client chooses it.
        ui_messages: The conversation so far, as the client has it.
        trigger: `"submit-message"` or `"regenerate-message"`.
        message_id: The id of the message that is sent again or regenerated; None for a new one.
        body: The complete request. It also has the fields that the page passes to `useChat` or `sendMessage` as `body`.
        headers: The headers of the HTTP request, with names in lower case. `start` must check who asks.
    """

    id: str
    ui_messages: list[Mapping[str, Any]] = field(repr=False)
    trigger: str = "submit-message"
    message_id: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def messages(self) -> list[Any]:
        """The conversation as messages of the API, see `to_messages`.

        Raises:
            UIMessageError: Part of it cannot be sent. If `start` lets it pass, the client gets HTTP 400.
        """
        return to_messages(self.ui_messages)

    @property
    def approvals(self) -> list[Approval]:
        """The decisions in the last message. A run that still waits here gets them by itself, and `start` is not asked.

        They are for runs that a journal keeps: `await journal.decide(each.run, each.call, each.approved)`, and resume.
        """
        last: Any = self.ui_messages[-1] if self.ui_messages else None
        parts = last.get("parts") if isinstance(last, Mapping) and last.get("role") == "assistant" else None
        found = (_approval(part) for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else ()
        return [each for each in found if each is not None]

    @property
    def answer_id(self) -> str | None:
        """The id of the assistant message that the answer continues; None for a new message."""
        last: Any = self.ui_messages[-1] if self.ui_messages else None
        if self.trigger != "submit-message" or not isinstance(last, Mapping) or last.get("role") != "assistant":
            return None
        id = last.get("id")
        return id if isinstance(id, str) and id else None


Start: TypeAlias = "Callable[[ChatRequest], Begun | Awaitable[Begun]]"
"""Makes the run that a client asks for: an `eagerstream.run(...)` that is not entered yet, or a `resume(...)`."""


def vercel_app(
    start: Start,
    *,
    path: str = "/api/chat",
    hub: Hub | None = None,
    resumable: bool = False,
    static_tools: Collection[str] = (),
    sdk: SDKVersion = 6,
    describe_error: Callable[[Mapping[str, Any]], str] = describe_error,
    min_interval_s: float = 0.05,
    max_body_bytes: int = MAX_BODY_BYTES,
    hosts: Collection[str] | None = (),
    origins: Collection[str] = (),
) -> Starlette:
    """Return an ASGI application for `useChat`. Each message of the user starts a run, which is streamed to the client.

    ::

        def start(chat: ChatRequest) -> Run:
            return eagerstream.run(client, model="claude-opus-4-7", max_tokens=4096, messages=chat.messages)

        uvicorn.run(vercel_app(start))      # or app.mount("/", vercel_app(start)) behind the routes of another one

    ==============================  ====================================================================================
    `POST /api/chat`                starts a run and streams it, or continues the run that waits for its decisions
    `GET /api/chat/ID/stream`       the chat's run from its start (`useChat({resume: true})`); 204 if there is none
    `DELETE /api/chat/ID/stream`    cancels the chat's run
    ==============================  ====================================================================================

    If the run waits only for a person (`approve=hub.approve`), the message ends with its requests for approval. The run
    waits on the server, until the page sends the message again with decisions (`addToolApprovalResponse`, and
    `sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses`). Another message instead cancels it,
    and so does the end of its `approve_timeout_s`, unless it is `resumable`. Pages with version 5 of the SDK, which has
    no approvals, stay connected, and post to `/api/chat/ID/approval`: `{"approvalId": ..., "approved": true, "reason":
    ...}`. With a journal, the run may end meanwhile, see `ChatRequest.approvals`.

    The application around it must check who may ask, and for which chat: the id of a chat opens its stream. Requests
    under other host names and from pages of other origins are refused. If the page's server forwards them under a name
    of its own, as rewrites of Next.js do, allow the page: `origins=["http://localhost:3000"]`.

    Args:
        start: Takes a request and returns a run that is not entered yet; may be async. Its `UIMessageError` is answered
            with HTTP 400, an `HTTPException` with its status, any other error with HTTP 500.
        path: The path of the chat: the `api` of the client's transport.
        hub: Shows the runs to watchers. Calls with `approve=hub.approve` wait in it for a decision.
        resumable: If true, the run continues when the client leaves, and the client may come back. Otherwise leaving
            (`stop()`, a closed page) cancels the run: its connection is closed and its tools are cancelled.
        static_tools: As for `UIMessageEncoder`.
        sdk: The oldest version of the `ai` package among the clients, as for `UIMessageEncoder`.
        describe_error: Returns the text that the client gets about an error that ended a run.
        min_interval_s: Records that come within this time are sent together, in seconds. The client parses an input
            again at each of its chunks.
        max_body_bytes: Maximum size of a request; a larger one gets HTTP 413. So does one with more than one value for
            each 40 of these bytes. Raise it for chats with images: the client sends them again with each message.
        hosts: Names under which clients reach the application, beside those of loopback, with or without a port. A
            request under another name gets HTTP 421. None allows any, if the application around it checks them.
        origins: Origins of pages that may use it, beside its own, such as `"http://localhost:3000"`. Others get HTTP
            403.

    Raises:
        UsageError: A host or an origin is malformed.
    """
    new_encoder = partial(UIMessageEncoder, static_tools=static_tools, sdk=sdk, describe_error=describe_error)
    chats = _Chats(
        start=start,
        hub=hub or Hub(max_runs=1),  # ended runs are not needed here
        new_encoder=new_encoder,
        resumable=resumable,
        parks=sdk > 5,
        min_interval_s=min_interval_s,
        bodies=RequestBodies(max_body_bytes),
    )
    return application(
        [
            ("POST", path, chats.post),
            ("GET", f"{path}/{{id:path}}/stream", chats.resume),
            ("DELETE", f"{path}/{{id:path}}/stream", chats.stop),
            *([("POST", f"{path}/{{id:path}}/approval", chats.decide)] if sdk == 5 else []),
        ],
        Access(hosts=hosts, origins=origins),
        form=lambda refused: ("text/plain", str(refused)),  # the client shows the text
    )


@dataclass(slots=True, eq=False, kw_only=True)
class _Chats:
    """The endpoints, and the active runs by the id of their chat."""

    start: Start
    hub: Hub
    new_encoder: Callable[..., UIMessageEncoder]
    resumable: bool
    parks: bool
    min_interval_s: float
    bodies: RequestBodies
    active: dict[str, HeldRun[UIMessageEncoder]] = field(default_factory=dict)
    ended: dict[str, HeldRun[UIMessageEncoder]] = field(default_factory=dict)
    """The last runs that have asked and ended, by their ids: another page may have the question, and wants the rest."""

    # --- requests -----------------------------------------------------------------------------------------------------

    async def post(self, request: Request) -> ASGIApp:
        """Start a run, or continue the one that waits for the decisions of this request."""
        asked = _chat_request(await self.bodies.read_json(request, json_object), request.headers)
        held, approvals = self.active.get(asked.id), asked.approvals
        if len({each.run for each in approvals}) == 1:
            asking = self.ended.get(approvals[0].run, held)
            if asking is not None and asking.log.id == approvals[0].run:
                return partial(self._continue, asking, asked)
        if held is not None and held.is_parked:
            held.run.cancel()  # the user goes on without a decision
        try:
            run = await begin(self.start, asked)
        except UIMessageError as error:
            raise Refused(400, str(error)) from error
        return partial(self._answer, asked, run)

    async def resume(self, request: Request) -> Response | ASGIApp:
        """Stream the run of a chat from its start."""
        held = self.active.get(request.path_params["id"])
        return no_content() if held is None else self._stream(held, held.new_encoder())

    async def stop(self, request: Request) -> Response:
        """Cancel the run of a chat."""
        if (held := self.active.get(request.path_params["id"])) is not None:
            held.run.cancel()
        return no_content()

    async def decide(self, request: Request) -> Response:
        """Decide about a call, for pages whose SDK has no approvals."""
        body = await self.bodies.read_json(request, json_object)
        approved, reason = body.get("approved"), body.get("reason")
        if not isinstance(approved, bool) or not isinstance(reason, str | None):
            raise Refused(400, "expected approvalId, approved and perhaps a reason")
        held = self.active.get(request.path_params["id"])
        run, block = _run_and_block(body.get("approvalId"))
        try:
            if held is None or run != held.log.id:
                raise KeyError(run)
            self.hub.decide(run, block, approved=approved, reason=reason[:MAX_REASON_CHARS] if reason else None)
        except KeyError as error:
            raise Refused(404, "nothing waits for this decision") from error
        return no_content()

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _answer(self, asked: ChatRequest, run: Run, scope: Scope, receive: Receive, send: Send) -> None:
        """Run, and stream. Return when both have ended, or the run waits for a person; see `HeldRun.driving`."""
        new_encoder = partial(self.new_encoder, message_id=asked.answer_id)
        log = self.hub.observe(run, name=asked.id[:80])
        held = self.active[asked.id] = HeldRun(run, log, self.hub, new_encoder, is_kept=self.resumable)

        def ended(error: Exception | None) -> None:
            if self.active.get(asked.id) is held:  # not a later one
                del self.active[asked.id]
            if held.has_asked and run.result.status is not RunStatus.CANCELLED:
                self.ended[log.id] = held
                for id in [*self.ended][:-_MAX_ENDED]:
                    del self.ended[id]
            # Only foreign errors are logged: the records report our own to the client.
            if error is not None and not isinstance(error, EagerStreamError):
                _log.warning("the run of a chat failed: %s", type(error).__name__)

        async with held.driving(ended):
            # With decisions, it is resumed: the run that had asked for them slept in its journal.
            after = [each for each in asked.approvals if each.run == run.id]
            await self._stream(held, held.new_encoder(), after=after)(scope, receive, send)

    async def _continue(
        self, held: HeldRun[UIMessageEncoder], asked: ChatRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Decide, and stream what comes after that. Cancelling this cancels the run, unless it is kept."""
        with held.reading():  # before the run goes on
            for each in asked.approvals:
                held.decide(each)
            encoder = self.new_encoder(message_id=asked.answer_id)
            await self._stream(held, encoder, after=asked.approvals)(scope, receive, send)

    def _stream(
        self, held: HeldRun[UIMessageEncoder], encoder: UIMessageEncoder, *, after: Sequence[Approval] = ()
    ) -> ASGIApp:
        async def produce(write: Write) -> None:
            async def send(chunks: list[Chunk]) -> None:
                await write(encode_chunks(chunks))

            is_parked, error = False, None
            try:
                options: Any = {"parks": self.parks, "min_interval_s": self.min_interval_s, "after": after}
                is_parked = await held.read(encoder, send, **options)
            except WatcherDropped as dropped:  # it reads more slowly than the run writes
                error = {"type": type(dropped).__name__}
            await write(encode_chunks([] if is_parked else encoder.close(error), ends=True))

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            with held.reading():
                await EventStream(produce, headers=_HEADERS)(scope, receive, send)

        return respond


def _approval(part: Mapping[str, Any]) -> Approval | None:
    """Return the decision in a part of a message; None if it has none."""
    given, call = part.get("approval"), part.get("toolCallId")
    if part.get("state") != "approval-responded" or not isinstance(given, Mapping) or not isinstance(call, str):
        return None
    approved, reason = given.get("approved"), given.get("reason")
    run, block = _run_and_block(given.get("id"))
    if not isinstance(approved, bool) or not block:
        return None
    return Approval(run, block, call, approved, reason if isinstance(reason, str) and reason else None)


def _run_and_block(id: object) -> tuple[str, int]:
    """Return the run and the block of an approval's id; 0 if it is none."""
    run, _, block = str(id).rpartition(".")
    return run, int(block) if block.isascii() and block.isdigit() and len(block) < 10 else 0


def _chat_request(body: Mapping[str, Any], headers: Mapping[str, str]) -> ChatRequest:
    id, messages, message_id = body.get("id"), body.get("messages"), body.get("messageId")
    if not isinstance(id, str) or not id or not isinstance(messages, list):
        raise Refused(400, "expected the id of a chat, and its messages")
    trigger = body.get("trigger", "submit-message")
    if not isinstance(trigger, str) or not isinstance(message_id, str | None):
        raise Refused(400, "trigger and messageId are strings")
    return ChatRequest(id, messages, trigger, message_id, body, dict(headers))


def encode_chunks(chunks: Iterable[Chunk], *, ends: bool = False) -> bytes:
    """Return chunks as server-sent events, followed by `[DONE]` if the stream `ends`."""
    return b"".join(map(_encoded, chunks)) + (_DONE if ends else b"")


def _encoded(chunk: Chunk) -> bytes:
    """Return a chunk as a server-sent event. Half a surrogate pair is escaped: the next chunk may have the rest."""
    try:
        data = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
        return f"data: {data}\n\n".encode()
    except UnicodeEncodeError:
        return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n".encode()
