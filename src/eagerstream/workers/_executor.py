"""`RemoteExecutor`: runs tools in the workers of a pool, and keeps every rule of the executor in this process."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread

from ..errors import UsageError, WorkerLost
from ..limits import DEFAULT_LIMITS, Limits
from ..streaming import GrowingInput, TextPlace
from ..tools import (
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
from ..wire import JSONObject, Outcome, check_count, check_positive
from ._crossing import error_from, response_from, value_from
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

_log = logging.getLogger(__name__)

_LARGE: Final = 256 * 1024
"""From so many characters or bytes on, a thread makes one text of an input, and a response of what came."""
_MAX_SENT_ELSEWHERE: Final = 3
"""Workers that may die of a call before its tool begins."""
_BEGIN_S: Final = 60.0
"""For a worker that has a whole input, to import the tool, check the input and call it: at least this, or as long as
the tool may run."""


class RemoteExecutor(InProcessExecutor):
    """Runs tools in the workers of pools.

    Everything but the tools themselves stays in this process: turns in groups, approval, guards, time limits, the
    circuit breaker. A call that waits for a free worker is not running: its time counts from when its tool begins.

    A worker that dies takes its calls with it. A call whose tool is `idempotent` is run again in another one; of
    any other the model is told that nobody knows whether its work was done. A call that had not begun is sent to
    another worker.

    Where a call is left (its run is cancelled, or its time is over), its tool is cancelled in the worker, and waited
    for; one that does not end within `cancel_grace_s`, and a plain `def`, ends with its process.

    Args:
        tools: As for `run`; definitions without a function are passed over.
        pool: Where they run; in this process where it is None.
        pools: Other pools, by the names of the tools that run there; None for this process.
        limits: `tool_timeout_s` bounds each call, unless its tool says otherwise.
        max_concurrency: Calls that run or wait for a worker at once; further ones wait for these.
        circuit_breaker: Says which tools have failed too often to be called; none by default.
        retries: How often a call of an `idempotent` tool is run again when its worker is lost.
        cancel_grace_s: Seconds that a cancelled tool has for its cleanup.

    Raises:
        UsageError: Tools that cannot run where they are to, all of them, each with the reason; two tools share a name;
            a number is out of its range.
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
        self._check_pools(tools)

    def _check_pools(self, tools: Toolbox) -> None:
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
    """There was a worker."""
    began: bool = False
    """The tool was called there."""
    _place: TextPlace = field(default_factory=TextPlace)
    """How much of the input has been sent."""
    _is_interrupted: bool = False
    """It was told that nothing more of the input is wanted."""
    _unbegun: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Around all that is said; its time is over where the worker has the whole input, and says nothing."""
    _last_word: LastWord | None = None
    _is_all_sent: bool = False
    _is_kept: bool = False
    """It was cancelled too late for a tool that is to finish once it has begun."""

    async def run(self, owner: object) -> Invoked:
        """What came of the call.

        Raises:
            WorkerLost: The worker was lost before it had said so.
            TimeoutError: It had the whole input, and did not call the tool.
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
                # What was said already counts. So does what a tool says that does not let itself be cancelled, as in
                # this process.
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
        if whole is not None:
            text += self._overflow()
        self._is_interrupted = input.interrupted is not None
        self._is_all_sent = whole is not None
        return Begin(dict(call.block), input.index, call.turn, call.limits, text, whole, input.interrupted)

    def _overflow(self) -> str:
        """A character over the limit, for an input that is: what is beyond is not kept, and has to be seen there."""
        input = self._call.input
        return " " if input.chars > self._call.limits.max_input_chars else ""

    def _limit_begin(self) -> None:
        if not self.began:
            self._unbegun.deadline = anyio.current_time() + self._begin_s

    async def _last(self, line: Line, *, is_growing: bool) -> None:
        faults: list[Exception] = []  # raised outside: no group of exceptions is to be made of them
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
        """Wait for a tool that had begun before the worker heard of the cancellation: it is shielded from it now."""
        try:
            await self._last(line, is_growing=not self._is_all_sent)
        except anyio.get_cancelled_exc_class():
            self._last_word = self._last_word or await self._cancelled(line)
            if not isinstance(self._last_word, Ended):
                raise

    async def _listen(self, line: Line, *, until_begun: bool = False) -> LastWord | None:
        """Take in what the worker says, up to its last word; None where it is only waited for the beginning."""
        while True:
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
        """Send what comes of the input, as it comes: what comes while something is sent, is sent together."""
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
            return  # who listens is told of it, too
        except Exception as error:  # a message that is too large
            faults.append(error)
            scope.cancel()

    async def _cancelled(self, line: Line) -> LastWord | None:
        """Have the tool cancelled, and wait for its cleanup; None where it takes too long."""
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
