"""`ReActAgent` and `SimpleAgent`: agents with the constructors of HelloAgents."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, ClassVar

from .._sync import SyncLoop, refuse_in_event_loop
from ._agent import Agent
from ._config import Config
from ._events import StreamEvent, StreamEventType
from ._llm import HelloAgentsLLM
from ._registry import ToolRegistry
from ._tool import Tool


class ReActAgent(Agent):
    """An agent that uses tools until it has an answer.

    Claude reasons and stops by itself, so the tools `Thought` and `Finish` of HelloAgents do not exist here. Each run
    is a conversation of its own.

    Args:
        max_steps: Maximum number of responses in a run.
    """

    sends_history: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        llm: HelloAgentsLLM,
        tool_registry: ToolRegistry | None = None,
        system_prompt: str | None = None,
        config: Config | None = None,
        max_steps: int = 5,
    ) -> None:
        super().__init__(name, llm, system_prompt, config, tool_registry)
        self.tool_registry = tool_registry if tool_registry is not None else self._made_registry()
        self.max_steps = max_steps

    @property
    def max_turns(self) -> int:
        """Maximum number of responses in a run: `max_steps`."""
        return self.max_steps


class SimpleAgent(Agent):
    """An agent for conversations, with tools if it has any.

    Args:
        enable_tool_calling: Whether the model gets the tools.
        max_tool_iterations: Maximum number of responses with calls in a run. One more response may answer.
    """

    def __init__(
        self,
        name: str,
        llm: HelloAgentsLLM,
        system_prompt: str | None = None,
        config: Config | None = None,
        tool_registry: ToolRegistry | None = None,
        enable_tool_calling: bool = True,
        max_tool_iterations: int = 3,
    ) -> None:
        super().__init__(name, llm, system_prompt, config, tool_registry)
        self.enable_tool_calling = enable_tool_calling and tool_registry is not None
        self.max_tool_iterations = max_tool_iterations

    @property
    def max_turns(self) -> int:
        """Maximum number of responses in a run."""
        return self.max_tool_iterations + 1

    def add_tool(self, tool: Tool, auto_expand: bool = True) -> None:
        """Register a tool. The first one of an agent without a registry also enables tools."""
        self.enable_tool_calling = self.enable_tool_calling or self.tool_registry is None
        super().add_tool(tool, auto_expand)

    def remove_tool(self, tool_name: str) -> bool:
        """Remove a tool, and return whether there was one."""
        known = tool_name in self.list_tools()
        if known and self.tool_registry is not None:
            self.tool_registry.unregister(tool_name)
        return known

    def list_tools(self) -> list[str]:
        """Return the names of all tools."""
        return [] if self.tool_registry is None else self.tool_registry.list_tools()

    def has_tools(self) -> bool:
        """Return whether the model gets tools."""
        return self.enable_tool_calling and self.tool_registry is not None

    def stream_run(self, input_text: str, **kwargs: Any) -> Iterator[str]:
        """Run the agent, and yield the text of its responses piece by piece.

        A response that breaks off raises, because its pieces cannot be taken back. Closing the iterator early cancels
        the run.

        Raises:
            UsageError: An event loop runs in this thread: use `arun_stream`.
        """
        refuse_in_event_loop("stream_run", "arun_stream")
        events: queue.SimpleQueue[StreamEvent | None] = queue.SimpleQueue()

        async def produce() -> None:
            async with aclosing(self.arun_stream(input_text, **{"on_interrupt": "raise", **kwargs})) as stream:
                async for event in stream:
                    events.put(event)

        outcome, cancel = SyncLoop.shared().start(produce, lambda: events.put(None))
        try:
            while (event := events.get()) is not None:
                if event.type is StreamEventType.LLM_CHUNK:
                    yield str(event.data["chunk"])
        except BaseException:  # the caller closed this, or Ctrl-C
            cancel()
            while events.get() is not None:
                pass
            raise
        outcome.result()

    def _tools(self) -> list[Any]:
        return super()._tools() if self.has_tools() else []
