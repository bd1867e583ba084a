"""`CallRunner`: starts, cancels and ends calls, for `run`, `EarlyCalls` and `Conversation.execute` alike."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from .._support.event_loops import LoopThread
from ..inputs import GrowingInput
from ..tools._call import ToolCall
from ..tools._executor import Executor
from ._settle import answer
from ._sub_runs import CallRuns
from ._turn import Step, Turn

_log = logging.getLogger(__name__)

_CODE_WAITS_S: Final = 270.0
"""Seconds for which the API lets code wait for the result of a call; it then raises `TimeoutError` in the code.

The call continues then, and the log says that its result comes too late.
"""


class CallRunner:
    """Runs each call in a task, ensures that it is answered, and reports its end once.

    Args:
        executor: Runs the calls.
        tasks: The task group. Cancelling it cancels all tools; `close` then answers their calls.
        deadline: That of the task which began the group, as it was then. Tools see it with
            `anyio.current_effective_deadline`, and are cancelled when it passes. If it is moved, they do not learn of
            that.
        waits_for_input: A cancelled call is answered when its input is settled: the end of a call is its last event.
            `EarlyCalls` sets it to False, because nobody need feed the rest of a response that was left.

    Attributes:
        is_stopped: No call that has not started yet may start.
    """

    def __init__(
        self, executor: Executor, tasks: TaskGroup, *, deadline: float = math.inf, waits_for_input: bool = True
    ) -> None:
        self.is_stopped: bool = False
        self._executor = executor
        self._tasks = tasks
        self._deadline = deadline
        self._waits_for_input = waits_for_input
        self._home = LoopThread()
        self._open: dict[ToolCall, None] = {}  # those that were started, and whose end was not reported
        self._scopes: dict[ToolCall, anyio.CancelScope] = {}
        self._expected: dict[GrowingInput, _Work] = {}  # that of the tasks which wait for calls of these

    def __contains__(self, call: ToolCall) -> bool:
        """Return True if the call was started, and its end has not been reported."""
        return call in self._open

    @property
    def is_idle(self) -> bool:
        """No task waits for a call or runs one; at most, a task is in its last step."""
        return not (self._open or self._expected)

    def take(self, step: Step) -> None:
        """Carry out a step of a turn."""
        for call in step.cancelled:
            self.cancel(call)
        # The entry before the task: if the input ends in the same chunk, `start` must find it before the task has run.
        for input in step.expected:
            work = self._expected[input] = _Work(input)
            self._tasks.start_soon(self._run, work)
        for call in step.started:
            self.start(call)
        # The tasks whose inputs have ended without a call to start. In a list, because entries are removed.
        for input in [*self._expected]:
            if input.outcome is not None:
                self._expected.pop(input).begin(None)

    def start(self, call: ToolCall) -> None:
        """Run a call that was given its place among the others (`Executor.admit`)."""
        # Open from here, not from the first step of its task: a framework may ask for the call, or cancel it, before
        # that (test_a_call_is_known_before_its_task_has_started).
        self._open[call] = None
        expected = self._expected.pop(call.input, None)
        if expected is not None:
            expected.begin(call)
        else:
            self._tasks.start_soon(self._run, _Work(call.input, call))

    def cancel(self, call: ToolCall) -> None:
        """Cancel the tool of a call whose result nobody wants any more."""
        # A call whose task has not started has no scope. Either its owner has answered it (`ToolCall.withdraw`), and
        # the executor leaves it alone, or it is idempotent and may run.
        if call in self._scopes:
            self._scopes[call].cancel()

    def stop(self) -> None:
        """Cancel all calls, and start none that has been admitted."""
        # The flag is for calls whose tasks have no scope yet.
        self.is_stopped = True
        for scope in [*self._scopes.values()]:
            scope.cancel()

    def end(self, call: ToolCall) -> None:
        """Report the end of a call that has its result, unless it was reported."""
        self._open.pop(call, None)
        call.let_go()

    def close(self) -> None:
        """Answer the calls without a result, and report their ends; no task runs any more."""
        # If the owner was cancelled from outside, tasks have ended without an answer. All answers come before the first
        # report, because a listener may look at the other calls.
        left = [*self._open]
        for call in left:
            answer(call)
        # Each end is reported, even if a listener raises; the stack keeps the exceptions in each other's context.
        with ExitStack() as ends:
            for call in reversed(left):
                ends.callback(self.end, call)

    async def _run(self, work: _Work) -> None:
        runs = CallRuns(self._home)
        # A scope for each call: one call is cancelled without the others.
        with anyio.CancelScope(deadline=self._deadline) as scope:
            try:
                with runs:
                    try:
                        await self._wait_for_call(work, runs, scope)
                    finally:
                        # If this is cancelled after the call was admitted, the call must reach the executor all the
                        # same, or its place would be lost to other runs
                        # (test_leaving_gives_back_the_place_of_a_call_about_to_begin).
                        if work.call is not None:
                            if (gate := work.call.host.gate) is not None:
                                await self._pass_gate(work.call, gate)
                            if work.call.is_programmatic:
                                await _execute_for_code(self._executor, work.call)
                            else:
                                await self._executor.execute(work.call)
            except Exception as error:
                # The executor may be the user's. An exception in this task would cancel all other tools.
                assert work.call is not None
                work.call.fail(error)
            finally:
                call = work.call
                if call is not None:
                    self._scopes.pop(call, None)
            if call is not None and call.result is None:
                # Somebody waits for this answer before the next request (test_an_executor_without_an_answer).
                call.refuse("Error: the executor gave this call no answer")
        if call is not None:
            # If the call was cancelled, it ends after its input: consumers get the `InputStop` before the `ToolStop`,
            # and the answer may have to quote the complete text. Outside the scope, in which the waiting would be
            # cancelled, too.
            if call.result is None:
                if self._waits_for_input:
                    await call.input.ended()
                answer(call)
            self.end(call)
        # The call keeps its tool's error, and the error keeps frames. From Python 3.12 on, a frame keeps its callers,
        # too: the run, its client and its buffer stayed with each result (test_a_result_keeps_no_run).
        del self, work, scope, runs

    async def _pass_gate(self, call: ToolCall, gate: Callable[[ToolCall], Awaitable[None]]) -> None:
        # An executor of the user's may call the tool at any moment once it has the call, unless that is answered.
        if call.result is not None or getattr(self._executor, "passes_gate", False):
            return
        try:
            await gate(call)
        except anyio.get_cancelled_exc_class():
            # As above: it must have the call, to take back its place. Answered, so that its tool is not called.
            answer(call)
            await self._executor.execute(call)
            raise

    async def _wait_for_call(self, work: _Work, runs: CallRuns, scope: anyio.CancelScope) -> None:
        """Wait until the call of a task may run, and take it up."""
        try:
            # Not if it was called already, because the call came in one chunk: to wait for an event that is set takes
            # one pass of the event loop (test_one_pass_from_an_input_to_its_tool).
            if work.begun is not None and not work.begun.is_set():
                await work.begun.wait()
        finally:
            self._expected.pop(work.input, None)
            call = runs.call = work.call
            if call is not None:
                self._scopes[call] = scope
        if call is not None and self.is_stopped:
            # Stopped after it was admitted. The call is answered so that it does not start, and still goes to the
            # executor, which takes its place back. The answer waits for the end of the input, because it may have to
            # quote a text that `cancel` cuts off.
            await call.input.ended()
            answer(call)


class _Work:
    """The work of a task: a call, or an input at whose end a call will probably start.

    Attributes:
        input: The input, or that of the call.
        call: The call; None until it is known.
        begun: Set by `begin`; None if the call was known from the start.
    """

    # A task is prepared for each input, so that its tool starts sooner once the input ends. All that needs no call is
    # done before that: of 440 µs from an input to its tool, 53 were for the start of a task, and 33 for its scope and
    # its context.

    def __init__(self, input: GrowingInput, call: ToolCall | None = None) -> None:
        self.input = input
        self.call = call
        self.begun = anyio.Event() if call is None else None

    def begin(self, call: ToolCall | None) -> None:
        """Run this call now; None if the input has ended without one."""
        assert self.begun is not None
        self.call = call
        self.begun.set()


async def execute(turn: Turn) -> None:
    """See `Conversation.execute`."""
    own = turn.take_up()
    try:
        async with anyio.create_task_group() as tasks:
            runner = CallRunner(turn.executor, tasks)
            for call in own:
                if turn.admit(call):
                    runner.start(call)
    finally:
        turn.put_back(own)
    # Also for the calls of another task that executes the turn: closing it now would answer them as not run.
    for call in turn.calls:
        await call.answered.wait()
    turn.close()


async def _execute_for_code(executor: Executor, call: ToolCall) -> None:
    """Execute a call that code made, and log a warning if the code stops waiting for it before it ends."""

    async def warn() -> None:
        await anyio.sleep(_CODE_WAITS_S)
        what = "a call of the tool %.80r by code runs for longer than %g s: the API waits no longer for its result"
        _log.warning(what, call.name, _CODE_WAITS_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(warn)
        try:
            await executor.execute(call)
        except Exception as error:
            # Here, because the task group would wrap it, and the model would read "ExceptionGroup".
            call.fail(error)
        tasks.cancel_scope.cancel()
