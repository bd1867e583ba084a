"""The node: tools begin while the reply is written, and whatever happens, the history can be sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command, RetryPolicy, Send, interrupt
from packages.adapters.tests.langchain.support import QUESTION, SLOWLY_S, agent, answers, chat_model, graph_of, told

import eagerstream
from eagerstream import ItemStream, Limits, ProtocolError, RunningCall, UsageError
from eagerstream.tools import ToolCall
from eagerstream_adapters.langchain import EarlyToolsNode, as_langchain_tool, early_tools_condition
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, Timing, reply, text, tool_use

pytestmark = pytest.mark.anyio

DONE = reply(text("Done."))
ADD = tool_use("add", {"a": 1, "b": 2})


@langchain_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@eagerstream.tool
async def note(line: str) -> str:
    """Note a line."""
    return f"noted {line}"


@eagerstream.tool
async def write(lines: ItemStream[str]) -> AsyncIterator[Any]:
    """Write lines."""
    count = 0
    async for _line in lines:
        count += 1
        yield {"written": count}
    yield f"wrote {count} lines"


def _result(request: Any, number: int = -1) -> Any:
    return request.body["messages"][-1]["content"][number]


@pytest.mark.slow
async def test_a_run() -> None:
    """Both kinds of tools run, and the server, which checks as the API does, takes the history back."""
    calls = reply(text("I will."), ADD, tool_use("write", {"lines": ["a", "b"]}), tool_use("note", {"line": "c"}))
    with ReplayServer(Scenario(calls, DONE)) as server:
        said, added, written, noted, done = await answers(agent(server, [add, write, note]))
    assert isinstance(said, AIMessage)
    assert [call["name"] for call in said.tool_calls] == ["add", "write", "note"]
    assert [message.content for message in (added, written, noted)] == ["3", "wrote 2 lines", "noted c"]
    assert done.content == [{"type": "text", "text": "Done.", "index": 0}]
    first, second = server.requests
    assert [tool["eager_input_streaming"] for tool in first.body["tools"]] == [True, True, True]
    assert first.body["tools"][1] == write.to_dict()
    assert [result["content"] for result in second.body["messages"][-1]["content"]] == ["3", "wrote 2 lines", "noted c"]


@pytest.mark.slow
async def test_tools_begin_while_the_reply_is_written() -> None:
    """A call begins at its own end, a streaming one inside its input, and both before the reply says why it stops."""
    calls = reply(ADD, tool_use("write", {"lines": [f"line {number}" for number in range(100)]}))
    with ReplayServer(Scenario(calls, DONE, timing=Timing(tokens_per_second=200))) as server:

        def wanted(mode: str, item: Any) -> Any:
            if mode == "custom":
                return item["type"] if item["type"] != "tool_input" else None
            return item[0].response_metadata.get("stop_reason")

        order = await told(agent(server, [add, write]), wanted, ["custom", "messages"])
    assert max(order.index("tool_stop"), order.index("tool_progress")) < order.index("tool_use")


async def test_what_is_told() -> None:
    """Readers of the graph see inputs grow, and tools begin, go on and end."""
    with ReplayServer(Scenario(reply(tool_use("write", {"lines": ["a", "b"]})), DONE)) as server:
        events = await told(agent(server, [write]), lambda _, item: item, ["custom"])
    assert {event["name"] for event in events} == {"write"}
    inputs = [event for event in events if event["type"] == "tool_input"]
    assert [event["input"] for event in inputs][-1] == {"lines": ["a", "b"]}
    call = {"name": "write", "tool_call_id": events[0]["tool_call_id"]}
    assert inputs[0] == {"type": "tool_input", **call, "input": {}, "outcome": None}
    assert inputs[-1]["outcome"] == "valid"
    assert {"lines": ["a"]} in [event["input"] for event in inputs], "a snapshot, which does not grow any more"
    progress = [event["progress"] for event in events if event["type"] == "tool_progress"]
    assert progress == [{"written": 1}, {"written": 2}, "wrote 2 lines"]
    assert events[-1] == {"type": "tool_stop", **call, "is_error": False}


@pytest.mark.slow
async def test_a_long_input_is_not_told_with_each_fragment() -> None:
    """What is told of an input is bounded, however long it is."""
    line = "x" * 6_000
    with ReplayServer(Scenario(reply(tool_use("note", {"line": line})), DONE)) as server:
        events = await told(agent(server, [note]), lambda _, item: item.get("input"), ["custom"])
    assert len(events) < 500, "of 860 fragments"
    assert events[-1] == {"line": line}


async def test_an_input_that_is_not_json() -> None:
    """It is echoed as the API wants it, answered with itself, and no call of the message that others could run."""
    with ReplayServer(Scenario(reply(ADD, tool_use("add", '{"a": 1, b}')), DONE)) as server:
        said, added, refused, _done = await answers(agent(server, [add]))
    assert isinstance(said, AIMessage)
    assert len(said.tool_calls) == 1
    assert [call["args"] for call in said.invalid_tool_calls] == ['{"a": 1, b}']
    assert isinstance(refused, ToolMessage)
    assert refused.status == "error"
    assert added.content == "3"
    second = server.requests[1].body["messages"]
    assert [block["input"] for block in second[1]["content"]] == [{"a": 1, "b": 2}, {"INVALID_JSON": '{"a": 1, b}'}]
    assert second[2]["content"][1]["is_error"] is True
    assert second[2]["content"][1]["content"] == '{"INVALID_JSON": "{\\"a\\": 1, b}"}'


@pytest.mark.slow
async def test_an_input_that_is_not_json_in_standard_content() -> None:
    """In the form of `output_version="v1"`, too, the model gets its own words back."""
    with ReplayServer(Scenario(reply(ADD, tool_use("add", '{"a": 1, b}')), DONE)) as server:
        await answers(graph_of(EarlyToolsNode(chat_model(server, output_version="v1"), [add])))
    said = server.requests[1].body["messages"][1]["content"]
    assert [block["input"] for block in said] == [{"a": 1, "b": 2}, {"INVALID_JSON": '{"a": 1, b}'}]


async def test_a_reply_without_ids() -> None:
    """Of a server that gives none: the message has those under which its calls ran, once each."""
    ran: list[int] = []

    @langchain_tool
    def count(number: int) -> int:
        """Count."""
        ran.append(number)
        return number

    async def say(messages: Any) -> AsyncIterator[AIMessageChunk]:
        if isinstance(messages[-1], ToolMessage):
            yield AIMessageChunk(content="Done.")
            return
        for number in (0, 1):
            piece = tool_call_chunk(name="count", args=f'{{"number": {number}}}', index=number)
            yield AIMessageChunk(content="", tool_call_chunks=[piece])
        yield AIMessageChunk(content="", response_metadata={"finish_reason": "tool_calls"})

    said, *counted, done = await answers(graph_of(EarlyToolsNode(RunnableLambda(say), [count])))
    assert isinstance(said, AIMessage)
    assert sorted(ran) == [0, 1]  # in threads of their own
    assert [message.tool_call_id for message in counted if isinstance(message, ToolMessage)] == [
        call["id"] for call in said.tool_calls
    ]
    assert done.content == "Done."


@pytest.mark.slow
async def test_a_hand_over_to_the_parent_graph() -> None:
    """A tool that answers its own call there does not have the reply in its state yet: it goes along."""

    @langchain_tool
    def hand_over(
        state: Annotated[dict[str, Any], InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command[Any]:
        """Hand over."""
        answer = ToolMessage("Handed over.", tool_call_id=tool_call_id)
        return Command(goto="other", graph=Command.PARENT, update={"messages": [*state["messages"], answer]})

    with ReplayServer(Scenario(reply(ADD, tool_use("hand_over", {})), DONE)) as server:
        graph: Any = StateGraph(MessagesState)
        graph.add_node("first", agent(server, [add, hand_over]))
        graph.add_node("other", EarlyToolsNode(chat_model(server), []))
        graph.add_edge(START, "first")
        said, added, handed, done = await answers(graph.compile())
    assert isinstance(said, AIMessage)
    assert [message.content for message in (added, handed)] == ["3", "Handed over."]
    assert done.text == "Done."


@pytest.mark.slow
async def test_a_reply_cut_by_max_tokens() -> None:
    """LangChain mends the JSON of a call that was cut: here it does not run, and the model is told."""
    cut = reply(ADD, tool_use("note", '{"line": "rm -rf /tmp/so', closed=False), stop_reason="max_tokens")
    ran: list[str] = []

    @eagerstream.tool(name="note")
    async def note_down(line: str) -> str:
        """Note a line."""
        ran.append(line)
        return "noted"

    with ReplayServer(Scenario(cut, DONE)) as server:
        said, _added, refused, _done = await answers(agent(server, [add, note_down]))
    assert isinstance(said, AIMessage)
    assert [call["name"] for call in said.tool_calls] == ["add"]
    assert isinstance(refused, ToolMessage)
    assert refused.status == "error"
    assert "cut off" in str(refused.content)
    assert ran == []
    assert len(server.requests) == 2


async def test_a_refusal_ends_the_run() -> None:
    """A call that was cut is not run, and the model is not asked again; a later question can follow."""
    refusal = reply(tool_use("note", '{"line": "x', closed=False), stop_reason="refusal")
    with ReplayServer(Scenario(refusal, DONE)) as server:
        graph = agent(server, [note])
        said, refused = await answers(graph)
        assert isinstance(refused, ToolMessage)
        assert refused.status == "error"
        question: list[AnyMessage] = [HumanMessage("Go."), said, refused, HumanMessage("And now?")]
        more = await answers(graph, {"messages": question})
    assert more[-1].content[0]["text"] == "Done."  # type: ignore[index]


async def test_a_tool_that_fails() -> None:
    """The model is told, as by `eagerstream.run`; the graph goes on."""

    @langchain_tool
    def broken(a: int) -> int:
        """Break."""
        raise OSError("no such thing")

    @eagerstream.tool
    async def ours() -> eagerstream.ToolResponse:
        """Fail, with data."""
        return eagerstream.ToolResponse.error("TIMEOUT", "too slow", data={"after_s": 3})

    calls = reply(
        tool_use("broken", {"a": 1}), tool_use("broken", {"a": "x"}), tool_use("ours", {}), tool_use("no", {})
    )
    with ReplayServer(Scenario(calls, DONE)) as server:
        _said, *results, _done = await answers(agent(server, [broken, ours]))
    assert [result.status for result in results if isinstance(result, ToolMessage)] == ["error"] * 4
    broke, unfit, late, unknown = (str(result.content) for result in results)
    assert broke == "OSError: no such thing"
    assert "a" in unfit
    assert late == "[TIMEOUT] too slow"
    assert "not found" in unknown
    assert results[2].artifact == {"after_s": 3}  # type: ignore[union-attr]


async def test_the_data_of_a_response_is_the_artifact() -> None:
    """As plain JSON, which a checkpoint can hold; the same again after a checkpoint."""

    @eagerstream.tool
    async def look() -> eagerstream.ToolResponse:
        """Look."""
        return eagerstream.ToolResponse.success("seen", {"raw": b"\x00", "never": object})

    saver = InMemorySaver()
    config = {"configurable": {"thread_id": "1"}}
    with ReplayServer(Scenario(reply(tool_use("look", {})), DONE)) as server:
        graph = graph_of(EarlyToolsNode(chat_model(server), [look]), checkpointer=saver)
        await graph.ainvoke(QUESTION, config)
    kept = (await graph.aget_state(config)).values["messages"][2]
    assert kept.artifact["raw"] == "AA=="


# --- what LangGraph gives to its tools --------------------------------------------------------------------------------


class _State(MessagesState):
    owner: str


@pytest.mark.slow
async def test_state_and_runtime_are_injected() -> None:
    """LangGraph's own ToolNode runs them: what it injects is there, and a model cannot forge it."""

    @langchain_tool
    def whose(
        line: str, state: Annotated[dict[str, Any], InjectedState], id: Annotated[str, InjectedToolCallId]
    ) -> str:
        """Whose line."""
        return f"{line} of {state['owner']} by {id}"

    @langchain_tool
    async def run_id(runtime: ToolRuntime) -> str:
        """Of the call."""
        runtime.stream_writer({"type": "mine"})
        return f"{runtime.tool_call_id} {len(runtime.state['messages'])}"

    calls = reply(
        tool_use("whose", {"line": "L", "state": {"owner": "me"}}, id="toolu_1"), tool_use("run_id", {}, id="toolu_2")
    )
    with ReplayServer(Scenario(calls, DONE)) as server:
        graph = graph_of(EarlyToolsNode(chat_model(server), [whose, run_id]), state=_State)
        state = await graph.ainvoke(QUESTION | {"owner": "them"})
    assert [message.content for message in state["messages"][2:4]] == ["L of them by toolu_1", "toolu_2 1"]
    assert "state" not in server.requests[0].body["tools"][0]["input_schema"]["properties"]


async def test_commands_are_carried_out() -> None:
    """A tool may change the state, and say where the graph goes."""

    @langchain_tool
    def hand_over(to: str, id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over."""
        return Command(update={"owner": to, "messages": [ToolMessage("handed over", tool_call_id=id)]})

    calls = reply(tool_use("hand_over", {"to": "you"}), ADD)
    with ReplayServer(Scenario(calls, DONE)) as server:
        graph = graph_of(EarlyToolsNode(chat_model(server), [hand_over, add]), state=_State)
        state = await graph.ainvoke(QUESTION)
    assert state["owner"] == "you"
    assert sorted(str(message.content) for message in state["messages"][2:4]) == ["3", "handed over"]
    assert len(server.requests) == 2


@langchain_tool
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path}: {interrupt({'delete': path})}"


async def _interrupted(server: ReplayServer, node: EarlyToolsNode) -> list[AnyMessage]:
    graph = graph_of(node, later=[delete], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    paused = await graph.ainvoke(QUESTION, config)
    assert [asked.value for asked in paused["__interrupt__"]] == [{"delete": "a.txt"}]
    assert len(server.requests) == 1
    state = await graph.ainvoke(Command(resume="yes"), config)
    messages: list[AnyMessage] = state["messages"]
    return messages


@pytest.mark.slow
async def test_tools_for_later_are_left_to_the_graph() -> None:
    """A tool that asks a person runs in a node of its own: only that runs again, and the model is asked once."""
    noted: list[str] = []

    @eagerstream.tool(name="note")
    async def note_down(line: str) -> str:
        """Note a line."""
        noted.append(line)
        return "noted"

    calls = reply(tool_use("delete", {"path": "a.txt"}), tool_use("note", {"line": "x"}))
    with ReplayServer(Scenario(calls, DONE)) as server:
        messages = await _interrupted(server, EarlyToolsNode(chat_model(server), [note_down], later=[delete]))
        assert [tool["name"] for tool in server.requests[0].body["tools"]] == ["note", "delete"]
    assert [message.content for message in messages[2:4]] == ["noted", "a.txt: yes"]
    assert noted == ["x"]


async def test_tools_for_later_do_not_run_after_a_refusal() -> None:
    """Their calls are answered like all others of that reply."""
    refusal = reply(tool_use("delete", {"path": "a.txt"}), stop_reason="refusal")
    with ReplayServer(Scenario(refusal, DONE)) as server:
        _said, refused = await answers(agent(server, [note], later=[delete]))
        events = await told(agent(server, [note], later=[delete]), lambda _, item: item["type"], ["custom"])
    assert "Not executed" in str(refused.content)
    assert set(events) == {"tool_input"}


@pytest.mark.slow
async def test_a_tool_that_interrupts_is_left_to_the_graph() -> None:
    """Also where nobody said so before."""
    calls = reply(ADD, tool_use("delete", {"path": "a.txt"}))
    with ReplayServer(Scenario(calls, DONE)) as server:
        messages = await _interrupted(server, EarlyToolsNode(chat_model(server), [add, delete]))
    assert [message.content for message in messages[2:4]] == ["3", "a.txt: yes"]


# --- callbacks --------------------------------------------------------------------------------------------------------


async def test_callbacks_see_the_tools() -> None:
    """`astream_events` has each tool once, ours and theirs, below the node; and below a tool what it runs itself."""

    async def twice(line: str) -> str:
        return line * 2

    @eagerstream.tool
    async def double(line: str) -> str:
        """Double a line."""
        return await RunnableLambda(twice).ainvoke(line)

    @eagerstream.tool
    async def broken() -> str:
        """Break."""
        raise OSError("no")

    calls = reply(ADD, tool_use("double", {"line": "ab"}), tool_use("broken", {}))
    with ReplayServer(Scenario(calls, DONE)) as server:
        events = [event async for event in agent(server, [add, double, broken]).astream_events(QUESTION, version="v2")]
    seen = [(event["event"], event["name"]) for event in events if event["event"].startswith("on_tool")]
    assert sorted(seen) == [
        ("on_tool_end", "add"),
        ("on_tool_end", "double"),
        ("on_tool_error", "broken"),
        ("on_tool_start", "add"),
        ("on_tool_start", "broken"),
        ("on_tool_start", "double"),
    ]
    (ours,) = (event for event in events if (event["event"], event["name"]) == ("on_tool_end", "double"))
    assert ours["data"]["input"] == {"line": "ab"}
    assert ours["data"]["output"].content == "abab"
    (inside,) = (event for event in events if (event["event"], event["name"]) == ("on_chain_start", "twice"))
    assert inside["parent_ids"][-1] == ours["run_id"]
    assert "on_chat_model_stream" in {event["event"] for event in events}


async def test_the_tools_stream() -> None:
    """LangGraph's own `stream_mode="tools"` shows calls that began early."""
    with ReplayServer(Scenario(reply(tool_use("note", {"line": "x"}, id="toolu_1")), DONE)) as server:
        events = await told(agent(server, [note]), lambda _, item: (item["event"], item["tool_call_id"]), ["tools"])
    assert events == [("tool-started", "toolu_1"), ("tool-finished", "toolu_1")]


async def test_each_message_is_streamed_once() -> None:
    """The reply's chunks and the message that the node returns are one message to `stream_mode="messages"`."""
    with ReplayServer(Scenario(reply(text("I will."), ADD), DONE)) as server:
        messages = await told(agent(server, [add]), lambda _, item: item[0], ["messages"])
    words = "".join(message.text for message in messages if message.type == "AIMessageChunk")
    assert words == "I will.Done."
    assert {message.type for message in messages} == {"AIMessageChunk", "tool"}


# --- replies that break off, and graphs that are left -----------------------------------------------------------------

_DIED = "peer closed connection|Overloaded"
"""What the client's own errors say."""


def _two_calls() -> Scenario:
    return Scenario(reply(tool_use("note", {"line": "a"}), tool_use("write", {"lines": ["b"] * 30})), DONE)


@pytest.mark.parametrize("kind", [FaultKind.CLOSE, FaultKind.ERROR_EVENT, FaultKind.END])
async def test_a_reply_that_breaks_off_after_tools_have_begun(kind: FaultKind) -> None:
    """Its result is not lost, the tool does not run again, and the history can be sent: the model goes on from it.

    At `END` the connection ends as it should, and the client takes the reply for a whole one.
    """
    error_type = "overloaded_error" if kind is FaultKind.ERROR_EVENT else None
    faults = Faults({0: [Fault(kind, after_events=14, error_type=error_type)]})  # in the second call
    with ReplayServer(_two_calls(), faults=faults) as server:
        said, noted, written, done = await answers(agent(server, [note, write]))
    assert isinstance(said, AIMessage)
    assert [call["name"] for call in said.tool_calls] == ["note"]
    assert [call["name"] for call in said.invalid_tool_calls] == ["write"]
    assert noted.content == "noted a"
    assert isinstance(written, ToolMessage)
    assert written.status == "error"
    assert done.text == "Done."
    blocks = server.requests[1].body["messages"][1]["content"]
    assert blocks[0]["input"] == {"line": "a"}
    assert list(blocks[1]["input"]) == ["INVALID_JSON"]


@pytest.mark.parametrize(("version", "kind"), [("v0", "tool_use"), ("v1", "tool_call")])
async def test_a_reply_that_breaks_off_in_a_call_that_has_not_begun(version: str, kind: str) -> None:
    """That call is left out, as if it had never been written."""
    calls = reply(text("First."), tool_use("note", {"line": "a"}), text("Then."), tool_use("note", {"line": "b" * 99}))
    faults = Faults({0: [Fault(FaultKind.CLOSE, after_events=18)]})
    with ReplayServer(Scenario(calls, DONE), faults=faults) as server:
        said, noted, done = await answers(graph_of(EarlyToolsNode(chat_model(server, output_version=version), [note])))
    assert isinstance(said, AIMessage)
    assert [block["type"] for block in said.content] == ["text", kind]  # type: ignore[index]
    assert (said.invalid_tool_calls, noted.content, done.text) == ([], "noted a", "Done.")
    assert server.requests[1].body["messages"][1]["content"][1]["input"] == {"line": "a"}


@pytest.mark.slow
async def test_a_reply_that_breaks_off_before_anything_has_run() -> None:
    """The error is the client's own: a retry policy knows it, and the node runs anew."""
    faults = Faults({0: [Fault(FaultKind.CLOSE, after_events=4), Fault(FaultKind.CLOSE, after_events=4)]})
    quickly = RetryPolicy(
        initial_interval=0.01, retry_on=lambda error: "closed" in str(error), max_attempts=3, jitter=False
    )
    with ReplayServer(_two_calls(), faults=faults) as server:
        node = EarlyToolsNode(chat_model(server), [note, write])
        with pytest.raises(Exception, match=_DIED):
            await graph_of(node).ainvoke(QUESTION)
        graph: Any = StateGraph(MessagesState)
        graph.add_node("agent", node, retry_policy=quickly)
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", early_tools_condition)
        messages = await answers(graph.compile())
    assert messages[-1].text == "Done."
    assert len(server.requests) == 4


@pytest.mark.parametrize("idempotent", [False, True])
async def test_when_a_broken_reply_raises(idempotent: bool) -> None:
    """Tools that may run twice do not keep the reply from being asked for again; nor does `on_interrupt="raise"`."""

    @eagerstream.tool(name="note", idempotent=idempotent)
    async def note_down(line: str) -> str:
        """Note a line."""
        return line

    options: Any = {} if idempotent else {"on_interrupt": "raise"}
    faults = Faults({0: [Fault(FaultKind.CLOSE, after_events=8)]})
    calls = reply(tool_use("note", {"line": "a"}), text("And so on, and so on."))
    with (
        ReplayServer(Scenario(calls, DONE), faults=faults) as server,
        pytest.raises(Exception, match=_DIED),
    ):
        await answers(agent(server, [note_down], **options))


async def test_two_calls_of_one_id() -> None:
    """Their results could not be told apart: the run ends, and the tool that has begun is cancelled."""
    calls = reply(tool_use("note", {"line": "a"}, id="toolu_1"), tool_use("note", {"line": "b"}, id="toolu_1"))
    with ReplayServer(Scenario(calls, DONE)) as server, pytest.raises(ProtocolError, match="toolu_1"):
        await answers(agent(server, [note]))


async def test_leaving_the_stream_cancels_the_tools() -> None:
    """Nobody reads the graph any more: what runs in it ends, and the connection is closed."""
    ended = anyio.Event()

    @eagerstream.tool
    async def wait(call: RunningCall) -> str:
        """Wait."""
        try:
            await call.progress("waiting")
            await anyio.sleep_forever()
        finally:
            ended.set()
        return "never"

    with ReplayServer(Scenario(reply(tool_use("wait", {})), DONE)) as server, anyio.fail_after(SLOWLY_S):
        stream = agent(server, [wait]).astream(QUESTION, stream_mode="custom")
        async for event in stream:
            if event["type"] == "tool_progress":
                break
        await stream.aclose()
        await ended.wait()


@pytest.mark.slow
async def test_cancelling_the_task_of_a_graph_cancels_the_tools() -> None:
    """Also inside the reply: the tool that reads it is told."""
    began, ended = anyio.Event(), anyio.Event()

    @eagerstream.tool
    async def read(lines: ItemStream[str]) -> str:
        """Read."""
        try:
            async for _line in lines:
                began.set()
        finally:
            ended.set()
        return "never"

    calls = reply(tool_use("read", {"lines": ["a"] * 2000}))
    with (
        ReplayServer(Scenario(calls, DONE, timing=Timing(tokens_per_second=100))) as server,
        anyio.fail_after(SLOWLY_S),
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent(server, [read]).ainvoke, QUESTION)
            await began.wait()
            tasks.cancel_scope.cancel()
    assert ended.is_set()


@pytest.mark.slow
async def test_the_time_limit_of_a_langchain_tool() -> None:
    """Limits hold for LangChain's tools, too: the call is answered without what their node would have given."""

    @langchain_tool
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return "never"

    with ReplayServer(Scenario(reply(tool_use("wait", {})), DONE)) as server:
        _said, late, _done = await answers(agent(server, [wait], limits=Limits(tool_timeout_s=0.01)))
    assert isinstance(late, ToolMessage)
    assert (late.status, str(late.content)[:12]) == ("error", "TimeoutError")


# --- other states, other models ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_messages_under_another_key() -> None:
    """The key is that of the graph's own state."""

    class Chat(TypedDict):
        chat: Annotated[list[AnyMessage], add_messages]

    with ReplayServer(Scenario(reply(ADD), DONE)) as server:
        graph: Any = StateGraph(Chat)
        graph.add_node("agent", EarlyToolsNode(chat_model(server), [add], messages_key="chat"))
        graph.add_edge(START, "agent")
        graph.add_conditional_edges("agent", lambda state: early_tools_condition(state, messages_key="chat"))
        state = await graph.compile().ainvoke({"chat": [("user", "Go.")]})
    assert [message.text for message in state["chat"]] == ["Go.", "", "3", "Done."]


async def test_a_model_that_is_bound_already() -> None:
    """Whatever yields its chunks will do: what was bound to it stays as it is."""
    with ReplayServer(Scenario(reply(tool_use("note", {"line": "x"})), DONE)) as server:
        model = chat_model(server).bind_tools([as_langchain_tool(note)], tool_choice="any")
        messages = await answers(graph_of(EarlyToolsNode(model, [note])))
    assert messages[1].content == "noted x"
    assert server.requests[0].body["tool_choice"] == {"type": "any"}


async def test_a_model_that_does_not_stream() -> None:
    """Its message comes whole, and its calls are run then."""
    call: Any = {"name": "note", "args": {"line": "x"}, "id": "call_1", "type": "tool_call"}
    bad: Any = {"name": "note", "args": "{x", "id": "call_2", "type": "invalid_tool_call", "error": None}
    said = AIMessage("", tool_calls=[call], invalid_tool_calls=[bad])
    model = FakeMessagesListChatModel(responses=[said, AIMessage("Done.")]).bind()
    _said, noted, refused, done = await answers(graph_of(EarlyToolsNode(model, [note])))
    assert (noted.content, done.content) == ("noted x", "Done.")
    assert "INVALID_JSON" in str(refused.content)


@pytest.mark.slow
async def test_an_executor_of_ones_own() -> None:
    """It runs our tools; those that need the graph run here."""

    class Elsewhere:
        def admit(self, call: ToolCall) -> None: ...

        async def execute(self, call: ToolCall) -> None:
            call.start()
            call.answer(f"elsewhere: {call.name}")

    calls = reply(ADD, tool_use("note", {"line": "x"}), tool_use("delete", {"path": "a.txt"}))
    with ReplayServer(Scenario(calls, DONE)) as server:
        node = EarlyToolsNode(chat_model(server), [add, note], later=[delete], executor=Elsewhere())
        messages = await _interrupted(server, node)
    assert [message.content for message in messages[2:5]] == ["3", "elsewhere: note", "a.txt: yes"]


def test_where_the_graph_goes_on() -> None:
    """Results are sent, calls that were left get one task each, a paused turn goes on, everything else is the end."""

    def after(reason: str, *more: AnyMessage) -> Any:
        said = AIMessage("", response_metadata={"stop_reason": reason}, tool_calls=[])
        return early_tools_condition({"messages": [HumanMessage("Go."), said, *more]})

    result = ToolMessage("3", tool_call_id="toolu_1")
    assert early_tools_condition([HumanMessage("Go.")]) == "agent"
    assert after("end_turn") == END
    assert after("pause_turn") == "agent"
    assert after("tool_use", result) == after("max_tokens", result) == "agent"
    assert after("refusal", result) == END
    calls: list[Any] = [{"type": "tool_call", "name": "add", "args": {}, "id": f"toolu_{n}"} for n in (1, 2)]
    assert early_tools_condition([AIMessage("", tool_calls=calls), result]) == [Send("tools", [calls[1]])]


def test_what_cannot_be_a_tool() -> None:
    """It is told when the node is made."""
    model: Any = RunnableLambda(lambda _: None)
    with pytest.raises(UsageError, match="more than one tool"):
        EarlyToolsNode(model, [add, add])
    with pytest.raises(UsageError, match="cannot be run"):
        EarlyToolsNode(model, [{"type": "web_search_20250305", "name": "web_search"}])  # type: ignore[list-item]


class _Failing(AsyncCallbackHandler):
    raise_error = True

    async def on_tool_start(self, *_: Any, **__: Any) -> None:
        raise OSError("the tracer is away")


async def test_a_callback_that_raises() -> None:
    """As with LangChain's own tools, it fails the call; the model is told, and the run goes on."""
    with ReplayServer(Scenario(reply(tool_use("note", {"line": "x"})), DONE)) as server:
        messages = await answers(agent(server, [note]), config={"callbacks": [_Failing()]})
    assert messages[1].content == "OSError: the tracer is away"
