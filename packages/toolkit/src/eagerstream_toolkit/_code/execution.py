"""`CodeExecution`: one call of `run_code`, from the first piece of its code to its result."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

import anyio
import anyio.lowlevel

from eagerstream import JSON
from eagerstream.errors import InputInterrupted, ToolError
from eagerstream.tools import RunningCall, TextStream, ToolErrorCode, ToolResponse

from .._bash.output import Output
from .._reporter import SHOWN_CHARS, Reporter
from .calls import CodeCalls, CodeSettings
from .sandbox import CodeSession, CodeValue, StatementEnd, StatementResult
from .sessions import HeldSession
from .statements import Statement, StatementSplitter

_CODES: Final = {
    # Not the tool's fault: its circuit breaker does not count what the model writes.
    StatementEnd.INVALID: ToolErrorCode.INVALID_FORMAT,
    StatementEnd.RAISED: ToolErrorCode.INVALID_PARAM,
    StatementEnd.LOST: ToolErrorCode.EXECUTION_ERROR,
}
_FINISH_S: Final = 2.0
"""Minimum time for ending the tasks of the code."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The reason why the code ended before its end.

    Attributes:
        code: A `ToolErrorCode`.
        text: The error, for the model.
        statement: The statement that was at fault; None if none was running.
        begun: True if the statement may have had effects.
        tells_of_variables: True if the text goes on with whether the variables are still there.
    """

    code: str
    text: str
    statement: Statement | None = None
    begun: bool = False
    tells_of_variables: bool = False


class _State(Enum):
    RUNNING = "running"
    DONE = "done"
    INVALID = "invalid"
    RAISED = "raised"
    LOST = "lost"
    STOPPED = "stopped"


class CodeExecution:
    """The execution of one call's code. It is the `CodeHost` of its session."""

    def __init__(self, code: TextStream, call: RunningCall, held: HeldSession, settings: CodeSettings) -> None:
        self._code = code
        self._call = call
        self._held = held
        self._settings = settings
        self._left_s = settings.timeout_s
        self._output = Output(settings.max_output_chars)
        self._reporter = Reporter(call, self._progress)
        self._calls = CodeCalls(call, settings, self._reporter.report)
        self._splitter = StatementSplitter()
        self._complete: deque[Statement] = deque()
        self._more = anyio.Event()
        self._is_written = False
        self._cut: InputInterrupted | None = None
        self._scope: anyio.CancelScope | None = None
        """Of the statement that runs."""
        self._first: Statement | None = None
        self._last: Statement | None = None
        """The last statement that ran to its end."""
        self._current: Statement | None = None
        self._state = _State.RUNNING
        self._number = 0
        self._resets = False
        self._failure: _Failure | None = None
        self._value = CodeValue()
        self._unreached: Counter[str] = Counter()

    async def response(self) -> ToolResponse:
        """Run the code, and return the response to the call.

        Raises:
            ToolError: The code did not run to its end. The text says how far it came.
        """
        try:
            async with self._calls, anyio.create_task_group() as tasks:
                if self._settings.early_calls:
                    self._calls.start_early(tasks, self._held.bound_names)
                tasks.start_soon(self._read)
                tasks.start_soon(self._reporter.tell)
                self._reporter.report()  # viewers show the code by lines from the start
                try:
                    while await self._run_in_session():
                        self._held.close()
                except ToolError as error:  # no interpreter could be started
                    self._failure = _Failure(error.code or ToolErrorCode.EXECUTION_ERROR, str(error))
                self._stop_early()
                tasks.cancel_scope.cancel()
        except BaseException:
            self._stop_early()
            self._output.close()
            began = None if self._current is self._last else self._current
            failure = self._failure or _Failure("", "", began, begun=True)
            told = [self._output.text(), self._bounded(failure.text), *self._unreached_note, self._truth(failure)]
            self._call.done_so_far = "\n".join(filter(None, told))
            raise
        response = self._response()
        self._call.done_so_far = self._truth(_Failure("", ""))  # the input may still turn out to be unusable
        return response

    def _stop_early(self) -> None:
        if self._calls.early is not None:
            self._unreached = self._calls.early.stop()

    # --- `CodeHost` ---------------------------------------------------------------------------------------------------

    def print(self, text: str) -> None:
        """See `CodeHost`."""
        self._output.feed(text.encode(errors="replace"))
        self._reporter.note()

    async def call(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        """See `CodeHost`."""
        if name == RESET:
            self._resets = True
            return None
        return await self._calls.call(name, arguments)

    # --- the statements -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read the code, and keep its statements as they become complete."""
        try:
            async for piece in self._code:
                await self._add(self._splitter.steps(piece))
            await self._add(self._splitter.last_steps())
        except InputInterrupted as error:
            # The complete statements that wait do not run either: the model does not mean this code.
            self._cut = error
            self._complete.clear()
            if self._call.input.interrupted is not None and self._scope is not None:
                self._scope.cancel()
        self._is_written = True
        self._more.set()

    async def _add(self, steps: Iterator[Statement | None]) -> None:
        """Keep the statements of some text. If it takes several steps, others run in between."""
        for number, statement in enumerate(steps):
            if number:
                await anyio.lowlevel.checkpoint()
            if statement is not None:
                if self._calls.early is not None:
                    self._calls.early.see(statement)
                self._complete.append(statement)
                self._more.set()

    async def _next(self) -> Statement | None:
        """Wait for the next complete statement. Return None after the last one."""
        while not self._complete:
            if self._is_written:
                return None
            self._more = anyio.Event()
            await self._more.wait()
        return self._complete.popleft()

    async def _run_in_session(self) -> bool:
        """Run statements in the session, and return whether a new one must run the rest."""
        session = await self._held.get()
        async with session.serve(self):
            while (statement := await self._next()) is not None:
                if not await self._run(session, statement) or self._resets:
                    break
            if not session.has_ended:
                with anyio.move_on_after(max(self._left_s, _FINISH_S)) as scope:
                    self._value = await session.finish()
                if scope.cancelled_caught and self._failure is None:
                    self._failure = _Failure(ToolErrorCode.TIMEOUT, _UNENDED, tells_of_variables=True)
        # Only here: tasks of the code that did not end may have cost the interpreter its life at last.
        if self._failure is not None and self._failure.tells_of_variables:
            kept = "All variables are gone." if session.has_ended else "The variables are still there."
            self._failure = replace(self._failure, text=self._failure.text + kept)
        resets, self._resets = self._resets, False
        return resets and self._failure is None

    async def _run(self, session: CodeSession, statement: Statement) -> bool:
        """Run a statement, and return whether the next one may run."""
        self._first = self._first or statement
        self._current = statement
        self._number += 1
        self._tell(_State.RUNNING)
        begun_s = anyio.current_time()
        result: StatementResult | None = None
        try:
            with anyio.move_on_after(self._left_s) as self._scope:
                result = await session.run(statement)
        finally:
            self._scope = None
            self._left_s -= anyio.current_time() - begun_s
            if self._calls.early is not None:
                self._calls.early.ended(statement)
            if result is None:
                self._tell(_State.STOPPED)
        if result is None:
            interrupted = self._call.input.interrupted
            if interrupted is not None:
                code, text = ToolErrorCode.PERMISSION_DENIED, f"{interrupted}\n"
            else:
                limit = f"{self._settings.timeout_s:g} seconds"
                code, text = ToolErrorCode.TIMEOUT, f"TimeoutError: the code did not finish within {limit}. "
            self._failure = _Failure(code, text, statement, begun=True, tells_of_variables=True)
        elif result.end is StatementEnd.DONE:
            self._last = statement
            self._tell(_State.DONE)
        else:
            self._tell(_State(result.end.value))
            begun = result.end is not StatementEnd.INVALID
            self._failure = _Failure(_CODES[result.end], result.text, statement, begun)
        return self._failure is None

    # --- progress -----------------------------------------------------------------------------------------------------

    def _tell(self, state: _State) -> None:
        self._state = state
        self._reporter.report()

    def _progress(self) -> dict[str, Any]:
        current = self._current
        return {
            "parameter": "code",
            "statement": self._number,
            "line": current.line if current else 0,
            "end_line": current.end_line if current else 0,
            "state": self._state.value,
            "calls": self._calls.running,
            "output": self._output.end(SHOWN_CHARS),
        }

    # --- the result ---------------------------------------------------------------------------------------------------

    def _response(self) -> ToolResponse:
        """Return the response.

        Raises:
            ToolError: The code did not run to its end. The text says how far it came.
        """
        self._output.close()
        output = self._output.text()
        data = {
            "output": output,
            "value": self._value.data,
            "statements": self._number - (self._failure is not None and self._failure.statement is not None),
            "calls": self._calls.count,
        }
        if self._settings.early_calls:
            data["unreached"] = dict(self._unreached)
        failure = self._failure
        if failure is None and self._cut is not None:
            where = "in the statement that begins in" if self._splitter.open.strip() else "before"
            cut = f"The code is not complete: it ends {where} line {self._splitter.open_line}. {self._cut.reason}"
            failure = _Failure(ToolErrorCode.INVALID_FORMAT, cut)
        notes = [_LOST_BEFORE] if self._held.was_lost else []
        self._held.was_lost = False
        notes += self._unreached_note
        if failure is None:
            if self._value.cancelled_tasks:
                notes.append(_CANCELLED.format(self._value.cancelled_tasks))
            value = self._bounded(self._value.text)
            return ToolResponse.success("\n".join(filter(None, [output, value, *notes])), data)
        notes.append(self._truth(failure))
        text = "\n".join(filter(None, [output, self._bounded(failure.text), *notes]))
        raise ToolError(text, code=failure.code, data=data)

    def _bounded(self, text: str) -> str:
        kept = Output(self._settings.max_output_chars)
        kept.feed(text.encode(errors="replace"))
        return kept.text()

    @property
    def _unreached_note(self) -> list[str]:
        """The note about the calls that had started early and were not reached, if there are any."""
        unreached = sorted(self._unreached.items())
        names = ", ".join(name if number == 1 else f"{name} ({number})" for name, number in unreached)
        return [_UNREACHED.format(names)] if names else []

    def _truth(self, failure: _Failure) -> str:
        """Say which statements ran."""
        ran = _NONE_RAN
        if self._last is not None and self._first is not None:
            ran = f"{_lines(self._first.line, self._last.end_line)} ran, and the effects stay."
        at = failure.statement
        if at is None:
            return f"{ran} Nothing else ran."
        if failure.begun:
            began = f"{_lines(at.line, at.end_line)} began and did not finish: a part may have had effects."
            return f"{ran} {began} Nothing else ran."
        return f"{ran} Nothing from line {at.line} on ran."


_NONE_RAN: Final = "No statement ran to its end."
_LOST_BEFORE: Final = "The variables of earlier calls were gone: their interpreter had ended."
_CANCELLED: Final = "At the end, {} started tasks were still running. They were cancelled: await them next time."
_UNREACHED: Final = "The code did not reach these calls, which had started early and were cancelled: {}."
_UNENDED: Final = (
    "After the last statement, tasks that the code had started did not end when they were cancelled, or the text of "
    "its value took too long. "
)
RESET: Final = "reset_session"
"""The function of the code that discards the variables."""


def _lines(first: int, last: int) -> str:
    return f"Line {first}" if first == last else f"Lines {first} to {last}"
