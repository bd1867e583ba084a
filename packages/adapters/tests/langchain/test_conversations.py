"""State that tools keep under LangGraph: never for two conversations, and for each as long as it lasts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send
from packages.adapters.tests.langchain.support import QUESTION, graph_of
from packages.adapters.tests.notes import Keeper
from tests.support import until

from eagerstream_adapters.langchain import EarlyToolsNode, as_langchain_tool

pytestmark = pytest.mark.anyio


def model(runs: int = 9) -> Any:
    """Return a model that calls the tool twice, one response after the other, in each run."""

    def replies() -> Iterator[AIMessage]:
        for number in range(runs):
            for turn in range(2):
                yield AIMessage("", tool_calls=[{"name": "keep", "args": {}, "id": f"call_{number}_{turn}"}])
            yield AIMessage("Done.")

    return FakeMessagesListChatModel(responses=[*replies()]).bind()


def in_node(keeper: Keeper, **compiled: Any) -> Any:
    return graph_of(EarlyToolsNode(model(), [keeper.tool]), **compiled)


def in_tool_node(keeper: Keeper, **compiled: Any) -> Any:
    """Return the graph that LangGraph's own pages show."""
    said = model()

    async def agent(state: MessagesState) -> Any:
        return {"messages": [await said.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode([as_langchain_tool(keeper.tool)]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(**compiled)


GRAPHS = pytest.mark.parametrize("graph_with", [in_node, in_tool_node])
Graph = Callable[..., Any]


@GRAPHS
async def test_a_thread(graph_with: Graph) -> None:
    """Its state lasts for all runs of the thread. A thread of the same name in another graph is another one."""
    keeper = Keeper()
    graph, other = (graph_with(keeper, checkpointer=InMemorySaver()) for _ in range(2))
    for each, thread in ((graph, "a"), (graph, "b"), (graph, "a"), (other, "a")):
        await each.ainvoke(QUESTION, {"configurable": {"thread_id": thread}})
    a, b, c = keeper.ids[0], keeper.ids[2], keeper.ids[6]
    assert keeper.ids == [a, a, b, b, a, a, c, c]
    assert len({a, b, c}) == 3
    gc.collect()
    await anyio.lowlevel.checkpoint()
    assert keeper.ended == []


@GRAPHS
async def test_a_run_without_a_thread(graph_with: Graph) -> None:
    """Its state ends with the run."""
    keeper = Keeper()
    graph = graph_with(keeper)
    for number in (1, 2):
        await graph.ainvoke(QUESTION)
        gc.collect()
        await until(lambda number=number: len(keeper.ended) == number)  # type: ignore[misc]
    first, same, second, too = keeper.ids
    assert first == same != second == too
    assert keeper.ended == [first, second]


@GRAPHS
async def test_runs_at_the_same_time(graph_with: Graph) -> None:
    """Of one graph as of two: each has a state of its own."""
    keeper = Keeper()
    graphs = [graph_with(keeper) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for graph in [*graphs, *graphs]:
            tasks.start_soon(graph.ainvoke, QUESTION)
    assert len(keeper.ids) == 8
    assert len({*keeper.ids}) == 4


@GRAPHS
async def test_a_subgraph(graph_with: Graph) -> None:
    """Each of its runs is a conversation of its own, even in one thread, and at the same time."""
    keeper = Keeper()
    outer: Any = StateGraph(MessagesState)
    for name in ("one", "two"):
        outer.add_node(name, graph_with(keeper))
        outer.add_edge(START, name)
    graph = outer.compile(checkpointer=InMemorySaver())
    for _ in range(2):
        await graph.ainvoke(QUESTION, {"configurable": {"thread_id": "a"}})
    assert len(keeper.ids) == 8
    assert len({*keeper.ids}) == 4


async def test_tasks_that_a_send_started() -> None:
    """They may have different messages, so none gets the state of another."""
    keeper = Keeper()
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", EarlyToolsNode(model(), [keeper.tool]))
    graph.add_conditional_edges(START, lambda _: [Send("agent", QUESTION), Send("agent", QUESTION)], ["agent"])
    await graph.compile(checkpointer=InMemorySaver()).ainvoke(QUESTION, {"configurable": {"thread_id": "a"}})
    assert len({*keeper.ids}) == len(keeper.ids) == 2
    assert sorted(map(str, keeper.ended)) == sorted(map(str, keeper.ids))


async def test_a_call_outside_of_a_graph() -> None:
    """Its state ends with the call."""
    keeper = Keeper()
    tool = as_langchain_tool(keeper.tool)
    for _ in range(2):
        await tool.ainvoke({"type": "tool_call", "id": "call_1", "name": "keep", "args": {}})
    assert len({*keeper.ids}) == 2
    assert keeper.ended == keeper.ids
