"""Our tools as LangChain's, and LangChain's as ours: nothing is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

import anyio
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool as langchain_tool
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime
from langgraph.types import Command
from packages.adapters.tests.langchain.support import chat_model
from tests.streams import REQUEST
from tests.support import anthropic_client
from tests.tables import rows

import eagerstream
from eagerstream import ItemStream, RunningCall, RunResult, ToolResponse, UsageError
from eagerstream_adapters.langchain import as_langchain_tool, from_langchain_tool
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from eagerstream_toolkit import BrowserToolset

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def called(name: str, **args: Any) -> Any:
    return {"type": "tool_call", "id": "call_1", "name": name, "args": args}


@eagerstream.tool
async def weather(city: str, call: RunningCall) -> ToolResponse:
    """The weather.

    Args:
        city: Where.
    """
    return ToolResponse.success(f"rain in {city}, asked by {call.id}", {"city": city})


# --- ours as theirs ---------------------------------------------------------------------------------------------------


async def test_as_langchain_tool() -> None:
    """It has our schema and our words, gets LangChain's id, and its data is the artifact."""
    tool = as_langchain_tool(weather)
    assert (tool.name, tool.description) == ("weather", "The weather.")
    assert tool.args == {"city": {"type": "string", "description": "Where."}}
    message = await tool.ainvoke(called("weather", city="Oslo"))
    assert (message.content, message.artifact) == ("rain in Oslo, asked by call_1", {"city": "Oslo"})
    assert (message.status, message.tool_call_id) == ("success", "call_1")
    assert str(await tool.ainvoke({"city": "Oslo"})).startswith("rain in Oslo, asked by call_")


async def test_errors_of_our_tools() -> None:
    """The model sees them; with `handle_tool_error=False`, the program does."""
    tool = as_langchain_tool(weather)
    message = await tool.ainvoke(called("weather", town="Oslo"))
    assert message.status == "error"
    assert "city" in message.content
    with pytest.raises(ToolException, match="city"):
        await as_langchain_tool(weather, handle_tool_error=False).ainvoke(called("weather"))
    with pytest.raises(ValueError, match="String tool inputs"):
        await tool.ainvoke("Oslo")


async def test_options_hold() -> None:
    """What was said about the tool holds there, too: here, that a person is asked."""

    @eagerstream.tool(approve=lambda call: f"not {call.input.value}")
    async def delete(path: str) -> str:
        """Delete."""
        raise AssertionError

    message = await as_langchain_tool(delete).ainvoke(called("delete", path="a"))
    assert (message.status, "not {'path': 'a'}" in message.content) == ("error", True)


async def test_a_streaming_tool() -> None:
    """Given a whole input, it reads that."""

    @eagerstream.tool
    async def count(lines: ItemStream[str]) -> AsyncIterator[str]:
        """Count."""
        number = 0
        async for line in lines:
            number += 1
            yield line
        yield f"{number} lines"

    assert await as_langchain_tool(count).ainvoke({"lines": ["a", "b"]}) == "2 lines"


def test_invoke() -> None:
    """Without an event loop it has one of its own."""
    assert as_langchain_tool(weather).invoke(called("weather", city="Rome")).artifact == {"city": "Rome"}


async def test_invoke_beside_an_event_loop() -> None:
    """It would stand still meanwhile."""
    with pytest.raises(UsageError, match="ainvoke"):
        as_langchain_tool(weather).invoke({"city": "Rome"})


async def test_in_langgraphs_own_node() -> None:
    """Where nothing starts early."""
    from langgraph.graph import END, START, MessagesState, StateGraph

    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([as_langchain_tool(weather)]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    said = AIMessage("", tool_calls=[called("weather", city="Oslo")])
    state = await graph.compile().ainvoke({"messages": [HumanMessage("?"), said]})
    assert state["messages"][-1].artifact == {"city": "Oslo"}


@pytest.mark.slow
async def test_the_definition_on_the_wire() -> None:
    """ChatAnthropic sends it as it is; an image in a result goes through it."""

    @eagerstream.tool(cache_control={"type": "ephemeral"}, input_examples=[{"path": "a"}])
    async def look(path: str) -> list[dict[str, Any]]:
        """Look."""
        return [{"type": "text", "text": path}, IMAGE]

    tool = as_langchain_tool(look)
    with ReplayServer(Scenario(reply(tool_use("look", {"path": "a"})), reply(text("Done.")))) as server:
        model = chat_model(server, streaming=True).bind_tools([tool])
        said = await model.ainvoke("Go.")
        assert isinstance(said, AIMessage)
        await model.ainvoke([HumanMessage("Go."), said, await tool.ainvoke(said.tool_calls[0])])
        first, second = server.requests
    assert first.body["tools"] == [look.to_dict()]
    assert first.body["tools"][0]["eager_input_streaming"] is True
    assert second.body["messages"][-1]["content"][0]["content"] == [{"type": "text", "text": "a"}, IMAGE]


async def _nothing(_: Any) -> str:
    return ""


def test_what_cannot_be_one() -> None:
    """The members of a toolset are told apart by what LangChain does not tell."""
    with pytest.raises(UsageError, match="not a single function"):
        as_langchain_tool(BrowserToolset({"navigate": _nothing}))


# --- theirs as ours ---------------------------------------------------------------------------------------------------


async def _run(*tools: eagerstream.Tool, call: Any) -> tuple[RunResult, list[Any]]:
    """What a run makes of one call, and the requests."""
    with ReplayServer(Scenario(reply(call), reply(text("Done.")))) as server:
        async with (
            anthropic_client(server.base_url) as client,
            eagerstream.run(client, **REQUEST, tools=tools) as run,
        ):
            await run.finish()
        assert run.result is not None
        return run.result, [request.body for request in server.requests]


async def test_from_langchain_tool() -> None:
    """It gets the id of the call, its artifact is the data, and what the model does not write it is not asked for."""

    @langchain_tool(response_format="content_and_artifact")
    def look(path: str, id: Annotated[str, InjectedToolCallId]) -> tuple[str, dict[str, str]]:
        """Look at a file."""
        return f"{path} by {id}", {"path": path}

    result, bodies = await _run(from_langchain_tool(look), call=tool_use("look", {"path": "a"}, id="toolu_1"))
    (call,) = result.calls
    assert call.response is not None
    assert (call.response.text, call.response.data) == ("a by toolu_1", {"path": "a"})
    assert bodies[0]["tools"] == [
        {
            "name": "look",
            "description": "Look at a file.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
            "eager_input_streaming": True,
        }
    ]


async def test_content_of_langchain_tools() -> None:
    """Blocks in LangChain's standard form become the API's."""

    @langchain_tool
    async def look() -> list[dict[str, Any]]:
        """Look."""
        return [{"type": "text", "text": "seen"}, {"type": "image", "base64": PIXEL, "mime_type": "image/png"}]

    _, bodies = await _run(from_langchain_tool(look), call=tool_use("look", {}))
    assert bodies[1]["messages"][-1]["content"][0]["content"] == [{"type": "text", "text": "seen"}, IMAGE]


@pytest.mark.parametrize("handled", [False, True])
async def test_errors_of_langchain_tools(handled: bool) -> None:
    """A `ToolException` is for the model, in its own words, whether LangChain handles it or not."""

    @langchain_tool
    def look(path: str) -> str:
        """Look."""
        raise ToolException(f"no {path}")

    look.handle_tool_error = handled
    result, _ = await _run(from_langchain_tool(look), call=tool_use("look", {"path": "a"}))
    assert result.calls[0].result is not None
    assert (result.calls[0].is_error, result.calls[0].result["content"]) == (True, "no a")


async def test_what_only_a_graph_can_carry_out() -> None:
    """The call is answered with what to do about it."""

    @langchain_tool
    def hand_over(to: str) -> Command[Any]:
        """Hand over."""
        return Command(goto=to)

    result, _ = await _run(from_langchain_tool(hand_over), call=tool_use("hand_over", {"to": "you"}))
    assert "EarlyToolsNode" in str(result.calls[0].result)


@pytest.mark.slow
def test_on_trio() -> None:
    """LangChain's tools are for asyncio; the call is answered with that."""

    @langchain_tool
    async def look() -> str:
        """Look."""
        return ""

    result, _ = anyio.run(partial(_run, from_langchain_tool(look), call=tool_use("look", {})), backend="trio")
    assert "only on asyncio" in str(result.calls[0].result)


def test_what_only_a_graph_has() -> None:
    """A tool that wants it is refused when it is taken; what has a default it does without."""

    @langchain_tool
    def whose(line: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Whose."""
        return ""

    @langchain_tool
    def where(line: str, runtime: ToolRuntime) -> str:
        """Where."""
        return ""

    @langchain_tool
    def may(line: str, state: Annotated[dict[str, Any] | None, InjectedState] = None) -> str:
        """May."""
        return ""

    for tool, name in ((whose, "state"), (where, "runtime")):
        with pytest.raises(UsageError, match=f"needs {name} from a graph"):
            from_langchain_tool(tool)
    assert from_langchain_tool(may).input_schema["required"] == ["line"]


def test_there_and_back() -> None:
    """A tool of ours comes back as itself; extras and options of theirs are kept."""
    assert from_langchain_tool(as_langchain_tool(weather)) is weather

    @langchain_tool(extras={"eager_input_streaming": False, "defer_loading": True})
    def plain(line: str) -> str:
        """Plain."""
        return line

    ours = from_langchain_tool(plain, idempotent=True, start="message")
    assert (ours.eager, ours.idempotent, ours.start) == (False, True, "message")
    assert ours.to_dict()["defer_loading"] is True
    assert from_langchain_tool(plain, eager=None).eager is None


@rows("name", ["readOnlyHint", "read_only_hint"])
def test_hint_of_an_mcp_server(name: str) -> None:
    """langchain-mcp-adapters leaves it in the metadata; an option takes precedence."""

    @langchain_tool
    def hinted(line: str) -> str:
        """Hinted."""
        return line

    assert not from_langchain_tool(hinted).read_only
    hinted.metadata = {name: True}
    assert from_langchain_tool(hinted).read_only
    assert not from_langchain_tool(hinted, read_only=False).read_only
    hinted.metadata = {name: "true"}
    assert not from_langchain_tool(hinted).read_only


def test_message_of_a_plain_return() -> None:
    """What the text says already is not kept twice."""

    @eagerstream.tool
    def plain() -> str:
        """Plain."""
        return "said"

    @eagerstream.tool
    def structured() -> dict[str, int]:
        """Structured."""
        return {"n": 1}

    assert as_langchain_tool(plain).invoke(called("plain")).artifact is None
    message = as_langchain_tool(structured).invoke(called("structured"))
    assert isinstance(message, ToolMessage)
    assert message.artifact == {"output": {"n": 1}}
