"""Chat models before the embedded server, and graphs around a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import httpx
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AnyMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from packages.adapters.tests.chat.server import ChatServer
from pydantic import SecretStr

from eagerstream_adapters.langchain import EarlyToolsNode, early_tools_condition
from eagerstream_testing import ReplayServer

QUESTION: Any = {"messages": [("user", "Go.")]}
SLOWLY_S = 20


def chat_model(server: ReplayServer, **options: Any) -> ChatAnthropic:
    """The real client."""
    # Its parameters go by aliases, of which the type checker knows nothing.
    settings: dict[str, Any] = {"model": "claude-opus-4-7", "base_url": server.base_url, "max_retries": 0}
    return ChatAnthropic(**settings, api_key=SecretStr("simulated"), **options)


def graph_of(node: Any, *, later: Sequence[BaseTool] = (), state: Any = MessagesState, **compiled: Any) -> Any:
    """The graph that the documentation shows."""
    graph: Any = StateGraph(state)
    graph.add_node("agent", node)
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", early_tools_condition)
    if later:
        graph.add_node("tools", ToolNode(later))
        graph.add_edge("tools", "agent")
    return graph.compile(**compiled)


def agent(server: ReplayServer, tools: Sequence[Any], **options: Any) -> Any:
    """A graph of one node, with these tools."""
    return graph_of(EarlyToolsNode(chat_model(server), tools, **options), later=options.get("later", ()))


async def answers(graph: Any, question: Any = QUESTION, config: Any = None) -> list[AnyMessage]:
    """All messages of a run but the question."""
    state = await graph.ainvoke(question, config)
    messages: list[AnyMessage] = state["messages"]
    return messages[1:]


async def told(graph: Any, wanted: Callable[[str, Any], Any], modes: Sequence[str]) -> list[Any]:
    """What `wanted` makes of each event of a run, but None."""
    found = [wanted(mode, item) async for mode, item in graph.astream(QUESTION, stream_mode=list(modes))]
    return [each for each in found if each is not None]


def openai_model(server: ChatServer) -> ChatOpenAI:
    """The real client of the other protocol."""
    settings: dict[str, Any] = {"base_url": server.chat_url(), "api_key": SecretStr("simulated")}
    settings |= {"http_client": httpx.Client(verify=False), "http_async_client": httpx.AsyncClient(verify=False)}
    return ChatOpenAI(model="gpt-4o", max_retries=0, **settings)  # without certificates to load
