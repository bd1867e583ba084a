"""`Agent`: options that belong together, for any number of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from eagerstream import Agent, Context, HTTPTransport, RunStatus, UsageError, tool
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.streams import USER
from tests.support import anthropic_client
from tests.tables import rows

pytestmark = pytest.mark.anyio

ASKED: list[Any] = [USER]
NOTHING: Any = None
NOWHERE: Any = HTTPTransport(base_url="http://nowhere", api_key="k")


@dataclass
class Answer:
    """An output."""

    a: int


@tool
async def lend(context: Context[list[str]], title: str) -> str:
    """Lend a book."""
    context.deps.append(title)
    return "lent"


async def test_runs_of_an_agent() -> None:
    """Each has the agent's options, its own messages and context, and options in place of the agent's."""
    scenario = Scenario(
        *(reply(tool_use("lend", {"title": "Faust"})), reply(text("One."))),
        *(reply(tool_use("lend", {"title": "Emma"})), reply(text("Two."))),
    )
    with ReplayServer(scenario) as server:
        async with anthropic_client(server.base_url) as client:
            agent = Agent(client, model="m", max_tokens=9, tools=[lend], system="Be short.", max_turns=5)
            ada, bob = list[str](), list[str]()
            first = await agent.run(ASKED, context=ada)
            second = await agent.run([*first.messages, *ASKED], context=bob, system="Be long.", max_turns=1)
    assert (ada, bob, first.text, second.status) == (["Faust"], ["Emma"], "One.", RunStatus.LIMIT)
    bodies = [request.body for request in server.requests]
    assert [body["system"] for body in bodies] == ["Be short.", "Be short.", "Be long."]
    assert {(body["model"], body["max_tokens"], body["tools"][0]["name"]) for body in bodies} == {("m", 9, "lend")}


async def test_many_at_once() -> None:
    """It keeps nothing of a run, so tasks may share it."""
    texts = list[str]()
    with ReplayServer(Scenario(reply(text("Yes.")))) as server:
        async with anthropic_client(server.base_url) as client, anyio.create_task_group() as tasks:
            agent = Agent(client, model="m", max_tokens=9)

            async def ask() -> None:
                texts.append((await agent.run(ASKED)).text)

            for _ in range(10):
                tasks.start_soon(ask)
    assert texts == ["Yes."] * 10


async def test_a_stream_of_an_agent() -> None:
    """One request, without what is about turns and calls."""
    with ReplayServer(Scenario(reply(text("Yes.")))) as server:
        async with anthropic_client(server.base_url) as client:
            agent = Agent(client, model="m", max_tokens=9, tools=[lend], max_turns=5, cache="auto", top_k=3)
            async with agent.stream(ASKED, system="Be short.") as stream:
                await stream.finish()
    [request] = server.requests
    assert request.body.keys() == {"model", "max_tokens", "messages", "tools", "top_k", "system", "stream"}


async def test_replace() -> None:
    """Another agent; this one stays."""
    with ReplayServer(Scenario(reply(text('{"a": 1}')), reply(text("Yes.")))) as server:
        async with anthropic_client(server.base_url) as client:
            agent = Agent(NOWHERE, model="m", max_tokens=9, system="Be short.", top_k=3)
            other = agent.replace(client=client, model="n", system="Be long.", output=Answer)
            assert (await other.run(ASKED)).output == Answer(1)
            assert (await other.replace(output=NOTHING).run(ASKED)).output is None
    assert (agent.client, agent.model, agent.output) == (NOWHERE, "m", None)
    assert dict(agent.options) == {"system": "Be short.", "top_k": 3}
    assert [(request.body["model"], request.body["system"]) for request in server.requests] == [("n", "Be long.")] * 2


def test_it_cannot_be_changed() -> None:
    """Neither its attributes, nor its options, nor its list of tools."""
    tools: list[Any] = [lend]
    agent = Agent(NOWHERE, model="m", max_tokens=9, tools=tools, system="secret")
    tools.clear()
    assert agent.tools == (lend,)
    with pytest.raises(AttributeError, match="cannot be changed: use replace"):
        agent.model = "n"
    with pytest.raises(TypeError):
        agent.options["system"] = ""  # type: ignore[index]
    assert repr(agent) == "Agent(model='m', tools=1)"


@rows(
    "options, match",
    [
        ({"messages": ASKED}, "messages belongs to one run, not to an agent: give it to run or stream"),
        ({"context": 3}, "context belongs to one run"),
        ({"run_id": "r"}, "run_id belongs to one run"),
        ({"max_turn": 3}, "max_turn is unknown: did you mean max_turns"),
    ],
)
def test_options_that_are_none_of_an_agent(options: Any, match: str) -> None:
    """The error comes when the agent is made."""
    with pytest.raises(UsageError, match=match):
        Agent(NOWHERE, model="m", max_tokens=9, **options)
