"""Histories of graphs that a provider would refuse, and what is sent instead."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from tests.tables import rows

import eagerstream
from eagerstream_adapters.langchain._messages import repaired
from eagerstream_testing import ReplayServer, Scenario, reply, text

from .support import agent

pytestmark = pytest.mark.anyio

ASK = HumanMessage("Note it.")
AGAIN = HumanMessage("Again.")
MISSING = "Not executed: the result of this call is missing from the conversation."


@eagerstream.tool
async def note(line: str) -> str:
    """Note a line."""
    return f"noted {line}"


def calling(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "note", "args": {"line": "a"}, "id": id} for id in ids])


def result(id: str, content: Any = "noted") -> ToolMessage:
    return ToolMessage(content, tool_call_id=id)


def missing(id: str) -> ToolMessage:
    return ToolMessage(MISSING, tool_call_id=id, name="note", status="error")


def orphan(content: str) -> HumanMessage:
    return HumanMessage(["Result of a tool call that is no longer in this conversation:", content])


@rows(
    "broken, right",
    [
        ([ASK, calling("a"), AGAIN], [ASK, calling("a"), missing("a"), AGAIN]),
        ([ASK, calling("a", "b"), result("b")], [ASK, calling("a", "b"), missing("a"), result("b")]),
        ([ASK, calling("a"), AGAIN, result("a")], [ASK, calling("a"), result("a"), AGAIN]),
        ([ASK, result("a"), calling("a")], [ASK, calling("a"), result("a")]),
        ([ASK, calling("a"), result("a"), result("a", "twice")], [ASK, calling("a"), result("a")]),
        ([ASK, result("gone"), AGAIN], [ASK, orphan("noted"), AGAIN]),
    ],
)
def test_repairs(broken: list[Any], right: list[Any]) -> None:
    assert repaired(broken) == right
    assert repaired(right) == right


async def test_a_graph_goes_on_after_a_cancel() -> None:
    """What is sent is legal, which the server checks, and the state stays as it was."""
    with ReplayServer(Scenario(reply(text("Never.")), reply(text("Done.")))) as server:
        graph = agent(server, [note], repair=True)
        broken = [ASK, calling("toolu_1"), AGAIN]
        state = await graph.ainvoke({"messages": broken})
    assert [type(message) for message in state["messages"]] == [HumanMessage, AIMessage, HumanMessage, AIMessage]
    (sent,) = server.requests
    results = sent.body["messages"][2]["content"]
    assert (results[0]["tool_use_id"], results[0]["is_error"]) == ("toolu_1", True)
    assert MISSING in str(results[0]["content"])
