"""Chat models before the embedded server, and graphs around a node."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AnyMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import SecretStr

from eagerstream._serving.asgi_server import ThreadedServer
from eagerstream.integrations.langchain import EarlyToolsNode, early_tools_condition
from eagerstream.testing import ReplayServer

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


class _Completions:
    """Answers chat completions with deltas, one reply after the other."""

    def __init__(self, replies: Sequence[Sequence[dict[str, Any]]], bodies: list[Any]) -> None:
        self._replies = replies
        self._bodies = bodies

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        deltas = self._replies[len(self._bodies)]
        self._bodies.append(json.loads(body))
        reason = "tool_calls" if any("tool_calls" in delta for delta in deltas) else "stop"
        choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        chunks: list[dict[str, Any]] = [{**about, "choices": [choice]} for choice in choices]
        events = [*map(json.dumps, chunks), "[DONE]"]
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": "".join(f"data: {event}\n\n" for event in events).encode()})


class OpenAIServer(ThreadedServer):
    """A server of chat completions that gives these deltas, reply by reply."""

    def __init__(self, *replies: Sequence[dict[str, Any]]) -> None:
        self.bodies: list[Any] = []
        application = _Completions(replies, self.bodies)
        super().__init__(lambda: application, name="chat completions", host="127.0.0.1", port=0)


def openai_model(server: OpenAIServer) -> ChatOpenAI:
    """The real client of the other protocol."""
    settings: dict[str, Any] = {"base_url": f"http://127.0.0.1:{server.port}/v1", "api_key": SecretStr("simulated")}
    settings |= {"http_client": httpx.Client(verify=False), "http_async_client": httpx.AsyncClient(verify=False)}
    return ChatOpenAI(model="gpt-4o", max_retries=0, **settings)  # without certificates to load


def openai_call(index: int, id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    """The deltas of a call."""
    first = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return [{"tool_calls": [piece]} for piece in (first, *more)]
