"""`ToolCall`: one `tool_use` block, and its result."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, partial
from time import monotonic
from typing import Any, Final, Self, TypeAlias

import anyio
import anyio.lowlevel
from pydantic_core import to_jsonable_python

from eagerstream_wire import JSONObject
from eagerstream_wire._assistant_message import Block, text_of
from eagerstream_wire._block_rules import is_programmatic, text_block
from eagerstream_wire._values import encodable

from .._support.event_loops import LoopThread
from .._support.terms import CANCELLED_TEXT, NOT_RUN
from ..errors import UsageError
from ..inputs._growing_input import GrowingInput
from ..limits import DEFAULT_LIMITS, Limits
from ._response import ToolErrorCode, ToolResponse, ToolStatus, error_response, response_of
from ._results import begun_result, invalid_result, rendered, result_for, with_repair
from ._tool_failure import report_failure

_log = logging.getLogger(__name__)


class CallState(Enum):
    """The life of a call. The last three are ends: the call has its result."""

    WAITING = "waiting"
    """The call waits for the end of its input, or for its turn."""
    ADMITTED = "admitted"
    """The call has its place: the tool will be called next."""
    RUNNING = "running"
    """The tool has been called."""
    ABANDONED = "abandoned"
    """The tool has been called, and nobody waits for it any more: a thread that still runs may stop."""
    ANSWERED = "answered"
    """The tool has been called, and the result is its answer, or says why there is none."""
    REFUSED = "refused"
    """The call was answered without its tool."""
    WITHDRAWN = "withdrawn"
    """The call was answered without its tool because of the way in which the response ended."""

    @property
    def ran(self) -> bool:
        """True if the tool was called."""
        return self in _RAN


_RAN: Final = (CallState.RUNNING, CallState.ABANDONED, CallState.ANSWERED)
_ENDS: Final = (CallState.ANSWERED, CallState.REFUSED, CallState.WITHDRAWN)
_SAVED: Final = ("idempotent", "streams", "in_history", "blocked_s", "repaired")


Decision: TypeAlias = bool | str
"""The answer to the question for approval: True, or False, or the reason why not."""


class CallHost:
    """The run, the conversation or the framework that calls belong to: what their tools and executors ask of it.

    Attributes:
        run_id: Id under which tools keep state: that of the run, the conversation, or a framework's run; None without.
        is_run: True if the id is that of a `Run`.
        deps: The dependencies of the tools: the `context` of `run`.
        budget: What the run may use, of which the runs that its tools start take their share; None if there is none.
    """

    is_run = False
    gate: Callable[[ToolCall], Awaitable[None]] | None = None
    """Awaited before a tool is called. It may never return, if the call must not run."""

    def __init__(self, run_id: str | None = None, deps: Any = None, budget: Any = None) -> None:
        self.run_id = run_id
        self.deps = deps
        self.budget = budget

    def when_over(self, callback: Callable[[], object]) -> None:
        """Call `callback` at the end of the run: no later call has its id. Do nothing if the end is not known."""

    def decision(self, call: ToolCall) -> Decision | None:
        """Return the decision about a call that was asked for before; None if there is none."""

    def decided(self, call: ToolCall, decision: Decision) -> None:
        """Take the decision about a call that needs approval."""

    async def wait_for_decision(self, call: ToolCall) -> Decision:
        """Wait for the decision of another process. Cancelling this ends the wait, and no decision is lost.

        Raises:
            UsageError: The run has no journal, through which the decision would come.
        """
        raise UsageError(f"the run of {call.name!r:.80} has no journal, through which a decision could come")


_NOBODY: Final = CallHost()


class CallListener:
    """A listener for the life of calls. The methods do nothing by default. An override must not block or raise."""

    def call_admitted(self, call: ToolCall) -> None:
        """Handle a call that is about to get its place: from now on it waits for its turn, or for approval."""

    def call_started(self, call: ToolCall) -> None:
        """Handle the call of its tool."""

    def call_progressed(self, call: ToolCall, value: Any, /) -> None:
        """Handle a progress report of its tool."""

    def call_ended(self, call: ToolCall) -> None:
        """Handle its result."""

    def call_told(self, event: Any) -> None:
        """Handle an event about a run that its tool started."""


@dataclass(frozen=True, slots=True)
class Invoked:
    """The outcome of calling a tool's function, here or in another process.

    Attributes:
        response: The tool's response. If it raised, an error.
        raised: True if the response represents an exception, or replaces the tool's: its text is complete.
        error: The exception, if it is known.
        include_data: True if the model also gets the response's data.
    """

    response: ToolResponse = field(repr=False)
    raised: bool = False
    error: BaseException | None = field(default=None, repr=False)
    include_data: bool = False


def saved_response(response: ToolResponse) -> dict[str, Any]:
    """Return a response as JSON, for any contents."""
    plain = response.to_dict()
    without = {name: value for name, value in plain.items() if name not in ("context", "stats")} | {"data": {}}
    for form in (lambda: plain, lambda: encodable(plain), lambda: encodable(without)):
        # A cycle, an integer of thousands of digits, a `__str__` that raises: arbitrary code may run here.
        with suppress(Exception):
            written = to_jsonable_python(form(), bytes_mode="base64", inf_nan_mode="null", fallback=str)
            return dict(json.loads(json.dumps(written)))
    return {"status": response.status.value, "text": encodable(response.text), "data": {}}


class _Nothing:
    """An awaitable without anything to wait for, for a thread that has reported already."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


_NOTHING_TO_WAIT_FOR: Final = _Nothing()


@lru_cache(maxsize=256)
def _warn_of_unknown_code(name: str) -> None:
    """Log the warning once for each tool."""
    what = "the tool %.80r answered with the code UNKNOWN: one of the others of ToolErrorCode says more"
    _log.warning(what, name)


@dataclass(slots=True, eq=False)
class ToolCall:
    """One `tool_use` block and its result.

    An executor reports the progress of the call: `start`, `progress`, then one of `answer`, `fail`, `refuse` and
    `reject`. Only the first of these four counts. A tool receives its call through a parameter of this type.

    Attributes:
        input: The call's input. It is finished, unless its tool streams, or a guard rejected it.
        turn: Number of the turn that it belongs to, from 1.
        limits: `max_result_chars` bounds the result.
        state: The stage of the call's life.
        streams: True if the executor got the call at the start of its input.
        idempotent: True if the tool declares that running it twice does no harm.
        result: The `tool_result` block; None until there is one.
        response: The tool's response, or the one that replaces it. None before that, and for a call that was cut off
            with its turn.
        in_history: The history contains the call with its result, or did before it was replaced.
        error: The exception of the tool. The model gets only its class and message.
        done_so_far: The part of its work that the tool has done, in words for the model. A tool may set it, also while
            it is being cancelled. The result has it if the call is cancelled or takes too long, and after the tool's
            own answer if the tool had started on an input that turned out to be unusable.
        was_cancelled: True if its tool ran and was cancelled: with the run, alone, or because it took too long.
        repaired: The object with which the tool ran in place of an input that was not JSON; None if it was not
            repaired. See the option `repair` of tools.
        blocked_s: The longest time, in seconds, for which the tool blocked the event loop.
        tool: The `Tool`, as it was when the call was made; None if there is none, or if the call has its result.
        host: The run, or the framework, that it belongs to.
        listeners: Hear of its life.
        run_id: Id of the run that the call belongs to; empty if there is none.
        accounts: Token counts to which those of the runs that the tool starts are added.
        sub_usage: The token counts of these runs; None if none has ended.
    """

    input: GrowingInput
    turn: int
    limits: Limits = field(default=DEFAULT_LIMITS, repr=False)
    state: CallState = CallState.WAITING
    idempotent: bool = False
    streams: bool = False
    result: Block | None = field(default=None, repr=False)  # may contain data that does not belong in a log
    response: ToolResponse | None = field(default=None, repr=False)
    in_history: bool = False
    error: BaseException | None = field(default=None, repr=False)
    blocked_s: float = 0.0
    cancel_reason: str = field(default="", repr=False)
    """The answer if its tool is cancelled; empty for the usual one."""
    was_cancelled: bool = False
    repaired: JSONObject | None = field(default=None, repr=False)
    done_so_far: str = field(default="", repr=False)
    failed_groups: dict[str, ToolCall] = field(default_factory=dict, repr=False)
    """Shared by the calls of a turn: the first failed call of each group, by the group's name."""
    _loop: LoopThread | None = field(default=None, repr=False)  # while the tool runs in a thread
    _on_thread_end: Callable[[], object] | None = field(default=None, repr=False)
    _started_s: float | None = field(default=None, repr=False)
    _answered: anyio.Event | None = field(default=None, repr=False)
    host: CallHost = field(default=_NOBODY, repr=False)
    listeners: tuple[CallListener, ...] = field(default=(), repr=False)
    run_id: str = field(default="", repr=False)
    accounts: tuple[Any, ...] = field(default=(), repr=False)
    sub_usage: dict[str, Any] | None = field(default=None, repr=False)
    tool: Any = field(default=None, repr=False)

    @property
    def answered(self) -> anyio.Event:
        """Set when the call has its result."""
        # Made when somebody asks for it: the call is made between the end of its input and the start of its tool, and
        # the event took four fifths of the time.
        if self._answered is None:
            self._answered = anyio.Event()
            if self.result is not None:
                self._answered.set()
        return self._answered

    @property
    def id(self) -> str:
        """The API's id of the call, usable as an idempotency key. A gateway may reuse it in another response."""
        return self.input.id

    @property
    def idempotency_key(self) -> str:
        """See `RunningCall.idempotency_key`."""
        return f"{self.run_id}:{self.turn}:{self.id}"

    @property
    def name(self) -> str:
        """The tool's name, as the model wrote it."""
        return self.input.name

    @property
    def deps(self) -> Any:
        """The object that `run(..., context=...)` was given; None without one."""
        return self.host.deps

    @property
    def text(self) -> str:
        """The text of the result, as the model gets it; empty until there is one."""
        return text_of(self.result and self.result.get("content"))

    @property
    def block(self) -> Mapping[str, Any]:
        """See `RunningCall.block`."""
        return self.input.block

    @property
    def is_programmatic(self) -> bool:
        """See `RunningCall.is_programmatic`."""
        block = self.input.block
        return "caller" in block and is_programmatic(block)  # nearly no call has one

    @property
    def ran(self) -> bool:
        """True if the tool was called."""
        return self.state.ran

    @property
    def has_begun(self) -> bool:
        """True if the tool has been called, or is about to be."""
        return self.ran or self.state is CallState.ADMITTED

    @property
    def is_error(self) -> bool:
        """True if the call was answered with an error."""
        return bool(self.result and self.result.get("is_error"))

    def to_dict(self) -> dict[str, Any]:
        """Return the call as plain data, from which `from_dict` restores it.

        In the response's data, bytes become base64. Values without a JSON form become text, or are dropped.
        """
        return {
            "input": self.input.to_dict(),
            "turn": self.turn,
            "state": self.state.value,
            "rejected": self.input.interrupted,
            **{name: getattr(self, name) for name in _SAVED},
            "result": self.result,
            "response": saved_response(self.response) if self.response else None,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore a call from the data that `to_dict` returned. It is over: nothing runs it again.

        Raises:
            KeyError, ValueError, TypeError: `plain` is no such data.
        """
        call = cls(GrowingInput.from_dict(plain["input"]), plain["turn"], **{name: plain[name] for name in _SAVED})
        response = plain["response"]
        call.state = CallState(plain["state"])
        call.input.interrupted = plain["rejected"]
        call.response = response and ToolResponse.from_dict(response)
        call.result = plain["result"]
        return call

    def hand_on(self, call: ToolCall) -> None:
        """Give this call's result to the same call of a response that was restored. Its tool does not run again."""
        for name in _SAVED:
            setattr(call, name, getattr(self, name))
        call.response = self.response
        call.input.interrupted = self.input.interrupted
        call.state = self.state
        assert self.result is not None
        call._close(self.result)

    def answer_for_before(self, returned: Any) -> None:
        """Answer a call that had begun before its program ended. Its tool does not run again."""
        self.state = CallState.RUNNING
        if isinstance(returned, Invoked):
            self.end(returned)
        else:
            self.answer(returned)

    def start(self) -> None:
        """Report that the tool is called now. Does nothing if the call has been answered."""
        if self.result is not None:
            return
        self._started_s = monotonic()
        self.state = CallState.RUNNING
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("the call %.80r of the tool %.80r starts", self.id, self.name)
        for listener in self.listeners:
            listener.call_started(self)

    def progress(self, value: Any) -> Awaitable[None]:
        """See `RunningCall.progress`."""
        if self._loop is not None and not self._loop.is_here:
            self.report(value)
            return _NOTHING_TO_WAIT_FOR
        return self._progress(value)

    async def _progress(self, value: Any) -> None:
        self.report(value)
        await anyio.lowlevel.checkpoint()

    def report(self, value: Any) -> None:
        """Do the same as `progress`, for callers that do not wait."""
        if self._loop is not None and not self._loop.is_here:
            self._loop.do(partial(self.report, value), is_over=self.is_over)
        elif self.result is None:
            for listener in self.listeners:
                listener.call_progressed(self, value)

    def is_over(self) -> bool:
        """Return True if nobody waits for the tool any more."""
        return self.result is not None or self.state is CallState.ABANDONED

    def abandon(self) -> None:
        """Report that nobody waits for the tool any more."""
        if self.state is CallState.RUNNING:
            self.state = CallState.ABANDONED

    def enter_thread(self, loop: LoopThread) -> None:
        """Note that the tool runs in a thread, and the event loop that waits for it."""
        self._loop = loop

    def leave_thread(self) -> None:
        """Report the end of the tool's thread."""
        self._loop = None
        on_thread_end, self._on_thread_end = self._on_thread_end, None
        if on_thread_end is not None:
            on_thread_end()

    def after_thread(self, callback: Callable[[], object]) -> None:
        """Call `callback` when no thread runs the tool any more: now, unless one does. One callback at a time."""
        if self._loop is None:
            callback()
        else:
            self._on_thread_end = callback

    def let_go(self) -> None:
        """Report the end of the call, and keep nothing of its run: results are kept for long."""
        listeners, self.listeners, self.host = self.listeners, (), _NOBODY
        for listener in listeners:
            listener.call_ended(self)

    def answer(self, returned: Any, *, include_data: bool = False) -> None:
        """Answer with the tool's return value: text, content blocks, a `ToolResponse`, or anything with a JSON form.

        Raises:
            TypeError: It has no JSON form. The call is still unanswered.
        """
        is_response = isinstance(returned, ToolResponse)  # the data of anything else is its text
        self.end(Invoked(response_of(returned), include_data=include_data and is_response))

    def fail(self, error: BaseException, *, include_data: bool = False) -> None:
        """Answer with the tool's exception: the model gets `Class: message`."""
        self.end(Invoked(error_response(error), raised=True, error=error, include_data=include_data))

    def refuse(self, text: str | None = None, *, code: str = ToolErrorCode.EXECUTION_ERROR) -> None:
        """Answer with an error, without the tool or in its place.

        Args:
            text: The error. If None, the input is the error: the model gets it back as `{"INVALID_JSON": raw}`.
            code: A `ToolErrorCode`.
        """
        if text is not None:
            self.end(Invoked(ToolResponse.error(code, text), raised=True))
        elif self.result is None:
            self.response = ToolResponse.error(ToolErrorCode.INVALID_FORMAT, str(self.input.error))
            self._close(invalid_result(self.input))

    def refuse_unfinished(self, text: str | None = None, *, code: str = ToolErrorCode.EXECUTION_ERROR) -> None:
        """Answer a call whose tool was cancelled: with the reason, and with the part of its work that it has done."""
        self.was_cancelled = self.was_cancelled or self.result is None
        reason = text or self.cancel_reason or CANCELLED_TEXT
        self.refuse("\n".join(filter(None, [reason, self.done_so_far])), code=code)

    def cancel(self, reason: str) -> None:
        """Refuse a call that has not begun. For one that runs, keep the reason until its tool has been cancelled."""
        self.cancel_reason = reason
        if self.result is None and not self.ran:
            self.state = CallState.WITHDRAWN
            self.refuse(reason)

    def withdraw(self) -> None:
        """Refuse the call because the response ended in a way after which it must not start."""
        if self.result is None:
            self.state = CallState.WITHDRAWN
            self.refuse(NOT_RUN)

    def reject(self, reason: str) -> None:
        """Reject the call for a guard: it does not run. If it has started, its reads raise `InputInterrupted`."""
        if self.input.interrupted is None and self.result is None:
            self.input.interrupt(reason)
            if not self.ran:
                self.refuse(reason, code=ToolErrorCode.PERMISSION_DENIED)

    def end(self, said: Invoked, *, fault: str | None = None, is_unsure: bool = False) -> None:
        """Answer with the outcome of calling the tool. Does nothing if the call has an answer.

        Args:
            said: The outcome.
            fault: The fault of an input that is JSON. The input is echoed unchanged.
            is_unsure: True if the tool had started before its input was complete, and the input is unusable.

        Raises:
            TypeError: The response's text is no text, or its data has no JSON form. The call is still unanswered.
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
            if self.done_so_far and isinstance(content, str):
                content = f"{content}\n{self.done_so_far}".lstrip("\n")
            elif self.done_so_far:
                content = [*content, text_block(self.done_so_far)]
            result = begun_result(self.input, content, why=self.input.interrupted or fault, max_chars=max_chars)
        else:
            content = rendered(response, raised=said.raised, include_data=said.include_data)
            is_error = response.status is ToolStatus.ERROR
            if self.repaired is not None:
                content = with_repair(content, self.repaired)
            result = result_for(self.input, content, is_error=is_error, max_chars=max_chars)
        if self._started_s is not None:
            stats = response.stats or {}
            name = "wall_ms" if "time_ms" in stats else "time_ms"  # a tool may have measured its own time
            response = replace(response, stats={**stats, name: round((monotonic() - self._started_s) * 1000)})
        self.response = response
        self._close(result)
        report_failure(self.name, said.error)

    def _close(self, result: Block) -> None:
        self.result = result
        if self.state not in _ENDS:
            self.state = CallState.ANSWERED if self.ran else CallState.REFUSED
        self.tool = None  # results are kept for long
        if _log.isEnabledFor(logging.DEBUG):
            how = "an error" if self.is_error else "a result"
            if self.ran:
                _log.debug("the call %.80r of the tool %.80r has ended with %s", self.id, self.name, how)
            else:  # without its name, which the model may have made up
                _log.debug("the call %.80r was answered with %s, without a tool", self.id, how)
        if self._answered is not None:
            self._answered.set()
