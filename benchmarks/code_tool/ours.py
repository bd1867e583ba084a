"""The sides of eagerstream: `python -m benchmarks.code_tool.ours`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import anyio
from anthropic import AsyncAnthropic

import eagerstream
from eagerstream.tools import Tool
from eagerstream_toolkit import CodeTool, MontySandbox, ProcessSandbox
from eagerstream_toolkit._code import statements
from eagerstream_toolkit._code.sandbox import (
    CodeFunction,
    CodeHost,
    CodeSandbox,
    CodeSession,
    CodeValue,
    StatementResult,
)
from eagerstream_toolkit._code.statements import Statement, StatementSplitter
from eagerstream_wire import PartialJSON

from .program import Job, Parsed, main
from .workplace import Marks, Workplace

MODEL: Final = "claude-opus-4-7"
EARLY: Final = ", early calls"
MONTY: Final = ", in Monty"
_REQUEST: Final[dict[str, Any]] = {
    "model": MODEL,
    "max_tokens": 64_000,
    "messages": [{"role": "user", "content": "Go."}],
}


async def run(job: Job, workplace: Workplace, marks: Marks, parsed: Parsed) -> list[str]:
    """Do the work once, and return the results of the model's calls."""
    tools = _tools(job, workplace, parsed)
    async with AsyncAnthropic(base_url=job.url, api_key="any", max_retries=0) as client:
        marks.start()
        async with eagerstream.run(client, tools=tools, max_turns=20, **_REQUEST) as run:
            await run.finish()
        marks.end()
    calls = run.result.calls
    if faults := [call.text for call in calls if call.is_error]:
        raise RuntimeError(str(faults))
    return [call.text for call in calls]


def _tools(job: Job, workplace: Workplace, parsed: Parsed) -> list[Tool]:
    # As those of `Files`, edits execute one after the other.
    tools = [
        eagerstream.tool(function, group="files" if name == "Edit" else None, read_only=name == "fetch")
        for name, function in workplace.tools().items()
    ]
    if job.side.startswith("calls"):
        return tools
    if job.side == "plain":
        return [_run_code]
    sandbox: CodeSandbox = MontySandbox() if job.side.endswith(MONTY) else ProcessSandbox()
    if job.counts:
        sandbox = _Counting(sandbox, parsed)
    # With an approval, the code runs only after all of it was written. This one is given at once.
    approve = (lambda _: True) if job.side.startswith("at the end") else None
    return [CodeTool(tools, sandbox=sandbox, approve=approve, early_calls=job.side.endswith(EARLY))]


@eagerstream.tool(name="run_code")
async def _run_code(code: str) -> str:
    """Take code, and run nothing."""
    return f"{len(code)} characters"


# --- counting ---------------------------------------------------------------------------------------------------------


@contextmanager
def counting(job: Job) -> Iterator[Parsed]:
    """Count the characters that the parser of JSON and the splitter examine, by wrapping the functions that do it."""
    parsed = Parsed()
    lexer = statements._Lexer  # noqa: SLF001  # only to count what it gets
    split = StatementSplitter.steps
    feed, take, begins = PartialJSON.feed, lexer.take, statements._begins_statement  # noqa: SLF001

    def counted_feed(self: PartialJSON, fragment: str) -> Any:
        parsed.json_chars += len(fragment)
        return feed(self, fragment)

    def counted_take(self: Any, line: str) -> Iterator[None]:
        parsed.code_chars += len(line)
        return take(self, line)

    def counted_split(self: StatementSplitter, text: str) -> Iterator[Statement | None]:
        for statement in split(self, text):
            parsed.early_chars += 0 if statement is None else len(statement.source)
            yield statement

    def counted_begins(head: str) -> bool:
        parsed.code_chars += len(head)
        return begins(head)

    with ExitStack() as patches:
        if job.counts:
            patches.enter_context(patch.object(PartialJSON, "feed", counted_feed))
            patches.enter_context(patch.object(StatementSplitter, "steps", counted_split))
            patches.enter_context(patch.object(lexer, "take", counted_take))
            patches.enter_context(patch.object(statements, "_begins_statement", counted_begins))
        yield parsed


class _Counting:
    """A sandbox that counts the characters of the statements that it compiles, each of which it gets once."""

    def __init__(self, sandbox: CodeSandbox, parsed: Parsed) -> None:
        self._sandbox = sandbox
        self._parsed = parsed

    async def open(self, functions: Sequence[CodeFunction]) -> CodeSession:
        return _CountingSession(await self._sandbox.open(functions), self._parsed)


class _CountingSession:
    def __init__(self, session: CodeSession, parsed: Parsed) -> None:
        self._session = session
        self._parsed = parsed

    @property
    def has_ended(self) -> bool:
        return self._session.has_ended

    def serve(self, host: CodeHost) -> AbstractAsyncContextManager[None]:
        return self._session.serve(host)

    async def run(self, statement: Statement) -> StatementResult:
        self._parsed.compiled_chars += len(statement.source)
        return await self._session.run(statement)

    async def finish(self) -> CodeValue:
        return await self._session.finish()

    def close(self) -> None:
        self._session.close()


if __name__ == "__main__":
    main(anyio.run, run, counting)
