"""`CodeTool`: the tool `run_code`, whose statements run while the model is still writing them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, Unpack

from typing_extensions import TypedDict

from eagerstream import JSONObject
from eagerstream._support.checks import check_count, check_positive
from eagerstream.errors import UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import (
    Executor,
    ForeignTool,
    InProcessExecutor,
    Reject,
    RunningCall,
    TextStream,
    Tool,
    ToolCall,
    ToolResponse,
    as_tool,
)

from .calls import CodeSettings, tools_by_name
from .early import MAX_EARLY
from .execution import CodeExecution
from .process import ProcessSandbox
from .sandbox import CodeFunction, CodeSandbox
from .sessions import CodeSessions
from .signatures import parameters_of, stubs_of

_MAX_CONCURRENCY: Final = 16
_MIN_OUTPUT_CHARS: Final = 100
_SLACK_S: Final = 30.0
"""Time for starting the interpreter, cleanup and the result. The tool's own time limit is the last resort."""

_DESCRIPTION: Final = """\
Run Python code that calls the functions below. Prefer one block of code to many single calls.

Each statement runs as soon as it is written, while you write the next one: write steps in the order in which they
should happen. Functions are async: `await` them at the top level, and use `asyncio.gather` for calls that do not depend
on each other. The result is the printed output, then the value of the last expression. Variables stay for the next
call; `reset_session()` discards them. A failed function raises ToolError, and an exception ends the code.

"""


class CodeOptions(TypedDict, total=False):
    """The options from `ToolOptions` that a user may set. The tool determines the rest."""

    approve: Callable[[ToolCall], Any] | None
    approve_timeout_s: float
    guard: Callable[[JSONObject], str | Reject | None] | None
    on_cancel: Any
    strict: bool | None
    cache_control: Mapping[str, Any] | None
    defer_loading: bool | None
    input_examples: Sequence[Mapping[str, Any]] | None


class CodeTool(Tool):
    """A tool by which the model calls other tools with Python code. The code runs while it is being written.

    The model sees one tool, `run_code(code: str)`, and the given tools as async functions in its description. Each
    complete statement runs as soon as the next one begins or the input ends, after the statements before it. A simple
    statement is complete at the end of its line.

    The code runs in a sandbox: by default a process of its own, with bounded memory (`ProcessSandbox`). That process is
    no security boundary. `MontySandbox`, or a container (`ProcessSandbox(argv=...)`), is one. The tools run in this
    program, whatever the sandbox: their inputs are checked, and their `approve`, `guard`, groups and time limits hold.

    The result is the printed output, then the value of the last expression. If the code is cut off, is invalid, raises
    or takes too long, the result says which statements ran, and their output. No statement runs twice, and none that is
    not complete.

    Variables stay for the later calls of the same run, and are discarded at its end. The code discards them by
    `reset_session()`, the program by `reset`. Calls of one run execute one after the other.

    Progress is `{"parameter": "code", "statement": int, "line": int, "end_line": int, "state": str, "calls": [str],
    "output": str}`, complete in each report. The state of the statement is `"running"`, `"done"`, `"invalid"`,
    `"raised"`, `"lost"` or `"stopped"`. `calls` has the names of the tools that run now, `output` the end of the
    printed text. The response's data is `{"output": str, "value": JSON, "statements": int, "calls": int}`. With
    `early_calls`, it also has `"unreached": {name: int}`: the number of calls that started and were not reached.

    With `approve`, the code runs only after all of it was written and approved. A `guard` sees the code while it grows:
    if it rejects the code, the statement that runs is cancelled, and no further one runs.

    Cancelling a call cancels its statement and the tools that run. `finally` blocks of the code have 2 seconds.

    Args:
        tools: The tools that the code can call, of any kind that `run` takes.
        sandbox: Runs the code. Default: `ProcessSandbox()`.
        name: The name of the tool.
        executor: Runs the calls of the code. None: the tools run in this process.
        early_calls: True to start calls of tools with `read_only=True` as soon as their statement is complete, even if
            an earlier statement still runs. Only calls with literal arguments start early. The code gets the result
            when it reaches the call, unless a tool without `read_only` has been called in between: then the call is
            made again. A call that the code never reaches is cancelled, and reported. A result may be as old as its
            statement: this is not for tools whose answer changes while the code waits, such as the state of a job.
            Tools with `approve` or `start="message"` do not start early.
        timeout_s: Seconds that the statements of a call may run in total, with the calls that they await. The time in
            which the model writes does not count.
        max_calls: Maximum number of calls of tools in one call of `run_code`.
        max_output_chars: Maximum number of characters of the output, at least 100, and of the last value or the error.
            If there are more, the middle is omitted.
        limits: The limits of the calls that the code makes.
        options: See `ToolOptions`.

    Raises:
        UsageError: A setting or an option is invalid, or code cannot call one of the tools by its name.
    """

    def __init__(
        self,
        tools: Sequence[ForeignTool],
        *,
        sandbox: CodeSandbox | None = None,
        name: str = "run_code",
        executor: Executor | None = None,
        early_calls: bool = False,
        timeout_s: float = 60.0,
        max_calls: int = 100,
        max_output_chars: int = 30_000,
        limits: Limits = DEFAULT_LIMITS,
        **options: Unpack[CodeOptions],
    ) -> None:
        check_positive("timeout_s", timeout_s, is_finite=True)
        check_count("max_calls", max_calls)
        check_count("max_output_chars", max_output_chars, least=_MIN_OUTPUT_CHARS)
        if isinstance(tools, str | Mapping) or not tools:
            raise UsageError("tools must be a list of the tools that the code can call")
        found = [tool for tool in map(as_tool, tools) if tool is not None]
        if len(found) < len(tools):
            raise UsageError("code cannot call the definition of a tool that the API runs")
        named = tools_by_name(found)
        if executor is None:
            # Early calls must not take the place of those that the code waits for.
            slots = _MAX_CONCURRENCY + (MAX_EARLY if early_calls else 0)
            executor = InProcessExecutor(named.values(), limits=limits, max_concurrency=slots)
        self._settings = CodeSettings(
            tools=named,
            executor=executor,
            timeout_s=timeout_s,
            max_calls=max_calls,
            max_output_chars=max_output_chars,
            limits=limits,
            early_calls=early_calls,
        )
        functions = [CodeFunction(each, parameters_of(tool)) for each, tool in named.items()]
        self._sessions = CodeSessions(ProcessSandbox() if sandbox is None else sandbox, functions)
        weakref.finalize(self, self._sessions.close_all, os.getpid())
        super().__init__(
            self._call,
            name=name,
            description=_DESCRIPTION + getattr(sandbox, "notes", "") + stubs_of(named),
            group=name,
            timeout_s=timeout_s + _SLACK_S,
            **options,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the interpreters of all runs, including those that run code. A later call starts a new one."""
        self._sessions.close_all()

    def reset(self, run_id: str) -> None:
        """Discard the variables of a run (`Run.id`). If code of the run is running, it ends."""
        self._sessions.close(run_id)

    async def _call(self, code: TextStream, call: RunningCall | None) -> ToolResponse:
        if call is None:  # called by hand, without a run
            block = {"type": "tool_use", "id": self.name, "name": self.name}
            plain = {"index": 0, "block": block, "raw": "", "outcome": None}
            call = RunningCall(ToolCall(GrowingInput.from_dict(plain), turn=1))
        held = self._sessions.of(call)
        try:
            async with held.lock:
                return await CodeExecution(code, call, held, self._settings).response()
        finally:
            if not call.run_id:
                held.close()
