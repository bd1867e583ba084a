"""`EarlyStart`: a capability of pydantic-ai by which tools begin while the reply is still being written."""

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

from ...loop import EarlyCalls
from ...tools import ForeignTool, ToolCall
from .._calls import CallOptions, ExecutorOptions, Listeners
from ._started import Joining, StartedCalls
from ._toolset import EagerToolset


class EarlyStart(AbstractCapability[Any]):
    """Tools begin while the reply is still being written, and pydantic-ai's own call of a tool joins the one begun.

        agent = Agent(model, capabilities=[EarlyStart([make_file, search])])

    The tools given here are the agent's, and begin as in `eagerstream.run`: at the end of their own input, or inside of
    it where they have streaming parameters. Of the agent's other tools, those named by `early` begin at the end of
    their own input, with the run's `deps` in their `RunContext`; its `messages` do not yet have the reply. They are
    called through their toolsets, and what they raise (`ModelRetry`, `ApprovalRequired`) counts when pydantic-ai calls.

    A call waits for pydantic-ai where it must: of a tool that needs approval or is run elsewhere, of a sequential tool
    and those called after it, in the sequential mode, under `tool_calls_limit`, in a durable workflow, and where a hook
    of another capability has a say before the tool runs. Where the reply then ends the run (`end_strategy="early"`), or
    a capability rewrote the call, what had begun is dropped.

    Tools that still run when the run ends are cancelled. asyncio only, as pydantic-ai is.

    Args:
        tools: As for `eagerstream.run`; they are added to those of the agent.
        early: Names of the agent's other tools that may begin early; True for all of them.
        eager: Ask Anthropic's models to stream inputs as they are written, of all tools (`eager_input_streaming`).
            False leaves it to the model's settings, for models and platforms that refuse it.
        max_retries: Of the tools given here; what the agent says where it is None.
        on_start, on_progress, on_stop: As for `EarlyCalls`.
        options: `executor`, `max_concurrency`, `circuit_breaker` and `limits`, as for `EagerToolset`.

    Raises:
        UsageError: As `run`.
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
        self._run: StartedCalls | None = None  # of the copy that belongs to a run

    @override
    async def for_run(self, ctx: RunContext[Any]) -> EarlyStart:
        """A copy for this run."""
        toolset = self._toolset.bound()
        options: CallOptions = {**toolset.options, **self._listeners}
        calls = EarlyCalls(toolset.tools, **options)
        mine = copy(self)
        mine.__dict__.update(_toolset=toolset, _run=StartedCalls(calls, toolset, early=self._early))
        return mine

    def get_ordering(self) -> CapabilityOrdering:
        """Outermost: whatever other capabilities put around toolsets is inside of what begins early."""
        return CapabilityOrdering(position="outermost")

    def get_toolset(self) -> AbstractToolset[Any] | None:
        """The tools given here."""
        return self._toolset if self._toolset.tools else None

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
        """Around all toolsets: where a call that has begun is joined."""
        return None if self._run is None else Joining(toolset, self._run)

    def get_model_settings(self) -> ModelSettings | None:
        """Eager input streaming; models of other providers do not look at it."""
        settings: Any = {"anthropic_eager_input_streaming": True}
        return settings if self._eager else None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Calls begin within this, and have ended when it has."""
        if self._run is None or ctx.in_durable_context:
            return await handler()
        async with self._run:
            return await handler()

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """A reply begins; one that has not ended is void."""
        if self._run is not None:
            self._run.begin(ctx)
        return request_context

    async def on_event(self, ctx: RunContext[Any], *, event: AgentStreamEvent) -> None:
        """Some more of the reply."""
        if self._run is not None:
            self._run.feed(ctx, event)

    def listens_to(self, event: AgentStreamEvent) -> bool:
        """The model's parts only."""
        return isinstance(event, PartStartEvent | PartDeltaEvent | PartEndEvent)

    @override
    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """The reply has ended, and this is what stays of it."""
        if self._run is not None:
            self._run.end(response)
        return response
