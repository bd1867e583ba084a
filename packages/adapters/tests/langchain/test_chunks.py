"""The inputs in a chat model's chunks are those that the model wrote, whichever the provider."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from packages.adapters.tests.chat.server import ChatServer
from packages.adapters.tests.langchain.support import answers, chat_model, graph_of, openai_model

import eagerstream
from eagerstream import InputAccumulator, InputStart, InputStop, ItemStream, Outcome, Recording, ToolInput
from eagerstream_adapters.langchain import ChunkReader, EarlyToolsNode
from eagerstream_adapters.langchain._chunks import stop_reason
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_wire import InputEvent

pytestmark = pytest.mark.anyio


async def _inputs(model: Any, question: str = "Go.") -> list[ToolInput]:
    accumulator = InputAccumulator()
    reader = ChunkReader(accumulator.feed)
    events: list[InputEvent[ToolInput]] = []
    async for chunk in model.astream(question):
        events += reader.feed(chunk)
    events += reader.close() + accumulator.close()
    kinds = [type(event) for event in events]
    assert kinds.count(InputStart) == kinds.count(InputStop)
    return [event.input for event in events if isinstance(event, InputStop)]


_TOOL = {"name": "a", "description": "A.", "input_schema": {"type": "object"}}


async def _from_anthropic(recording: Recording, **options: Any) -> list[tuple[str, Outcome | None]]:
    with ReplayServer(recording) as server:
        found = await _inputs(chat_model(server, **options).bind_tools([_TOOL]))
    assert all(input.name == "a" and input.id.startswith("toolu_") for input in found)
    return [(input.raw, input.outcome) for input in found]


@pytest.mark.slow
async def test_anthropic() -> None:
    """Text between calls, an empty input, and one that is not JSON; then one that was cut."""
    whole = [text("First."), tool_use("a", {"x": [1, 2]}), text("Then."), tool_use("a", '{"x": 1, y}')]
    found = [('{"x": [1, 2]}', Outcome.VALID), ('{"x": 1, y}', Outcome.INVALID)]
    assert await _from_anthropic(reply(*whole, tool_use("a", ""))) == [*found, ("", Outcome.VALID)]
    cut = reply(*whole, tool_use("a", '{"x": "cu', closed=False), stop_reason="max_tokens")
    assert await _from_anthropic(cut) == [*found, ('{"x": "cu', Outcome.INCOMPLETE)]


async def test_without_a_stop_reason() -> None:
    """ChatAnthropic leaves it out with `stream_usage=False`: whole inputs are whole, one that was cut is not."""
    for last, outcome in (('{"x": 2}', Outcome.VALID), ('{"x": ', Outcome.INCOMPLETE)):
        found = await _from_anthropic(reply(tool_use("a", {}), tool_use("a", last)), stream_usage=False)
        assert found == [("{}", Outcome.VALID), (last, outcome)]


@pytest.mark.slow
async def test_openai() -> None:
    """The same, from the deltas of chat completions."""
    calls = tool_use("a", {"x": 1}, id="call_1"), tool_use("b", {"y": True}, id="call_2")
    with ChatServer(reply(text("I will."), *calls)) as server:
        found = await _inputs(openai_model(server))
    assert [(input.id, input.name, input.value) for input in found] == [
        ("call_1", "a", {"x": 1}),
        ("call_2", "b", {"y": True}),
    ]


@pytest.mark.slow
async def test_a_graph_with_openai() -> None:
    """Our tools are its function tools, a streaming one included; what is not JSON goes back as it came."""

    @eagerstream.tool
    async def count(lines: ItemStream[str]) -> str:
        """Count lines."""
        return f"{len([line async for line in lines])} lines"

    calls = reply(
        tool_use("count", '{"lines": ["a", "b"]}', id="call_1"), tool_use("count", '{"lines": [}', id="call_2")
    )
    with ChatServer(Scenario(calls, reply(text("Done.")))) as server:
        said, counted, refused, done = await answers(graph_of(EarlyToolsNode(openai_model(server), [count])))
    assert isinstance(said, AIMessage)
    assert [call["id"] for call in said.invalid_tool_calls] == ["call_2"]
    assert (counted.content, done.content) == ("2 lines", "Done.")
    assert isinstance(refused, ToolMessage)
    assert refused.status == "error"
    (function,) = server.requests[0].body["tools"]
    assert function["function"]["parameters"]["properties"]["lines"]["items"] == {"type": "string"}
    _question, assistant, *results = server.requests[1].body["messages"]
    assert [call["function"]["arguments"] for call in assistant["tool_calls"]] == [
        '{"lines": ["a", "b"]}',
        '{"lines": [}',
    ]
    assert [result["tool_call_id"] for result in results] == ["call_1", "call_2"]


def test_where_providers_say_why_the_model_stopped() -> None:
    """Each has a word of its own for it, and some have none."""
    assert stop_reason({"stop_reason": "tool_use"}) == stop_reason({"stopReason": "tool_use"}) == "tool_use"
    assert stop_reason({"finish_reason": "STOP"}) == stop_reason({"done_reason": "stop"}) == "stop"
    assert stop_reason({"stop_reason": None, "model_name": "m"}) is None
