"""`EagerToolset`: eagerstream's tools as a toolset of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

from pydantic_ai import RunContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from typing_extensions import override

from ...loop import EarlyCalls
from ...tools import ForeignTool
from ...wire import InputAccumulator, JSONObject
from .._calls import ExecutorOptions, feed_call, run_call, sharing_executor
from ._conversion import returned_by


class Unusable(dict[str, Any]):
    """`{"INVALID_JSON": raw}`, in the place of arguments that cannot be used."""

    def __init__(self, wrapped: JSONObject, raw: str) -> None:
        super().__init__(wrapped)
        self.raw = raw


class _AnyObject:
    """What validates arguments for pydantic-ai: nothing is refused, since eagerstream's executor checks them.

    It tells the model of all faults at once, and a tool may have begun on an input that then turns out not to be JSON:
    what it did is to be told too.
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
    """Eagerstream's tools for an agent of pydantic-ai: `Agent(..., toolsets=[EagerToolset([search])])`.

    By itself it starts them when pydantic-ai does, once the reply has ended; `EarlyStart` starts them early. Approval,
    groups, time limits and streaming parameters are as everywhere in eagerstream. A mistake of the model is a
    `ModelRetry` and counts as one of the tool's retries; any other error is a `ToolFailed`, which does not.

    Args:
        tools: As for `eagerstream.run`.
        id: Of the toolset.
        max_retries: How often the model may correct a call, instead of what the agent says.
        options: `executor`, by default one in this process for each run of the agent, with `max_concurrency` and
            `circuit_breaker`; and `limits`. All as for `run`.

    Raises:
        UsageError: As `run`.
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
        self.tools, self.options = sharing_executor(tools, **options)

    @property
    def id(self) -> str | None:
        """As it was given."""
        return self._id

    @override
    async def for_run(self, ctx: RunContext[Any]) -> EagerToolset:
        """One for the run: how many tools run at once is counted for each run alone."""
        return self.bound()

    def bound(self) -> EagerToolset:
        """The same tools, with an executor of their own unless one was given."""
        if self._options.get("executor") is not None:
            return self
        _, options = sharing_executor(self.tools, **self._options)
        return EagerToolset(self.tools, id=self._id, max_retries=self._max_retries, **options)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The definitions, as pydantic-ai has them."""
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
        """Run a call that was not begun early.

        Cancelling it cancels the tool.

        Raises:
            ModelRetry, ToolFailed: See `returned_by`.
        """
        raw = tool_args.raw if isinstance(tool_args, Unusable) else tool_args
        calls = EarlyCalls(self.tools, **self.options)
        return returned_by(await run_call(calls, ctx.tool_call_id, name, raw))


def _definition(sent: Mapping[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=sent["name"],
        description=sent.get("description"),
        parameters_json_schema=sent["input_schema"],
        strict=sent.get("strict"),
        defer_loading=bool(sent.get("defer_loading")),
    )
