"""`Context` and `functools.partial`: what a program gives to its tools, and the model never sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import eagerstream
from eagerstream import Context, Conversation, EarlyCalls, ItemStream, RunningCall, Tool, UsageError, tool
from eagerstream.inputs import InputError
from eagerstream.tools import InProcessExecutor, Toolbox, ToolCall
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.streams import REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import anthropic_client
from tests.tables import rows

DONE = reply(text("Done."))


@dataclass
class Database:
    """What the tools below need."""

    name: str = "library"


async def query(q: str, user_id: int, limit: int = 10) -> str:
    """Search the documents of the user.

    Args:
        q: What to look for.
        user_id: Whose documents.
        limit: How many.
    """
    return f"{q}: {limit} documents of user {user_id}"


@rows(
    "bound, properties",
    [
        (partial(query, user_id=42), ["limit", "q"]),
        (partial(partial(query, user_id=42), limit=3), ["q"]),
        (partial(partial(query, user_id=1), user_id=42), ["limit", "q"]),
        (partial(query, "fish"), ["limit", "user_id"]),
        (partial(query, "fish", user_id=42), ["limit"]),
    ],
)
def test_bound_arguments_leave_the_schema(bound: Any, properties: list[str]) -> None:
    """By name or by position, in a partial of a partial; a docstring may describe them all the same."""
    made: Tool = tool(bound)
    assert sorted(made.input_schema["properties"]) == properties
    for name in {"q", "user_id", "limit"} - {*properties}:
        with pytest.raises(InputError, match=f"{name}"):
            made.check({"q": "x", "user_id": 1} | {name: 7})


@pytest.mark.anyio
async def test_a_bound_argument_cannot_be_sent() -> None:
    """A model that writes one of a text that it has read learns that there is no such parameter."""
    asked = reply(tool_use("query", {"q": "x", "user_id": 1}), tool_use("query", {"q": "y"}))
    with ReplayServer(Scenario(asked, DONE)) as server:
        async with (
            anthropic_client(server.base_url) as client,
            eagerstream.run(client, **REQUEST, tools=[tool(partial(query, user_id=42))]) as run,
        ):
            await run.finish()
        assert "user_id" not in server.requests[0].body["tools"][0]["input_schema"]["properties"]
    refused, answered = run.result.calls
    assert not refused.ran
    assert "user_id" in refused.text
    assert answered.text == "y: 10 documents of user 42"


@pytest.mark.anyio
async def test_bound_beside_a_definition() -> None:
    """A function that takes the input as a dict may be bound, too: to a call's record, or to anything."""

    async def use(given: dict[str, Any], call: RunningCall | None, user_id: int) -> str:
        return f"{given} {call} {user_id}"

    definition = {"name": "use", "input_schema": {"type": "object"}}
    made: Tool = tool(partial(use, call=None, user_id=42), definition=definition)
    assert await made.call({"a": 1}) == "{'a': 1} None 42"


class Library:
    """An object whose method is a tool."""

    @tool
    async def method(self, context: Context[Database], q: str) -> str:
        """Look."""
        return _told(context, q)


def _told(context: Context[Database], q: str) -> str:
    return f"{q} {context.deps.name} {context.run_id} {context.turn} {context.call.id} {context.call.name}"


@tool
async def find(context: Context[Database], q: str) -> str:
    """Look."""
    return _told(context, q)


@tool(name="thread")
def in_thread(context: Context[Database], /, q: str, call: RunningCall) -> str:
    """Look, in a thread; the call may be a parameter of its own, too."""
    assert call.id == context.call.id
    return _told(context, q)


@tool
async def each(context: Context[Database], q: ItemStream[str]) -> str:
    """Look while the model writes."""
    return _told(context, " ".join([part async for part in q]))


async def raw(context: Context[Database], given: dict[str, Any]) -> str:
    """Look."""
    return _told(context, given["q"])


TOOLS: list[Tool[..., Any, Database]] = [
    find,
    in_thread,
    each,
    Library().method,
    tool(raw, definition={"name": "raw", "input_schema": {"type": "object"}}),
    tool(partial(find.__wrapped__, q="bound"), name="bound"),
]


@pytest.mark.anyio
async def test_the_context_of_a_run() -> None:
    """Tools of each kind get the object, the run, the turn and their call; the schema has no word of it."""
    inputs: list[dict[str, Any]] = [{"q": "x"}, {"q": "x"}, {"q": ["x", "y"]}, {"q": "x"}, {"q": "x"}, {}]
    calls = [tool_use(each.name, given) for each, given in zip(TOOLS, inputs, strict=True)]
    with ReplayServer(Scenario(reply(text("First.")), reply(*calls), DONE)) as server:
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.run(client, **REQUEST, tools=TOOLS, context=Database(), run_id="r") as run:
                run.say("Go on.", "when_idle")
                await run.finish()
        properties = [sorted(each["input_schema"].get("properties", ())) for each in server.requests[0].body["tools"]]
    assert properties == [["q"], ["q"], ["q"], ["q"], [], []]
    looked = ["x", "x", "x y", "x", "x", "bound"]
    assert [call.text for call in run.result.calls] == [
        f"{q} library r 2 {call.id} {call.name}" for q, call in zip(looked, run.result.calls, strict=True)
    ]


@pytest.mark.anyio
async def test_the_step_by_step_form_and_a_loop_of_ones_own() -> None:
    """They take a context, too. Each call has the same object."""
    database, seen = Database(), list[Any]()

    @tool
    async def look(context: Context[Database]) -> str:
        """Look."""
        seen.append(context.deps)
        return "seen"

    with ReplayServer(Scenario(reply(tool_use("look", {})), DONE)) as server:
        async with anthropic_client(server.base_url) as client:
            conversation = Conversation(**REQUEST, tools=[look], context=database)
            async with eagerstream.stream(client, **conversation.request()) as stream:
                await stream.finish()
            await conversation.execute(conversation.take(stream))
    async with EarlyCalls([look], context=database) as calls:
        for event in (message_start(), tool_start(0, "look"), input_delta(0, "{}"), block_stop(0)):
            calls.feed(event)
        calls.feed(message_delta("tool_use"))
        await calls.finish()
    assert [each is database for each in seen] == [True, True]


@pytest.mark.anyio
async def test_hooks_of_a_tool_see_it() -> None:
    """Whoever approves a call may need the same things as the tool."""
    asked: list[Any] = []

    def approve(call: ToolCall) -> bool:
        asked.append(call.deps)
        return True

    @tool(approve=approve)
    async def look(context: Context[Database]) -> str:
        """Look."""
        return context.deps.name

    database = Database()
    with ReplayServer(Scenario(reply(tool_use("look", {})), DONE)) as server:
        async with anthropic_client(server.base_url) as client:
            async with eagerstream.run(client, **REQUEST, tools=[look], context=database) as run:
                await run.finish()
    assert asked == [database]
    [call] = run.result.calls
    assert call.text == "library"
    assert call.deps is None, "a result keeps nothing of its run"


def _optional(context: Context[Database | None]) -> str:
    """Look."""
    return str(context.deps)


def _any(context: Context) -> str:  # type: ignore[type-arg]
    """Look."""
    return str(context.deps)


@rows("function, needs", [(find.__wrapped__, True), (_optional, False), (_any, False), (query, False)])
def test_a_context_that_is_missing(function: Callable[..., Any], needs: bool) -> None:
    """The program learns it before anything is sent. None is a context for tools that take it."""
    given: Tool = tool(function)
    assert given.needs_context is needs
    client: Any = eagerstream.HTTPTransport(base_url="http://nowhere", api_key="k")
    makers: list[Callable[[], object]] = [
        lambda: eagerstream.run(client, **REQUEST, tools=[given]),
        lambda: Conversation(**REQUEST, tools=[given]),
        lambda: EarlyCalls([given]),
        lambda: eagerstream.run(client, **REQUEST).add_tools(given),
    ]
    for make in makers:
        if needs:
            with pytest.raises(UsageError, match="a tool that takes a Context needs context="):
                make()
        else:
            make()


def _second(q: str, context: Context[Database]) -> str:
    return q


def _by_name(*, context: Context[Database], q: str) -> str:
    return q


@rows("function", [_second, _by_name])
def test_a_context_comes_first(function: Callable[..., Any]) -> None:
    """Type checkers compare it with that of the run only there."""
    with pytest.raises(UsageError, match="parameter 'context': a context is the first parameter"):
        tool(function)


@pytest.mark.anyio
async def test_in_a_test_of_ones_own() -> None:
    """The function, and the tool, can be called with a context that a test makes."""

    @tool
    async def look(context: Context[Database], q: str) -> str:
        """Look."""
        return f"{q} {context.deps.name} {context.run_id!r} {context.turn}"

    assert await look(Context(Database("mine")), "x") == "x mine '' 0"
    assert await look.call({"q": "x"}, context=Database("mine")) == "x mine '' 0"
    with pytest.raises(UsageError, match="called outside a run"):
        _ = Context(Database()).call
    assert "password" not in repr(Context("password"))


def test_an_executor_that_cannot_have_it() -> None:
    """It says so when the run is made; only a context that is there is shown to it."""

    class Elsewhere(InProcessExecutor):
        def fault_of_context(self, context: object, tools: Toolbox) -> str | None:
            return f"no {context} for {[each.name for each in tools if each.takes_context]}"

    with pytest.raises(UsageError, match=r"no 5 for \['_any'\]"):
        Conversation(**REQUEST, tools=[tool(_any), tool(query)], context=5, executor=Elsewhere())
    Conversation(**REQUEST, tools=[tool(_any)], executor=Elsewhere())
