"""`EarlyToolsNode`: a node of a LangGraph graph that calls the model, and starts its tools while it still writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, Unpack, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage, message_chunk_to_message
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.graph import END
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

from ...errors import EagerStreamError, UsageError
from ...limits import DEFAULT_LIMITS, Limits
from ...loop import EarlyCalls, OnInterrupt
from ...tools import Executor, ForeignTool, InProcessExecutor, Tool, ToolCall, ToolResponse, as_tool
from ...wire import Outcome
from .._calls import CallOptions, ExecutorOptions, Listeners
from ._chunks import ChunkReader, stop_reason
from ._conversion import EagerTool, as_langchain_tool, converted
from ._messages import cut, handed_over, identified, messages_of, response_of_message, sendable, tool_message
from ._telling import Telling, traced

_OUTPUT: Final = "langgraph_output"
"""In the data of a response: what LangGraph's `ToolNode` gave for the call."""

_ENDS: Final = ("refusal", "content_filter", "model_context_window_exceeded", "stop_sequence", "safety")
"""Stop reasons after which the model is not asked again, whatever it called."""


class _Left(GraphBubbleUp):
    """The call is for the graph's own `ToolNode`."""


class EarlyToolsNode:
    """Calls the chat model and runs the calls of its reply, each as early as `eagerstream.run` would.

        graph.add_node("agent", EarlyToolsNode(model, tools))
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", early_tools_condition)

    It adds the reply and a `ToolMessage` for each of its calls to the state. The chunks go on to
    `stream_mode="messages"` as from any node, and what happens to calls to `stream_mode="custom"` (see `Telling`);
    callbacks and `astream_events` see the tools that run in this process. Cancelling the graph cancels them.

    A call whose input cannot be used is answered with `{"INVALID_JSON": raw}`, a tool that raised with
    `Class: message`. Where the reply breaks off after a tool has run that is not `idempotent`, what was whole of it and
    its results become the update; otherwise the error is raised, and a `retry_policy` of the node runs it anew.

    The tools run before the reply is in a checkpoint. A run that is resumed from one asks the model again, and it may
    call them again: tools that must never run twice for one question, or that ask a person by `interrupt()`, go into
    `later`. A call of another tool that turns out to interrupt is left to the `ToolNode`, too.

    Args:
        model: A chat model, to which the tools are bound; or whatever yields the chunks of one that has been bound.
        tools: Ours, and LangChain's, which LangGraph's `ToolNode` runs: state, store and runtime are injected, and a
            `Command` is carried out. The state that they see does not have the reply yet.
        later: LangChain's tools whose calls are left to the graph's `ToolNode`: the model sees them, and
            `early_tools_condition` goes there.
        messages_key: Where the state has the messages.
        on_interrupt: With `"raise"`, a reply that breaks off always raises.
        options: `executor`, which runs the calls of our tools: those of LangChain always run in this process.
            `max_concurrency`, `circuit_breaker` and `limits`, as for `EarlyCalls`.

    Raises:
        UsageError: A tool cannot be run, two share a name, or one is a toolset.
    """

    def __init__(
        self,
        model: BaseChatModel | Runnable[Any, Any],
        tools: Sequence[BaseTool | ForeignTool],
        *,
        later: Sequence[BaseTool] = (),
        messages_key: str = "messages",
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
        self._messages_key = messages_key
        self._resumes = on_interrupt == "resume"
        self._early_calls()  # what is wrong is told now
        bound = [as_langchain_tool(tool) for tool in self._tools]
        self._model = model.bind_tools(bound) if isinstance(model, BaseChatModel) and bound else model

    def _early_calls(self, **listeners: Unpack[Listeners]) -> EarlyCalls:
        options: CallOptions = {**self._options, **listeners}
        if (elsewhere := options.get("executor")) is not None:
            limits, max_concurrency = options.get("limits", DEFAULT_LIMITS), options.get("max_concurrency", 16)
            options["executor"] = SplitExecutor(
                self._here.values(), elsewhere, limits=limits, max_concurrency=max_concurrency
            )
        return EarlyCalls(self._tools, **options)

    async def __call__(self, state: Any, config: RunnableConfig) -> Any:
        """What the node adds to the state."""
        told = Telling(left=self._left)
        reader_error: Exception | None = None
        chunks: list[Any] = []
        messages = messages_of(state, self._messages_key)
        async with self._early_calls(on_start=told.start, on_progress=told.progress, on_stop=told.stop) as calls:
            reader = ChunkReader(calls.feed)
            try:
                async with aclosing(cast("Any", self._model.astream(messages, config))) as stream:
                    async for chunk in stream:
                        chunks.append(chunk)
                        told.inputs(reader.feed(chunk))
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

    async def _run_theirs(self, arguments: dict[str, Any], call: ToolCall) -> ToolResponse:
        wanted = {"type": "tool_call", "id": call.id, "name": call.name, "args": arguments}
        output = await self._tool_node.ainvoke([wanted])
        answers = output.get(self._messages_key, []) if isinstance(output, dict) else []
        if len(answers) == 1 and isinstance(answers[0], ToolMessage):
            response = response_of_message(answers[0])
        else:
            response = ToolResponse.success("")
        return ToolResponse.success(response.text, {_OUTPUT: output}, content=response.content)

    def _update(self, state: Any, message: AIMessage, calls: Sequence[ToolCall]) -> Any:
        messages: list[Any] = [message]
        commands: list[Any] = []
        for call in calls:
            output = call.response.data.get(_OUTPUT) if call.response else None
            if isinstance(call.error, GraphBubbleUp):
                continue  # the graph's ToolNode answers it
            if isinstance(output, dict):
                messages += output[self._messages_key]
            elif output is not None:
                commands += output
            else:
                messages.append(tool_message(call))
        if isinstance(state, list):
            return messages
        update = {self._messages_key: messages}
        key = self._messages_key
        commands = [handed_over(each, messages, key) if isinstance(each, Command) else each for each in commands]
        return [update, *commands] if commands else update


def _runnable(tool: ForeignTool) -> Tool:
    found = as_tool(tool)
    if found is None:
        raise UsageError("a definition alone cannot be run: bind it to the model yourself")
    return traced(found)


async def _leave(_arguments: dict[str, Any], _call: ToolCall) -> ToolResponse:
    raise _Left


def early_tools_condition(
    state: Any, *, messages_key: str = "messages", agent: str = "agent", tools: str = "tools"
) -> str | list[Send]:
    """Where a graph goes on after an `EarlyToolsNode`.

    To the `ToolNode` with the calls that were left to it, one by one; back to the model where there are results; else
    to the end. So also after a refusal: the calls of such a reply were answered without being run.

    Args:
        state: The state of the graph.
        messages_key: Where it has the messages.
        agent, tools: The names of the two nodes.
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
    """Has some tools run in this process, and all others by an executor.

    Args:
        here: The tools that run in this process: they need what only the graph under way has.
        elsewhere: Runs all others.
        limits, max_concurrency: For those that run here.
    """

    def __init__(self, here: Iterable[Tool], elsewhere: Executor, *, limits: Limits, max_concurrency: int) -> None:
        tools = list(here)
        self.asks_approval = getattr(elsewhere, "asks_approval", False)
        self._names = {tool.name for tool in tools}
        self._here = InProcessExecutor(tools, limits=limits, max_concurrency=max_concurrency)
        self._elsewhere = elsewhere

    def admit(self, call: ToolCall) -> None:
        """See `Executor.admit`."""
        self._of(call).admit(call)

    async def execute(self, call: ToolCall) -> None:
        """See `Executor.execute`."""
        await self._of(call).execute(call)

    def _of(self, call: ToolCall) -> Executor:
        return self._here if call.name in self._names else self._elsewhere
