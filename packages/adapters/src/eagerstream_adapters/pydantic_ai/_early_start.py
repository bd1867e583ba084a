"""`EarlyStart`: a pydantic-ai capability that starts tools while the response is still being written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any, Unpack

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, WrapRunHandler
from pydantic_ai.messages import AgentStreamEvent, ModelResponse, PartDeltaEvent, PartEndEvent, PartStartEvent
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset
from typing_extensions import override

from eagerstream.calls import EarlyCalls
from eagerstream.tools import ForeignTool, ToolCall

from .._calls import CallOptions, ExecutorOptions, Listeners
from ._started import Joining, StartedCalls
from ._toolset import EagerToolset


class EarlyStart(AbstractCapability[Any]):
    """Capability that starts tools while the response is still being written. pydantic-ai's calls join started ones.

        agent = Agent(model, capabilities=[EarlyStart([make_file, search])])

    The tools given here are added to the agent. They start as in `eagerstream.run`: at the end of their own input, or
    inside it if they have streaming parameters. The agent's other tools start early only if `early` names them. They
    start at the end of their own input, with the run's `deps` in their `RunContext`. Its `messages` do not have the
    response yet. They are called through their toolsets. If they raise (`ModelRetry`, `ApprovalRequired`), this counts
    when pydantic-ai calls them.

    Some calls wait for pydantic-ai:

    - calls of tools that need approval or run elsewhere
    - calls of a sequential tool and all calls after it, and all calls in the sequential mode
    - all calls under `tool_calls_limit` or in a durable workflow
    - all calls if a hook of another capability can act before the tool runs

    Started calls are dropped if the response ends the run (`end_strategy="early"`), or if a capability rewrote the
    call.

    Tools that still run when the run ends are cancelled. Like pydantic-ai, this works only on asyncio.

    Cancellation: only `wrap_run` waits. Cancelling it cancels the started calls and waits for their end.

    Args:
        tools: As for `eagerstream.run`. They are added to the agent's tools.
        early: Names of the agent's other tools that may start early, or `True` for all of them.
        eager: Whether to ask Anthropic's models to stream the inputs of all tools as they are written
            (`eager_input_streaming`). `False` leaves this to the model's settings, for models and platforms that refuse
            it.
        max_retries: Maximum number of retries of the tools given here. `None` uses the agent's number.
        on_start, on_progress, on_stop: As for `EarlyCalls`.
        options: `executor`, `max_concurrency`, `circuit_breaker` and `limits`, as for `EagerToolset`.

    Raises:
        UsageError: A tool cannot be run, two tools share a name, or `executor` conflicts with another option.
    """

    def __init__(
        self,
        tools: Sequence[ForeignTool | Mapping[str, Any]] = (),
        *,
        early: Collection[str] | bool = (),
        eager: bool = True,
        max_retries: int | None = None,
        on_start: Callable[[ToolCall], object] | None = None,
        on_progress: Callable[[ToolCall, Any], object] | None = None,
        on_stop: Callable[[ToolCall], object] | None = None,
        **options: Unpack[ExecutorOptions],
    ) -> None:
        self._toolset = EagerToolset(tools, max_retries=max_retries, **options)
        self._early = early
        self._eager = eager
        self._listeners: Listeners = {"on_start": on_start, "on_progress": on_progress, "on_stop": on_stop}
        self._run: StartedCalls | None = None  # set in the copy for a run

    @override
    async def for_run(self, ctx: RunContext[Any]) -> EarlyStart:
        """Return a copy for this run."""
        toolset = self._toolset.bound(ctx)
        options: CallOptions = {**toolset.options, **self._listeners}
        calls = EarlyCalls(toolset.tools, **options, **toolset.run)
        mine = copy(self)
        mine.__dict__.update(_toolset=toolset, _run=StartedCalls(calls, toolset, early=self._early))
        return mine

    def get_ordering(self) -> CapabilityOrdering:
        """Return the outermost position: early calls pass through the toolset wrappers of other capabilities."""
        return CapabilityOrdering(position="outermost")

    def get_toolset(self) -> AbstractToolset[Any] | None:
        """Return the toolset of the tools given here, or `None` without tools."""
        return self._toolset if self._toolset.tools else None

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
        """Return a wrapper around all toolsets, in which pydantic-ai's calls join the started ones."""
        return None if self._run is None else Joining(toolset, self._run)

    def get_model_settings(self) -> ModelSettings | None:
        """Return the setting for eager input streaming. Models of other providers ignore it."""
        settings: Any = {"anthropic_eager_input_streaming": True}
        return settings if self._eager else None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Run the agent within the scope of the started calls. At the end, the calls that still run are cancelled."""
        if self._run is None or ctx.in_durable_context:
            return await handler()
        async with self._run:
            return await handler()

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Prepare for the next response. A previous response that has not ended is dropped."""
        if self._run is not None:
            self._run.begin(ctx)
        return request_context

    async def on_event(self, ctx: RunContext[Any], *, event: AgentStreamEvent) -> None:
        """Feed an event of the response."""
        if self._run is not None:
            self._run.feed(ctx, event)

    def listens_to(self, event: AgentStreamEvent) -> bool:
        """Return whether the event is about a part of the response."""
        return isinstance(event, PartStartEvent | PartDeltaEvent | PartEndEvent)

    @override
    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """End the response, and drop the started calls that it no longer has."""
        if self._run is not None:
            self._run.end(response)
        return response
