"""`EagerToolset`: eagerstream's tools as a pydantic-ai toolset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, Unpack
from uuid import uuid4

from pydantic_ai import RunContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from typing_extensions import override

from eagerstream import InputAccumulator, JSONObject
from eagerstream._support.callbacks import call_all
from eagerstream.calls import EarlyCalls
from eagerstream.tools import ForeignTool, Tool

from .._calls import ExecutorOptions, RunOptions, feed_call, run_call, sharing_executor
from ._conversion import returned_by


class Unusable(dict[str, Any]):
    """`{"INVALID_JSON": raw}`, in place of arguments that cannot be used."""

    def __init__(self, wrapped: JSONObject, raw: str) -> None:
        super().__init__(wrapped)
        self.raw = raw


class _AnyObject:
    """Validator for pydantic-ai that accepts everything, because eagerstream's executor checks the arguments.

    The executor reports all faults to the model at once. A tool may also have started on an input that turns out not to
    be JSON. Its result must be reported, too.
    """

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        raw = input if isinstance(input, str) else input.decode(errors="replace")
        accumulator = InputAccumulator()
        feed_call(accumulator.feed, "validated", "validated", raw)
        [read] = accumulator.inputs.values()
        return dict(read.value) if read.value is not None else Unusable(read.wrapped, raw)

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        return dict(input)


_ANY_OBJECT: Final = _AnyObject()


class EagerToolset(AbstractToolset[Any]):
    """Eagerstream's tools for a pydantic-ai agent: `Agent(..., toolsets=[EagerToolset([search])])`.

    Without `EarlyStart`, the tools start when pydantic-ai calls them, after the response has ended. Approval, groups,
    time limits and streaming parameters work as in `eagerstream.run`. A mistake of the model raises `ModelRetry`, and
    counts as one of the tool's retries. Any other error raises `ToolFailed`, which does not count.

    State that tools keep, such as the variables of a `CodeTool`, lasts for one run of the agent. Its id is the
    `run_id` of the `RunContext`.

    Cancellation: only `call_tool` waits, and cancelling it cancels the tool.

    Args:
        tools: As for `eagerstream.run`.
        id: Id of the toolset.
        max_retries: Maximum number of corrections of a call by the model. `None` uses the agent's number.
        options: `executor`, `max_concurrency`, `circuit_breaker` and `limits`, as for `run`. By default, each run of
            the agent gets its own executor in this process.

    Raises:
        UsageError: A tool cannot be run, two tools share a name, or `executor` conflicts with another option.
    """

    def __init__(
        self,
        tools: Sequence[ForeignTool | Mapping[str, Any]],
        *,
        id: str | None = None,
        max_retries: int | None = None,
        **options: Unpack[ExecutorOptions],
    ) -> None:
        self._id = id
        self._max_retries = max_retries
        self._options = options
        self.tools: list[Tool]
        self.options: ExecutorOptions
        self.tools, self.options = sharing_executor(tools, **options)
        self.run: RunOptions = {}
        self._closers: list[Callable[[], object]] = []
        self._is_bound = False

    @property
    def id(self) -> str | None:
        """Id of the toolset."""
        return self._id

    @override
    async def for_run(self, ctx: RunContext[Any]) -> EagerToolset:
        """Return a toolset for the run, because `max_concurrency` and the state of tools count for each run alone."""
        return self.bound(ctx)

    def bound(self, ctx: RunContext[Any]) -> EagerToolset:
        """Return the same tools for one run, with their own executor if none was given. Leaving it ends their state."""
        if self._is_bound:
            return self
        _, options = sharing_executor(self.tools, **self._options)
        closers: list[Callable[[], object]] = []
        run: RunOptions = {"run_id": ctx.run_id or uuid4().hex, "when_over": closers.append}
        mine = copy(self)
        mine.__dict__.update(options=options, run=run, _closers=closers, _is_bound=True)
        return mine

    @override
    async def __aexit__(self, *args: object) -> None:
        call_all(self._closers)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools by name, with pydantic-ai's form of their definitions."""
        retries = ctx.max_retries if self._max_retries is None else self._max_retries
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=_definition(tool.to_dict()),
                max_retries=retries,
                args_validator=_ANY_OBJECT,
            )
            for tool in self.tools
        }

    @override
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run a call that was not started early.

        Cancelling it cancels the tool.

        Raises:
            ModelRetry: The input was not an object, was cut off, or did not fit.
            ToolFailed: The call failed in any other way.
        """
        raw = tool_args.raw if isinstance(tool_args, Unusable) else tool_args
        calls = EarlyCalls(self.tools, **self.options, **self.run)
        return returned_by(await run_call(calls, ctx.tool_call_id, name, raw))


def _definition(sent: Mapping[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=sent["name"],
        description=sent.get("description"),
        parameters_json_schema=sent["input_schema"],
        strict=sent.get("strict"),
        defer_loading=bool(sent.get("defer_loading")),
    )
