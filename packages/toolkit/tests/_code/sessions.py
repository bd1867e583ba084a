"""What the tests of sandboxes share: a host that takes notes, and code that runs statement by statement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from eagerstream_toolkit._code.sandbox import (
    CodeCallError,
    CodeFunction,
    CodeSandbox,
    CodeSession,
    CodeValue,
    StatementEnd,
    StatementResult,
)
from eagerstream_toolkit._code.statements import StatementSplitter
from eagerstream_wire import JSON

SLOWLY_S = 50.0
FUNCTIONS = [
    CodeFunction("echo", ("value", "more")),
    CodeFunction("fail", ()),
    CodeFunction("wait", ()),
    CodeFunction("meet", ()),
]


class Host:
    """The tool's side: `echo` returns its arguments, `fail` fails, `meet` waits until `expected` calls of it run.
    `wait` waits until it is cancelled.

    Attributes:
        output: What the code printed.
        calls: The calls that it made, in their order.
        cancelled: The names of the calls that were cancelled.
        now: Number of calls that run.
        waits: Set when `wait` was called.
        printed: Set when the code has printed.
    """

    def __init__(self, expected: int = 0) -> None:
        self.output = ""
        self.calls: list[tuple[str, Mapping[str, JSON]]] = []
        self.cancelled: list[str] = []
        self.now = 0
        self._expected = expected
        self._met = anyio.Event()
        self.waits = anyio.Event()
        self.printed = anyio.Event()

    def print(self, text: str) -> None:
        self.output += text
        self.printed.set()

    async def call(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        self.calls.append((name, arguments))
        self.now += 1
        try:
            if name == "fail":
                raise CodeCallError("it failed")
            if name == "wait":
                self.waits.set()
                await anyio.sleep_forever()
            if name == "meet":
                self._expected -= 1
                if not self._expected:
                    self._met.set()
                await self._met.wait()
            await anyio.lowlevel.checkpoint()
            return {**arguments}
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(name)
            raise
        finally:
            self.now -= 1


async def run(session: CodeSession, code: str) -> StatementResult:
    """Run the statements of a code up to the first that fails, and return the last end."""
    splitter = StatementSplitter()
    result = StatementResult(StatementEnd.DONE)
    for statement in [*splitter.feed(code), *splitter.close()]:
        result = await session.run(statement)
        if result.end is not StatementEnd.DONE:
            break
    return result


@asynccontextmanager
async def opened(sandbox: CodeSandbox) -> AsyncIterator[CodeSession]:
    """A session that a test does not wait for in vain."""
    with anyio.fail_after(SLOWLY_S):
        session = await sandbox.open(FUNCTIONS)
        try:
            yield session
        finally:
            session.close()


async def ran(sandbox: CodeSandbox, code: str, host: Host | None = None) -> tuple[StatementResult, CodeValue, Host]:
    """Run a code in a session of its own."""
    async with opened(sandbox) as session:
        return await ran_in(session, code, host)


async def ran_in(session: CodeSession, code: str, host: Host | None = None) -> tuple[StatementResult, CodeValue, Host]:
    """Run a code as one call of `run_code`."""
    host = host or Host()
    async with session.serve(host):
        result = await run(session, code)
        value = CodeValue() if session.has_ended else await session.finish()
    return result, value, host


async def cancelled(session: CodeSession, code: str, when: Callable[[], Awaitable[object]]) -> None:
    """Run a code, and cancel it after something has happened."""
    async with anyio.create_task_group() as tasks:

        async def cancel() -> None:
            await when()
            tasks.cancel_scope.cancel()

        tasks.start_soon(cancel)
        await run(session, code)
