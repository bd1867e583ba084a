"""`MontySandbox`: code runs in Monty, an interpreter that has only a part of Python, and no access to the machine."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from eagerstream._support.checks import check_count, check_positive, check_seconds
from eagerstream.errors import MissingExtraError, ToolError
from eagerstream.tools import ToolErrorCode

from .monty_calls import MontyCalls
from .monty_interpreter import Interpreter, MontyLimits
from .sandbox import CodeFunction, CodeHost, CodeValue, StatementResult
from .statements import Statement

_MIB: Final = 1024 * 1024
_LEAST_MEMORY: Final = 4 * _MIB
_T = TypeVar("_T")
_NOTES: Final = """\
The code runs in Monty, which has a part of Python. It lacks: inheritance (so no exceptions of your own, no Enum),
decorators of methods, `yield`, `del`, `async for`, `async with`, special methods such as `__len__` and `__lt__`,
`except*`, `type X = ...`, files and network. Of the standard library, it has asyncio (gather, sleep, and create_task
for the functions below), base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib,
itertools, json, math, os.path, pathlib, random, re, time, tomllib, typing and unicodedata, most of them in part.
`asyncio` needs no import. ToolError is the class RuntimeError.

"""


class MontySandbox:
    """A sandbox for `CodeTool`: the code runs in Monty, an interpreter in Rust for a part of Python. Extra `monty`.

    Code reaches nothing but the tools: no files, environment, network, processes, or memory of this program. Each
    session has a process of its own, which is killed with the session, and also if this program ends without cleanup.

    Monty lacks inheritance, generators, `async with`, `del` and more, and has 25 modules of the standard library. A
    statement that uses a missing part of the syntax is invalid, and nothing of it runs. Other differences:

    - `ToolError` is the class `RuntimeError`, as code cannot define exceptions.
    - `asyncio` has `gather`, `sleep`, `run`, and `create_task` for calls of tools only. A task continues in later
      statements, where it can be awaited once. At the end of the code, tasks that still run are cancelled.
    - Cancelled code gets `KeyboardInterrupt`, also named `asyncio.CancelledError`. It passes `except Exception`, and
      `finally` blocks run.

    If memory runs out at once, the process writes a line about that to the program's stderr.

    Args:
        max_memory_bytes: Maximum size of the variables, at least 4 MiB. Code that needs more ends, and if its variables
            are to blame, the session is lost. The process itself needs 12 MiB.
        max_statement_s: Seconds that a statement may compute, without the time in which it waits. Code that takes
            longer loses the session. `CodeTool(timeout_s=...)` bounds the whole time.
        max_depth: Maximum depth of calls of functions.
        grace_s: Seconds for the `finally` blocks of code that is cancelled. Then the process is killed.

    Raises:
        MissingExtraError: pydantic-monty is not installed.
        UsageError: A setting is invalid.

    Attributes:
        notes: The parts of Python that Monty lacks, for the model.
    """

    def __init__(
        self,
        *,
        max_memory_bytes: int = 256 * _MIB,
        max_statement_s: float = 60.0,
        max_depth: int = 1_000,
        grace_s: float = 2.0,
    ) -> None:
        if find_spec("pydantic_monty") is None:
            raise MissingExtraError("monty", "pydantic_monty", package="eagerstream-toolkit")
        check_count("max_memory_bytes", max_memory_bytes, least=_LEAST_MEMORY)
        check_positive("max_statement_s", max_statement_s, is_finite=True)
        check_count("max_depth", max_depth)
        check_seconds("grace_s", grace_s)
        self.notes = _NOTES
        self._limits = MontyLimits(max_memory_bytes, max_statement_s, max_depth)
        self._grace_s = grace_s

    async def open(self, functions: Sequence[CodeFunction]) -> MontySession:
        """Start an interpreter, in about 10 ms. Cancelling this leaves no process.

        Raises:
            ToolError: It could not be started.
        """
        from pydantic_monty import MontyError

        interpreter = Interpreter(functions, self._limits)
        try:
            await anyio.to_thread.run_sync(interpreter.start)
        except (OSError, RuntimeError, MontyError) as error:
            interpreter.close()
            text = "The interpreter could not be started."
            raise ToolError(text, code=ToolErrorCode.SERVICE_UNAVAILABLE) from error
        except BaseException:
            interpreter.close()
            raise
        return MontySession(interpreter, functions, self._grace_s)


class MontySession:
    """See `CodeSession`. A session that is dropped is closed."""

    def __init__(self, interpreter: Interpreter, functions: Sequence[CodeFunction], grace_s: float) -> None:
        self._interpreter = interpreter
        self._functions = functions
        self._grace_s = grace_s
        self._calls: MontyCalls | None = None
        self._thread = anyio.CapacityLimiter(1)
        self._close = weakref.finalize(self, interpreter.close)

    @property
    def has_ended(self) -> bool:
        """See `CodeSession`."""
        return self._interpreter.is_closed

    @asynccontextmanager
    async def serve(self, host: CodeHost) -> AsyncIterator[None]:
        """See `CodeSession`."""
        self._interpreter.begin_part()
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._calls = MontyCalls(host, self._functions, tasks)
            try:
                yield
            except Exception as error:  # the group would wrap it
                failure = error
            finally:
                self._calls = None
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def run(self, statement: Statement) -> StatementResult:
        """See `CodeSession`."""
        calls = self._serving()
        calls.begin()
        return await self._in_thread(lambda: self._interpreter.run(statement, calls), calls)

    async def finish(self) -> CodeValue:
        """See `CodeSession`."""
        calls = self._serving()
        count = await calls.cancel()
        calls.begin()
        value = await self._in_thread(lambda: self._interpreter.value(calls), calls)
        return replace(value, cancelled_tasks=count)

    def close(self) -> None:
        """See `CodeSession`."""
        self._close()

    def _serving(self) -> MontyCalls:
        if self._calls is None:
            raise RuntimeError("statements run inside `serve` only")
        return self._calls

    async def _in_thread(self, function: Callable[[], _T], calls: MontyCalls) -> _T:
        """Use the interpreter in a thread. Cancelling this interrupts the code, and kills the process if it runs on."""
        ended = anyio.Event()
        results: list[_T] = []

        async def use() -> None:
            try:
                with anyio.CancelScope(shield=True):
                    results.append(await anyio.to_thread.run_sync(function, limiter=self._thread))
            finally:
                ended.set()

        # In a task of its own, as `Task.cancel` of asyncio passes a shield, and would leave the thread alone.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            try:
                await ended.wait()
            except anyio.get_cancelled_exc_class():
                calls.interrupt()
                try:
                    with anyio.move_on_after(self._grace_s, shield=True):
                        await ended.wait()
                finally:
                    if not ended.is_set():
                        self.close()
                raise
        return results[0]
