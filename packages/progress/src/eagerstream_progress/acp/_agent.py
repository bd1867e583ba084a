"""`Agent`: the sessions of an editor. Each prompt starts a run, which is shown in the session."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import anyio
import anyio.abc

from eagerstream._support.error_groups import alone_in
from eagerstream._support.logs import logger_of
from eagerstream.errors import EagerStreamError
from eagerstream.loop import Run

from .._endpoint import Begun, begin, drive, public_error
from .._hub import Hub
from .._log import RunLog
from ._content import prompt_blocks
from ._encoder import ACPEncoder

if TYPE_CHECKING:
    from acp import PromptResponse, RequestError
    from acp.interfaces import Client
    from acp.schema import CloseSessionResponse, InitializeResponse, NewSessionResponse

_log = logger_of(__name__)

PROTOCOL_VERSION: Final = 1

_ALLOW: Final = "allow"
_OPTIONS: Final = (
    {"optionId": _ALLOW, "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
)
_INVALID_REQUEST: Final = -32600
_INVALID_PARAMS: Final = -32602
_INTERNAL_ERROR: Final = -32603


@dataclass(frozen=True, slots=True)
class ACPPrompt:
    """A prompt of an editor.

    Attributes:
        session_id: The id of the session. The agent chose it.
        messages: The conversation of the session as messages of the API. The prompt is the last of them.
        cwd: The folder of the session: absolute, as the editor gave it.
        directories: Further folders of the workspace: absolute.
        mcp_servers: The MCP servers that the editor wants the agent to use, in their JSON form. They may have secrets.
    """

    session_id: str
    messages: list[Any] = field(repr=False)
    cwd: str = field(repr=False)
    directories: Sequence[str] = field(default=(), repr=False)
    mcp_servers: Sequence[Mapping[str, Any]] = field(default=(), repr=False)


Start: TypeAlias = "Callable[[ACPPrompt], Begun | Awaitable[Begun]]"
"""Makes the run for a prompt: an `eagerstream.run(...)` that is not entered yet, or a `resume(...)`."""


@dataclass(slots=True, eq=False)
class _Session:
    """A conversation. `turn` is the prompt that runs."""

    id: str
    cwd: str
    directories: Sequence[str]
    mcp_servers: Sequence[Mapping[str, Any]]
    messages: list[Any] = field(default_factory=list)
    turn: _Turn | None = None


@dataclass(slots=True, eq=False)
class _Turn:
    """A prompt that is answered.

    Attributes:
        scope: Contains all of it. If it is cancelled, nothing more is sent.
        starting: Contains the start, before there is a run that can be cancelled.
        ended: Set when nothing of it runs any more.
        run: The run; None before it has started.
        failure: The error with which showing the run failed; None if it did not.
    """

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    starting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    run: Run | None = None
    failure: BaseException | None = None

    def cancel(self) -> None:
        """End the run with the status `cancelled`. The rest of it is still shown."""
        self.starting.cancel()
        if self.run is not None:
            self.run.cancel()


class Agent:
    """The agent's side of ACP, for `acp.AgentSideConnection`.

    Args:
        start: Makes the run for a prompt.
        hub: Has the questions of the runs.
        new_encoder: Makes an encoder, from the folders of a session.
        name: The name of the agent, for the editor.
        version: Its version.
        min_interval_s: As for `RunLog.watch`.
    """

    def __init__(
        self,
        start: Start,
        *,
        hub: Hub,
        new_encoder: Callable[..., ACPEncoder],
        name: str,
        version: str,
        min_interval_s: float,
    ) -> None:
        self._start = start
        self._hub = hub
        self._new_encoder = new_encoder
        self._info = {"name": name, "version": version}
        self._min_interval_s = min_interval_s
        self._sessions: dict[str, _Session] = {}
        self._client: Any = None
        self._is_closed = False

    def on_connect(self, conn: Client) -> None:
        """Remember the editor's side."""
        self._client = conn

    async def aclose(self) -> None:
        """Cancel all runs, and wait for their ends. The editor has left."""
        self._is_closed = True
        turns = [session.turn for session in self._sessions.values() if session.turn is not None]
        for turn in turns:
            turn.scope.cancel()
        for turn in turns:
            await turn.ended.wait()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def initialize(self, **_: Any) -> InitializeResponse:
        """Return what the agent can do. The editor decides whether it accepts the version."""
        from acp.schema import InitializeResponse

        capabilities = {
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "sessionCapabilities": {"close": {}, "additionalDirectories": {}},
        }
        return InitializeResponse.model_validate(
            {"protocolVersion": PROTOCOL_VERSION, "agentCapabilities": capabilities, "agentInfo": self._info}
        )

    async def new_session(
        self, cwd: str, additional_directories: Sequence[str] | None = None, mcp_servers: Any = None, **_: Any
    ) -> NewSessionResponse:
        """Start a conversation."""
        from acp.schema import NewSessionResponse

        directories = additional_directories or ()
        if not all(map(os.path.isabs, (cwd, *directories))):
            raise _refusal("the folders of a session must be absolute paths")
        servers = [server.model_dump(mode="json", by_alias=True, exclude_none=True) for server in mcp_servers or ()]
        session = _Session(uuid4().hex, cwd, directories, servers)
        self._sessions[session.id] = session
        return NewSessionResponse(session_id=session.id)

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """Cancel the run of a session, and forget its conversation."""
        from acp.schema import CloseSessionResponse

        session = self._session(session_id)
        del self._sessions[session_id]
        if session.turn is not None:
            session.turn.cancel()
        return CloseSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the run of a session. Its prompt is answered with `cancelled`."""
        session = self._sessions.get(session_id)
        if session is not None and session.turn is not None:
            session.turn.cancel()

    async def prompt(self, prompt: Sequence[Any], session_id: str, **_: Any) -> PromptResponse:
        """Run, and return the stop reason. If this is cancelled, so is the run."""
        session = self._session(session_id)
        if session.turn is not None or self._is_closed:
            raise _refusal("a prompt of this session is being answered", code=_INVALID_REQUEST)
        blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in prompt]
        try:
            content = prompt_blocks(blocks)
        except ValueError as error:
            raise _refusal(str(error)) from None
        turn = session.turn = _Turn()
        try:
            with turn.scope:
                return await self._answer(session, turn, [*session.messages, {"role": "user", "content": content}])
            return _response("cancelled")
        finally:
            session.turn = None
            turn.ended.set()

    def _session(self, id: str) -> _Session:
        session = self._sessions.get(id)
        if session is None:
            raise _refusal("there is no such session")
        return session

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def _answer(self, session: _Session, turn: _Turn, messages: list[Any]) -> PromptResponse:
        asked = ACPPrompt(session.id, messages, session.cwd, session.directories, session.mcp_servers)
        try:
            with turn.starting:
                turn.run = await begin(self._start, asked)
        except Exception as error:
            # Errors of the program's own code are logged completely.
            trace = None if isinstance(error, EagerStreamError) else error
            _log.error("no run for a prompt of an editor: %s", type(error).__name__, exc_info=trace)
            raise _failure(error) from None
        if turn.run is None:
            return _response("cancelled")
        if turn.starting.cancel_called:
            turn.run.cancel()
        log = self._hub.observe(turn.run)
        encoder = self._new_encoder(cwd=session.cwd, directories=session.directories)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show, session, turn, log, encoder)
            failure = await drive(turn.run, log)
        result, problem = turn.run.result, turn.failure or failure
        reason = encoder.stop_reason or "cancelled"
        if reason != "refusal":  # by the protocol, the next prompt must not contain a refused one
            session.messages = result.messages
        if problem is not None:
            if not isinstance(problem, EagerStreamError):
                # Its type only: an error of a run may quote a model.
                _log.error("a run of an editor failed: %s", type(problem).__name__)
            raise _failure(problem)
        return _response(reason, status=str(result.status), limit=result.limit)

    async def _show(self, session: _Session, turn: _Turn, log: RunLog, encoder: ACPEncoder) -> None:
        """Send the updates of a run until its end, and ask about its calls. If that fails, cancel the run."""
        asking: dict[int, anyio.CancelScope] = {}
        try:
            async with (
                anyio.create_task_group() as tasks,
                log.watch(min_interval_s=self._min_interval_s) as watcher,
            ):
                async for batch in watcher:
                    for update in encoder.encode(batch.records):
                        await self._client.session_update(session.id, update)
                    asked = encoder.asked
                    for block in asking.keys() - set(asked):
                        asking.pop(block).cancel()
                    for block in set(asked) - asking.keys():
                        asking[block] = anyio.CancelScope()
                        tasks.start_soon(self._ask, session, log, block, encoder.question(block), asking[block])
                tasks.cancel_scope.cancel()
        except Exception as error:
            turn.failure = alone_in(error)
            turn.cancel()

    async def _ask(
        self, session: _Session, log: RunLog, block: int, question: dict[str, Any], scope: anyio.CancelScope
    ) -> None:
        """Ask the editor about a call, and decide. Anything but a clear yes is a no."""
        from acp.schema import PermissionOption, ToolCallUpdate

        approved, reason = False, None
        with scope:
            try:
                options = [PermissionOption.model_validate(option) for option in _OPTIONS]
                call = ToolCallUpdate.model_validate(question)
                answer = await self._client.request_permission(session.id, call, options)
                approved = answer.outcome.outcome == "selected" and answer.outcome.option_id == _ALLOW
            except Exception as error:
                _log.error("an editor could not be asked about a call: %s", type(error).__name__)
                reason = "the editor could not ask"
            with suppress(KeyError):  # it was decided elsewhere
                self._hub.decide(log.id, block, approved=approved, reason=reason)


def _response(reason: str, **meta: Any) -> PromptResponse:
    from acp import PromptResponse

    known = {name: value for name, value in meta.items() if value is not None}
    return PromptResponse.model_validate({"stopReason": reason, "_meta": {"eagerstream": known} if known else None})


def _refusal(text: str, *, code: int = _INVALID_PARAMS) -> RequestError:
    from acp import RequestError

    return RequestError(code, text)


def _failure(error: BaseException) -> RequestError:
    """Return the error for the editor: our own with their text without secrets, all others with their type only."""
    from acp import RequestError

    told = public_error({"type": type(error).__name__, "text": str(error)})
    return RequestError(_INTERNAL_ERROR, told["text"], {"type": told["type"]})
