"""`vercel_app`: an ASGI endpoint that begins a run for each message of a chat and streams it as UI message chunks."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from ...errors import EagerStreamError
from ...loop import Run
from ...wire import Message
from .._endpoint import application, begin, drive, no_content
from .._hub import MAX_REASON_CHARS, Hub
from .._log import RunLog, WatcherDropped
from .._merge import in_parts
from .._request_body import MAX_BODY_BYTES, BadBody, RequestBodies, json_object
from .._sse import EventStream, Write, encode_message
from ._encoder import Chunk, SDKVersion, UIMessageEncoder, describe_error
from ._messages import UIMessageError, to_messages

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

_log = logging.getLogger(__name__)

_HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
"""As the SDK sends them, but for `connection: keep-alive`, which HTTP/2 forbids and HTTP/1.1 means anyway."""

_PART_CHARS: Final = 65_536
"""Of records whose chunks are made in one go: a client that comes late and reads slowly holds no more of them."""

_DONE: Final = encode_message("[DONE]")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What `useChat` asks for.

    Attributes:
        id: Of the chat. The client chooses it.
        ui_messages: The conversation so far, as the client has it.
        trigger: `"submit-message"` or `"regenerate-message"`.
        message_id: Which message is sent again or regenerated; None for a new one.
        body: The whole request: what the page gives as `body` to `useChat` or `sendMessage` stands beside the rest.
        headers: Of the HTTP request, with names in lower case: who asks is for `start` to find out.
    """

    id: str
    ui_messages: list[Mapping[str, Any]] = field(repr=False)
    trigger: str = "submit-message"
    message_id: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def messages(self) -> list[Message]:
        """The conversation as messages of the API, see `to_messages`.

        Raises:
            UIMessageError: There is something in it that cannot be sent; the client is answered with HTTP 400.
        """
        return to_messages(self.ui_messages)

    @property
    def answer_id(self) -> str | None:
        """The id of the assistant message that the answer goes on with; None where it is a new one."""
        last: Any = self.ui_messages[-1] if self.ui_messages else None
        if self.trigger != "submit-message" or not isinstance(last, Mapping) or last.get("role") != "assistant":
            return None
        id = last.get("id")
        return id if isinstance(id, str) and id else None


Start: TypeAlias = "Callable[[ChatRequest], Run | Awaitable[Run]]"
"""Makes the run that a client asks for: an `eagerstream.run(...)` that was not entered yet."""


@dataclass(slots=True, eq=False)
class _Chat:
    """The run that a chat waits for."""

    run: Run
    log: RunLog
    new_encoder: Callable[[], UIMessageEncoder]


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
) -> Starlette:
    """An ASGI application for `useChat`: each message of the user begins a run, which is streamed back.

    ::

        def start(chat: ChatRequest) -> Run:
            return eagerstream.run(client, model="claude-opus-4-7", max_tokens=4096, messages=chat.messages)

        uvicorn.run(vercel_app(start))      # or app.mount("/", vercel_app(start)) behind the routes of another one

    ==============================  ====================================================================================
    `POST /api/chat`                begins a run and streams it
    `GET /api/chat/ID/stream`       the chat's run from its beginning (`useChat({resume: true})`); 204 if there is none
    `DELETE /api/chat/ID/stream`    cancels the chat's run
    `POST /api/chat/ID/approval`    decides on a call that waits: `{"approvalId": ..., "approved": true, "reason": ...}`
    ==============================  ====================================================================================

    Who may ask, and for which chat, is for the application around it to check: a chat's id opens its stream.

    Args:
        start: Begins a run for a request, and returns it without having entered it; may be async. What it raises is
            answered as Starlette does: an `HTTPException` with its status.
        path: Where the chat is; as `api` of the client's transport.
        hub: Where the runs can be watched, and where calls with `approve=hub.approve` wait for an answer.
        resumable: The run goes on where the client leaves, for it to come back. Otherwise leaving (`stop()`, a closed
            page) cancels the run: its connection is closed and its tools are cancelled.
        static_tools: As for `UIMessageEncoder`, like `sdk` and `describe_error`.
        sdk: The oldest version of the `ai` package among the clients.
        describe_error: What the client is told of an error that ended a run.
        min_interval_s: What comes within so long of the last chunks is sent together. The client parses an input anew
            at every chunk of it.
        max_body_bytes: Of a request; larger ones are answered with HTTP 413. So are those with more than one value for
            each 40 of these bytes. Raise it for chats with images: the client sends them again with each message.

    Raises:
        MissingExtraError: The extra `web` is not installed.
    """
    new_encoder = partial(UIMessageEncoder, static_tools=static_tools, sdk=sdk, describe_error=describe_error)
    chats = _Chats(
        start=start,
        hub=hub or Hub(max_runs=1),  # runs that have ended are of no use here
        new_encoder=new_encoder,
        resumable=resumable,
        min_interval_s=min_interval_s,
        bodies=RequestBodies(max_body_bytes),
    )
    return application(
        [
            ("POST", path, chats.post),
            ("GET", f"{path}/{{id:path}}/stream", chats.resume),
            ("DELETE", f"{path}/{{id:path}}/stream", chats.stop),
            ("POST", f"{path}/{{id:path}}/approval", chats.decide),
        ]
    )


@dataclass(slots=True, eq=False, kw_only=True)
class _Chats:
    """The endpoints, and the runs under way by the id of their chat."""

    start: Start
    hub: Hub
    new_encoder: Callable[..., UIMessageEncoder]
    resumable: bool
    min_interval_s: float
    bodies: RequestBodies
    active: dict[str, _Chat] = field(default_factory=dict)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def post(self, request: Request) -> ASGIApp:
        """Begin a run."""
        asked = _chat_request(await self._read(request), request.headers)
        try:
            run = await begin(self.start, asked)
        except UIMessageError as error:
            raise _refusal(400, str(error)) from error
        return partial(self._answer, asked, run)

    async def resume(self, request: Request) -> Response | EventStream:
        """Go on with the run of a chat: all of it, from the beginning."""
        chat = self.active.get(request.path_params["id"])
        return no_content() if chat is None else self._stream(chat)

    async def stop(self, request: Request) -> Response:
        """Cancel the run of a chat."""
        if (chat := self.active.get(request.path_params["id"])) is not None:
            chat.run.cancel()
        return no_content()

    async def decide(self, request: Request) -> Response:
        """Somebody decided on a call."""
        body = await self._read(request)
        approved, reason = body.get("approved"), body.get("reason")
        if not isinstance(approved, bool) or not isinstance(reason, str | None):
            raise _refusal(400, "expected approvalId, approved and perhaps a reason")
        chat = self.active.get(request.path_params["id"])
        run, _, block = str(body.get("approvalId")).rpartition(".")
        try:
            if chat is None or run != chat.log.id or not block.isascii() or not block.isdigit():
                raise KeyError(run)
            reason = reason[:MAX_REASON_CHARS] if reason else None
            self.hub.decide(run, int(block), approved=approved, reason=reason)
        except (KeyError, ValueError) as error:
            raise _refusal(404, "nothing waits for this decision") from error
        return no_content()

    async def _read(self, request: Request) -> dict[str, Any]:
        """The JSON object that a request brings."""
        try:
            return await self.bodies.read_json(request, json_object)
        except BadBody as bad:
            raise _refusal(bad.status, bad.text) from bad

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _answer(self, asked: ChatRequest, run: Run, scope: Scope, receive: Receive, send: Send) -> None:
        """Run, and stream; returns when both have ended. Cancelled, it leaves the run, which closes everything."""
        log = self.hub.observe(run, name=asked.id[:80])
        chat = self.active[asked.id] = _Chat(run, log, partial(self.new_encoder, message_id=asked.answer_id))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drive, chat.run, log)
                await self._stream(chat)(scope, receive, send)
                if not self.resumable:
                    chat.run.cancel()  # nobody reads any more; does nothing where the run has ended
        finally:
            if self.active.get(asked.id) is chat:  # and not a later one
                del self.active[asked.id]

    def _stream(self, chat: _Chat) -> EventStream:
        return EventStream(partial(self._write, chat), headers=_HEADERS)

    async def _write(self, chat: _Chat, write: Write) -> None:
        encoder = chat.new_encoder()
        try:
            async with chat.log.watch(min_interval_s=self.min_interval_s) as watcher:
                async for batch in watcher:
                    for part in in_parts(batch.records, _PART_CHARS):
                        if chunks := encoder.encode(part):
                            await write(encode_chunks(chunks))
                    del batch  # the next one may be long in coming
            error = None
        except WatcherDropped as dropped:  # it reads more slowly than the run writes
            error = {"type": type(dropped).__name__}
        await write(encode_chunks(encoder.close(error), ends=True))


async def _drive(run: Run, log: RunLog) -> None:
    """Run to the end. Errors are in the records, which the client gets; only what is none of ours is logged."""
    error = await drive(run, log)
    if error is not None and not isinstance(error, EagerStreamError):
        _log.warning("the run of a chat failed: %s", type(error).__name__)


def _chat_request(body: Mapping[str, Any], headers: Mapping[str, str]) -> ChatRequest:
    id, messages, message_id = body.get("id"), body.get("messages"), body.get("messageId")
    if not isinstance(id, str) or not id or not isinstance(messages, list):
        raise _refusal(400, "expected the id of a chat, and its messages")
    trigger = body.get("trigger", "submit-message")
    if not isinstance(trigger, str) or not isinstance(message_id, str | None):
        raise _refusal(400, "trigger and messageId are strings")
    return ChatRequest(id, messages, trigger, message_id, body, dict(headers))


def _refusal(status: int, why: str) -> Exception:
    """Raised, it answers with a status; the client shows the text."""
    from starlette.exceptions import HTTPException

    return HTTPException(status, why)


def encode_chunks(chunks: Iterable[Chunk], *, ends: bool = False) -> bytes:
    """Chunks as server-sent events; with `[DONE]` behind them where the stream `ends`."""
    return b"".join(map(_encoded, chunks)) + (_DONE if ends else b"")


def _encoded(chunk: Chunk) -> bytes:
    """A chunk as a server-sent event. Half a surrogate pair goes as an escape: the other half may be in the next."""
    try:
        data = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
        return f"data: {data}\n\n".encode()
    except UnicodeEncodeError:
        return f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n".encode()
