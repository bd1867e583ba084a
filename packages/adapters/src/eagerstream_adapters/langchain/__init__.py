"""LangChain and LangGraph: chat models, tools, and a node that starts tools early. Extra `langgraph`.

::

    from eagerstream_adapters.langchain import EarlyToolsNode, early_tools_condition

    graph = StateGraph(MessagesState)
    graph.add_node("agent", EarlyToolsNode(ChatAnthropic(model=...), [make_file, get_weather]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", early_tools_condition)

`ChunkReader` follows the inputs in a chat model's chunks and runs no calls. `as_langchain_tool` and
`from_langchain_tool` convert tools in both directions.

LangChain runs only on asyncio.
"""

from __future__ import annotations

try:
    from ._chunks import ChunkReader
    from ._conversion import as_langchain_tool, from_langchain_tool
    from ._node import EarlyToolsNode, early_tools_condition
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith(("langchain_core", "langgraph")):
        raise
    from eagerstream.errors import MissingExtraError

    missing = "langgraph" if "langgraph" in str(_error.name) else "langchain-core"
    raise MissingExtraError("langgraph", missing, package="eagerstream-adapters") from _error

__all__ = [
    "ChunkReader",
    "EarlyToolsNode",
    "as_langchain_tool",
    "early_tools_condition",
    "from_langchain_tool",
]
