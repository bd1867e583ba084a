"""`StartedCalls`: the started calls of one agent run, and the wrapper in which pydantic-ai's own calls join them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, Instrumentation, WrapperCapability
from pydantic_ai.messages import AgentStreamEvent, ModelResponse, PartEndEvent, PartStartEvent, ToolCallPart
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset, ToolsetTool, WrapperToolset

from eagerstream.calls import EarlyCalls
from eagerstream.errors import LimitError
from eagerstream.inputs import GrowingInput
from eagerstream.tools import ToolCall

from .._calls import void_reply
from ._conversion import returned_by
from ._parts import StreamedParts
from ._toolset import EagerToolset

_beginning: Final[ContextVar[str | None]] = ContextVar("beginning", default=None)
"""Id of the call that this task starts, on its way through the toolsets."""


class StartedCalls:
    """Started calls of a run's responses, one response after another. It reads the events and hands out the calls.

    Enter it for the duration of the run. Leaving it cancels the calls that still run.

    Args:
        calls: Runner of eagerstream's tools.
        toolset: Toolset of these tools.
        early: Names of the other tools that may start early, or `True` for all of them.
    """

    def __init__(self, calls: EarlyCalls, toolset: EagerToolset, *, early: Collection[str] | bool) -> None:
        self._calls = calls
        self._toolset = toolset
        self._own = frozenset(calls.tool_names)
        self._early = early
        self._parts: StreamedParts[GrowingInput] | None = None  # reader of the current response, if calls may start
        self._waits = False  # a call of this response waits for pydantic-ai, and so do all later ones
        self._streamed: dict[str, tuple[str, str]] = {}  # by id: complete calls of the last response, not joined yet
        self._tasks: dict[str, asyncio.Task[Any]] = {}  # by id: started calls of the agent's other tools
        self._running: set[asyncio.Task[Any]] = set()
        self._takes_own = False  # nothing checks calls between pydantic-ai and eagerstream's tools
        self._is_offered = False  # the tool of the starting call was offered to the model
        self._is_entered = False

    async def __aenter__(self) -> None:
        await self._calls.__aenter__()
        self._is_entered = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_entered = False
        for task in self._running:
            task.cancel()
        try:
            if self._running:
                await asyncio.wait(self._running)
        finally:
            await self._calls.__aexit__(kind, error, traceback)

    def begin(self, ctx: RunContext[Any]) -> None:
        """Start a new response. Cancel the calls of the last one that were not joined."""
        for id in list(self._streamed):
            self._drop(id)
        self._waits = False
        may_begin = self._is_entered and not limits_calls(ctx)
        self._parts = StreamedParts(self._calls.feed, takes=self._takes) if may_begin else None
        manager = ctx.tool_manager
        self._takes_own = manager is not None and not is_guarded(manager.toolset, self._toolset)

    def feed(self, ctx: RunContext[Any], event: AgentStreamEvent) -> None:
        """Feed an event of the response, and start the calls that may start."""
        if self._parts is None:
            return
        match event:
            case PartStartEvent(part=ToolCallPart() as part):
                self._waits = self._waits or must_wait(ctx, part.tool_name)
                self._is_offered = _definition(ctx, part.tool_name) is not None
            case PartEndEvent(part=ToolCallPart() as part) if part.tool_call_id not in self._streamed:
                self._streamed[part.tool_call_id] = _said(part)
                is_early = self._early if isinstance(self._early, bool) else part.tool_name in self._early
                definition = _definition(ctx, part.tool_name)
                # pydantic-ai's own tools have a kind, for example those that find other tools or load capabilities.
                is_plain = definition is not None and definition.kind == "function" and definition.tool_kind is None
                if is_early and is_plain and not self._waits and part.tool_name not in self._own:
                    task = self._tasks[part.tool_call_id] = asyncio.create_task(_call(ctx, part))
                    self._running.add(task)
                    task.add_done_callback(self._ended)
            case _:
                pass
        try:
            self._parts.feed(event)
        except LimitError as error:
            self._parts = None
            void_reply(self._calls, error)

    def end(self, response: ModelResponse) -> None:
        """End the response. A call that `response` no longer has, or has with other arguments, is dropped."""
        kept = {part.tool_call_id: _said(part) for part in response.parts if isinstance(part, ToolCallPart)}
        for id, said in list(self._streamed.items()):
            if kept.get(id) != said:
                self._drop(id)
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.end(response)

    def take(self, id: str | None, name: str) -> ToolCall | asyncio.Task[Any] | None:
        """Return the started call for an id, once. A second call with the same id is a different call."""
        if id is None or self._streamed.pop(id, None) is None:
            return None
        return self._calls.get(id) if name in self._own else self._tasks.pop(id, None)

    def _takes(self, part: ToolCallPart) -> bool:
        return part.tool_name in self._own and self._takes_own and self._is_offered and not self._waits

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, because asyncio logs an exception that was never retrieved

    def _drop(self, id: str) -> None:
        del self._streamed[id]
        self._calls.cancel(id)
        if (task := self._tasks.pop(id, None)) is not None:
            task.cancel()


def _said(part: ToolCallPart) -> tuple[str, str]:
    """Return the name and arguments of a call. Other code may change the part in place."""
    return part.tool_name, part.args_as_json_str()


async def _call(ctx: RunContext[Any], part: ToolCallPart) -> Any:
    """Call a tool as pydantic-ai will: validate the arguments, and pass through the toolsets around the tool."""
    manager = ctx.tool_manager
    assert manager is not None  # the tool was found in it
    validated = await manager.validate_tool_call(part, wrap_validation_errors=False)
    if validated.deferral is not None:
        raise validated.deferral
    assert validated.tool is not None
    assert validated.validated_args is not None
    _beginning.set(part.tool_call_id)
    return await manager.toolset.call_tool(part.tool_name, validated.validated_args, validated.ctx, validated.tool)


@dataclass
class Joining(WrapperToolset[Any]):
    """Wrapper around all toolsets of a run. It waits for a started call, and passes any other call to its tool."""

    started: StartedCalls

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Return the result of the tool, or raise its error. Cancelling this does not cancel a started call."""
        if _beginning.get() is not None:  # it starts now; agents that the tool runs have their own calls
            _beginning.set(None)
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        begun = self.started.take(ctx.tool_call_id, name)
        if begun is None:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        if isinstance(begun, ToolCall):
            await begun.answered.wait()
            return returned_by(begun)
        return await asyncio.shield(begun)  # if this is cancelled, the end of the run cancels the task


_DECIDING: Final = (
    "before_tool_validate",
    "after_tool_validate",
    "wrap_tool_validate",
    "before_tool_execute",
    "wrap_tool_execute",
)
"""Hooks that can change, defer or forbid a call before its tool runs."""


def limits_calls(ctx: RunContext[Any]) -> bool:
    """Return whether the run limits its calls, or has a capability that can act between a call and its tool."""
    if ctx.usage_limits is not None and ctx.usage_limits.tool_calls_limit is not None:
        return True
    return ctx.root_capability is not None and any(map(_decides, _members(ctx.root_capability)))


def must_wait(ctx: RunContext[Any], name: str) -> bool:
    """Return whether a call of the tool runs alone, later or elsewhere. All later calls of the response wait, too."""
    manager = ctx.tool_manager
    if manager is None or manager.get_parallel_execution_mode() == "sequential":
        return True
    definition = _definition(ctx, name)
    if definition is None or definition.kind == "output":
        return False  # answered, or the run's result: runs no tool that others wait for
    return definition.kind != "function" or definition.sequential or not ctx.is_tool_available(definition)


def _definition(ctx: RunContext[Any], name: str) -> ToolDefinition | None:
    """Return the definition of a tool that the model was offered in this step of the run."""
    return None if ctx.tool_manager is None else ctx.tool_manager.get_tool_def(name)


def is_guarded(around: AbstractToolset[Any], toolset: AbstractToolset[Any]) -> bool:
    """Return whether an approval or a user's wrapper in `around` sees calls before the tools of `toolset`."""
    if isinstance(around, WrapperToolset):
        own = type(around).call_tool is not WrapperToolset.call_tool
        is_foreign = own and not type(around).__module__.startswith(("pydantic_ai.", "eagerstream"))
        looks = is_foreign or isinstance(around, ApprovalRequiredToolset)
        return (looks and any(member is toolset for member in _members(around))) or is_guarded(around.wrapped, toolset)
    return any(is_guarded(member, toolset) for member in getattr(around, "toolsets", ()))


def _members(root: AbstractToolset[Any] | AbstractCapability[Any]) -> list[Any]:
    members: list[Any] = []
    root.apply(members.append)
    return members


def _decides(capability: AbstractCapability[Any]) -> bool:
    if isinstance(capability, Instrumentation):  # only traces
        return False
    if isinstance(capability, WrapperCapability) and any(map(_decides, _members(capability.wrapped))):
        return True
    # `Hooks` has all of these methods, and calls the registered functions. Only its registry shows which ones it has.
    registry = getattr(capability, "_registry", None)
    plain = (AbstractCapability, WrapperCapability)
    return any(
        getattr(type(capability), hook) not in [getattr(base, hook) for base in plain]
        and (not isinstance(registry, dict) or bool(registry.get(hook)))
        for hook in _DECIDING
    )
