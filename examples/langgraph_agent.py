"""Start the tools of a LangGraph agent while the model writes: a poem appears line by line.

Needs: `eagerstream-adapters[langgraph]`, and the package langchain-anthropic.

Usage:
    ANTHROPIC_API_KEY=... python langgraph_agent.py [MODEL]
    eagerstream serve --script -- python langgraph_agent.py
"""

import sys
from typing import Any

import eagerstream
from eagerstream import ItemStream, printable
from eagerstream_adapters.langchain import EarlyToolsNode, early_tools_condition

import anyio
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import START, MessagesState, StateGraph


@eagerstream.tool
async def show_poem(title: str, lines: ItemStream[str]) -> str:
    """Show a poem to the user.

    Args:
        title: The title of the poem.
        lines: The lines of the poem.
    """
    print(f"*** {printable(title)}")
    number = 0
    async for line in lines:  # each as soon as it is finished
        print(printable(line))
        number += 1
    return f"shown: {number} lines"


@langchain_tool
def word_of_the_day() -> str:
    """Return the word that today's poem must be about."""
    return "harbour"


async def main(model: str) -> None:
    graph: Any = StateGraph(MessagesState)
    graph.add_node(
        "agent", EarlyToolsNode(ChatAnthropic(model_name=model, timeout=None, stop=None), [show_poem, word_of_the_day])
    )
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", early_tools_condition)
    question = {"messages": [("user", "Show me a long poem about the word of the day.")]}
    async for mode, item in graph.compile().astream(question, stream_mode=["messages", "custom"]):
        if mode == "messages" and item[0].type == "AIMessageChunk" and item[0].text:
            print(printable(item[0].text), end="", flush=True)
        elif mode == "custom" and item["type"] in ("tool_start", "tool_stop"):
            print(f"--- {item['type']} {item['name']}")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
