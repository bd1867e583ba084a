"""`RemoteExecutor`: runs tools in the workers of a pool, and applies every rule of the executor in this process."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from eagerstream import JSONObject, Outcome
from eagerstream._support.checks import check_count, check_positive
from eagerstream._support.logs import logger_of
from eagerstream.errors import UsageError, WorkerLost
from eagerstream.inputs import GrowingInput, TextPlace
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import (
    CircuitBreaker,
    InProcessExecutor,
    Invoked,
    Tool,
    Toolbox,
    ToolCall,
    ToolErrorCode,
    ToolResponse,
    as_tool,
    error_text,
)

from ._crossing import dumps, error_from, response_from, value_from
from ._messages import (
    Begin,
    Cancel,
    Cancelled,
    End,
    Ended,
    Interrupt,
    LastWord,
    Line,
    More,
    Progress,
    Refused,
    Started,
    Workers,
)

_log = logger_of(__name__)

_LARGE: Final = 256 * 1024
"""Size in characters or bytes above which an input or a response is processed in a thread."""
_MAX_SENT_ELSEWHERE: Final = 3
"""Maximum number of times to send a call to another worker because a worker died before the tool started."""
_BEGIN_S: Final = 60.0
"""Minimum time for a worker with the complete input to import the tool, check the input and call the tool. If the
tool's own timeout is longer, that timeout applies."""


class RemoteExecutor(InProcessExecutor):
    """Executor that runs tools in the workers of pools.

    Only the tools run elsewhere. Groups of a turn, approval, guards, timeouts and the circuit breaker stay in this
    process. A call that waits for a free worker is not running: its timeout starts when its tool starts.

    If a worker dies, its calls are lost. A call that had not started is sent to another worker. If the tool had started
    and is `idempotent`, the call is retried in another worker. Otherwise the model gets an error that the result of the
    work is unknown.

    If a call is cancelled or times out, its tool is cancelled in the worker, and the executor waits for it. If the tool
    does not end within `cancel_grace_s`, its process is ended. A plain `def` cannot be cancelled, so the same applies
    to it.

    A tool that takes a `Context` gets a copy of the run's context for each call, which pickle must be able to make.

    Args:
        tools: Tools as for `run`. Definitions without a function are skipped.
        pool: Pool that runs the tools. `None` runs them in this process.
        pools: Other pools, by the names of the tools that they run. `None` stands for this process.
        limits: `tool_timeout_s` bounds each call, unless its tool sets its own timeout.
        max_concurrency: Maximum number of calls that run or wait for a worker at once. Further calls wait.
        circuit_breaker: Blocks tools that have failed too often. None by default.
        retries: Maximum number of retries of a call of an `idempotent` tool after its worker is lost.
        cancel_grace_s: Seconds that a cancelled tool has for its cleanup.

    Raises:
        UsageError: Two tools share a name, `pools` names an unknown tool, a number is out of range, or a tool cannot
            run in its pool. The text lists all such tools, each with its reason.
    """

    def __init__(
        self,
        tools: Toolbox | Iterable[object] = (),
        *,
        pool: Workers | None = None,
        pools: Mapping[str, Workers | None] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        max_concurrency: int = 16,
        circuit_breaker: CircuitBreaker | None = None,
        retries: int = 1,
        cancel_grace_s: float = 5.0,
    ) -> None:
        if not isinstance(tools, Toolbox):
            made = [as_tool(tool, runs_elsewhere=True) for tool in tools]
            tools = Toolbox(tool for tool in made if tool is not None)
        super().__init__(tools, limits=limits, max_concurrency=max_concurrency, circuit_breaker=circuit_breaker)
        check_count("retries", retries, least=0)
        check_positive("cancel_grace_s", cancel_grace_s)
        self._pool = pool
        self._pools = dict(pools or {})
        self._retries = retries
        self._cancel_grace_s = cancel_grace_s
        known = {tool.name: tool for tool in tools}
        faults = [f"pools names {name!r}, which is no tool" for name in self._pools if name not in known]
        for name, tool in known.items():
            workers = self._workers_of(tool)
            fault = None if workers is None else workers.fault_of(tool)
            faults += [] if fault is None else [f"{name} {fault}"]
        if faults:
            raise UsageError("; ".join(faults))

    def _workers_of(self, tool: Tool) -> Workers | None:
        return self._pools.get(tool.name, self._pool)

    def fault_of_context(self, context: object, tools: Iterable[Tool]) -> str | None:
        """See `Executor`: a tool in a worker gets a copy of the context, made by pickle."""
        names = [tool.name for tool in tools if tool.takes_context and self._workers_of(tool) is not None]
        if not names:
            return None
        try:
            dumps(context)
        except Exception as error:  # any code may run in here
            return f"{', '.join(names)}: the context cannot be sent to the workers of these tools: {error_text(error)}"
        return None

    async def _arguments_in_time(self, call: ToolCall, tool: Tool | None) -> JSONObject | None:
        is_large = call.input.chars > _LARGE and call.input.outcome is Outcome.VALID
        if is_large and tool is not None and tool.approve is None and self._workers_of(tool) is not None:
            return {}  # its worker checks it
        return await super()._arguments_in_time(call, tool)

    async def _invoke(self, tool: Tool, arguments: JSONObject, call: ToolCall, begin: Callable[[], object]) -> Invoked:
        workers = self._workers_of(tool)
        if workers is None:
            return await super()._invoke(tool, arguments, call, begin)
        retries, elsewhere = self._retries, _MAX_SENT_ELSEWHERE
        while True:
            begin_s = max(self._timeout_s(tool), _BEGIN_S)
            visit = _Visit(workers, tool, call, begin, begin_s, self._cancel_grace_s)
            try:
                return await visit.run(owner=self)
            except WorkerLost as error:
                if not visit.is_through:
                    raise  # there is no worker
                began = visit.began or error.may_have_begun
                if began and not (tool.idempotent and retries):
                    raise WorkerLost(
                        f"the worker that ran this tool was lost ({error}): whether its work was done is not known"
                    ) from error
                retries -= began
                elsewhere -= not began
                if elsewhere < 0:
                    raise
                _log.warning("the worker of a call of %s was lost: the call is sent to another one", tool.name)


@dataclass(eq=False)
class _Visit:
    """A call at one worker."""

    _workers: Workers
    _tool: Tool
    _call: ToolCall
    _begin: Callable[[], object]
    _begin_s: float
    _cancel_grace_s: float
    is_through: bool = False
    """True if a worker was available."""
    began: bool = False
    """True if the worker called the tool."""
    _place: TextPlace = field(default_factory=TextPlace)
    """Position up to which the input has been sent."""
    _is_interrupted: bool = False
    """True if the worker knows that the rest of the input is not needed."""
    _unbegun: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Scope around all messages. Its deadline passes if the worker has the complete input and sends nothing."""
    _last_word: LastWord | None = None
    _is_all_sent: bool = False
    _is_kept: bool = False
    """True if the cancellation came after the start of a tool that must finish once started."""

    async def run(self, owner: object) -> Invoked:
        """Return the result of the call.

        Raises:
            WorkerLost: The worker was lost before it sent the result.
            TimeoutError: The worker had the complete input, and did not call the tool in time.
            ToolError: Too many calls wait for a worker, or a message is too large.
        """
        async with self._workers.line(self._call, self._tool, owner) as line:
            self.is_through = True
            first = await self._first()
            try:
                with self._unbegun:
                    if first.whole is not None:
                        self._limit_begin()
                    await line.send(first)
                    await self._last(line, is_growing=first.whole is None)
            except anyio.get_cancelled_exc_class():
                # A result that has arrived counts. So does the result of a tool that ignores cancellation, as in this
                # process.
                self._last_word = self._last_word or await self._cancelled(line)
                if self._last_word is None and self._is_kept:
                    await self._finish(line)
                if not isinstance(self._last_word, Ended):
                    raise
            if self._last_word is None:
                raise TimeoutError(f"the worker did not call the tool within {self._begin_s:g} seconds")
            return await self._invoked(self._last_word)

    async def _first(self) -> Begin:
        call, input = self._call, self._call.input
        if input.outcome is not None and input.chars > _LARGE:
            text, self._place = await anyio.to_thread.run_sync(input.text_after, self._place)
        else:
            text, self._place = input.text_after(self._place)
        whole = _whole(input)
        if call.repaired is not None:
            text = json.dumps(call.repaired)
        elif whole is not None:
            text += self._overflow()
        self._is_interrupted = input.interrupted is not None
        self._is_all_sent = whole is not None
        context = dumps(call.deps) if self._tool.takes_context else None
        return Begin(
            dict(call.block),
            input.index,
            call.turn,
            call.limits,
            text,
            whole,
            input.interrupted,
            run_id=call.run_id,
            context=context,
        )

    def _overflow(self) -> str:
        """Return one character if the input is over the limit: its text is cut, and the worker must see the excess."""
        input = self._call.input
        return " " if input.chars > self._call.limits.max_input_chars else ""

    def _limit_begin(self) -> None:
        if not self.began:
            self._unbegun.deadline = anyio.current_time() + self._begin_s

    async def _last(self, line: Line, *, is_growing: bool) -> None:
        faults: list[Exception] = []  # raised outside, to avoid an exception group
        async with anyio.create_task_group() as tasks:
            if is_growing:
                tasks.start_soon(self._forward, line, faults, tasks.cancel_scope)
            try:
                self._last_word = await self._listen(line)
            except Exception as error:
                faults.append(error)
            tasks.cancel_scope.cancel()
        if self._last_word is None and faults:
            raise faults[0]

    async def _finish(self, line: Line) -> None:
        """Wait for a tool that started before the worker received the cancellation. It is now shielded from it."""
        try:
            await self._last(line, is_growing=not self._is_all_sent)
        except anyio.get_cancelled_exc_class():
            self._last_word = self._last_word or await self._cancelled(line)
            if not isinstance(self._last_word, Ended):
                raise

    async def _listen(self, line: Line, *, until_begun: bool = False) -> LastWord | None:
        """Process messages, and return the last one; with `until_begun`, return `None` once the tool starts."""
        while True:
            await anyio.lowlevel.checkpoint_if_cancelled()
            message = await line.receive()
            self._unbegun.deadline = math.inf
            match message:
                case Started():
                    self.began = True
                    if not self._call.ran:
                        self._begin()
                    if until_begun:
                        return None
                case Progress(value):
                    self._call.report(value_from(value))
                case Refused() | Ended() | Cancelled():
                    return message

    async def _forward(self, line: Line, faults: list[Exception], scope: anyio.CancelScope) -> None:
        """Send the input as it arrives. Text that arrives during a send is sent together."""
        input = self._call.input
        try:
            while True:
                lost = str(input.error) if input.is_damaged else None
                if (why := input.interrupted or lost) is not None and not self._is_interrupted:
                    self._is_interrupted = True
                    await line.send(Interrupt(why))
                whole = _whole(input)
                text, self._place = input.text_after(self._place)
                text += self._overflow() if whole is not None else ""
                if text:
                    await line.send(More(text))
                elif whole is None:
                    await input.changed()
                if whole is not None:
                    self._limit_begin()
                    self._is_all_sent = True
                    await line.send(End(whole))
                    return
        except WorkerLost:
            return  # the listener gets the error, too
        except Exception as error:  # a message that is too large
            faults.append(error)
            scope.cancel()

    async def _cancelled(self, line: Line) -> LastWord | None:
        """Cancel the tool, and wait for its cleanup; return `None` if it takes too long."""
        is_kept = self._tool.on_cancel == "finish" and not self.began
        try:
            with anyio.move_on_after(self._cancel_grace_s, shield=True):
                await line.send(Cancel(unless_begun=is_kept))
                last = await self._listen(line, until_begun=is_kept)
                self._is_kept = last is None
                return last
        except WorkerLost:
            pass
        return None

    async def _invoked(self, last: LastWord) -> Invoked:
        match last:
            case Refused(text, code, error):
                cause = None if error is None else error_from(error)
                return Invoked(ToolResponse.error(code, text), raised=True, error=cause)
            case Ended():
                self._call.blocked_s = max(self._call.blocked_s, last.blocked_s)
                try:
                    if len(last.response) > _LARGE:
                        with anyio.CancelScope(shield=True):
                            response = await anyio.to_thread.run_sync(response_from, last.response)
                    else:
                        response = response_from(last.response)
                except Exception as error:
                    text = f"the tool's result cannot be read in this process: {error_text(error)}"
                    return Invoked(ToolResponse.error(ToolErrorCode.INTERNAL_ERROR, text), raised=True, error=error)
                cause = None if last.error is None else error_from(last.error)
                return Invoked(response, last.raised, cause, last.include_data)
            case Cancelled():  # by the worker's own end
                raise WorkerLost("it was told to end")


def _whole(input: GrowingInput) -> bool | None:
    return None if input.outcome is None else input.outcome is not Outcome.INCOMPLETE
