"""`ToolCall`: one `tool_use` block, and what became of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from time import monotonic
from typing import Any, Final, Self

import anyio
import anyio.lowlevel
from pydantic_core import to_jsonable_python

from ..limits import DEFAULT_LIMITS, Limits
from ..streaming._growing_input import GrowingInput
from ..wire import encodable
from ..wire._events import Block
from ._response import ToolErrorCode, ToolResponse, ToolStatus, error_response, response_of
from ._results import NOT_RUN, begun_result, invalid_result, is_programmatic, rendered, result_for

_log = logging.getLogger(__name__)


class CallState(Enum):
    """The life of a call, in order; a call that is never run ends in `ANSWERED` without having been `RUNNING`."""

    WAITING = "waiting"
    """For the end of its input, or for its turn."""
    ADMITTED = "admitted"
    """It has its place: the tool is about to be called."""
    RUNNING = "running"
    """The tool has been called."""
    ANSWERED = "answered"
    """It has its result."""


_SAVED: Final = ("ran", "idempotent", "streams", "in_history", "rejected", "withdrawn", "blocked_s")


class CallListener:
    """Hears of the life of calls. Each method does nothing unless it is overridden; none may block or raise."""

    def call_admitted(self, call: ToolCall) -> None:
        """The call is about to get its place: from here on it waits for its turn, or for approval."""

    def call_started(self, call: ToolCall) -> None:
        """Its tool is called."""

    def call_progressed(self, call: ToolCall, value: Any) -> None:
        """Its tool reports progress."""

    def call_ended(self, call: ToolCall) -> None:
        """It has its result."""


@dataclass(frozen=True, slots=True)
class Invoked:
    """The outcome of calling a tool's function, wherever that was.

    Attributes:
        response: The tool's answer; if it raised, an error.
        raised: The response stands for an exception, or for the tool: its text is complete.
        error: The exception, if it is known.
        include_data: The response's data is for the model, too.
    """

    response: ToolResponse = field(repr=False)
    raised: bool = False
    error: BaseException | None = field(default=None, repr=False)
    include_data: bool = False


def saved_response(response: ToolResponse) -> dict[str, Any]:
    """A response as JSON, whatever a tool put into it."""
    plain = response.to_dict()
    without = {name: value for name, value in plain.items() if name not in ("context", "stats")} | {"data": {}}
    for form in (lambda: plain, lambda: encodable(plain), lambda: encodable(without)):
        # A cycle, an integer of thousands of digits, a `__str__` that raises: any code may run in here.
        with suppress(Exception):
            written = to_jsonable_python(form(), bytes_mode="base64", inf_nan_mode="null", fallback=str)
            return dict(json.loads(json.dumps(written)))
    return {"status": response.status.value, "text": encodable(response.text), "data": {}}


@lru_cache(maxsize=256)
def _warn_of_unknown_code(name: str) -> None:
    """Log it once for each tool."""
    what = "the tool %.80r answered with the code UNKNOWN: one of the others of ToolErrorCode says more"
    _log.warning(what, name)


@dataclass(slots=True, eq=False)
class ToolCall:
    """One `tool_use` block and what became of it.

    An executor reports what happens: `start`, `progress`, then one of `answer`, `fail`, `refuse` and `reject`. The
    first of these counts. A tool gets it by a parameter of this type.

    Attributes:
        input: The call's input: finished, unless its tool streams, or a guard rejected it.
        turn: Number of the turn that it belongs to, from 1.
        ran: The tool was called.
        streams: It was given to the executor when its input began.
        idempotent: Its tool says that running it twice does no harm.
        result: The `tool_result` block; None until there is one.
        response: What the tool answered, or what the call was answered in its place; None until then, and of a call
            that was cut off with its turn.
        in_history: The history has the call, with its result. False of a call in a turn that was discarded.
        error: What the tool raised; the model is told its class and message only.
        rejected: A guard rejected the call while it was written: what it is answered with.
        withdrawn: It was answered without being run because the reply ended as it did.
        blocked_s: The longest time, in seconds, for which the tool blocked the event loop.
    """

    input: GrowingInput
    turn: int
    limits: Limits = field(default=DEFAULT_LIMITS, repr=False)
    state: CallState = CallState.WAITING
    ran: bool = False
    idempotent: bool = False
    streams: bool = False
    result: Block | None = field(default=None, repr=False)  # may hold what does not belong in a log
    response: ToolResponse | None = field(default=None, repr=False)
    in_history: bool = False
    error: BaseException | None = field(default=None, repr=False)
    rejected: str | None = field(default=None, repr=False)
    blocked_s: float = 0.0
    withdrawn: bool = False
    failed_groups: dict[str, ToolCall] = field(default_factory=dict, repr=False)
    """Shared by the calls of a turn: by the group's name, the first call that failed."""
    given_up: bool = field(default=False, repr=False)
    """Nobody waits for the tool any more: a thread that still runs may stop."""
    in_thread: bool = field(default=False, repr=False)
    """Its tool runs in a thread, maybe longer than it was waited for."""
    on_thread_end: Callable[[], object] | None = field(default=None, repr=False)
    _started_s: float = field(default=0.0, repr=False)
    answered: anyio.Event = field(default_factory=anyio.Event, repr=False)
    listener: CallListener = field(default_factory=CallListener, repr=False)
    is_reported: bool = field(default=False, repr=False)
    """Its end was reported to the listener."""

    @property
    def id(self) -> str:
        """The API's id of the call, and so its idempotency key; a gateway may give it again in another response."""
        return self.input.id

    @property
    def name(self) -> str:
        """The tool's name, as the model wrote it."""
        return self.input.name

    @property
    def block(self) -> Mapping[str, Any]:
        """The `tool_use` block as received at its start: who called (`caller`), which toolset (`toolset_name`)."""
        return self.input.block

    @property
    def is_programmatic(self) -> bool:
        """Code that the API runs made the call, not the model itself. The API waits about 270 s for its result."""
        return is_programmatic(self.block)

    @property
    def has_begun(self) -> bool:
        """The tool has been called, or is about to be."""
        return self.ran or self.state is CallState.ADMITTED

    @property
    def is_error(self) -> bool:
        """The call was answered with an error."""
        return bool(self.result and self.result.get("is_error"))

    def to_dict(self) -> dict[str, Any]:
        """The call as plain data, from which `from_dict` makes it again.

        Of the response's data, bytes are base64, and what has no JSON form is text, or left out.
        """
        return {
            "input": self.input.to_dict(),
            "turn": self.turn,
            **{name: getattr(self, name) for name in _SAVED},
            "result": self.result,
            "response": saved_response(self.response) if self.response else None,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The call that `to_dict` told of, over: nothing runs it any more.

        Raises:
            KeyError, ValueError: It is none.
        """
        call = cls(GrowingInput.from_dict(plain["input"]), plain["turn"], **{name: plain[name] for name in _SAVED})
        response = plain["response"]
        call.response = response and ToolResponse.from_dict(response)
        call.result = plain["result"]
        if call.result is not None:
            call.state = CallState.ANSWERED
            call.answered.set()
        return call

    def start(self) -> None:
        """The tool is called now; nothing for a call that has been answered."""
        if self.result is not None:
            return
        self._started_s = monotonic()
        self.state = CallState.RUNNING
        self.ran = True
        self.given_up = False
        self.listener.call_started(self)

    async def progress(self, value: Any) -> None:
        """Tell how far the tool is; consumers of events see it at once, the model never does.

        Where they do not keep up, the newest value of a call replaces the one that waits. From a tool that is a plain
        `def`: `anyio.from_thread.run(call.progress, value)`.
        """
        self.report(value)
        await anyio.lowlevel.checkpoint()

    def report(self, value: Any) -> None:
        """`progress` for callers on the event loop that do not wait."""
        if self.result is None:
            self.listener.call_progressed(self, value)

    def leave_thread(self) -> None:
        """The tool's thread has ended."""
        self.in_thread = False
        on_thread_end, self.on_thread_end = self.on_thread_end, None
        if on_thread_end is not None:
            on_thread_end()

    def answer(self, returned: Any, *, include_data: bool = False) -> None:
        """Answer with what the tool returned: text, content blocks, a `ToolResponse`, or anything with a JSON form.

        Raises:
            TypeError: It has none; the call is still unanswered.
        """
        is_response = isinstance(returned, ToolResponse)  # the data of anything else is its text
        self.end(Invoked(response_of(returned), include_data=include_data and is_response))

    def fail(self, error: BaseException, *, include_data: bool = False) -> None:
        """Answer with what the tool raised: the model is told `Class: message`."""
        self.end(Invoked(error_response(error), raised=True, error=error, include_data=include_data))

    def refuse(self, text: str | None = None, *, code: str = ToolErrorCode.EXECUTION_ERROR) -> None:
        """Answer with an error, without the tool, or in its place.

        Args:
            text: The error. If None, the input is the error: the model gets it back as `{"INVALID_JSON": raw}`.
            code: A `ToolErrorCode`.
        """
        if text is not None:
            self.end(Invoked(ToolResponse.error(code, text), raised=True))
        elif self.result is None:
            self.response = ToolResponse.error(ToolErrorCode.INVALID_FORMAT, str(self.input.error))
            self._close(invalid_result(self.input))

    def withdraw(self) -> None:
        """Refuse the call because the response ended in a way in which it may not start any more."""
        self.withdrawn = self.withdrawn or self.result is None
        self.refuse(NOT_RUN)

    def reject(self, reason: str) -> None:
        """A guard says no: the call does not run. If it has started, what it reads raises `InputInterrupted`."""
        if self.rejected is None and self.result is None:
            self.rejected = reason
            self.input.interrupt(reason)
            if not self.ran:
                self.refuse(reason, code=ToolErrorCode.PERMISSION_DENIED)

    def end(self, said: Invoked, *, fault: str | None = None, is_unsure: bool = False) -> None:
        """Answer with the outcome of calling the tool; does nothing if the call has an answer.

        Args:
            said: The outcome.
            fault: What is wrong with an input that is JSON, and is echoed as it is.
            is_unsure: The tool had started before its input was whole, and the input turned out not to be usable.

        Raises:
            TypeError: Its text is no text, or its data has no JSON form; the call is still unanswered.
        """
        if self.result is not None:
            return
        self.error = self.error or said.error
        response = said.response
        if not said.raised and response.code == ToolErrorCode.UNKNOWN:
            _warn_of_unknown_code(self.name)
        max_chars = self.limits.max_result_chars
        if is_unsure:
            content = rendered(response, raised=said.raised)
            result = begun_result(self.input, content, why=self.rejected or fault, max_chars=max_chars)
        else:
            content = rendered(response, raised=said.raised, include_data=said.include_data)
            is_error = response.status is ToolStatus.ERROR
            result = result_for(self.input, content, is_error=is_error, max_chars=max_chars)
        self.response = replace(response, stats=self._stats(response.stats))
        self._close(result)

    def _stats(self, stats: dict[str, Any] | None) -> dict[str, Any] | None:
        """With the time that the call took; where the tool took its own, beside that."""
        if not self.ran:
            return stats
        name = "wall_ms" if stats and "time_ms" in stats else "time_ms"
        return {**(stats or {}), name: round((monotonic() - self._started_s) * 1000)}

    def _close(self, result: Block) -> None:
        self.result = result
        self.state = CallState.ANSWERED
        self.answered.set()
