"""Fixed costs of code in each sandbox: the start of an interpreter, a statement, and a call of a tool."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Final

import anyio

import eagerstream
from eagerstream.calls import EarlyCalls
from eagerstream.tools import Tool
from eagerstream_toolkit import CodeTool, MontySandbox, ProcessSandbox
from eagerstream_toolkit._code.sandbox import CodeFunction, CodeSandbox
from eagerstream_toolkit._code.statements import Statement
from eagerstream_wire import JSON

_STARTS: Final = 15
_STATEMENTS: Final = 300
_CALLS: Final = 300
_ROUNDS: Final = 3


@dataclass(frozen=True)
class FixedCosts:
    """Milliseconds: the median of several starts, and the least of three means of many statements or calls.

    Attributes:
        name: Name of the sandbox, or "direct" for calls that the model makes itself.
        start_ms: From the request of an interpreter to the end of its first statement.
        statement_ms: A short statement.
        call_ms: `await nothing()` in the code, with the checks of the tool, less a statement.
    """

    name: str
    start_ms: float | None
    statement_ms: float | None
    call_ms: float


@eagerstream.tool
async def nothing() -> None:
    """Do nothing."""


class _Host:
    def print(self, text: str) -> None:
        """Forget it."""

    async def call(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        """Return at once."""


async def costs_of(name: str, make: Callable[[], CodeSandbox], *, quick: bool) -> FixedCosts:
    """Measure a sandbox."""
    starts = [await _start_s(make()) for _ in range(3 if quick else _STARTS)]
    statement_s = min([await _statement_s(make()) for _ in range(_ROUNDS)])
    with_calls_s, without_s = [
        min([await _of_code_s(make(), line * _CALLS) for _ in range(_ROUNDS)]) for line in ("await nothing()\n", "1\n")
    ]
    return FixedCosts(
        name, statistics.median(starts) * 1e3, statement_s * 1e3, (with_calls_s - without_s) / _CALLS * 1e3
    )


async def direct() -> FixedCosts:
    """Measure calls that the model makes itself, in one response."""
    least_s = min([await _fed_s(nothing, [{}] * _CALLS) for _ in range(_ROUNDS)])
    return FixedCosts("direct", None, None, least_s / _CALLS * 1e3)


async def _start_s(sandbox: CodeSandbox) -> float:
    start_s = perf_counter()
    session = await sandbox.open([CodeFunction("nothing", ())])
    async with session.serve(_Host()):
        await session.run(Statement("x = 1\n", 1, 1))
        took_s = perf_counter() - start_s
        await session.finish()
    session.close()
    return took_s


async def _statement_s(sandbox: CodeSandbox) -> float:
    session = await sandbox.open([CodeFunction("nothing", ())])
    async with session.serve(_Host()):
        await session.run(Statement("x = 1\n", 1, 1))
        start_s = perf_counter()
        for line in range(2, _STATEMENTS + 2):
            await session.run(Statement("x = x + 1\n", line, line))
        took_s = perf_counter() - start_s
        await session.finish()
    session.close()
    return took_s / _STATEMENTS


async def _of_code_s(sandbox: CodeSandbox, code: str) -> float:
    """Return the seconds of a call with this code, without the start of its interpreter."""
    tool = CodeTool([nothing], sandbox=sandbox, max_calls=_CALLS)
    return await _fed_s(tool, [{"code": code}]) - await _fed_s(tool, [{"code": "1\n"}])


async def _fed_s(tool: Tool[Any, Any], inputs: list[dict[str, Any]]) -> float:
    """Return the seconds of one response with these calls, from its first event to the last result.

    Raises:
        RuntimeError: A call failed.
    """
    blocks = [
        event
        for index, input in enumerate(inputs)
        for event in (
            {
                "type": "content_block_start",
                "index": index,
                "content_block": {"type": "tool_use", "id": f"toolu_{index}", "name": tool.name, "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": json.dumps(input)},
            },
            {"type": "content_block_stop", "index": index},
        )
    ]
    async with EarlyCalls([tool]) as calls:
        start_s = perf_counter()
        calls.feed({"type": "message_start", "message": {"role": "assistant", "content": []}})
        for event in blocks:
            calls.feed(event)
        calls.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}})
        calls.feed({"type": "message_stop"})
        for index in range(len(inputs)):
            call = calls.get(f"toolu_{index}")
            assert call is not None
            await call.answered.wait()
            if call.is_error:
                raise RuntimeError(call.text)
        return perf_counter() - start_s


async def _all(*, quick: bool) -> list[FixedCosts]:
    sandboxes: dict[str, Callable[[], CodeSandbox]] = {"ProcessSandbox": ProcessSandbox}
    if find_spec("pydantic_monty"):
        sandboxes["MontySandbox"] = MontySandbox
    return [*[await costs_of(name, make, quick=quick) for name, make in sandboxes.items()], await direct()]


if __name__ == "__main__":
    print(json.dumps([asdict(cost) for cost in anyio.run(partial(_all, quick="--quick" in sys.argv))]))
