"""The requests of a run: tool choices that force, the hook before each, eager streaming by default, and betas."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest
from packages.wire.tests.test_models import ASSISTANT

import eagerstream
from eagerstream import Conversation, HistoryError, HTTPTransport, UsageError, tool
from eagerstream.calls import RunStatus
from eagerstream_testing import http_error, reply, server_tool_use, text, tool_use
from tests.loop.serial import (
    DONE,
    END,
    SLOWLY_S,
    called_by_code,
    finished,
    next_response,
    next_turn,
    now,
    result,
    results,
)
from tests.streams import REQUEST, USER, block_stop, input_delta, message_start, tool_start
from tests.support import Broken, LocalAPI, Piece, check_history

pytestmark = pytest.mark.anyio

FIELD = "eager_input_streaming"

# --- a tool choice that forces ----------------------------------------------------------------------------------------


class Obedient(LocalAPI):
    """An API whose model calls a tool if it is told to, and ends its turn otherwise."""

    def body_for(self, exchange: Any) -> Any:
        """See `LocalAPI.body_for`."""
        choice = exchange.body.get("tool_choice") or {}
        number = len(self.exchanges)
        return [reply(tool_use("now", {}, id=f"t{number}")) if choice.get("type") in ("any", "tool") else DONE]


@pytest.mark.parametrize(
    "choice", [{"type": "any"}, {"type": "tool", "name": "now", "disable_parallel_tool_use": True}]
)
async def test_a_forced_tool_choice_holds_once(choice: dict[str, Any]) -> None:
    """The model could never end its turn otherwise."""
    api = Obedient()
    run = await finished(api.transport(), tools=[now], tool_choice=choice)
    assert run.result.status is RunStatus.COMPLETED
    first, second = [exchange.body["tool_choice"] for exchange in api.exchanges]
    assert first == choice
    assert (
        second == {**choice, "type": "auto"}
        if "name" not in choice
        else {
            "type": "auto",
            "disable_parallel_tool_use": True,
        }
    )


async def test_a_forced_tool_choice_holds_for_the_request_that_is_sent_again() -> None:
    """What broke off was the first request still."""
    api = LocalAPI([message_start(), Broken()], [DONE])
    await finished(api.transport(), tools=[now], tool_choice={"type": "any"}, restart_delay_s=0)
    assert [exchange.body["tool_choice"] for exchange in api.exchanges] == [{"type": "any"}] * 2


# --- a hook for the next request --------------------------------------------------------------------------------------


@tool
async def later() -> str:
    """Come later."""
    return "later"


async def test_next_request_changes_one_request() -> None:
    """The model, the tools and all else change for that turn; the next one starts from the run's own."""
    asked: list[tuple[int, int]] = []

    def change(request: Any, turn: int) -> dict[str, Any] | None:
        asked.append((turn, len(request["messages"])))
        if turn != 2:
            return None
        return {
            "model": "other",
            "max_tokens": 7,
            "system": "Be brief.",
            "tool_choice": {"type": "any"},
            "tools": [now, later],
        }

    api = LocalAPI([reply(tool_use("later", {}, id="a"))], [reply(tool_use("later", {}, id="b"))], [DONE])
    run = await finished(api.transport(), tools=[now], next_request=change)
    first, second, third = (exchange.body for exchange in api.exchanges)
    assert asked == [(1, 1), (2, 3), (3, 5)]
    assert (second["model"], second["max_tokens"], second["system"]) == ("other", 7, "Be brief.")
    assert [each["name"] for each in second["tools"]] == ["now", "later"]
    assert second["tool_choice"] == {"type": "any"}
    for body in (first, third):
        assert body["model"] == REQUEST["model"]
        assert not {"system", "tool_choice"} & set(body)
        assert [each["name"] for each in body["tools"]] == ["now"]
    unknown, known = run.result.calls
    assert unknown.is_error
    assert known.result == result("b", "later")


@pytest.mark.parametrize("swapped", [False, True])
async def test_next_request_gives_back_toolsets(*, swapped: bool) -> None:
    """They have no name, and are told apart by their kinds."""
    mine = eagerstream.Tool(lambda _: "shown", definition={"type": "computer_toolset_20260801"})
    server = {"type": "mcp_toolset", "mcp_server_name": "repo"}
    call_it = [tool_start(0, "screenshot", toolset_name="computer"), input_delta(0, "{}"), block_stop(0)]
    api = LocalAPI([message_start(), *call_it, *END], [DONE])
    run = await finished(
        api.transport(),
        tools=[server, mine] if swapped else [mine, server],
        next_request=lambda request, turn: {"tools": request["tools"]},
    )
    assert [each.ran for each in run.result.calls] == [True]


async def test_next_request_is_asked_once_for_a_request_that_is_sent_again() -> None:
    """Its changes hold for the turn."""
    turns: list[int] = []

    def change(request: Any, turn: int) -> dict[str, Any]:
        turns.append(turn)
        return {"system": f"Turn {len(turns)}."}

    api = LocalAPI([message_start(), Broken()], [DONE])
    await finished(api.transport(), tools=[now], next_request=change, restart_delay_s=0)
    assert [exchange.body["system"] for exchange in api.exchanges] == ["Turn 1."] * 2
    assert turns == [1]


async def test_a_refusal_of_one_model_says_nothing_of_another() -> None:
    """What a run has learned of its model does not hold for the one that the hook asks."""
    words = f"tools.0.custom.{FIELD}: Extra inputs are not permitted"
    refused = http_error(400, "invalid_request_error", words)
    api = LocalAPI(refused, [reply(tool_use("now", {}, id="a"))], [DONE])
    await finished(
        api.transport(),
        tools=[now],
        next_request=lambda request, turn: {"model": "other"} if turn == 2 else None,
    )
    assert [FIELD in exchange.body["tools"][0] for exchange in api.exchanges] == [True, False, True]


async def test_next_request_replaces_the_history() -> None:
    """From that request on. An id that the history does not have any more may come again."""
    short = {"role": "user", "content": "Go on."}
    api = LocalAPI([reply(tool_use("now", {}, id="a"))], [reply(tool_use("now", {}, id="a"))], [DONE])
    async with eagerstream.run(
        api.transport(),
        **REQUEST,
        tools=[now],
        next_request=lambda request, turn: {"messages": [short]} if turn == 2 else None,
    ) as run:
        await run.finish()
    assert [len(exchange.body["messages"]) for exchange in api.exchanges] == [1, 1, 3]
    assert run.result.messages[0] == short
    assert run.result.messages[1]["content"][0]["id"] == "a"


async def test_a_history_that_no_hook_may_bring() -> None:
    """What the API would refuse is refused before it is sent, with the reasons."""
    dangling = [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "now", "input": {}}]}]
    api = LocalAPI([DONE])
    with pytest.raises(HistoryError, match="without `tool_result` blocks"):
        await finished(api.transport(), tools=[now], next_request=lambda request, turn: {"messages": dangling})
    assert api.exchanges == []


async def test_messages_are_repaired_on_request() -> None:
    """Otherwise the same messages are an error."""
    dangling = [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "now", "input": {}}]}]
    with pytest.raises(HistoryError):
        Conversation(**{**REQUEST, "messages": dangling}, tools=[now])
    options: Any = {"repair": 1}
    with pytest.raises(UsageError, match="repair"):
        Conversation(**REQUEST, **options)
    api = LocalAPI([DONE])
    async with eagerstream.run(api.transport(), **{**REQUEST, "messages": dangling}, tools=[now], repair=True) as run:
        await run.finish()
    assert [repair.kind.value for repair in run.result.repairs] == ["added_result"]
    assert api.exchanges[0].body["messages"][2]["content"][0]["is_error"]


async def test_next_request_takes_a_part_of_the_tools() -> None:
    """The definitions of the request are those of the run's tools, changed or not."""

    def change(request: Any, turn: int) -> dict[str, Any]:
        if turn == 2:
            return {"tools": []}
        (kept,) = [each for each in request["tools"] if each["name"] == "now"]
        return {"tools": [{**kept, "description": "Changed."}]}

    api = LocalAPI([reply(tool_use("now", {}, id="a"))], [DONE])
    run = await finished(api.transport(), tools=[now, later], tool_choice={"type": "any"}, next_request=change)
    assert run.result.messages[2] == results(result("a", "noon"))
    first, second = (exchange.body for exchange in api.exchanges)
    assert [each["description"] for each in first["tools"]] == ["Changed."]
    assert not {"tools", "tool_choice"} & set(second), "the API refuses a choice without tools"


async def test_a_hook_that_asks_for_what_cannot_be() -> None:
    """A clear error, and the run's history as it was."""
    wrong: list[tuple[Any, str]] = [
        ({"messages": "Hi"}, "messages must be"),
        ({"stream": False}, "cannot change stream"),
        ({"buffer": "wait"}, "cannot change buffer"),
        ({"eager": False}, "cannot change eager"),
        ({"tools": 5}, "tools must be a list"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"tools": [{"name": "x", "input_schema": {"type": "object"}}]}, "nothing runs the tool"),
        (["system"], "must return"),
    ]
    for asked, told in wrong:
        run = eagerstream.run(
            LocalAPI([DONE]).transport(), **REQUEST, tools=[now], next_request=lambda *_, asked=asked: asked
        )
        with anyio.fail_after(SLOWLY_S):
            async with run:
                with pytest.raises(UsageError, match=told):
                    await run.finish()
        assert run.result.status is RunStatus.ERROR, told
        assert run.result.messages == [USER], told


async def turn_of(body: Sequence[Piece], tools: Sequence[Any] = (now,)) -> tuple[Conversation, Any]:
    """The first turn of a conversation, driven by hand."""
    conversation = Conversation(**REQUEST, tools=tools)
    turn = await next_turn(LocalAPI(body).transport(), conversation)
    await conversation.execute(turn)
    return conversation, turn


async def test_extra_user_text_lands_last() -> None:
    """It is legal behind the results, and never added by itself."""
    conversation, turn = await turn_of([reply(tool_use("now", {}, id="a"))])
    assert turn.results() == [result("a", "noon")]
    expected = [result("a", "noon"), {"type": "text", "text": "What should I do next?"}]
    assert turn.results(extra_user_text="What should I do next?") == expected
    with pytest.raises(UsageError, match="have such a text already"):
        turn.results(extra_user_text="And then?")
    assert conversation.request()["messages"][-1] == results(*expected)
    conversation, turn = await turn_of([reply(tool_use("now", {}, id="a"))])
    with pytest.raises(UsageError, match="without a word"):
        turn.results(extra_user_text=" ")
    conversation.request()
    with pytest.raises(UsageError, match="have been sent"):
        turn.results(extra_user_text="And then?")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([DONE], "no results"),
        (called_by_code("now"), "code made"),
        (
            [reply(server_tool_use("web_fetch", {"url": "https://example.com"}), tool_use("now", {}))],
            "the API has yet to run",
        ),
    ],
    ids=["no results", "code", "server"],
)
async def test_extra_user_text_that_the_api_would_refuse(body: list[Any], told: str) -> None:
    """Anything but results would end a turn that the API is still in."""
    web_fetch = {"type": "web_fetch_20260318", "name": "web_fetch"}
    conversation, turn = await turn_of(body, tools=[now, web_fetch])
    before = turn.results()
    with pytest.raises(UsageError, match=told):
        turn.results(extra_user_text="What should I do next?")
    assert turn.results() == before
    check_history(conversation.result.messages)


# --- eager by default, and betas --------------------------------------------------------------------------------------


class Foreign:
    """A tool of another library."""

    def __init__(self, **definition: Any) -> None:
        self._definition = {"name": "foreign", "input_schema": {"type": "object"}, **definition}

    def to_dict(self) -> dict[str, Any]:
        """See `ForeignTool.to_dict`."""
        return self._definition

    async def call(self, input: object) -> str:
        """See `ForeignTool.call`."""
        return str(input)


_SENT: dict[str, tuple[Any, bool | None]] = {
    "ours": (now, True),
    "foreign": (Foreign(), True),
    "foreign, false": (Foreign(**{FIELD: False}), False),
    "ours, unsaid": (now.with_options(eager=None), None),
    "ours, false": (now.with_options(eager=False), False),
    "server": ({"type": "web_fetch_20260318", "name": "web_fetch"}, None),
    "opaque": ({"type": "tomorrow_20270101", "name": "x"}, None),
}


@pytest.mark.parametrize("eager", [True, False])
async def test_eager_by_default(*, eager: bool) -> None:
    """Every user-defined tool asks for its input as it is written, whoever made it, unless it says otherwise."""
    for name, (made, by_default) in _SENT.items():
        sent = by_default if eager or isinstance(made, eagerstream.Tool) or by_default is False else None
        api = LocalAPI([DONE])
        run = await finished(api.transport(), tools=[made], eager=eager)
        assert run.result.status is RunStatus.COMPLETED, name
        async with eagerstream.stream(api.transport(), **REQUEST, tools=[made], eager=eager) as stream:
            await stream.finish()
        conversation = Conversation(**REQUEST, tools=[made], eager=eager)
        stream = await next_response(api.transport(), conversation)
        for exchange in api.exchanges:
            assert [each.get(FIELD) for each in exchange.body["tools"]] == [sent], name
        conversation = Conversation(**REQUEST, tools=[made], eager=eager, cache="auto")
        stream = await next_response(api.transport(), conversation)
        assert api.exchanges[-1].body["tools"][0].get(FIELD) == sent, name
    with pytest.raises(UsageError, match="eager must be"):
        eagerstream.stream(LocalAPI([DONE]).transport(), **REQUEST, eager="no")  # type: ignore[call-overload]  # the point


ADVISOR = {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-4-8"}

BETA = "advisor-tool-2026-03-01"


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, f"mine,{BETA}"),
        ({"betas": [BETA]}, BETA),
        ({"betas": ["other"]}, f"other,{BETA}"),
        ({"extra_headers": {"Anthropic-Beta": "other"}}, f"other,{BETA}"),
    ],
    ids=str,
)
@pytest.mark.parametrize("plain", [True, False], ids=["HTTPTransport", "anthropic"])
async def test_a_tool_brings_its_beta(options: dict[str, Any], sent: str, *, plain: bool) -> None:
    """Beside those of the request, of its headers and of the client."""
    api = LocalAPI([DONE])
    client: Any = api.anthropic().with_options(default_headers={"anthropic-beta": "mine"})
    if plain:
        client = HTTPTransport(
            base_url="http://local", http_client=api.client(httpx), headers={"anthropic-beta": "mine"}
        )
        sent = ",".join(dict.fromkeys(["mine", *sent.split(",")])) if "extra_headers" not in options else sent
    await finished(client, tools=[now, ADVISOR], **options)
    (exchange,) = api.exchanges
    assert set(exchange.headers["anthropic-beta"].split(",")) >= set(sent.split(","))


@pytest.mark.parametrize(
    "given",
    [
        {"betas": ["fine-grained-tool-streaming-2025-05-14"]},
        {"extra_headers": {"anthropic-beta": "a,fine-grained-tool-streaming-2025-05-14"}},
    ],
)
async def test_the_legacy_beta_beside_a_toolset(given: dict[str, Any]) -> None:
    """The API refuses the two together: said before anything is sent."""
    toolset = {"type": "computer_toolset_20260801", "name": "computer"}
    with pytest.raises(UsageError, match="together with computer_toolset_20260801"):
        eagerstream.stream(LocalAPI([DONE]).transport(), **REQUEST, tools=[toolset], **given)


@pytest.mark.anyio
async def test_a_run_does_not_send_what_its_model_refuses(caplog: pytest.LogCaptureFixture) -> None:
    """It says so before the request, unless something is said to it. For an unknown model it warns, once."""
    request = {**REQUEST, "messages": [USER, ASSISTANT]}
    known = {**request, "model": "claude-opus-4-7"}
    api = LocalAPI([reply(text("."))])
    with pytest.raises(HistoryError, match="prefill"):
        async with eagerstream.run(api.transport(), **known) as run:
            await run.finish()
    assert api.exchanges == []
    run = eagerstream.run(api.transport(), **known)
    run.say("Go on.")
    async with run:
        assert (await run.finish()).status is RunStatus.COMPLETED
    model = f"made-{uuid4().hex}"
    for _ in range(2):
        api = LocalAPI([reply(text("."))])
        async with eagerstream.run(api.transport(), **{**request, "model": model}) as run:
            await run.finish()
    warned = [record.message for record in caplog.records if model in record.message]
    assert len(warned) == 1
    assert "Half of" not in warned[0]
    assert logging.WARNING in {record.levelno for record in caplog.records}
