"""`EarlyToolsNode`: a LangGraph node that calls the model and starts its tools while it still writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Unpack, cast

import anyio.lowlevel
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage, message_chunk_to_message
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.graph import END
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

from eagerstream import Outcome
from eagerstream.calls import EarlyCalls, OnInterrupt
from eagerstream.errors import EagerStreamError, UsageError
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import (
    Executor,
    ForeignTool,
    InProcessExecutor,
    RunningCall,
    Tool,
    ToolCall,
    ToolResponse,
    as_tool,
)

from .._calls import CallOptions, ExecutorOptions, Listeners, RunOptions
from ._chunks import ChunkReader, stop_reason
from ._conversations import Conversations, is_sent
from ._conversion import EagerTool, as_langchain_tool, converted, wanted_call
from ._messages import (
    cut,
    handed_over,
    identified,
    messages_of,
    repaired,
    response_of_message,
    sendable,
    tool_message,
)
from ._telling import Telling, traced

_OUTPUT: Final = "langgraph_output"
"""Key in a response's data for the output of LangGraph's `ToolNode`."""

_ENDS: Final = ("refusal", "content_filter", "model_context_window_exceeded", "stop_sequence", "safety")
"""Stop reasons after which the model is not asked again, even after calls."""


class _Left(GraphBubbleUp):
    """Signal that the graph's own `ToolNode` runs the call."""


class EarlyToolsNode:
    """Node that calls the chat model and runs the calls of its response, each as early as `eagerstream.run` would.

        graph.add_node("agent", EarlyToolsNode(model, tools))
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", early_tools_condition)

    It adds the response and a `ToolMessage` for each of its calls to the state. The chunks go to
    `stream_mode="messages"` as from any node. Events of the calls go to `stream_mode="custom"` (see `Telling`).
    Callbacks and `astream_events` see the tools that run in this process. Cancelling the graph cancels them.

    A call with unusable input is echoed as `{"INVALID_JSON": raw}`. A tool that raised is answered with `Class:
    message`. If the response breaks off after a tool that is not `idempotent` has started, its complete calls and their
    results become the update. Otherwise the error is raised, and a `retry_policy` of the node runs it again.

    The tools run before a checkpoint has the response. A run that resumes from a checkpoint asks the model again, and
    may call the tools again. So pass tools to `later` if they must never run twice for one question, or if they ask a
    person with `interrupt()`. A call of another tool that turns out to interrupt is left to the `ToolNode`, too.

    State that tools keep, such as the variables of a `CodeTool`, lasts for the thread (`thread_id`), and without a
    thread for one run of the graph. It is not in the checkpoints. A task that `Send` started keeps none.

    Args:
        model: A chat model, to which the tools are bound, or any runnable that yields the chunks of a bound model.
        tools: Eagerstream's tools and LangChain's. LangGraph's `ToolNode` runs LangChain's tools: it injects the state,
            the store and the runtime, and it applies a `Command`. The state that they see does not have the response
            yet.
        later: LangChain tools whose calls are left to the graph's `ToolNode`. The model sees them, and
            `early_tools_condition` routes to that node.
        messages_key: Key of the messages in the state.
        repair: Before each request, repair messages that a provider would refuse: a graph that was cancelled or resumed
            may have calls without results, or results in the wrong place. A call without a result is answered as not
            executed. The state stays as it is. With False (default), the messages are sent as they are.
        on_interrupt: With `"raise"`, a response that breaks off always raises.
        options: `executor`, `max_concurrency`, `circuit_breaker` and `limits`, as for `EarlyCalls`. `executor` runs the
            calls of eagerstream's tools. LangChain's tools always run in this process.

    Raises:
        UsageError: A tool cannot be run, two tools share a name, or a tool is a toolset.
    """

    def __init__(
        self,
        model: BaseChatModel | Runnable[Any, Any],
        tools: Sequence[BaseTool | ForeignTool],
        *,
        later: Sequence[BaseTool] = (),
        messages_key: str = "messages",
        repair: bool = False,
        on_interrupt: OnInterrupt = "resume",
        **options: Unpack[ExecutorOptions],
    ) -> None:
        given = [tool.tool if isinstance(tool, EagerTool) else tool for tool in tools]
        theirs = [tool for tool in given if isinstance(tool, BaseTool)]
        self._tool_node = ToolNode(theirs, handle_tool_errors=False, messages_key=messages_key)
        self._here = {tool.name: converted(tool, self._run_theirs) for tool in theirs}
        self._tools = [self._here[tool.name] if isinstance(tool, BaseTool) else _runnable(tool) for tool in given]
        leaving = [converted(tool, _leave, start="message") for tool in later]
        self._tools += leaving
        self._here |= {tool.name: tool for tool in leaving}
        self._left = frozenset(tool.name for tool in leaving)
        self._options = options
        self._conversations = Conversations()
        self._messages_key = messages_key
        self._repairs = repair
        self._resumes = on_interrupt == "resume"
        self._early_calls({})  # report wrong options now
        bound = [as_langchain_tool(tool) for tool in self._tools]
        self._model = model.bind_tools(bound) if isinstance(model, BaseChatModel) and bound else model

    def _early_calls(self, run: RunOptions, **listeners: Unpack[Listeners]) -> EarlyCalls:
        options: CallOptions = {**self._options, **listeners}
        if (elsewhere := options.get("executor")) is not None:
            limits, max_concurrency = options.get("limits", DEFAULT_LIMITS), options.get("max_concurrency", 16)
            options["executor"] = SplitExecutor(self._here, elsewhere, limits=limits, max_concurrency=max_concurrency)
        return EarlyCalls(self._tools, **options, **run)

    async def __call__(self, state: Any, config: RunnableConfig) -> Any:
        """Return the node's update of the state. Cancelling it cancels the tools that run in it.

        Raises:
            EagerStreamError: The calls could not be followed, for example beyond a limit.
            Exception: Any error of the model, if `on_interrupt` is `"raise"` or no tool has started that is not
                `idempotent`.
        """
        told = Telling(left=self._left)
        reader_error: Exception | None = None
        chunks: list[Any] = []
        messages = messages_of(state, self._messages_key)
        if self._repairs:
            messages = repaired(messages)
        run: RunOptions = {} if is_sent(config) else self._conversations.of(config)
        async with self._early_calls(run, on_start=told.start, on_progress=told.progress, on_stop=told.stop) as calls:
            reader = ChunkReader(calls.feed)
            try:
                async with aclosing(cast("Any", self._model.astream(messages, config))) as stream:
                    async for chunk in stream:
                        chunks.append(chunk)
                        told.inputs(reader.feed(chunk))
                        await anyio.lowlevel.checkpoint_if_cancelled()
                told.inputs(reader.close())
            except Exception as error:
                has_begun = any(call.has_begun and not call.idempotent for call in calls.calls)
                if isinstance(error, EagerStreamError) or not (self._resumes and has_begun):
                    raise
                reader_error = error
            answered = await calls.finish()
        first, *others = chunks
        message = cast("AIMessage", message_chunk_to_message(first + others if others else first))
        message = identified(message, answered)
        if reader_error is not None:
            answered = [call for call in answered if call.ran or call.input.outcome is not Outcome.INCOMPLETE]
            message = cut(message, answered)
        return self._update(state, sendable(message, answered), answered)

    async def _run_theirs(self, arguments: dict[str, Any], call: RunningCall) -> ToolResponse:
        output = await self._tool_node.ainvoke([wanted_call(call, arguments)])
        answers = output.get(self._messages_key, []) if isinstance(output, dict) else []
        is_message = len(answers) == 1 and isinstance(answers[0], ToolMessage)
        response = response_of_message(answers[0]) if is_message else ToolResponse.success("")
        return ToolResponse.success(response.text, {_OUTPUT: output}, content=response.content)

    def _update(self, state: Any, message: AIMessage, calls: Sequence[ToolCall]) -> Any:
        key = self._messages_key
        messages: list[Any] = [message]
        commands: list[Any] = []
        for call in calls:
            output = call.response.data.get(_OUTPUT) if call.response else None
            if isinstance(call.error, GraphBubbleUp):
                continue  # the graph's ToolNode answers it
            if isinstance(output, dict):
                messages += output[key]
            elif output is not None:
                commands += output
            else:
                messages.append(tool_message(call))
        if isinstance(state, list):
            return messages
        update = {key: messages}
        commands = [handed_over(each, messages, key) if isinstance(each, Command) else each for each in commands]
        return [update, *commands] if commands else update


def _runnable(tool: ForeignTool) -> Tool:
    found = as_tool(tool)
    if found is None:
        raise UsageError("a definition alone cannot be run: bind it to the model yourself")
    return traced(found)


async def _leave(_arguments: dict[str, Any], _call: RunningCall) -> ToolResponse:
    raise _Left


def early_tools_condition(
    state: Any, *, messages_key: str = "messages", agent: str = "agent", tools: str = "tools"
) -> str | list[Send]:
    """Return the next step of a graph after an `EarlyToolsNode`.

    - If calls were left to the `ToolNode`: one `Send` to it for each call.
    - If there are results, if the model paused (`pause_turn`), or without a response: the name of the agent node.
    - Otherwise: the end. A refusal also ends the graph, because its calls were answered without running.

    Args:
        state: The state of the graph.
        messages_key: Key of the messages in the state.
        agent, tools: The names of the two nodes.

    Raises:
        KeyError, AttributeError: The state has no messages.
    """
    messages = messages_of(state, messages_key)
    place = max((place for place, message in enumerate(messages) if isinstance(message, AIMessage)), default=None)
    if place is None:
        return agent
    reply = cast("AIMessage", messages[place])
    answered = {message.tool_call_id for message in messages[place:] if isinstance(message, ToolMessage)}
    left = [call for call in reply.tool_calls if call["id"] not in answered]
    if left:
        return [Send(tools, [{**call, "type": "tool_call"}]) for call in left]
    reason = stop_reason(reply.response_metadata)
    return agent if reason == "pause_turn" or (answered and reason not in _ENDS) else END


class SplitExecutor:
    """Executor that runs tools that need the running graph in this process, and passes all others to another executor.

    Args:
        limits, max_concurrency: Bounds of the tools in this process.
    """

    def __init__(self, here: Mapping[str, Tool], elsewhere: Executor, *, limits: Limits, max_concurrency: int) -> None:
        self.asks_approval = getattr(elsewhere, "asks_approval", False)
        self._names = frozenset(here)
        self._here = InProcessExecutor(here.values(), limits=limits, max_concurrency=max_concurrency)
        self._elsewhere = elsewhere

    def admit(self, call: ToolCall) -> None:
        """See `Executor.admit`."""
        self._of(call).admit(call)

    async def execute(self, call: ToolCall) -> None:
        """See `Executor.execute`."""
        await self._of(call).execute(call)

    def _of(self, call: ToolCall) -> Executor:
        return self._here if call.name in self._names else self._elsewhere
