"""`CodeSandbox`: a place where statements run, and the interface by which `CodeTool` uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from eagerstream import JSON

from .statements import Statement


@dataclass(frozen=True, slots=True)
class CodeFunction:
    """A tool, as the code sees it: an async function.

    Attributes:
        name: Its name in the code, a Python identifier.
        parameters: The names of its parameters, in the order of positional arguments.
    """

    name: str
    parameters: tuple[str, ...]


class StatementEnd(Enum):
    """The end of a statement."""

    DONE = "done"
    INVALID = "invalid"
    """It is no valid Python, or uses something that the sandbox does not have. Nothing of it ran."""
    RAISED = "raised"
    """It raised an exception, and the rest of the code must not run."""
    LOST = "lost"
    """The sandbox ended while it ran (memory, a crash, a kill). All variables are gone."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The end of a statement, and the reason in words for the model.

    Attributes:
        end: The kind of end.
        text: Empty if done. Otherwise, the error, in terms of the model's code: a short traceback with the lines of the
            code, `SyntaxError: ... (line 7)`, or the reason for a lost sandbox.
    """

    end: StatementEnd
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class CodeValue:
    """The value of the last expression, after the last statement.

    Attributes:
        text: A string as it is, anything else as `repr` gives it. Empty if the last statement is no expression, or if
            its value is None.
        data: The value, if it has a JSON form; otherwise None.
        cancelled_tasks: Number of tasks that the code had started, and that still ran: they were cancelled.
    """

    text: str = field(default="", repr=False)
    data: JSON = field(default=None, repr=False)
    cancelled_tasks: int = 0


class CodeCallError(Exception):
    """A call of a tool failed. The sandbox raises it in the code, as an exception of the class `ToolError`."""


class CodeHost(Protocol):
    """The tool's side of one call of `run_code`: what its code may use while it runs."""

    def print(self, text: str) -> None:
        """Take output, in the order in which the code wrote it. Does not block."""

    async def call(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        """Call a tool, and return its result for the code. Calls may run concurrently.

        Cancelling this cancels the tool. A sandbox cancels it if the code no longer waits for it.

        Raises:
            CodeCallError: The tool failed, was refused, or does not exist. The text is for the model.
        """


class CodeSession(Protocol):
    """The variables of one run, and the interpreter that has them. One call of `run_code` uses it at a time."""

    @property
    def has_ended(self) -> bool:
        """True if it can run nothing more: it was lost or closed."""

    def serve(self, host: CodeHost) -> AbstractAsyncContextManager[None]:
        """Return a context in which the code may print and call tools, also between its statements.

        A call of `run_code` enters it around all its statements. When it is left, no call of a tool is running any
        more. If it is left by an exception or a cancellation, the code that still runs is cancelled as `run` does.
        """

    async def run(self, statement: Statement) -> StatementResult:
        """Run a statement, and return its end. The variables stay for the next statement.

        Tasks that the code has started continue afterwards.

        Cancelling this cancels the statement: its `finally` blocks run, for a few seconds at most, and then the
        interpreter is killed. `has_ended` says whether the variables are still there.
        """

    async def finish(self) -> CodeValue:
        """Cancel the tasks of the code that still run, and return the value of the last expression."""

    def close(self) -> None:
        """End the interpreter and everything that it has started. Returns at once. A second call does nothing."""


class CodeSandbox(Protocol):
    """Makes sessions.

    If it has an attribute `notes`, the model reads this text in the description of the tool: for example, the parts of
    Python that the sandbox lacks.
    """

    async def open(self, functions: Sequence[CodeFunction]) -> CodeSession:
        """Start an interpreter for the statements of one run. Cancelling this leaves no process.

        Raises:
            ToolError: It could not be started. The text is for the model.
        """
