"""`CodeTool` under LangGraph: code runs while it is written, and keeps its variables for the conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables import Runnable, RunnableGenerator
from langgraph.checkpoint.memory import InMemorySaver
from packages.adapters.tests.langchain.support import QUESTION, SLOWLY_S, answers, graph_of
from packages.adapters.tests.notes import Notes

from eagerstream_adapters.langchain import EarlyToolsNode
from eagerstream_toolkit import CodeTool

pytestmark = pytest.mark.anyio


def model_of(*replies: list[str | anyio.Event]) -> Runnable[Any, Any]:
    """Return a model that calls `run_code` once in each response, and then is done. It waits for the events."""

    async def stream(given: AsyncIterator[Any]) -> AsyncIterator[AIMessageChunk]:
        [messages] = [each async for each in given]
        turn = sum(isinstance(message, AIMessage) for message in messages)
        if turn >= len(replies):
            yield AIMessageChunk(content="Done.")
            return
        yield AIMessageChunk(
            content="", tool_call_chunks=[tool_call_chunk(name="run_code", args="", id=f"call_{turn}", index=0)]
        )
        inner = [each if isinstance(each, anyio.Event) else json.dumps(each)[1:-1] for each in replies[turn]]
        for piece in ('{"code": "', *inner, '"}'):
            if isinstance(piece, anyio.Event):
                await piece.wait()
            else:
                yield AIMessageChunk(
                    content="", tool_call_chunks=[tool_call_chunk(name=None, args=piece, id=None, index=0)]
                )

    return RunnableGenerator(stream)


async def test_code_runs_while_the_model_writes() -> None:
    """The model waits for the effect of a statement before it writes the next one. Progress goes to the custom stream."""
    notes = Notes()
    model = model_of(["await note('a')\n", notes.noted, "await note('b')"])
    with anyio.fail_after(SLOWLY_S):
        async with CodeTool([notes.tool]) as tool:
            graph = graph_of(EarlyToolsNode(model, [tool]))
            told = [item async for item in graph.astream(QUESTION, stream_mode="custom")]
    progress = [item["progress"] for item in told if item["type"] == "tool_progress"]
    assert {(each["line"], each["state"]) for each in progress} >= {(1, "done"), (2, "done")}
    grown = next(at for at, item in enumerate(told) if item["type"] == "tool_input" and "'b'" in str(item["input"]))
    done = next(at for at, item in enumerate(told) if item["type"] == "tool_progress" and item["progress"]["line"])
    assert done < grown
    assert notes.notes == ["a", "b"]


async def test_variables_of_a_thread() -> None:
    """They last for its runs, and no other thread sees them. Without a thread, they last for a run."""
    keep, show = "n = globals().get('n', 0) + 1", "n"
    with anyio.fail_after(SLOWLY_S):
        async with CodeTool([Notes().tool]) as tool:
            node = EarlyToolsNode(model_of([keep], [keep], [show]), [tool])
            graph = graph_of(node, checkpointer=InMemorySaver())
            for thread in ("a", "b"):
                config = {"configurable": {"thread_id": thread}}
                assert results(await answers(graph, QUESTION, config)) == ["", "", "2"]
            again = graph_of(EarlyToolsNode(model_of([show]), [tool]), checkpointer=InMemorySaver())
            [unknown] = results(await answers(again, QUESTION, {"configurable": {"thread_id": "a"}}))
            assert "NameError" in unknown
            assert results(await answers(graph_of(node))) == ["", "", "2"]


def results(messages: Any) -> list[str]:
    return [str(message.content) for message in messages if isinstance(message, ToolMessage)]
