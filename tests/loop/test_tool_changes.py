"""Tools that are added and removed while a conversation goes on: how the model learns of them, and what runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from anthropic import beta_async_tool

import eagerstream
from eagerstream import Conversation, HTTPTransport, InputStart, UsageError, tool
from eagerstream.calls import RunStatus
from eagerstream.loop import TurnStart, TurnStop
from eagerstream.loop._tool_changes import without_inline_tools
from eagerstream_testing import (
    MessageThreads,
    ReceivedRequest,
    ReplayServer,
    Scenario,
    Timing,
    http_error,
    reply,
    text,
    tool_use,
)
from tests.loop.serial import DONE, SLOWLY_S, checked, now
from tests.loop.steered import Steered, steered
from tests.streams import REQUEST, USER
from tests.support import anthropic_client

pytestmark = pytest.mark.anyio

HEADER = "anthropic-beta"
BETA = "inline-tools-2026-09-15"


@tool
async def search(query: str) -> str:
    """Search the web."""
    return f"about {query}"


@tool(name="search")
async def later(query: str) -> str:
    """Search the web of tomorrow."""
    return query


def names(request: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in request.get("tools", [])]


def changes(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The changes of the tools in the messages of a request, in order."""
    found = []
    for message in request["messages"]:
        if message["role"] == "system":
            for block in message["content"]:
                given = block["tool"]
                found.append((block["type"], given.get("name") or given["definition"]["name"]))
    return found


CALL_NOW = reply(tool_use("now", {}, id="toolu_1"))
CALL_AGAIN = reply(tool_use("now", {}, id="toolu_3"))
CALL_SEARCH = reply(tool_use("search", {"query": "x"}, id="toolu_2"))


def adding(run: Any, event: Any) -> None:
    if isinstance(event, TurnStart) and event.turn == 1:
        run.add_tools(search)
    elif isinstance(event, TurnStart) and event.turn == 3:
        run.remove_tools(search)


@pytest.mark.parametrize("threads", ["always", None])
async def test_changes_are_blocks_of_the_history(threads: Any) -> None:
    """`tools` and all earlier messages stay as they were, so the prompt cache and the thread go on."""
    run, _, server = await steered(
        Scenario(CALL_NOW, CALL_SEARCH, CALL_AGAIN, DONE),
        adding,
        threads=threads,
        inline_tools="always",
        kept=MessageThreads(),
    )
    first, second, third, last = [request.complete for request in server.requests]
    assert first["tools"] == second["tools"] == last["tools"]
    assert last["messages"][: len(third["messages"])] == third["messages"]
    assert (changes(first), changes(third)) == ([], [("tool_addition", "search")])
    assert changes(last) == [("tool_addition", "search"), ("tool_removal", "search")]
    assert [BETA in request.headers.get(HEADER, "") for request in server.requests] == [False, True, True, True]
    assert [call.text for call in run.result.calls if call.name == "search"] == ["about x"]
    # A definition asks for eager inputs wherever it is sent.
    added = second["messages"][-1]["content"][0]["tool"]["definition"]
    assert added["eager_input_streaming"] is True
    if threads:
        assert [each.thread for each in run.latency.requests] == ["create", "continue", "continue", "continue"]


async def test_elsewhere_the_list_of_tools_changes() -> None:
    """Not every platform knows the blocks: by default they are for the API's own address."""
    run, _, server = await steered(Scenario(CALL_NOW, CALL_SEARCH, CALL_AGAIN, DONE), adding, inline_tools="auto")
    assert [names(request.body) for request in server.requests] == [
        ["now"],
        ["now", "search"],
        ["now", "search"],
        ["now"],
    ]
    assert not any(changes(request.body) for request in server.requests)
    assert all(message["role"] != "system" for message in run.result.messages)
    assert [call.text for call in run.result.calls if call.name == "search"] == ["about x"]


@pytest.mark.parametrize(
    "words",
    [
        "messages.3.content.0: Input tag 'tool_addition' found using 'type' does not match any of the expected tags",
        "Unexpected value(s) `inline-tools-2026-09-15` for the `anthropic-beta` header",
        'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter',
    ],
)
async def test_a_model_that_refuses_them(words: str) -> None:
    """`tools` is changed instead, the history loses the blocks, and the refusal is remembered for the client."""

    def refuses(request: Mapping[str, Any]) -> Any:
        if changes(request):
            return http_error(400, "invalid_request_error", words)
        return CALL_SEARCH if len(names(request)) == 2 and len(request["messages"]) < 5 else DONE

    answers: list[Any] = [CALL_NOW, refuses, refuses]
    async with ReplayServer(Scenario(*answers)) as server, HTTPTransport(base_url=server.base_url) as transport:
        for _ in range(2):
            run = eagerstream.run(transport, tools=[now], inline_tools="always", **REQUEST)
            run.observe(Steered(run, adding))
            with anyio.fail_after(SLOWLY_S):
                async with run:
                    await run.finish()
            checked(run.result)
            assert run.result.status is RunStatus.COMPLETED
            assert all(message["role"] != "system" for message in run.result.messages)
    assert [request.status for request in server.requests] == [200, 400, 200, 200, 200, 200, 200]
    both = ["now", "search"]
    assert [names(request.body) for request in server.requests] == [["now"], ["now"], both, both, ["now"], both, both]


async def test_another_error_is_not_taken_for_a_refusal() -> None:
    """It ends the run, and the history keeps its blocks."""
    asked: list[int] = []

    def refuses(_: Any) -> Any:
        asked.append(1)
        return http_error(400, "invalid_request_error", "max_tokens: too many")

    with pytest.raises(eagerstream.APIError, match="too many"):
        await steered(Scenario(CALL_NOW, refuses), adding, inline_tools="always")
    assert len(asked) == 1


async def test_said_between_two_attempts() -> None:
    """A request is sent again, and the user has said something in between: the changes stay behind his messages."""

    def saying(run: Any, event: Any) -> None:
        if isinstance(event, TurnStart) and event.turn == 1:
            run.add_tools(search)
        if type(event).__name__ == "Restarted":
            run.say("Hurry.")
            run.remove_tools("now")

    refusals = [http_error(529, "overloaded_error", "Overloaded")]
    run, _, server = await steered(
        Scenario(CALL_NOW, lambda _: refusals.pop() if refusals else DONE), saying, inline_tools="always"
    )
    last = server.requests[-1].body
    assert [message["role"] for message in last["messages"]] == ["user", "assistant", "user", "user", "system"]
    assert changes(last) == [("tool_addition", "search"), ("tool_removal", "now")]
    assert run.result.undelivered == []


async def test_a_pause_is_continued_first() -> None:
    """Nothing may follow a paused response."""
    pause = reply(text("Searching."), stop_reason="pause_turn")
    *_, server = await steered(Scenario(pause, CALL_NOW, DONE), adding, inline_tools="always")
    assert [changes(request.body) for request in server.requests] == [[], [], [("tool_addition", "search")]]


async def test_a_tool_replaces_one_of_its_name() -> None:
    """The new one runs the calls, and its definition goes to the model."""

    @tool(name="now")
    async def newer() -> str:
        """Say the time in another way."""
        return "newer"

    def replacing(run: Any, event: Any) -> None:
        if isinstance(event, TurnStop) and event.turn == 1:
            run.add_tools(newer)

    run, _, server = await steered(
        Scenario(CALL_NOW, reply(tool_use("now", {}, id="toolu_2")), DONE), replacing, inline_tools="always"
    )
    assert [call.text for call in run.result.calls] == ["noon", "newer"]
    assert changes(server.requests[1].body) == [("tool_addition", "now")]


async def test_a_guard_that_comes_while_the_input_is_written() -> None:
    """The tool that runs the call is asked, not the one that was there at the start of the input."""

    @tool(name="search", guard=lambda input: eagerstream.Reject("not that"))
    async def guarded(query: str) -> str:
        """Search some of the web."""
        return query

    def replacing(run: Any, event: Any) -> None:
        if isinstance(event, InputStart):
            run.add_tools(guarded)

    async with ReplayServer(Scenario(CALL_SEARCH, DONE, timing=Timing())) as server:
        async with HTTPTransport(base_url=server.base_url) as transport:
            run = eagerstream.run(transport, tools=[search], **REQUEST)
            run.observe(Steered(run, replacing))
            with anyio.fail_after(SLOWLY_S):
                async with run:
                    await run.finish()
    assert [(call.text, call.ran) for call in run.result.calls] == [("not that", False)]


async def test_the_last_tool_is_removed() -> None:
    """Without tools, a `tool_choice` would be refused. It comes back with the next tool."""
    conversation = Conversation(tools=[now], tool_choice={"type": "auto"}, **REQUEST)
    conversation.remove_tools(now)
    assert not {"tools", "tool_choice"} & conversation.request().keys()
    conversation = Conversation(tools=[now], tool_choice={"type": "auto"}, **REQUEST)
    conversation.remove_tools("now")
    conversation.add_tools(search)
    request = conversation.request()
    assert (names(request), request["tool_choice"]) == (["search"], {"type": "auto"})


async def test_wrong_changes() -> None:
    """They are refused at the call, and nothing has changed."""
    conversation = Conversation(tools=[now], **REQUEST)
    with pytest.raises(UsageError, match="there is no tool named 'serach': there are \\['now'\\]"):
        conversation.remove_tools(now, "serach")
    with pytest.raises(UsageError, match="more than one tool is named 'search'"):
        conversation.add_tools(search, later)
    with pytest.raises(UsageError, match="tool"):
        conversation.add_tools(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has no name"):
        Conversation(tools=[{"type": "odd"}], **REQUEST).remove_tools({"type": "odd"})
    with pytest.raises(UsageError, match="inline_tools must be"):
        Conversation(tools=[now], inline_tools="yes", **REQUEST)  # type: ignore[arg-type]
    assert names(conversation.request()) == ["now"]


async def test_by_hand() -> None:
    """`refused` gives the request to send instead."""
    conversation = Conversation(tools=[now], inline_tools="always", **REQUEST)
    conversation.add_tools(search)
    request = conversation.request()
    assert (names(request), changes(request)) == (["now"], [("tool_addition", "search")])
    assert request["extra_headers"] == {HEADER: BETA}
    error = eagerstream.APIError("role 'system' is not supported on this model", status_code=400)
    other = conversation.refused(error)
    assert other is not None
    assert (names(other), changes(other)) == (["now", "search"], [])
    assert conversation.refused(error) is None


@pytest.mark.parametrize("by_hook", [True, False])
async def test_changes_that_wait_while_the_history_is_replaced(by_hook: bool) -> None:
    """`tools` has them already: to remove a tool that is not there would be refused."""

    def hook(request: Mapping[str, Any], turn: int) -> Mapping[str, Any] | None:
        return {"messages": [USER]} if by_hook and turn == 2 else None

    conversation = Conversation(tools=[now], inline_tools="always", next_request=hook, **REQUEST)
    conversation.add_tools(search)
    async with ReplayServer(Scenario.of(CALL_NOW)) as server, HTTPTransport(base_url=server.base_url) as transport:
        async with eagerstream.stream(transport, **conversation.request()) as stream:
            await stream.finish()
        await conversation.execute(conversation.take(stream))
    conversation.remove_tools(search)
    if not by_hook:
        conversation.replace_history([USER])
    request = conversation.request()
    assert (names(request), changes(request)) == (["now"], [])


def hooked(request: Mapping[str, Any], turn: int) -> Mapping[str, Any] | None:
    if turn == 2:
        return {"tools": [request["tools"][0]]}
    return {"messages": [USER, *request["messages"][-3:]]} if turn == 3 else None


async def test_with_a_hook() -> None:
    """Tools that `next_request` returns are all tools of that request; a history of its own leaves `tools` complete."""
    wait = reply(text("Wait."), stop_reason="pause_turn")
    conversation = Conversation(tools=[now], inline_tools="always", next_request=hooked, **REQUEST)
    conversation.add_tools(search)
    requests = []
    async with ReplayServer(Scenario(CALL_NOW, CALL_NOW, wait, DONE)) as server:
        async with HTTPTransport(base_url=server.base_url) as transport:
            while not conversation.ended:
                requests.append(conversation.request())
                async with eagerstream.stream(transport, **requests[-1]) as stream:
                    await stream.finish()
                await conversation.execute(conversation.take(stream))
                if len(requests) == 2:
                    conversation.say("Go on.")
    assert [(names(each), changes(each)) for each in requests[:2]] == [
        (["now"], [("tool_addition", "search")]),
        (["now"], []),
    ]
    assert all((names(each), changes(each)) == (["now", "search"], []) for each in requests[2:])
    assert len(requests) > 3


def test_the_tools_at_the_end() -> None:
    """What is added, replaced, removed and offered again by reference, in order; other blocks stay."""

    def change(kind: str, **given: Any) -> dict[str, Any]:
        return {"type": kind, "tool": given}

    blocks = [
        change("tool_addition", type="tool_definition", definition={"name": "b", "v": 1}),
        change("tool_removal", type="tool_reference", name="a"),
        change("tool_addition", type="tool_definition", definition={"name": "b", "v": 2}),
        change("tool_addition", type="tool_definition", definition={"type": "mcp_toolset", "mcp_server_name": "c"}),
        {"type": "text", "text": "Be quick."},
    ]
    messages = [USER, {"role": "system", "content": blocks[:2]}, {"role": "system", "content": blocks[2:]}]
    request = {"tools": [{"name": "a"}], "tool_choice": {"type": "auto"}, "messages": messages}
    assert without_inline_tools(request) == {
        "tools": [{"name": "b", "v": 2}, {"type": "mcp_toolset", "mcp_server_name": "c"}],
        "tool_choice": {"type": "auto"},
        "messages": [USER, {"role": "system", "content": blocks[4:]}],
    }
    again = change("tool_addition", type="tool_reference", name="a")
    gone = change("tool_removal", type="mcp_toolset_reference", server_name="c")
    more = [*messages, {"role": "system", "content": [again, gone]}]
    assert [each["name"] for each in without_inline_tools({**request, "messages": more})["tools"]] == ["b", "a"]
    none = without_inline_tools({**request, "messages": [USER, {"role": "system", "content": [blocks[1]]}]})
    assert none == {"messages": [USER]}


def sent(requests: list[ReceivedRequest]) -> list[Any]:
    """What is compared of the requests of two programs: the changes, with plain definitions."""
    return [
        [
            [
                {**block, "tool": {"definition": block["tool"]["definition"]["name"]}}
                if "definition" in block["tool"]
                else block
                for block in message["content"]
            ]
            for message in request.complete["messages"]
            if message["role"] == "system"
        ]
        for request in requests
    ]


async def test_as_the_official_runner() -> None:
    """The same changes at the same time are the same blocks at the same places."""

    @beta_async_tool(name="now")
    async def official_now() -> str:
        """Say the time."""
        return "now"

    @beta_async_tool(name="search")
    async def official_search(query: str) -> str:
        """Search the web."""
        return query

    answers = [CALL_NOW, CALL_SEARCH, CALL_AGAIN, DONE]
    *_, ours = await steered(Scenario(*answers), adding, inline_tools="always")
    async with ReplayServer(Scenario(*answers), threads=MessageThreads()) as theirs:
        async with anthropic_client(theirs.base_url) as client:
            runner = client.beta.messages.tool_runner(tools=[official_now], betas=[BETA], stream=True, **REQUEST)
            turn = 0
            async for stream in runner:
                await stream.get_final_message()
                turn += 1
                if turn == 1:
                    runner.add_tools(official_search)
                elif turn == 3:
                    runner.remove_tools("search")
    assert sent(ours.requests) == sent(theirs.requests)
