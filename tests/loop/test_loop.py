"""`run`: what is sent, when tools run, and how every run ends: with a history that can be sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings, strategies as st

import eagerstream
from eagerstream.errors import APIError, LimitError, StreamInterrupted, ToolError, UsageError
from eagerstream.limits import Limits
from eagerstream.loop import Run, RunResult, RunStatus, ToolStart, ToolStop, TurnStart, TurnStop
from eagerstream.recordings import Chunk, Recording
from eagerstream.streaming import GrowingInput
from eagerstream.testing import (
    ReceivedRequest,
    ReplayServer,
    Scenario,
    Timing,
    block,
    encode_event,
    error_event,
    http_error,
    reply,
    server_tool_use,
    text,
    thinking,
    tool_use,
)
from eagerstream.tools import InProcessExecutor, Tool, ToolCall, tool
from eagerstream.wire import InputDelta, InputStop, MessageStart, MessageStop, Outcome, TextDelta
from tests.support import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    Broken,
    Gate,
    LocalAPI,
    Piece,
    Unlucky,
    all_tasks_blocked,
    anthropic_client,
    block_start,
    block_stop,
    check_history,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
    whole_call,
)

SLOWLY_S = 20
DONE = reply(text("Done."), message_id="msg_done")


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city.

    Args:
        city: City and country.
    """
    return f"15 degrees in {city}"


@tool
async def fail(how: Literal["loudly", "kindly"] = "loudly") -> None:
    """Fail."""
    if how == "kindly":
        raise ToolError("Rate limit exceeded.", hint="Retry after 60 seconds.")
    raise ConnectionError("no route")


@tool
async def now() -> str:
    """The time."""
    return "noon"


TOOLS = [get_weather, fail, now]


def checked(result: RunResult) -> RunResult:
    """A result whose history obeys the law, as every history must."""
    check_history(result.messages)
    return result


async def finished(client: Any, **options: Any) -> Run:
    """A run that went to its end."""
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(client, **{"tools": TOOLS, **REQUEST, **options}) as run:
            await run.finish()
    checked(run.result)
    return run


async def events_of(client: Any, **options: Any) -> tuple[list[Any], Run]:
    """All events of a run, and the run."""
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(client, **{"tools": TOOLS, **REQUEST, **options}) as run:
            events = [event async for event in run]
    checked(run.result)
    return events, run


class Shared:
    """One server for all tests of this file, which run one after the other: starting one takes longer than a test."""

    def __init__(self) -> None:
        self.scenario = Scenario(DONE)
        self.server = ReplayServer(Scenario.of(self._answer), speed=float("inf"))
        self.first = 0

    def _answer(self, request: Mapping[str, Any]) -> Recording:
        return self.scenario.answer(request)

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests of this test."""
        return self.server.requests[self.first :]


shared = Shared()


@pytest.fixture(scope="module", autouse=True)
def _shared_server() -> Iterator[None]:
    with shared.server:
        yield


@asynccontextmanager
async def served(*turns: Any) -> AsyncIterator[tuple[Any, Shared]]:
    """The real client and the real server, between them chunks of random sizes."""
    timing = Timing(cut="random", seed=len(turns), speed=float("inf"))
    shared.scenario = Scenario(*turns, timing=timing)
    shared.first = len(shared.server.requests)
    async with anthropic_client(shared.server.base_url) as client:
        yield client, shared


def result_of(messages: list[Mapping[str, Any]], number: int = -1) -> list[dict[str, Any]]:
    """The results in one message."""
    return [item for item in messages[number]["content"] if item["type"] == "tool_result"]


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_conversation() -> None:
    """Golden: three turns through a real server. Each request is the one before, the reply, and its results."""
    first = reply(
        thinking("Two cities.", signature="c2lnbmVk"),
        text("Let me look."),
        tool_use("get_weather", {"city": "Oslo"}, id="toolu_1"),
        tool_use("get_weather", {"city": "Rome"}, id="toolu_2"),
    )
    second = reply(
        thinking("", signature="b3RoZXI="),
        tool_use("get_weather", '{"city": Bergen}', id="toolu_3"),
        tool_use("fail", {"how": "kindly"}, id="toolu_4"),
        tool_use("now", "", id="toolu_5"),
        tool_use("nope", {}, id="toolu_6"),
        tool_use("get_weather", {"town": "Oslo"}, id="toolu_7"),
    )
    async with served(first, second, DONE) as (client, server):
        run = await finished(client, system="Be brief.", temperature=0.5)
        bodies = [request.body for request in server.requests]

    definitions = [tool.to_dict() for tool in TOOLS]
    fixed = {"model": REQUEST["model"], "max_tokens": 1024, "system": "Be brief.", "temperature": 0.5, "stream": True}
    for body in bodies:
        assert {key: value for key, value in body.items() if key != "messages"} == {**fixed, "tools": definitions}
    for earlier, later in pairwise(bodies):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]

    messages = bodies[-1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[0] == USER
    assert messages[1]["content"] == [
        {"type": "thinking", "thinking": "Two cities.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "toolu_2", "name": "get_weather", "input": {"city": "Rome"}},
    ]
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "15 degrees in Oslo"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "15 degrees in Rome"},
    ]
    assert messages[3]["content"][0] == {"type": "thinking", "thinking": "", "signature": "b3RoZXI="}
    assert messages[3]["content"][1]["input"] == {"INVALID_JSON": '{"city": Bergen}'}
    assert messages[3]["content"][3]["input"] == {}
    assert messages[3]["content"][5]["input"] == {"town": "Oslo"}
    missing = "Error: Missing required 'city' parameter; Unknown parameter 'town'"
    assert messages[4]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "toolu_3",
            "content": '{"INVALID_JSON": "{\\"city\\": Bergen}"}',
            "is_error": True,
        },
        {
            "type": "tool_result",
            "tool_use_id": "toolu_4",
            "content": "Rate limit exceeded. Retry after 60 seconds.",
            "is_error": True,
        },
        {"type": "tool_result", "tool_use_id": "toolu_5", "content": "noon"},
        {
            "type": "tool_result",
            "tool_use_id": "toolu_6",
            "content": "Error: Tool 'nope' not found. Available tools: fail, get_weather, now",
            "is_error": True,
        },
        {"type": "tool_result", "tool_use_id": "toolu_7", "content": missing, "is_error": True},
    ]

    result = run.result
    assert result.status is RunStatus.COMPLETED
    assert result.turns == 3
    assert result.message is not None
    assert result.message["content"] == [{"type": "text", "text": "Done."}]
    assert result.messages[:-1] == messages
    assert result.messages[-1] == {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    assert [call.id for call in result.calls] == [f"toolu_{number}" for number in range(1, 8)]
    assert [call.turn for call in result.calls] == [1, 1, 2, 2, 2, 2, 2]
    assert [call.ran for call in result.calls] == [True, True, False, True, True, False, False]


@pytest.mark.anyio
async def test_usage_is_summed() -> None:
    """The counts of all turns together; within a turn they are cumulative, and the last ones count."""
    first = reply(tool_use("now", ""), usage={"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3})
    second = reply(text("Done."), usage={"input_tokens": 20, "output_tokens": 7, "cache_read_input_tokens": 0})
    async with served(first, second) as (client, _):
        usage = (await finished(client)).result.usage
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (30, 12, 3)


@pytest.mark.anyio
async def test_the_caller_s_messages_are_not_touched() -> None:
    """The history grows in the result, not in the list that was given."""
    messages = [USER]
    async with served(reply(tool_use("now", "")), DONE) as (client, _):
        run = await finished(client, messages=messages)
    assert messages == [USER]
    assert len(run.result.messages) == 4


@pytest.mark.anyio
async def test_going_on_from_a_result() -> None:
    """The history of one run, with a further user message, begins the next."""
    first = reply(tool_use("now", "", id="toolu_1"))
    async with served(first, DONE, reply(text("Good night."))) as (client, server):
        run = await finished(client)
        history = [*run.result.messages, {"role": "user", "content": "Thanks."}]
        again = await finished(client, messages=history)
        assert server.requests[-1].body["messages"] == history
    assert again.result.messages[: len(history)] == history
    assert again.result.turns == 1


@pytest.mark.anyio
async def test_server_tools() -> None:
    """What the API runs itself is echoed as it came, and never answered."""
    found = block({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "a"}]})
    first = reply(
        server_tool_use("web_search", {"query": "a"}, id="srvtoolu_1"), found, tool_use("now", "", id="toolu_1")
    )
    definition = {"type": "web_search_20250305", "name": "web_search"}
    async with served(first, DONE) as (client, server):
        run = await finished(client, tools=[now, definition])
        second = server.requests[1].body
    assert second["tools"] == [now.to_dict(), definition]
    assert [item["type"] for item in second["messages"][1]["content"]] == [
        "server_tool_use",
        "web_search_tool_result",
        "tool_use",
    ]
    assert second["messages"][1]["content"][0]["input"] == {"query": "a"}
    assert [item["tool_use_id"] for item in result_of(second["messages"])] == ["toolu_1"]
    assert [call.id for call in run.result.calls] == ["toolu_1"]


@pytest.mark.anyio
async def test_empty_text_is_left_out() -> None:
    """The API sends empty text blocks, and does not take them back."""
    async with served(reply(text(""), tool_use("now", "")), DONE) as (client, server):
        await finished(client)
        assert [item["type"] for item in server.requests[1].body["messages"][1]["content"]] == ["tool_use"]


@pytest.mark.anyio
async def test_what_utf8_cannot_carry() -> None:
    """Half a surrogate pair in an input, or in a result, is sent as U+FFFD: the next request does not fail."""

    @tool
    async def echo(word: str) -> str:
        return f"{word}\ud83d"

    turns = [reply(tool_use("echo", '{"word": "\\ud83d"}')), reply(tool_use("echo", '{"word": \\ud83d}')), DONE]
    async with served(*turns) as (client, server):
        run = await finished(client, tools=[echo])
        body = server.requests[1].body
    assert run.result.status is RunStatus.COMPLETED
    assert body["messages"][1]["content"][0]["input"] == {"word": "\ufffd"}
    assert run.result.calls[0].ran


@pytest.mark.anyio
@pytest.mark.parametrize("depth", [100, 500])
@pytest.mark.parametrize("word", ["a", "\\ud83d"])
async def test_a_deep_input_is_echoed(depth: int, word: str) -> None:
    """An input within the limits of depth can be sent back, whatever happens to its call."""

    @tool
    async def take(value: Any) -> str:
        return "ok"

    deep = '{"value": ' + '{"a": ' * depth + f'"{word}"' + "}" * depth + "}"
    api = LocalAPI([reply(tool_use("take", deep, fragment_chars=1000))], [DONE])
    run = await finished(api.transport(), tools=[take])
    assert run.result.status is RunStatus.COMPLETED
    assert len(api.exchanges) == 2


@pytest.mark.anyio
async def test_a_tool_cannot_change_the_echo() -> None:
    """What a tool does to its arguments is not what the model wrote."""

    @tool
    async def greedy(items: list[Any]) -> str:
        items.append("mine")
        items[0]["a"] = 2
        return "ok"

    async with served(reply(tool_use("greedy", {"items": [{"a": 1}]})), DONE) as (client, server):
        await finished(client, tools=[greedy])
        assert server.requests[1].body["messages"][1]["content"][0]["input"] == {"items": [{"a": 1}]}


# --- when tools run ---------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_call_runs_while_the_reply_goes_on() -> None:
    """A tool starts at the end of its own block: here the reply goes on only once the tool has finished."""
    gate = Gate()

    @tool
    async def open_gate(n: int) -> str:
        gate.opened.set()
        return f"opened {n}"

    first = reply(tool_use("open_gate", {"n": 1}, id="toolu_1"), tool_use("open_gate", {"n": 2}, id="toolu_2"))
    at = first.body.index(b'{"type":"content_block_start","index":1')
    at = first.body.rindex(b"event:", 0, at)
    api = LocalAPI([first.body[:at], gate, first.body[at:]], [DONE])
    events, run = await events_of(api.anthropic(), tools=[open_gate])
    names = [type(event).__name__ for event in events]
    assert names.index("ToolStart") < names.index("MessageStop")
    assert run.result.status is RunStatus.COMPLETED
    assert api.exchanges[1].body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "opened 1"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "opened 2"},
    ]


@pytest.mark.anyio
async def test_a_call_runs_while_the_server_holds_the_reply() -> None:
    """The same through sockets and the real client: the rest of the reply never comes, the tool runs all the same."""
    body = reply(tool_use("note", {"n": 1}), text("more")).body
    at = body.rindex(b"event:", 0, body.index(b'"index":1'))
    held = Recording((Chunk(0.0, body[:at]), Chunk(3600.0, body[at:])))
    ran = anyio.Event()

    @tool
    async def note(n: int) -> None:
        ran.set()

    async with ReplayServer(held) as server, anthropic_client(server.base_url) as client:
        with anyio.fail_after(SLOWLY_S):
            async with eagerstream.run(client, **REQUEST, tools=[note]) as run:
                async for event in run:
                    assert not isinstance(event, MessageStop)
                    if isinstance(event, ToolStop):
                        break
        (request,) = server.requests
        assert await anyio.to_thread.run_sync(request.wait_ended, SLOWLY_S)
        assert request.disconnected
    assert ran.is_set()
    assert checked(run.result).status is RunStatus.CANCELLED


@pytest.mark.anyio
async def test_an_empty_call_waits_for_what_follows() -> None:
    """No text at all may be a cut: such a call starts with the next block, or with the stop reason, not before."""
    gate = Gate()
    pieces: list[Piece] = [message_start(), tool_start(0, "now"), block_stop(0), gate]
    api = LocalAPI([*pieces, message_delta("tool_use"), MESSAGE_STOP], [DONE])
    seen: list[Any] = []
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now]) as run:
            await gate.reached.wait()
            await all_tasks_blocked()
            assert run.result.calls == []
            gate.opened.set()
            seen = [event async for event in run]
    assert any(isinstance(event, ToolStart) for event in seen)
    assert checked(run.result).calls[0].ran
    assert run.result.messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_0", "content": "noon"}]


@pytest.mark.anyio
async def test_calls_run_beside_one_another() -> None:
    """Each of these waits for the other: one after the other they would never finish."""
    arrived = 0
    both = anyio.Event()

    @tool
    async def meet(n: int) -> int:
        nonlocal arrived
        arrived += 1
        if arrived == 2:
            both.set()
        await both.wait()
        return n

    first = reply(tool_use("meet", {"n": 1}, id="toolu_1"), tool_use("meet", {"n": 2}, id="toolu_2"))
    run = await finished(LocalAPI([first], [DONE]).anthropic(), tools=[meet])
    assert [result["content"] for result in result_of(run.result.messages, 2)] == ["1", "2"]


@pytest.mark.anyio
async def test_results_in_call_order() -> None:
    """Whatever finishes first: the results are in the order of the calls."""
    gates = [anyio.Event() for _ in range(4)]
    gates[-1].set()

    @tool
    async def backwards(n: int) -> int:
        await gates[n].wait()
        if n:
            gates[n - 1].set()
        return n

    first = reply(*(tool_use("backwards", {"n": n}, id=f"toolu_{n}") for n in range(4)))
    events, run = await events_of(LocalAPI([first], [DONE]).anthropic(), tools=[backwards])
    assert [event.call.id for event in events if isinstance(event, ToolStop)] == [f"toolu_{n}" for n in (3, 2, 1, 0)]
    assert [result["tool_use_id"] for result in result_of(run.result.messages, 2)] == [f"toolu_{n}" for n in range(4)]
    stop = next(event for event in events if isinstance(event, TurnStop))
    assert [call.id for call in stop.calls] == [f"toolu_{n}" for n in range(4)]


@pytest.mark.anyio
async def test_max_concurrency() -> None:
    """One at a time where the caller wants that, in call order."""
    running = 0
    order: list[int] = []

    @tool
    async def work(n: int) -> int:
        nonlocal running
        running += 1
        assert running == 1
        order.append(n)
        await all_tasks_blocked()
        running -= 1
        return n

    first = reply(*(tool_use("work", {"n": n}, id=f"toolu_{n}") for n in range(4)))
    run = await finished(LocalAPI([first], [DONE]).transport(), tools=[work], max_concurrency=1)
    assert order == [0, 1, 2, 3]
    assert not any(call.is_error for call in run.result.calls)


@pytest.mark.anyio
async def test_a_slow_consumer_does_not_hold_up_tools() -> None:
    """Nobody looks at the events: reading, tools and turns go on."""
    calls = reply(*(tool_use("now", "", id=f"toolu_{n}") for n in range(3)), text("long " * 1000, fragment_chars=2))
    end = Gate()
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(LocalAPI([calls], [end, DONE]).anthropic(), **REQUEST, tools=TOOLS) as run:
            await end.reached.wait()
            assert len(run.result.messages) == 3
            end.opened.set()
            events = [event async for event in run]
    assert len(checked(run.result).calls) == 3
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "long " * 1000 + "Done."
    assert isinstance(events[-1], TurnStop)


@pytest.mark.anyio
async def test_events_of_a_run() -> None:
    """Each turn begins and ends with its own event, and between them is what `stream` would tell."""
    events, _ = await events_of(LocalAPI([reply(tool_use("now", ""))], [DONE]).anthropic(), buffer="wait")
    names = [type(event).__name__ for event in events]
    assert names[:3] == ["TurnStart", "MessageStart", "InputStart"]
    assert sorted(names[3:7]) == ["InputStop", "MessageStop", "ToolStart", "ToolStop"]
    assert names.index("InputStop") < names.index("ToolStart") < names.index("ToolStop")
    assert names[7:] == [
        "TurnStop",
        "TurnStart",
        "MessageStart",
        "BlockStart",
        "TextDelta",
        "BlockStop",
        "MessageStop",
        "TurnStop",
    ]
    assert [event.turn for event in events if isinstance(event, TurnStart | TurnStop)] == [1, 1, 2, 2]
    assert all("noon" not in repr(event) for event in events if isinstance(event, ToolStart | ToolStop))


@pytest.mark.anyio
async def test_inputs_of_a_run_grow() -> None:
    """The inputs in the events are `GrowingInput`s."""
    events, _ = await events_of(LocalAPI([reply(tool_use("get_weather", {"city": "Oslo"}))], [DONE]).anthropic())
    deltas = [event for event in events if isinstance(event, InputDelta)]
    assert deltas
    assert isinstance(deltas[0].input, GrowingInput)
    assert await deltas[0].input.field("city") == "Oslo"


# --- every stop reason ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("end_turn", RunStatus.COMPLETED),
        ("tool_use", RunStatus.COMPLETED),
        ("stop_sequence", RunStatus.STOP_SEQUENCE),
        ("max_tokens", RunStatus.TRUNCATED),
        ("model_context_window_exceeded", RunStatus.TRUNCATED),
    ],
)
async def test_stop_reasons_without_calls(reason: str, status: RunStatus) -> None:
    """Each ends the run with its own status, after one request, and the text stays in the history."""
    async with served(reply(text("So."), stop_reason=reason)) as (client, server):
        run = await finished(client)
        assert len(server.requests) == 1
    assert run.result.status is status
    assert run.result.message is not None
    assert run.result.message["stop_reason"] == reason
    assert run.result.messages[-1] == {"role": "assistant", "content": [{"type": "text", "text": "So."}]}


@pytest.mark.anyio
async def test_no_stop_reason() -> None:
    """A reply that ends without saying why ends the run."""
    api = LocalAPI(
        [message_start(), block_start(0, "text", text=""), text_delta(0, "So."), block_stop(0), MESSAGE_STOP]
    )
    run = await finished(api.anthropic())
    assert run.result.status is RunStatus.UNKNOWN
    assert len(api.exchanges) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reason", "status", "requests"),
    [
        ("tool_use", RunStatus.COMPLETED, 2),
        ("end_turn", RunStatus.COMPLETED, 1),
        ("stop_sequence", RunStatus.STOP_SEQUENCE, 1),
        ("max_tokens", RunStatus.TRUNCATED, 1),
    ],
)
async def test_stop_reasons_with_calls(reason: str, status: RunStatus, requests: int) -> None:
    """Calls that ran keep their results, whatever came after them; each call has exactly one."""
    first = reply(
        text("So."),
        tool_use("now", {}, id="toolu_1"),
        tool_use("fail", "{", id="toolu_2"),
        tool_use("fail", "[]", id="toolu_3"),
        stop_reason=reason,
    )
    async with served(first, DONE) as (client, server):
        run = await finished(client)
        assert len(server.requests) == requests
    assert run.result.status is status
    results = result_of(run.result.messages, 2)
    assert [result["tool_use_id"] for result in results] == ["toolu_1", "toolu_2", "toolu_3"]
    assert results[0]["content"] == "noon"
    assert [result.get("is_error", False) for result in results] == [False, True, True]


@pytest.mark.anyio
async def test_max_tokens_inside_a_call() -> None:
    """The cut call does not run, although its text looks nearly whole; it is echoed and answered as what it is."""
    cut = reply(
        tool_use("now", "{}", id="toolu_1"),
        tool_use("get_weather", '{"city": "Os', id="toolu_2", closed=False),
        stop_reason="max_tokens",
    )
    async with served(cut) as (client, _):
        events, run = await events_of(client)
    assert run.result.status is RunStatus.TRUNCATED
    assert [event.input.outcome for event in events if isinstance(event, InputStop)] == [
        Outcome.VALID,
        Outcome.INCOMPLETE,
    ]
    assert [event.call.id for event in events if isinstance(event, ToolStart)] == ["toolu_1"]
    assert run.result.messages[1]["content"][1]["input"] == {"INVALID_JSON": '{"city": "Os'}
    first, second = result_of(run.result.messages, 2)
    assert first["content"] == "noon"
    assert second["is_error"] is True
    assert "cut off" in second["content"]
    assert not run.result.calls[1].ran
    turn = next(event for event in events if isinstance(event, TurnStop))
    assert [call.result for call in turn.calls] == [first, second]  # each with its result, also the one that is cut


@pytest.mark.anyio
@pytest.mark.parametrize("closed", [True, False])
async def test_max_tokens_before_the_first_character_of_an_input(*, closed: bool) -> None:
    """An empty input at the end of a cut reply is not a call without arguments: it does not run."""
    async with served(reply(tool_use("now", "", closed=closed), stop_reason="max_tokens")) as (client, _):
        run = await finished(client)
    assert run.result.status is RunStatus.TRUNCATED
    assert not run.result.calls[0].ran
    assert run.result.calls[0].input.outcome is Outcome.INCOMPLETE


@pytest.mark.anyio
async def test_max_tokens_inside_thinking() -> None:
    """Half a thought has no signature, and cannot be sent back: the history can be sent all the same."""
    async with served(reply(thinking("Let me th", closed=False), stop_reason="max_tokens")) as (client, _):
        run = await finished(client)
    assert run.result.status is RunStatus.TRUNCATED


@pytest.mark.anyio
async def test_max_tokens_inside_text() -> None:
    """Half a text stays."""
    async with served(reply(text("So it is th", closed=False), stop_reason="max_tokens")) as (client, _):
        run = await finished(client)
    assert run.result.messages[-1]["content"] == [{"type": "text", "text": "So it is th"}]


@pytest.mark.anyio
async def test_refusal() -> None:
    """A refused turn is left out whole; what had run is told."""
    refused = reply(text("So"), tool_use("now", {}, id="toolu_1"), text("I cann"), stop_reason="refusal")
    async with served(reply(tool_use("now", {}, id="toolu_0")), refused) as (client, _):
        run = await finished(client)
    assert run.result.status is RunStatus.REFUSED
    assert len(run.result.messages) == 3
    assert run.result.messages[-1]["role"] == "user"
    assert [call.id for call in run.result.calls] == ["toolu_0", "toolu_1"]
    assert run.result.message is not None
    assert run.result.message["stop_reason"] == "refusal"


@pytest.mark.anyio
async def test_refusal_says_why() -> None:
    """The API's details of a refusal are in the message."""
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    end = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}}
    run = await finished(LocalAPI([message_start(), end, MESSAGE_STOP]).anthropic())
    assert run.result.message is not None
    assert run.result.message["stop_details"] == details


@pytest.mark.anyio
async def test_an_empty_end() -> None:
    """A reply without content adds nothing: a message without content is refused."""
    async with served(reply(tool_use("now", {})), reply()) as (client, _):
        run = await finished(client)
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.turns == 2
    assert run.result.messages[-1]["role"] == "user"


@pytest.mark.anyio
async def test_pause_turn_keeps_what_came() -> None:
    """A paused turn is sent back as it came, with nothing behind it, and gone on from."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    paused = reply(server_tool_use("web_search", {"query": "a"}, id="srvtoolu_1"), stop_reason="pause_turn")
    async with served(paused, reply(text("Found."), message_id="msg_2")) as (client, server):
        run = await finished(client, tools=[search])
        assert len(server.requests) == 2
        assert server.requests[1].body["messages"][-1]["role"] == "assistant"
    assert run.result.messages[1]["content"][0]["type"] == "server_tool_use"
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.anyio
@pytest.mark.parametrize("max_turns", [1, 2])
async def test_max_turns(max_turns: int) -> None:
    """The calls of the last turn still run and close the history; nothing more is sent."""
    turns = [reply(tool_use("now", {}, id=f"toolu_{n}")) for n in range(3)]
    async with served(*turns) as (client, server):
        run = await finished(client, max_turns=max_turns)
        assert len(server.requests) == max_turns
    assert run.result.status is RunStatus.LIMIT
    assert run.result.turns == max_turns
    assert len(run.result.messages) == 1 + 2 * max_turns
    assert all(call.ran for call in run.result.calls)


@pytest.mark.anyio
async def test_max_turns_that_are_not_needed() -> None:
    """A run that ends by itself on its last turn is complete."""
    async with served(reply(tool_use("now", {})), DONE) as (client, _):
        assert (await finished(client, max_turns=2)).result.status is RunStatus.COMPLETED


@pytest.mark.anyio
async def test_invalid_calls_again_and_again() -> None:
    """A model may be wrong several times before it is right: nobody stops it."""
    wrong = [reply(tool_use("get_weather", '{"city": }', id=f"toolu_{n}")) for n in range(4)]
    async with served(*wrong, reply(tool_use("get_weather", {"city": "Oslo"})), DONE) as (client, _):
        run = await finished(client)
    assert run.result.turns == 6
    assert [call.ran for call in run.result.calls] == [False] * 4 + [True]


@pytest.mark.anyio
async def test_calls_before_a_fallback() -> None:
    """After a `fallback` block another model answers: client calls before it belong to the one that was dropped."""
    first = reply(
        tool_use("now", {}, id="toolu_1"), block({"type": "fallback"}), tool_use("now", {"a": 1}, id="toolu_2")
    )
    async with served(first, DONE) as (client, server):
        run = await finished(client)
        echoed = server.requests[1].body["messages"][1]["content"]
    assert [item["id"] for item in echoed if item["type"] == "tool_use"] == ["toolu_2"]
    assert [call.id for call in run.result.calls] == ["toolu_1", "toolu_2"]


@pytest.mark.anyio
async def test_only_calls_before_a_fallback() -> None:
    """Where no call is left, there is nothing to answer, and nothing more to send."""
    first = reply(tool_use("now", {}, id="toolu_1"), block({"type": "fallback"}), text("So."), stop_reason="tool_use")
    async with served(first, DONE) as (client, server):
        run = await finished(client)
        assert len(server.requests) == 1
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.messages[-1]["role"] == "assistant"


@pytest.mark.anyio
async def test_ids_that_come_twice() -> None:
    """Two calls with one id cannot both be answered: whatever is made of it, the history can be sent."""
    twice = reply(tool_use("now", {}, id="toolu_1"), tool_use("now", {}, id="toolu_1"))
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(LocalAPI([twice], [DONE]).anthropic(), **REQUEST, tools=TOOLS) as run:
            try:
                await run.finish()
            except eagerstream.EagerStreamError as error:
                assert "toolu_1" in str(error)
    checked(run.result)


@pytest.mark.anyio
async def test_a_restarted_reply() -> None:
    """A gateway that begins again: calls of the dropped beginning are not in the history, and are told."""
    begun: list[Piece] = [message_start(), tool_start(0, "now"), input_delta(0, "[]"), block_stop(0)]
    again = reply(tool_use("get_weather", {"city": "Oslo"}, id="toolu_new"))
    api = LocalAPI([*begun, tool_start(1, "now"), input_delta(1, '{"a'), again], [DONE])
    events, run = await events_of(api.anthropic())
    assert [event.restarted for event in events if isinstance(event, MessageStart)] == [False, True, False]
    assert [result["tool_use_id"] for result in result_of(run.result.messages, 2)] == ["toolu_new"]
    assert [call.id for call in run.result.calls] == ["toolu_0", "toolu_1", "toolu_new"]


@pytest.mark.anyio
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_restarted_reply_after_a_call_has_run(*, at_once: bool) -> None:
    """The call is not repeated under another name: the run goes on with its result, and the new beginning is not read."""
    begun = [message_start(), tool_start(0, "now"), input_delta(0, "{}"), block_stop(0), tool_start(1, "now")]
    again = reply(tool_use("now", {}, id="toolu_new"))
    pieces: list[Piece] = [*begun, again]
    if at_once:
        pieces = [b"".join(map(encode_event, begun)) + again.body]
    api = LocalAPI(pieces, [DONE])
    events, run = await events_of(api.anthropic())
    assert not any(event.restarted for event in events if isinstance(event, MessageStart))  # nothing is to be forgotten
    (first, second) = [event for event in events if isinstance(event, TurnStop)]
    assert isinstance(first.error, StreamInterrupted)
    assert second.error is None
    assert run.result.messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_0", "content": "noon"}]
    assert [call.id for call in run.result.calls if call.ran] == ["toolu_0"]


# --- leaving early ----------------------------------------------------------------------------------------------------


class Endless:
    """A tool that runs until it is cancelled, and tells."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.cancelled = False

    def tool(self) -> Tool:
        @tool
        async def endless() -> None:
            self.started.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled = True

        return endless


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["break", "exception", "scope", "return"])
async def test_leaving_early_cancels_the_tools(way: str, anyio_backend_name: str) -> None:
    """However the block is left: tools are cancelled, the connection is closed, the history can be sent."""
    endless = Endless()
    first = reply(tool_use("now", {}, id="toolu_1"))
    second: list[Piece] = [message_start(), tool_start(0, "endless"), input_delta(0, "{}"), block_stop(0), Gate()]
    api = LocalAPI([first], second)
    before = asyncio.all_tasks() if anyio_backend_name == "asyncio" else set()
    run = eagerstream.run(api.transport(), **REQUEST, tools=[now, endless.tool()])

    async def leave() -> None:
        with anyio.CancelScope() as scope:
            async with run:
                async for event in run:
                    if isinstance(event, ToolStart) and event.call.name == "endless":
                        await endless.started.wait()
                        if way == "exception":
                            raise LookupError
                        if way == "scope":
                            scope.cancel()
                            continue
                        if way == "return":
                            return
                        break

    with anyio.fail_after(SLOWLY_S):
        if way == "exception":
            with pytest.raises(LookupError):
                await leave()
        else:
            await leave()
    assert endless.cancelled
    assert all(exchange.closed for exchange in api.exchanges)
    if anyio_backend_name == "asyncio":
        assert asyncio.all_tasks() == before
    assert checked(run.result).status is RunStatus.CANCELLED
    assert run.result.messages[:3] == api.exchanges[1].body["messages"]
    assert [call.id for call in run.result.calls] == ["toolu_1", "toolu_0"]


@pytest.mark.anyio
async def test_leaving_between_turns() -> None:
    """A run that is left after a turn has that turn in its history, with its results."""
    gate = Gate()
    api = LocalAPI([reply(tool_use("now", {}, id="toolu_0"))], [gate, DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.anthropic(), **REQUEST, tools=TOOLS) as run:
            async for event in run:
                if isinstance(event, TurnStop):
                    break
    assert checked(run.result).status is RunStatus.CANCELLED
    assert len(run.result.messages) == 3


@pytest.mark.anyio
async def test_leaving_after_the_end() -> None:
    """A run that has ended by itself keeps its status, also if its last events are not looked at."""
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(LocalAPI([DONE]).anthropic(), **REQUEST) as run:
            async for event in run:
                if isinstance(event, TurnStop):
                    break
    assert checked(run.result).status is RunStatus.COMPLETED


# --- failures ---------------------------------------------------------------------------------------------------------


async def _failed(client: Any, **options: Any) -> tuple[Run, Exception]:
    options = {"tools": TOOLS, **REQUEST, "on_interrupt": "raise", **options}
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(client, **options) as run:
            try:
                async for _ in run:
                    pass
            except Exception as error:
                checked(run.result)
                return run, error
    raise AssertionError("it did not fail")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (reply(tool_use("now", {}), text("So"), error_event("overloaded_error", "Overloaded")), APIError),
        (reply(tool_use("now", '{"a', closed=False), error_event("api_error", "No")), APIError),
        (http_error(400, "invalid_request_error", "No."), APIError),
        (Recording.from_body(reply(tool_use("now", {}), text("So it is")).body[:900]), StreamInterrupted),
    ],
    ids=["error event", "error event in a call", "HTTP error", "cut"],
)
async def test_an_error_in_the_middle(bad: Recording, kind: type[Exception]) -> None:
    """The iteration raises, the result is there all the same, and its history can be sent."""
    async with served(reply(tool_use("now", {}, id="toolu_first")), bad) as (client, server):
        run, error = await _failed(client)
        assert run.result.messages[:3] == server.requests[1].body["messages"]
    assert type(error) is kind
    assert run.result.status is RunStatus.ERROR
    assert run.result.calls[0].id == "toolu_first"


@pytest.mark.anyio
async def test_an_error_in_the_first_request() -> None:
    """Nothing came: the history is what was given."""
    async with served(http_error(401, "authentication_error", "Who?")) as (client, _):
        run, error = await _failed(client)
    assert isinstance(error, APIError)
    assert error.status_code == 401
    assert run.result == RunResult(RunStatus.ERROR, None, [USER], error=error.to_dict())
    assert error.result is run.result


@pytest.mark.anyio
async def test_a_lost_connection_while_tools_run() -> None:
    """The error comes at once, the tool is cancelled when the block is left, and nothing hangs."""
    endless = Endless()
    begun: list[Piece] = [message_start(), tool_start(0, "endless"), input_delta(0, "{}"), block_stop(0)]
    run, error = await _failed(LocalAPI([*begun, Broken()]).anthropic(), tools=[endless.tool()])
    assert isinstance(error, StreamInterrupted)
    assert run.result.status is RunStatus.ERROR
    assert endless.cancelled or not endless.started.is_set()


@pytest.mark.anyio
async def test_finish_raises() -> None:
    """For those who want no events: the error comes out of `finish`, unwrapped."""
    api = LocalAPI([reply(text("So"), error_event("api_error", "No"))])
    with pytest.raises(APIError, match="No"):
        async with eagerstream.run(api.anthropic(), **REQUEST, on_interrupt="raise") as run:
            await run.finish()
    assert checked(run.result).status is RunStatus.ERROR


@pytest.mark.anyio
async def test_a_limit_in_the_middle() -> None:
    """A limit that is reached ends the run like any other error."""
    large = reply(tool_use("get_weather", {"city": "x" * 5000}, fragment_chars=5000))
    run, error = await _failed(LocalAPI([large]).anthropic(), limits=Limits(max_event_bytes=2000))
    assert isinstance(error, LimitError)
    assert run.result.status is RunStatus.ERROR


@pytest.mark.anyio
async def test_failing_tools_do_not_end_a_run() -> None:
    """Exceptions, time-outs, results that cannot be sent: told to the model, who goes on."""

    async def picky(value: Unlucky) -> None: ...

    @tool
    async def odd() -> object:
        return object()

    @tool
    async def slow() -> None:
        await anyio.sleep_forever()

    calls = [tool_use("fail", {}), tool_use("odd", {}), tool_use("slow", {}), tool_use("picky", {"value": {"n": 1}})]
    api = LocalAPI([reply(*calls)], [DONE])
    run = await finished(api.anthropic(), tools=[fail, odd, slow, tool(picky)], limits=Limits(tool_timeout_s=0.05))
    assert run.result.status is RunStatus.COMPLETED
    contents = [result["content"] for result in result_of(run.result.messages, 2)]
    assert contents[0] == "ConnectionError: no route"
    assert contents[1].startswith("TypeError: ")
    assert contents[2].startswith("TimeoutError: ")
    assert contents[3].startswith("KeyError: ")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_cancels_itself_does_not_hang_the_run() -> None:
    """A CancelledError of a tool's own making is a failure like any other."""

    @tool
    async def careless() -> None:
        task = asyncio.ensure_future(asyncio.sleep(3600))
        task.cancel()
        await task

    with anyio.fail_after(3):
        run = await finished(LocalAPI([reply(tool_use("careless", {}))], [DONE]).anthropic(), tools=[careless])
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.calls[0].is_error


@pytest.mark.anyio
async def test_a_body_held_open_after_the_message() -> None:
    """The next turn does not wait for a peer that forgets to close."""
    run = await finished(LocalAPI([reply(tool_use("now", {})), Gate()], [DONE, Gate()]).anthropic())
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.anyio
async def test_nonsense_after_the_message() -> None:
    """The message is whole: what follows it in the body is nobody's business."""
    nonsense = b"data: nonsense\n\n" + encode_event({"type": "error", "error": {"type": "api_error"}})
    run = await finished(LocalAPI([reply(tool_use("now", {})), nonsense], [DONE, b"x" * 5000]).anthropic())
    assert run.result.status is RunStatus.COMPLETED
    limits = Limits(max_event_bytes=2000)
    run = await finished(LocalAPI([DONE, b"data: " + b"x" * 5000]).anthropic(), limits=limits)
    assert run.result.status is RunStatus.COMPLETED


_PARTS = st.sampled_from(
    ["text", "empty text", "thinking", "now", "fail", "bad JSON", "no JSON object", "nope", "server"]
)


def _part(kind: str, id: str) -> Any:
    match kind:
        case "text":
            return text("Let me look.")
        case "empty text":
            return text("")
        case "thinking":
            return thinking("Hm.")
        case "now":
            return tool_use("now", "", id=id)
        case "bad JSON":
            return tool_use("now", '{"a": b}', id=id)
        case "no JSON object":
            return tool_use("now", "[1]", id=id)
        case "server":
            return server_tool_use("web_search", {"query": "a"}, id=f"srvtoolu_{id}")
        case _:
            return tool_use(kind, {}, id=id)


@st.composite
def _replies(draw: st.DrawFn) -> list[bytes]:
    """Replies of a conversation, one after the other; each may end anywhere."""
    bodies = []
    for turn in range(draw(st.integers(1, 3))):
        parts = [_part(kind, f"toolu_{turn}_{at}") for at, kind in enumerate(draw(st.lists(_PARTS, max_size=5)))]
        reason = draw(
            st.sampled_from([None, None, "tool_use", "max_tokens", "refusal", "end_turn", "pause_turn", "odd"])
        )
        body = reply(*parts, stop_reason=reason, message_id=f"msg_{turn}").body
        bodies.append(body[: draw(st.integers(0, len(body)))] if draw(st.integers(0, 3)) == 0 else body)
    return bodies


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=60)
@given(bodies=_replies(), max_turns=st.sampled_from([None, 1, 2]))
def test_however_a_run_ends_its_history_can_be_sent(backend: str, bodies: list[bytes], max_turns: int | None) -> None:
    """Any replies, cut anywhere: the history is lawful, begins with what was given, and has the results of all it keeps."""

    async def converse() -> None:
        api = LocalAPI(*([body] for body in bodies), [DONE])
        options = {**REQUEST, "tools": TOOLS, "max_turns": max_turns, "restart_delay_s": 0}
        run = eagerstream.run(api.transport(), **options)
        with anyio.fail_after(SLOWLY_S):
            async with run:
                try:
                    await run.finish()
                except eagerstream.EagerStreamError:
                    assert run.result.status is RunStatus.ERROR
                else:
                    assert run.result.status not in (RunStatus.ERROR, RunStatus.CANCELLED)
        checked(run.result)
        assert run.result.messages[0] == USER
        for earlier, later in pairwise([exchange.body["messages"] for exchange in api.exchanges]):
            check_history(later)
            assert later[: len(earlier)] == earlier
        last = api.exchanges[-1].body["messages"]
        assert run.result.messages[: len(last)] == last

    anyio.run(converse, backend=backend)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_duplicate_names() -> None:
    """Two tools of one name: the API would refuse them, and the loop could not tell which to run."""
    with pytest.raises(UsageError, match="'now'"):
        eagerstream.run(LocalAPI([DONE]).anthropic(), **REQUEST, tools=[now, now])
    with pytest.raises(UsageError, match="'now'"):
        eagerstream.run(LocalAPI([DONE]).anthropic(), **REQUEST, tools=[now, {"name": "now", "type": "x"}])


@pytest.mark.parametrize(
    "options", [{"max_turns": 0}, {"max_concurrency": 0}, {"buffer": "drop"}, {"min_chars": -1}, {"tools": [print]}]
)
def test_bad_settings(options: dict[str, Any]) -> None:
    """Refused before anything is sent."""
    with pytest.raises(UsageError):
        eagerstream.run(LocalAPI([DONE]).anthropic(), **{**REQUEST, **options})


def test_a_wrong_client() -> None:
    """As for `stream`."""
    with pytest.raises(UsageError, match="async"):
        eagerstream.run(object(), **REQUEST)


@pytest.mark.anyio
async def test_before_it_is_entered() -> None:
    """Nothing is sent, and the result says that nothing came of it."""
    api = LocalAPI([DONE])
    run = eagerstream.run(api.anthropic(), **REQUEST)
    with pytest.raises(UsageError, match="async with"):
        await anext(run)
    assert api.exchanges == []
    assert checked(run.result).status is RunStatus.RUNNING


@pytest.mark.anyio
async def test_two_runs_at_once() -> None:
    """Runs share a client and a tool, and nothing else."""

    def first(request: Mapping[str, Any]) -> Recording:
        city = request["messages"][0]["content"]
        return reply(tool_use("get_weather", {"city": city}), message_id=f"msg_{city}")

    def second(request: Mapping[str, Any]) -> Recording:
        return reply(text(request["messages"][-1]["content"][0]["content"]))

    said: dict[str, str] = {}
    async with served(first, second) as (client, _):

        async def ask(city: str) -> None:
            run = await finished(client, messages=[{"role": "user", "content": city}])
            said[city] = run.result.messages[-1]["content"][0]["text"]

        async with anyio.create_task_group() as tasks:
            for city in ("Oslo", "Rome", "Lima", "Cairo", "Perth"):
                tasks.start_soon(ask, city)
    assert said == {city: f"15 degrees in {city}" for city in ("Oslo", "Rome", "Lima", "Cairo", "Perth")}


@pytest.mark.anyio
async def test_a_run_inside_a_tool() -> None:
    """A tool may run a conversation of its own."""
    inner = LocalAPI([reply(tool_use("now", {}))], [DONE])

    @tool
    async def ask() -> str:
        return str((await finished(inner.anthropic(), tools=[now])).result.status.value)

    run = await finished(LocalAPI([reply(tool_use("ask", {}))], [DONE]).anthropic(), tools=[ask])
    assert result_of(run.result.messages, 2)[0]["content"] == "completed"


@pytest.mark.anyio
async def test_many_calls_in_one_turn() -> None:
    """More calls than run at once: all are answered, each once."""
    calls = [tool_use("get_weather", json.dumps({"city": str(n)}), id=f"toolu_{n}") for n in range(60)]
    run = await finished(LocalAPI([reply(*calls)], [DONE]).anthropic())
    assert [r["content"] for r in result_of(run.result.messages, 2)] == [f"15 degrees in {n}" for n in range(60)]


class _Silent:
    """An executor that returns without an answer."""

    def admit(self, call: ToolCall) -> None: ...

    async def execute(self, call: ToolCall) -> None:
        call.start()


@pytest.mark.anyio
async def test_an_executor_without_an_answer() -> None:
    """The run does not wait for ever: the model learns that there is no result."""
    calls = [message_start(), *whole_call(0, "now"), message_delta("tool_use"), MESSAGE_STOP]
    api = LocalAPI(calls, [reply(text("Done."))])
    with anyio.fail_after(10):
        async with eagerstream.run(api.transport(), **REQUEST, tools=[now], executor=_Silent()) as run:
            await run.finish()
    assert "gave this call no answer" in str(run.result.messages)
    check_history(run.result.messages)


@pytest.mark.anyio
async def test_a_restarted_reply_voids_the_calls_that_wait() -> None:
    """A call that waits for its turn when the peer begins its reply anew never runs: the new reply counts."""
    ran: list[str] = []

    async def ask(_call: ToolCall) -> None:
        await anyio.sleep_forever()

    @tool(approve=ask)
    async def pay(id: str) -> None:
        ran.append(id)

    waiting = [message_start(), tool_start(0, "pay", id="old"), input_delta(0, '{"id": "old"}'), block_stop(0)]
    api = LocalAPI([*waiting, reply(text("Never mind."))])
    async with eagerstream.run(api.transport(), **REQUEST, tools=[pay]) as run:
        await run.finish()
    assert ran == []
    assert run.result.status is RunStatus.COMPLETED
    assert [message["role"] for message in run.result.messages] == ["user", "assistant"]
    check_history(run.result.messages)


@pytest.mark.anyio
async def test_cancelled_by_an_observer_of_the_start_of_a_turn() -> None:
    """No response is read for a run that is over."""
    api = LocalAPI([DONE])

    class Canceller:
        def take(self, events: Sequence[Any]) -> None:
            if any(isinstance(event, TurnStart) for event in events):
                run.cancel()

        def end(self, _: Any) -> None: ...

    run = eagerstream.run(api.transport(), **REQUEST)
    run.observe(Canceller())
    with anyio.fail_after(SLOWLY_S):
        async with run:
            events = [event async for event in run]
    assert run.result.status is RunStatus.CANCELLED
    assert not any(isinstance(event, MessageStart) for event in events)


@pytest.mark.anyio
async def test_an_executor_that_fails_to_admit_a_call() -> None:
    """The call is answered with the error; the others keep their places, and the run goes on."""

    class Failing(InProcessExecutor):
        def admit(self, call: ToolCall) -> None:
            if call.id == "toolu_1":
                raise LookupError("no place")
            super().admit(call)

    executor = Failing(TOOLS, max_concurrency=1)
    asks = reply(
        tool_use("now", {}, id="toolu_0"), tool_use("now", {}, id="toolu_1"), tool_use("now", {}, id="toolu_2")
    )
    api = LocalAPI([asks], [DONE])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST, tools=TOOLS, executor=executor) as run:
            await run.finish()
    assert [call.is_error for call in run.result.calls] == [False, True, False]
    assert run.result.status is RunStatus.COMPLETED
