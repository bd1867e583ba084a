"""Functions of the application's own that are told when an agent begins, takes a step, calls a tool, or ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, TypeAlias

import anyio

from ._events import Happening
from ._trace import TraceLogger

HOOK_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


class EventType(StrEnum):
    """The kind of an `AgentEvent`. Prints and compares as its text.

    Programs may name all of these kinds. `agent_events` reports six of them.
    """

    AGENT_START = "agent_start"
    AGENT_FINISH = "agent_finish"
    AGENT_ERROR = "agent_error"
    STEP_START = "step_start"
    STEP_FINISH = "step_finish"
    LLM_START = "llm_start"
    LLM_CHUNK = "llm_chunk"
    LLM_FINISH = "llm_finish"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    TOOL_ERROR = "tool_error"
    THINKING = "thinking"
    REFLECTION = "reflection"
    PLAN = "plan"


class AgentEvent(Happening[EventType]):
    """What a hook gets of a happening."""

    def __str__(self) -> str:
        return f"[{self.type.value}] {self.agent_name} @ {self.timestamp:.2f}: {self.data}"


LifecycleHook: TypeAlias = Callable[[AgentEvent], Awaitable[object]] | None


async def call_hook(
    hook: LifecycleHook, event: AgentEvent, *, timeout_s: float = HOOK_TIMEOUT_S, trace: TraceLogger | None = None
) -> None:
    """Tell a hook of an event, and wait for it; what it raises stays here.

    A hook that fails or takes too long is told of in the log, by its class of error only, and in the trace: as
    `hook_error{event_type, error}` or `hook_timeout{event_type, timeout}`. Cancelling this cancels the hook.

    Args:
        hook: None is told nothing. It should be an `async def`: one that blocks cannot be stopped.
        event: What happened.
        timeout_s: After this the hook is cancelled.
        trace: Where it is told, too.
    """
    if hook is None:
        return
    what = event.type.value
    try:
        with anyio.move_on_after(timeout_s) as scope:
            told = hook(event)
            if inspect.isawaitable(told):  # some are plain functions
                await told
    except Exception as error:
        _log.warning("the hook for %s failed (%s)", what, type(error).__name__)
        if trace is not None:
            trace.log_soon("hook_error", {"event_type": what, "error": error})
        return
    if scope.cancelled_caught:
        _log.warning("the hook for %s took longer than %g s: it was cancelled", what, timeout_s)
        if trace is not None:
            trace.log_soon("hook_timeout", {"event_type": what, "timeout": timeout_s})
