"""LangGraph: the documented graph of a model and a `ToolNode`, compared with one of an `EarlyToolsNode`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import SecretStr

from eagerstream import ItemStream, tool
from eagerstream_adapters.langchain import EarlyToolsNode, early_tools_condition

from ..served import served
from . import TOOL_S, Course, measure, scenario

QUESTION: Any = {"messages": [("user", "Write about the weather.")]}


def chat_model(url: str) -> ChatAnthropic:
    """Return the client of both sides."""
    settings: dict[str, Any] = {"model": "claude-opus-4-7", "base_url": url, "api_key": SecretStr("any")}
    return ChatAnthropic(streaming=True, max_retries=0, **settings)


async def alone(model: ChatAnthropic, course: Course) -> None:
    """Run the documented graph: the node of the tools starts when the node of the model has ended."""

    @langchain_tool
    async def get_weather(city: str) -> str:
        """Weather in a city."""
        course.note("effect")
        await asyncio.sleep(TOOL_S)
        return f"{city}: 15 degrees"

    @langchain_tool
    async def write(lines: list[str]) -> str:
        """Write lines."""
        for _ in lines:
            course.note("line")
        return "written"

    bound = model.bind_tools([get_weather, write])

    async def call_model(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode([get_weather, write]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    async for update in graph.compile().astream(QUESTION, stream_mode="updates"):
        course.note("results" if "tools" in update else "last byte")
    course.note("end")


async def early(model: ChatAnthropic, course: Course) -> None:
    """Run our graph: each call starts when the next one does. The call over the array starts inside its arguments."""

    @tool
    async def get_weather(city: str) -> str:
        """Weather in a city."""
        course.note("effect")
        await asyncio.sleep(TOOL_S)
        return f"{city}: 15 degrees"

    @tool
    async def write(lines: ItemStream[str]) -> str:
        """Write lines."""
        async for _ in lines:
            course.note("line")
        return "written"

    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", EarlyToolsNode(model, [get_weather, write]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", early_tools_condition)
    async for mode, item in graph.compile().astream(QUESTION, stream_mode=["messages", "updates"]):
        if mode == "updates":
            course.note("results")
        elif item[0].response_metadata.get("stop_reason"):
            course.note("last byte")
    course.note("end")


def sides(url: str) -> tuple[Any, Any]:
    """Return both sides, with one client."""
    model = chat_model(url)
    return partial(alone, model), partial(early, model)


if __name__ == "__main__":
    with served(scenario) as url:
        measure("LangGraph", *sides(url), repeats=5)
