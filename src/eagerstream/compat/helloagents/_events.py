"""Events of an agent in HelloAgents' form, and the application's hooks for them."""

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
from ...wire import MessageStart, TextDelta, ThinkingDelta, text_of, total_tokens
from ._tool_calls import CallPairs, call_data, question_of, response_of_call
from ._trace import TraceLogger
from ._trace.payload import dump, plain

_log = logging.getLogger(__name__)


class StreamEventType(StrEnum):
    """Kind of a `StreamEvent`. Prints and compares as its text."""

    AGENT_START = "agent_start"
    AGENT_FINISH = "agent_finish"
    STEP_START = "step_start"
    STEP_FINISH = "step_finish"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_FINISH = "tool_call_finish"
    LLM_CHUNK = "llm_chunk"
    """Piece of the model's text."""
    THINKING = "thinking"
    """Piece of the model's thinking."""
    ERROR = "error"


K = TypeVar("K", bound=Enum)


@dataclass
class Happening(Generic[K]):
    """Event of an agent.

    Attributes:
        type: Kind of the event.
        timestamp: Seconds since 1970.
        agent_name: Name of the agent.
        data: Data of the event. Each type has its own keys.
    """

    type: K
    timestamp: float
    agent_name: str
    data: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def create(cls, event_type: K, agent_name: str, **data: Any) -> Self:
        """Return an event with the current time."""
        return cls(event_type, time.time(), agent_name, data)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain data, if `data` is plain."""
        return {
            "type": self.type.value,
            "timestamp": self.timestamp,
            "agent_name": self.agent_name,
            "data": self.data,
        }


class StreamEvent(Happening[StreamEventType]):
    """Event in a stream, with the fields of `Happening`."""

    def to_json(self) -> str:
        """Return `to_dict` as one line of JSON, within the bounds of a trace. Values without JSON form become text."""
        return dump(plain(self.to_dict()))

    def to_sse(self) -> str:
        r"""Return a server-sent event: `event: {type}\ndata: {json}\n\n`, with the JSON of `to_json`."""
        return f"event: {self.type.value}\ndata: {self.to_json()}\n\n"


class StreamBuffer:
    """Buffer of the newest events. Beyond `max_buffer_size`, the oldest ones are dropped.

    Raises:
        ValueError: `max_buffer_size` is negative.
    """

    def __init__(self, max_buffer_size: int = 100) -> None:
        self.max_buffer_size = max_buffer_size
        self._events: deque[StreamEvent] = deque(maxlen=max_buffer_size)

    @property
    def events(self) -> list[StreamEvent]:
        """New list of the events, oldest first."""
        return list(self._events)

    def add(self, event: StreamEvent) -> None:
        """Add an event."""
        self._events.append(event)

    def get_all(self) -> list[StreamEvent]:
        """Return the events, as `events`."""
        return self.events

    def clear(self) -> None:
        """Remove all events."""
        self._events.clear()

    def filter_by_type(self, event_type: StreamEventType) -> list[StreamEvent]:
        """Return the events of a type, oldest first."""
        return [event for event in self.events if event.type == event_type]


async def stream_to_sse(
    event_stream: AsyncIterable[StreamEvent], include_types: Collection[StreamEventType] | None = None
) -> AsyncIterator[str]:
    """Yield events as server-sent events: those of `include_types`, or all if it is empty or missing.

    The stream stays the caller's: ending this early does not close it. Cancelling this cancels the wait for the next
    event.
    """
    async for event in event_stream:
        if not include_types or event.type in include_types:
            yield event.to_sse()


async def stream_to_json(
    event_stream: AsyncIterable[StreamEvent], include_types: Collection[StreamEventType] | None = None
) -> AsyncIterator[str]:
    """Yield events as `stream_to_sse` does, each as a line of JSON.

    Ending this early does not close the stream. Cancelling this cancels the wait for the next event.
    """
    async for event in event_stream:
        if not include_types or event.type in include_types:
            yield event.to_json() + "\n"


HOOK_TIMEOUT_S: Final = 5.0


class EventType(StrEnum):
    """Kind of an `AgentEvent`. Prints and compares as its text.

    Programs may use all of these kinds. `agent_events` reports six of them.
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
    """Event that a hook gets."""

    def __str__(self) -> str:
        return f"[{self.type.value}] {self.agent_name} @ {self.timestamp:.2f}: {self.data}"


LifecycleHook: TypeAlias = Callable[[AgentEvent], Awaitable[object]] | None


async def call_hook(
    hook: LifecycleHook, event: AgentEvent, *, timeout_s: float = HOOK_TIMEOUT_S, trace: TraceLogger | None = None
) -> None:
    """Call a hook with an event, and wait for it. Its exceptions are not raised.

    If a hook fails or takes too long, a warning with the class of the error is logged. The trace gets
    `hook_error{event_type, error}` or `hook_timeout{event_type, timeout}`. Cancelling this cancels the hook.

    Args:
        hook: An `async def`, or `None`. A hook that blocks cannot be stopped.
        event: The event.
        timeout_s: Maximum time of the hook, in seconds. Then it is cancelled.
        trace: Trace for failures.
    """
    if hook is None:
        return
    what = event.type.value
    try:
        with anyio.move_on_after(timeout_s) as scope:
            told = hook(event)
            if inspect.isawaitable(told):  # some hooks are plain functions
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
    """Yield the events of a run that was entered. Iterate over this instead of the run.

        async with eagerstream.run(...) as run:
            async for event in agent_events(run, "assistant", on_tool_call=tell):
                await response.write(event.to_sse())

    The `data` of each type:

    - `agent_start{input_text}`
    - `step_start{step}`, `step_finish{step, tool_calls}`: a step is a turn
    - `llm_chunk{chunk, step}`, `thinking{chunk, step}`
    - `tool_call_start{tool_name, tool_call_id, args, step}`, `tool_call_finish{tool_name, tool_call_id, result, status,
      step}`: once for each call
    - `error{error, error_type, step}`: with `restarted: True` if the run continues and the step's events so far are
      void
    - `agent_finish{result, total_steps, total_tokens, status}`: at the end, with `max_steps_reached: True` if the run
      reached its maximum of turns

    A hook is called before its event is yielded, one hook at a time, while the run continues. `on_step` gets both ends
    of a step, and `on_error` gets an exception of the run. See `call_hook` for hooks that fail.

    If the consumer ends this early or is cancelled, no further hooks are called. If you may end it early, close it, for
    example with `contextlib.aclosing`: trio warns of open generators.

    Args:
        run: A run within its block. Leaving that block ends the run. Ending this generator does not.
        agent_name: Name in the events.
        on_start, on_step, on_tool_call, on_finish, on_error: Hooks that get an `AgentEvent`.
        hook_timeout_s: Maximum time of a hook, in seconds.
        trace: Trace for failures of hooks. This does not watch the run.

    Raises:
        Exception: Any error of the iteration over the run, after an `error` event.
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

    # Each yield is outside of all cancel scopes: the iterating task may change.
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
    """Converter of a run's events to an agent's events."""

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
                told.append(self._void("the response restarted", None))
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
            result=result.text,
            total_steps=self._step,
            total_tokens=total_tokens(result.usage),
            status=result.status.value,
            **({"max_steps_reached": True} if is_limited else {}),
        )

    def _void(self, why: str, error: Exception | None) -> StreamEvent:
        kind = None if error is None else type(error).__name__
        return self._event(StreamEventType.ERROR, error=why, error_type=kind, step=self._step, restarted=True)
