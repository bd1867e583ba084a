"""`CallRunner`: starts, cancels and ends calls, for `run`, `EarlyCalls` and `Turn.execute` alike."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup

from ..streaming import GrowingInput
from ..tools._call import CallListener, ToolCall
from ..tools._executor import Executor
from ._settle import answer

if TYPE_CHECKING:
    from ._turn import Step

_log = logging.getLogger(__name__)

_CODE_WAITS_S: Final = 270.0
"""Seconds for which the API lets code wait for the result of a call; it then raises `TimeoutError` in the code."""


class CallRunner:
    """Gives each call its place, runs it in a task, and sees that it is answered and that its end is reported once.

    Args:
        executor: Runs the calls.
        tasks: The task group. Cancelling it cancels all tools; `close` then answers their calls.
        waits_for_input: A cancelled call is answered when its input is settled: the end of a call is its last event.

    Attributes:
        is_stopped: No call that has not started yet may start.
    """

    def __init__(self, executor: Executor, tasks: TaskGroup, *, waits_for_input: bool = True) -> None:
        self.is_stopped = False
        self._executor = executor
        self._tasks = tasks
        self._waits_for_input = waits_for_input
        self._open: dict[ToolCall, None] = {}  # those that were started, and whose end was not reported
        self._scopes: dict[ToolCall, anyio.CancelScope] = {}
        self._expected: dict[GrowingInput, ToolCall | None] = {}  # what the tasks run that wait for the ends of these

    def __contains__(self, call: ToolCall) -> bool:
        """The call was started, and has not ended."""
        return call in self._open

    def take(self, step: Step) -> None:
        """Do what follows from events."""
        for call in step.cancelled:
            self.cancel(call)
        for input in step.expected:
            self._expected[input] = None
            self._tasks.start_soon(self._run_expected, input)
        for call in step.started:
            self.start(call)

    def start(self, call: ToolCall) -> None:
        """Run a call that was given its place among the others (`Executor.admit`)."""
        self._open[call] = None
        if call.input in self._expected:
            self._expected[call.input] = call  # its task is there by now
        else:
            self._tasks.start_soon(self._run, call)

    def cancel(self, call: ToolCall) -> None:
        """Nobody wants its result any more: cancel the tool, if it runs."""
        if call in self._scopes:
            self._scopes[call].cancel()

    def stop(self) -> None:
        """Cancel all calls, and start none that has been admitted."""
        self.is_stopped = True
        for scope in [*self._scopes.values()]:
            scope.cancel()

    def end(self, call: ToolCall) -> None:
        """Report the end of a call that has its result, unless it was reported."""
        self._open.pop(call, None)
        listener = call.listener
        call.listener = CallListener()  # a call may be kept for long, and must not keep the run
        if not call.is_reported:
            call.is_reported = True
            listener.call_ended(call)

    def close(self) -> None:
        """No task runs any more: answer what has no result, and report the end of it."""
        left = [*self._open]
        for call in left:
            answer(call)
        with ExitStack() as ends:  # each is reported, even if a listener raises
            for call in reversed(left):
                ends.callback(self.end, call)

    async def _run_expected(self, input: GrowingInput) -> None:
        try:
            await input.ended()
        finally:
            call = self._expected.pop(input)
            if call is not None:  # if this is cancelled, too: the call gives its place back
                await self._run(call)
            del self  # as in `_run`

    async def _run(self, call: ToolCall) -> None:
        if self.is_stopped:  # since it was admitted: it must not start, and gives its place back
            await call.input.ended()
            answer(call)
        with anyio.CancelScope() as self._scopes[call]:
            try:
                if call.is_programmatic:
                    await _execute_for_code(self._executor, call)
                else:
                    await self._executor.execute(call)
            except Exception as error:
                call.fail(error)
            finally:
                del self._scopes[call]
            if call.result is None:
                call.refuse("Error: the executor gave this call no answer")
        if call.result is None:  # it was cancelled
            if self._waits_for_input:
                await call.input.ended()
            answer(call)
        self.end(call)
        # The call keeps its tool's error, and the error keeps frames. From Python 3.12 on, a frame keeps its callers,
        # too: a result would keep the run.
        del self


async def _execute_for_code(executor: Executor, call: ToolCall) -> None:
    """Have a call of code executed, and log it if the code stops waiting for it before it ends."""

    async def warn() -> None:
        await anyio.sleep(_CODE_WAITS_S)
        what = "a call of the tool %.80r by code runs for longer than %g s: the API waits no longer for its result"
        _log.warning(what, call.name, _CODE_WAITS_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(warn)
        try:
            await executor.execute(call)
        except Exception as error:  # here: the task group would wrap it
            call.fail(error)
        tasks.cancel_scope.cancel()
