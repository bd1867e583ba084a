"""`CodeCalls`: the calls of tools that code makes, with the rules of the tools."""

from __future__ import annotations

import json
import keyword
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import anyio
from anyio.abc import TaskGroup

from eagerstream import JSON
from eagerstream.calls import EarlyCalls
from eagerstream.errors import UsageError
from eagerstream.limits import Limits
from eagerstream.tools import Executor, RunningCall, Tool, ToolCall, ToolStatus, saved_response

from .early import EarlyCodeCalls
from .sandbox import CodeCallError
from .signatures import RESERVED

_MAX_RESULT_CHARS: Final = 10_000_000
"""Maximum length of the JSON text of one result for the code."""
_MAX_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class CodeSettings:
    """The settings of `CodeTool`, as documented there.

    Attributes:
        tools: The tools by their names in the code.
    """

    tools: Mapping[str, Tool]
    executor: Executor
    timeout_s: float
    max_calls: int
    max_output_chars: int
    limits: Limits
    early_calls: bool


class CodeCalls:
    """The calls that the code of one call of `run_code` makes; an async context manager.

    Each goes through `EarlyCalls`, as if the model had made it: its input is checked, and the tool's guard, approval,
    group and time limit hold. Leaving the block cancels the calls that still run.

    Attributes:
        count: Number of calls that the code has made.
        early: The calls that start before the code makes them; None if there are none.
    """

    def __init__(self, outer: RunningCall, settings: CodeSettings, on_change: Callable[[], object]) -> None:
        self._outer = outer
        self._tools = settings.tools
        self._max_calls = settings.max_calls
        self._on_change = on_change
        self._running: Counter[str] = Counter()
        self._calls = EarlyCalls([*self._tools.values()], executor=settings.executor, limits=settings.limits)
        self._fed = 0
        self.count = 0
        self.early: EarlyCodeCalls | None = None

    async def __aenter__(self) -> Self:
        await self._calls.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._calls.__aexit__(kind, error, traceback)

    def start_early(self, tasks: TaskGroup, bound_names: set[str]) -> None:
        """From now on, start calls early, as `EarlyCodeCalls` does. `bound_names` are those of the session's code."""
        self.early = EarlyCodeCalls(self._make, self._tools, tasks, rebound=bound_names, max_calls=self._max_calls)

    @property
    def running(self) -> list[str]:
        """The names of the tools that run now, at most 20."""
        return [*self._running.elements()][:_MAX_SHOWN]

    async def call(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        """Make a call of the code, and return its result. Cancelling this cancels the tool.

        After the call of `run_code` itself was cancelled, no tool starts.

        Raises:
            CodeCallError: The call failed. The text is the one that the model would get.
        """
        if name not in self._tools:
            raise CodeCallError(f"there is no tool {name:.80}")
        if anyio.current_effective_deadline() == -math.inf:
            # A `finally` block of cancelled code. No cancellation would reach a task that starts now, on asyncio.
            raise CodeCallError("the call was refused: the code is being cancelled")
        self.count += 1
        if self.count > self._max_calls:
            raise CodeCallError(f"the code has made the {self._max_calls} calls that it may make")
        return await (self._make if self.early is None else self.early.call)(name, arguments)

    async def _make(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        tool = self._tools[name]
        call = self._feed(tool, arguments)
        self._running[name] += 1
        self._on_change()
        try:
            await call.answered.wait()
        finally:
            # Nothing to cancel if it has ended.
            self._calls.cancel(call.id)
            self._running[name] -= 1
            self._on_change()
        return result_for_code(call, tool)

    def _feed(self, tool: Tool, arguments: Mapping[str, JSON]) -> ToolCall:
        """Feed a response that consists of one call, and return the call."""
        self._fed += 1
        id = f"{self._outer.id}_{self._fed}"
        block = {"type": "tool_use", "id": id, "name": tool.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(dict(arguments))}
        for event in (
            {"type": "message_start", "message": {"role": "assistant", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
            {"type": "message_stop"},
        ):
            self._calls.feed(event)
        call = self._calls.get(id)
        assert call is not None
        return call


def tools_by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return tools by their names in the code: `-` is no part of a Python name, and becomes `_`.

    Raises:
        UsageError: Two tools have the same name in code, or a name cannot be one.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        name = tool.name.replace("-", "_")
        if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
            raise UsageError(f"code cannot call the tool {tool.name}: the name is no function's name in Python")
        if name in named:
            raise UsageError(f"code cannot tell {tool.name} and {named[name].name} apart")
        named[name] = tool
    return named


def result_for_code(call: ToolCall, tool: Tool) -> JSON:
    """Return the result of an answered call for the code: the tool's return value, or else its text.

    A `ToolResponse` with text and data gives both: `{"text": ..., "data": ...}`. If the tool has an output schema, its
    text only repeats the data.

    Raises:
        CodeCallError: The call failed, or its result is too large.
    """
    response = call.response
    if response is None or call.is_error or response.status is ToolStatus.ERROR:
        raise CodeCallError(call.text)
    data: dict[str, Any] = saved_response(response)["data"]
    value: JSON
    if data.keys() == {"output"}:
        value = data["output"]  # a plain return value
    elif data and call.text and tool.output_schema is None:
        value = {"text": call.text, "data": data}
    else:
        value = data or call.text or None
    if len(json.dumps(value)) > _MAX_RESULT_CHARS:
        raise CodeCallError(f"the result of {call.name} is longer than {_MAX_RESULT_CHARS} characters of JSON")
    return value
