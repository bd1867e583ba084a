"""`Agent`, `ReActAgent` and `SimpleAgent`: a name, a model, tools and a history, run by `eagerstream.run`."""

from __future__ import annotations

import queue
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar, Final

import anyio
import anyio.to_thread

from eagerstream import TextDelta
from eagerstream._support.logs import logger_of
from eagerstream.calls import RunStatus
from eagerstream.errors import UsageError
from eagerstream.loop import Run, RunResult, run

from .._departed import departed_attribute
from .._sync import SyncLoop, refuse_in_event_loop, run_sync
from ._breaker import CircuitBreaker
from ._registry import ToolRegistry
from ._settings import Config, HelloAgentsLLM, Message
from ._tool import Tool
from ._trace import TraceLogger

_HOOKS: Final = frozenset({"on_start", "on_step", "on_tool_call", "on_finish", "on_error"})

_log = logger_of(__name__)


class Agent:
    """Agent of HelloAgents: `run` and `arun` each run one conversation with `eagerstream.run`.

    Args:
        name: Name in traces.
        llm: The model.
        system_prompt: Instructions. There are no default ones.
        config: The settings.
        tool_registry: The tools.

    Attributes:
        name, llm, system_prompt, config, tool_registry: As given. Changes apply to the next run.
        result: Result of the last run: status, calls, usage, the complete messages. `None` before the first one.
    """

    sends_history: ClassVar[bool] = True
    """`True` if each run continues the conversation of earlier runs."""

    def __init__(
        self,
        name: str,
        llm: HelloAgentsLLM,
        system_prompt: str | None = None,
        config: Config | None = None,
        tool_registry: ToolRegistry | None = None,
    ) -> None:
        self.name = name
        self.llm = llm
        self.system_prompt = system_prompt
        self.config: Config = config or Config()
        self.tool_registry = tool_registry
        self.result: RunResult | None = None
        self._history: list[Message] = []
        self._trace: TraceLogger | None = None
        self._has_used_trace = False

    def __getattr__(self, name: str) -> Any:
        raise departed_attribute(self, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, model={self.llm.model!r})"

    # --- history ------------------------------------------------------------------------------------------------------

    def add_message(self, message: Message) -> None:
        """Add a message to the history."""
        self._history.append(message)

    def get_history(self) -> list[Message]:
        """Return a copy of the history: the questions and the final answers, without tool calls."""
        return list(self._history)

    def clear_history(self) -> None:
        """Remove all messages."""
        self._history.clear()

    # --- tools --------------------------------------------------------------------------------------------------------

    def add_tool(self, tool: Tool, auto_expand: bool = True) -> None:
        """Register a tool. If the agent has no registry, it makes one."""
        if self.tool_registry is None:
            self.tool_registry = self._made_registry()
        self.tool_registry.register_tool(tool, auto_expand)

    def _made_registry(self) -> ToolRegistry:
        config = self.config
        threshold, timeout = config.circuit_failure_threshold, config.circuit_recovery_timeout
        return ToolRegistry(CircuitBreaker(threshold, timeout, config.circuit_enabled))

    # --- runs ---------------------------------------------------------------------------------------------------------

    @property
    def max_turns(self) -> int | None:
        """Maximum number of responses in a run, or `None`."""
        return None

    def run(self, input_text: str, **kwargs: Any) -> str:
        """Run the agent, and wait for its final answer. See `arun`.

        Raises:
            UsageError: An event loop runs in this thread: use `await arun(...)`.
            Exception: As for `arun`.
        """
        return run_sync("run", "arun", partial(self.arun, input_text, **kwargs))

    async def arun(self, input_text: str, **kwargs: Any) -> str:
        """Run the agent.

        Cancelling it closes the connection and cancels the tools. The history of the agent does not change.

        Args:
            input_text: The question.
            **kwargs: Further arguments of `eagerstream.run`: `temperature`, `max_tokens`, `thinking`, ...

        Returns:
            The text of the last response. If the run reached `max_turns` first, a sentence that reports this.

        Raises:
            EagerStreamError: See `eagerstream.run`. Also raised for a hook of HelloAgents, for example `on_tool_call`.
            OSError: The file of the trace cannot be made. See `Config.trace_enabled`.
        """
        async with self._running(input_text, kwargs) as running:
            await running.finish()
        return self._end(input_text, running.result)

    @asynccontextmanager
    async def _running(self, input_text: str, parameters: dict[str, Any]) -> AsyncIterator[Run]:
        """Open a run with its client and its trace."""
        if hooks := sorted(_HOOKS & parameters.keys()):
            raise UsageError(f"agents call no hooks ({', '.join(hooks)}): iterate over the events of eagerstream.run")
        history = self._history if self.sends_history else []
        said = [{"role": message.role, "content": message.content} for message in history]
        request = {
            "messages": [*said, {"role": "user", "content": input_text}],
            "tools": self._tools(),
            "max_turns": self.max_turns,
            **({"system": self.system_prompt} if self.system_prompt else {}),
            **self.llm.request(**parameters),
        }
        if self._has_used_trace:  # each run has its own trace, because runs of an agent may overlap
            self._trace = None
        self._has_used_trace = True
        trace = self.trace_logger
        try:
            async with self.llm.opened() as client:
                running = run(client, **request)
                if trace is not None:
                    kind = type(self).__name__
                    trace.watch(running, agent_name=self.name, agent_type=kind, config=self.config.to_dict())
                async with running:
                    yield running
        finally:
            if trace is not None:
                with anyio.CancelScope(shield=True):  # a disk that does not answer delays this by up to 5 s
                    await anyio.to_thread.run_sync(trace.finalize)

    def _tools(self) -> list[Any]:
        if self.tool_registry is None:
            return []
        return list(self.tool_registry.to_tools(max_concurrent_tools=self.config.max_concurrent_tools))

    def _end(self, input_text: str, result: RunResult) -> str:
        """Keep the question and its answer."""
        self.result = result
        answer = result.text
        if result.status is RunStatus.LIMIT:
            answer = f"未能在 {self.max_turns} 步内得出最终答案。"
        if result.status not in (RunStatus.COMPLETED, RunStatus.STOP_SEQUENCE):
            _log.warning("a run of the agent %s ended with status %s", self.name, result.status.value)
        self.add_message(Message(input_text, "user"))
        if answer.strip():  # the API refuses an empty text
            self.add_message(Message(answer, "assistant"))
        return answer

    # --- traces -------------------------------------------------------------------------------------------------------

    @property
    def trace_logger(self) -> TraceLogger | None:
        """Trace of the last run, or of the first run before it starts. `None` without traces.

        Its file is made when it is first needed, so an agent that never runs leaves none.

        Raises:
            OSError: The file cannot be made.
        """
        config = self.config
        if self._trace is None and config.trace_enabled:
            self._trace = TraceLogger(config.trace_dir, config.trace_sanitize)
        return self._trace


class ReActAgent(Agent):
    """Agent that uses tools until it has an answer.

    Claude reasons and stops by itself, so the tools `Thought` and `Finish` of HelloAgents do not exist here. Each run
    is a separate conversation.

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
        self.tool_registry: ToolRegistry = tool_registry if tool_registry is not None else self._made_registry()
        self.max_steps = max_steps

    @property
    def max_turns(self) -> int:
        """Maximum number of responses in a run: `max_steps`."""
        return self.max_steps


class SimpleAgent(Agent):
    """Agent for conversations, with tools if it has any.

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
        self.enable_tool_calling: bool = enable_tool_calling and tool_registry is not None
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
        """Remove a tool, and return whether it existed."""
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

        A response that breaks off raises, because its pieces are already yielded. Closing the iterator early cancels
        the run.

        Raises:
            UsageError: An event loop runs in this thread: use `await arun(...)`, or the events of `eagerstream.run`.
            EagerStreamError: See `eagerstream.run`.
        """
        refuse_in_event_loop("stream_run", "await arun")
        pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        async def produce() -> None:
            async with self._running(input_text, {"on_interrupt": "raise", **kwargs}) as running:
                async for event in running:
                    if isinstance(event, TextDelta):
                        pieces.put(event.text)
            self._end(input_text, running.result)

        outcome, cancel = SyncLoop.shared().start(produce, lambda: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
        except BaseException:  # the caller closed this, or Ctrl-C
            cancel()
            while pieces.get() is not None:
                pass
            raise
        outcome.result()

    def _tools(self) -> list[Any]:
        return super()._tools() if self.has_tools() else []
