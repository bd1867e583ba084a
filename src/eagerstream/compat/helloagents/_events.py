"""The events of an agent in HelloAgents' form: to be streamed as server-sent events, and kept in a buffer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Collection
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Generic, Self, TypeVar

from ._trace.payload import dump, plain


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
    """Events as server-sent events, those of `include_types` only; where there are none, all.

    The stream stays the caller's: ending this early does not close it.
    """
    async for event in event_stream:
        if not include_types or event.type in include_types:
            yield event.to_sse()


async def stream_to_json(
    event_stream: AsyncIterable[StreamEvent], include_types: Collection[StreamEventType] | None = None
) -> AsyncIterator[str]:
    """As `stream_to_sse`, each event as a line of JSON."""
    async for event in event_stream:
        if not include_types or event.type in include_types:
            yield event.to_json() + "\n"
