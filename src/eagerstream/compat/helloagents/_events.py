"""The events of an agent in HelloAgents' form, and the hooks of the application that are called on the way."""

from __future__ import annotations

import inspect
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import anyio

from ...loop import Restarted, Run, RunEvent, RunStatus, TurnStart, TurnStop
from ...tools import ToolStatus
from ...wire import MessageStart, TextDelta, ThinkingDelta
from ._tool_calls import CallPairs, call_data, question_of, response_of_call, text_of, total_tokens
from ._trace import TraceLogger
from ._trace.payload import dump, plain

_log = logging.getLogger(__name__)


class StreamEventType(StrEnum):
    """The kind of a `StreamEvent`. Prints and compares as its text."""

    AGENT_START = "agent_start"
    AGENT_FINISH = "agent_finish"
    STEP_START = "step_start"
    STEP_FINISH = "step_finish"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_FINISH = "tool_call_finish"
    LLM_CHUNK = "llm_chunk"
    """A piece of the model's text."""
    THINKING = "thinking"
    """A piece of its thinking."""
    ERROR = "error"


K = TypeVar("K", bound=Enum)


@dataclass
class Happening(Generic[K]):
    """Something that happened.

    Attributes:
        type: What.
        timestamp: Seconds since 1970.
        agent_name: Whose.
        data: What is to be said of it; has keys of its own for each type.
    """

    type: K
    timestamp: float
    agent_name: str
    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def create(cls, event_type: K, agent_name: str, **data: Any) -> Self:
        """An event that happens now."""
        return cls(event_type, time.time(), agent_name, data)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, where `data` is."""
        return {
            "type": self.type.value,
            "timestamp": self.timestamp,
            "agent_name": self.agent_name,
            "data": self.data,
        }


class StreamEvent(Happening[StreamEventType]):
    """What is streamed of a happening; its fields are those of that."""

    def to_json(self) -> str:
        """`to_dict` on one line of JSON, within the bounds of a trace; what has no JSON form becomes text."""
        return dump(plain(self.to_dict()))

    def to_sse(self) -> str:
        r"""As a server-sent event: `event: {type}\ndata: {json}\n\n`, the JSON as of `to_json`."""
        return f"event: {self.type.value}\ndata: {self.to_json()}\n\n"


class StreamBuffer:
    """The newest events; with more than `max_buffer_size` the oldest go.

    Raises:
        ValueError: `max_buffer_size` is negative.
    """

    def __init__(self, max_buffer_size: int = 100) -> None:
        self.max_buffer_size = max_buffer_size
        self._events: deque[StreamEvent] = deque(maxlen=max_buffer_size)

    @property
    def events(self) -> list[StreamEvent]:
        """Those that are there, the oldest first; a list of its own."""
        return list(self._events)

    def add(self, event: StreamEvent) -> None:
        """Add the newest."""
        self._events.append(event)

    def get_all(self) -> list[StreamEvent]:
        """As `events`."""
        return self.events

    def clear(self) -> None:
        """Forget all."""
        self._events.clear()

    def filter_by_type(self, event_type: StreamEventType) -> list[StreamEvent]:
        """Those of a type, the oldest first."""
        return [event for event in self.events if event.type == event_type]


async def stream_to_sse(
    event_stream: AsyncIterable[StreamEvent], include_types: Collection[StreamEventType] | None = None
) -> AsyncIterator[str]:
    """Yield events as server-sent events: those of `include_types`, or all if there are none.

    The stream stays the caller's: ending this early does not close it.
    """
    async for event in event_stream:
        if not include_types or event.type in include_types:
            yield event.to_sse()


async def stream_to_json(
    event_stream: AsyncIterable[StreamEvent], include_types: Collection[StreamEventType] | None = None
) -> AsyncIterator[str]:
    """Yield events as `stream_to_sse` does, each as a line of JSON."""
    async for event in event_stream:
        if not include_types or event.type in include_types:
            yield event.to_json() + "\n"


HOOK_TIMEOUT_S: Final = 5.0


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


async def agent_events(
    run: Run,
    agent_name: str = "agent",
    *,
    on_start: LifecycleHook = None,
    on_step: LifecycleHook = None,
    on_tool_call: LifecycleHook = None,
    on_finish: LifecycleHook = None,
    on_error: LifecycleHook = None,
    hook_timeout_s: float = HOOK_TIMEOUT_S,
    trace: TraceLogger | None = None,
) -> AsyncGenerator[StreamEvent, None]:
    """The events of a run that was entered, instead of iterating over the run itself.

        async with eagerstream.run(...) as run:
            async for event in agent_events(run, "assistant", on_tool_call=tell):
                await response.write(event.to_sse())

    What `data` has: `agent_start{input_text}`; `step_start{step}`, `step_finish{step, tool_calls}`: a step is a turn;
    `llm_chunk{chunk, step}`, `thinking{chunk, step}`; `tool_call_start{tool_name, tool_call_id, args, step}`,
    `tool_call_finish{tool_name, tool_call_id, result, status, step}`, once for each call; `error{error, error_type,
    step}`, with `restarted: True` where the run goes on and what came of the step is void; at the end
    `agent_finish{result, total_steps, total_tokens, status}`, with `max_steps_reached: True` where the turns did not
    suffice.

    Hooks are called before their event is handed out, one at a time, and the run goes on meanwhile: `on_start`,
    `on_step` (of both ends of a step), `on_tool_call`, `on_finish`, and `on_error` for what the run raises. See
    `call_hook` for those that fail. A consumer that ends this early calls no further hooks; cancelling it neither. One
    that means to should close it, as with `contextlib.aclosing`: trio warns of generators that are left open.

    Args:
        run: Within its block. Leaving that ends the run, not the end of this.
        agent_name: What the events say.
        on_start, on_step, on_tool_call, on_finish, on_error: Each gets an `AgentEvent`.
        hook_timeout_s: How long a hook may take.
        trace: Gets what hooks fail with; it does not watch the run by this.

    Raises:
        EagerStreamError: What the iteration over the run raises, after an `error`.
    """
    teller = _Teller(agent_name)
    hooks: Mapping[StreamEventType, tuple[EventType, LifecycleHook]] = {
        StreamEventType.AGENT_START: (EventType.AGENT_START, on_start),
        StreamEventType.STEP_START: (EventType.STEP_START, on_step),
        StreamEventType.STEP_FINISH: (EventType.STEP_FINISH, on_step),
        StreamEventType.TOOL_CALL_START: (EventType.TOOL_CALL, on_tool_call),
        StreamEventType.AGENT_FINISH: (EventType.AGENT_FINISH, on_finish),
        StreamEventType.ERROR: (EventType.AGENT_ERROR, on_error),
    }

    async def hooked(event: StreamEvent) -> StreamEvent:
        if event.type in hooks and not event.data.get("restarted"):
            kind, hook = hooks[event.type]
            told = AgentEvent(kind, event.timestamp, agent_name, {**event.data})
            await call_hook(hook, told, timeout_s=hook_timeout_s, trace=trace)
        return event

    # Each yield stands outside of all cancel scopes: whoever iterates may be another task than the one that began.
    yield await hooked(teller.start(run))
    try:
        async for run_event in run:
            for event in teller.take(run_event):
                yield await hooked(event)
    except Exception as error:
        yield await hooked(teller.error(error))
        raise
    yield await hooked(teller.finish(run))


class _Teller:
    """Makes the events of an agent of those of a run."""

    def __init__(self, agent_name: str) -> None:
        self._agent_name = agent_name
        self._pairs = CallPairs()
        self._step = 0

    def _event(self, type: StreamEventType, **data: Any) -> StreamEvent:
        return StreamEvent.create(type, self._agent_name, **data)

    def start(self, run: Run) -> StreamEvent:
        self._step = run.turn
        return self._event(StreamEventType.AGENT_START, input_text=text_of(question_of(run.result.messages)))

    def take(self, event: RunEvent) -> list[StreamEvent]:
        step = self._step
        told: list[StreamEvent] = []
        match event:
            case TurnStart(turn=turn):
                self._step = turn
                told.append(self._event(StreamEventType.STEP_START, step=turn))
            case TextDelta(text=text):
                told.append(self._event(StreamEventType.LLM_CHUNK, chunk=text, step=step))
            case ThinkingDelta(thinking=thinking):
                told.append(self._event(StreamEventType.THINKING, chunk=thinking, step=step))
            case Restarted(reason=reason, error=error):
                told.append(self._void(reason if error is None else str(error), error))
            case MessageStart(restarted=True):
                told.append(self._void("the reply began anew", None))
            case _:
                pass
        for what, call in self._pairs.take(event):
            if what == "call":
                told.append(self._event(StreamEventType.TOOL_CALL_START, **call_data(call), step=call.turn))
            else:
                response = response_of_call(call)
                told.append(
                    self._event(
                        StreamEventType.TOOL_CALL_FINISH,
                        tool_name=call.name,
                        tool_call_id=call.id,
                        result=response.text,
                        status=ToolStatus.ERROR.value if call.is_error else response.status.value,
                        step=call.turn,
                    )
                )
        if isinstance(event, TurnStop):
            told.append(self._event(StreamEventType.STEP_FINISH, step=event.turn, tool_calls=len(event.calls)))
        return told

    def error(self, error: Exception) -> StreamEvent:
        return self._event(StreamEventType.ERROR, error=str(error), error_type=type(error).__name__, step=self._step)

    def finish(self, run: Run) -> StreamEvent:
        result = run.result
        is_limited = result.status is RunStatus.LIMIT
        return self._event(
            StreamEventType.AGENT_FINISH,
            result=text_of((result.message or {}).get("content", "")),
            total_steps=self._step,
            total_tokens=total_tokens(result.usage),
            status=result.status.value,
            **({"max_steps_reached": True} if is_limited else {}),
        )

    def _void(self, why: str, error: Exception | None) -> StreamEvent:
        kind = None if error is None else type(error).__name__
        return self._event(StreamEventType.ERROR, error=why, error_type=kind, step=self._step, restarted=True)
