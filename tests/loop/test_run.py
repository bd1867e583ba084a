"""`run`: what is sent, and how a run ends: with a history that can be sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import Limits, RunResult, StreamInterrupted, Tool, TurnStop, UsageError
from eagerstream.errors import APIError, LimitError
from eagerstream.loop import Run, RunStatus, TurnStart
from eagerstream.recordings import Recording
from eagerstream.testing import (
    ReplayServer,
    Scenario,
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
from eagerstream.tools import tool
from eagerstream.transports import Reply, Transport
from eagerstream.wire import MessageStart, WireEvent
from tests.loop.serial import (
    DONE,
    SLOWLY_S,
    TOOLS,
    Endless,
    Serial,
    checked,
    fail,
    finished,
    get_weather,
    now,
    results_in,
)
from tests.streams import (
    MESSAGE_STOP,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import REQUEST, USER, Broken, Gate, LocalAPI, Piece, Unlucky, all_tasks_blocked, anthropic_client
from tests.tables import rows

# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_conversation(serial: Serial) -> None:
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
    tools: list[Tool] = [get_weather, fail, now]
    async with serial.conversing(first, second, DONE) as client:
        run = await finished(client, tools=tools, system="Be brief.", temperature=0.5)
        bodies = serial.bodies

    definitions = [tool.to_dict() for tool in tools]
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
async def test_usage_is_summed(serial: Serial) -> None:
    """The counts of all turns together; within a turn they are cumulative, and the last ones count."""
    first = reply(tool_use("now", ""), usage={"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3})
    second = reply(text("Done."), usage={"input_tokens": 20, "output_tokens": 7, "cache_read_input_tokens": 0})
    async with serial.conversing(first, second) as client:
        usage = (await finished(client)).result.usage
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (30, 12, 3)


@pytest.mark.anyio
async def test_the_caller_s_messages_are_not_touched(serial: Serial) -> None:
    """The history grows in the result, not in the list that was given."""
    messages = [USER]
    async with serial.conversing(reply(tool_use("now", "")), DONE) as client:
        run = await finished(client, messages=messages)
    assert messages == [USER]
    assert len(run.result.messages) == 4


@pytest.mark.anyio
async def test_going_on_from_a_result(serial: Serial) -> None:
    """The history of one run, with a further user message, begins the next."""
    first = reply(tool_use("now", "", id="toolu_1"))
    async with serial.conversing(first, DONE, reply(text("Good night."))) as client:
        run = await finished(client)
        history = [*run.result.messages, {"role": "user", "content": "Thanks."}]
        again = await finished(client, messages=history)
        assert serial.bodies[-1]["messages"] == history
    assert again.result.messages[: len(history)] == history
    assert again.result.turns == 1


@pytest.mark.anyio
async def test_server_tools(serial: Serial) -> None:
    """What the API runs itself is echoed as it came, and never answered."""
    found = block({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "a"}]})
    first = reply(
        server_tool_use("web_search", {"query": "a"}, id="srvtoolu_1"), found, tool_use("now", "", id="toolu_1")
    )
    definition = {"type": "web_search_20250305", "name": "web_search"}
    async with serial.conversing(first, DONE) as client:
        run = await finished(client, tools=[now, definition])
        second = serial.bodies[1]
    assert second["tools"] == [now.to_dict(), definition]
    assert [item["type"] for item in second["messages"][1]["content"]] == [
        "server_tool_use",
        "web_search_tool_result",
        "tool_use",
    ]
    assert second["messages"][1]["content"][0]["input"] == {"query": "a"}
    assert [item["tool_use_id"] for item in results_in(second["messages"])] == ["toolu_1"]
    assert [call.id for call in run.result.calls] == ["toolu_1"]


@pytest.mark.anyio
async def test_empty_text_is_left_out(serial: Serial) -> None:
    """The API sends empty text blocks, and does not take them back."""
    async with serial.conversing(reply(text(""), tool_use("now", "")), DONE) as client:
        await finished(client)
        assert [item["type"] for item in serial.bodies[1]["messages"][1]["content"]] == ["tool_use"]


@pytest.mark.anyio
async def test_what_utf8_cannot_carry(serial: Serial) -> None:
    """Half a surrogate pair in an input, or in a result, is sent as U+FFFD: the next request does not fail."""

    @tool
    async def echo(word: str) -> str:
        return f"{word}\ud83d"

    turns = [reply(tool_use("echo", '{"word": "\\ud83d"}')), reply(tool_use("echo", '{"word": \\ud83d}')), DONE]
    async with serial.conversing(*turns) as client:
        run = await finished(client, tools=[echo])
        body = serial.bodies[1]
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
async def test_a_tool_cannot_change_the_echo(serial: Serial) -> None:
    """What a tool does to its arguments is not what the model wrote."""

    @tool
    async def greedy(items: list[Any]) -> str:
        items.append("mine")
        items[0]["a"] = 2
        return "ok"

    async with serial.conversing(reply(tool_use("greedy", {"items": [{"a": 1}]})), DONE) as client:
        await finished(client, tools=[greedy])
        assert serial.bodies[1]["messages"][1]["content"][0]["input"] == {"items": [{"a": 1}]}


# --- leaving early ----------------------------------------------------------------------------------------------------


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
async def test_an_error_in_the_middle(serial: Serial, bad: Recording, kind: type[Exception]) -> None:
    """The iteration raises, the result is there all the same, and its history can be sent."""
    async with serial.conversing(reply(tool_use("now", {}, id="toolu_first")), bad) as client:
        run, error = await _failed(client)
        assert run.result.messages[:3] == serial.bodies[1]["messages"]
    assert type(error) is kind
    assert run.result.status is RunStatus.ERROR
    assert run.result.calls[0].id == "toolu_first"


@pytest.mark.anyio
async def test_an_error_in_the_first_request(serial: Serial) -> None:
    """Nothing came: the history is what was given."""
    async with serial.conversing(http_error(401, "authentication_error", "Who?")) as client:
        run, error = await _failed(client)
    assert isinstance(error, APIError)
    assert error.status_code == 401
    assert run.result == RunResult(RunStatus.ERROR, None, [USER], error=error.to_dict())
    assert RunResult.of(error) is run.result


@pytest.mark.anyio
async def test_a_lost_connection_while_tools_run() -> None:
    """The error comes at once, the tool is cancelled when the block is left, and nothing hangs."""
    endless = Endless()
    begun: list[Piece] = [message_start(), tool_start(0, "endless"), input_delta(0, "{}"), block_stop(0)]
    run, error = await _failed(LocalAPI([*begun, Broken()]).anthropic(), tools=[endless.tool])
    assert isinstance(error, StreamInterrupted)
    assert run.result.status is RunStatus.ERROR
    assert endless.cancelled or not endless.begun.is_set()


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
    contents = [result["content"] for result in results_in(run.result.messages, 2)]
    assert contents[0] == "ConnectionError: no route"
    assert contents[1].startswith("TypeError: ")
    assert contents[2].startswith("TimeoutError: ")
    assert contents[3].startswith("KeyError: ")


@pytest.mark.usefixtures("short_grace")
@pytest.mark.anyio
async def test_a_body_held_open_after_the_message() -> None:
    """The next turn does not wait for a peer that forgets to close."""
    run = await finished(LocalAPI([reply(tool_use("now", {})), Gate()], [DONE, Gate()]).anthropic())
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.usefixtures("short_grace")
@pytest.mark.anyio
async def test_nonsense_after_the_message() -> None:
    """The message is whole: what follows it in the body is nobody's business."""
    nonsense = b"data: nonsense\n\n" + encode_event({"type": "error", "error": {"type": "api_error"}})
    run = await finished(LocalAPI([reply(tool_use("now", {})), nonsense], [DONE, b"x" * 5000]).anthropic())
    assert run.result.status is RunStatus.COMPLETED
    limits = Limits(max_event_bytes=2000)
    run = await finished(LocalAPI([DONE, b"data: " + b"x" * 5000]).anthropic(), limits=limits)
    assert run.result.status is RunStatus.COMPLETED


# --- settings ---------------------------------------------------------------------------------------------------------


@rows("options", [{"max_turns": 0}, {"max_concurrency": 0}, {"buffer": "drop"}, {"min_chars": -1}, {"tools": [print]}])
def test_bad_settings(options: dict[str, Any]) -> None:
    """Refused before anything is sent."""
    with pytest.raises(UsageError):
        eagerstream.run(LocalAPI([DONE]).transport(), **{**REQUEST, **options})


def test_a_wrong_client() -> None:
    """As for `stream`."""
    nothing: Any = object()
    with pytest.raises(UsageError, match="async"):
        eagerstream.run(nothing, **REQUEST)


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
    server = ReplayServer(Scenario(first, second), speed=float("inf"))
    async with server, anthropic_client(server.base_url) as client:

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
    assert results_in(run.result.messages, 2)[0]["content"] == "completed"


@pytest.mark.anyio
async def test_many_calls_in_one_turn() -> None:
    """More calls than run at once: all are answered, each once."""
    calls = [tool_use("get_weather", json.dumps({"city": str(n)}), id=f"toolu_{n}") for n in range(60)]
    run = await finished(LocalAPI([reply(*calls)], [DONE]).anthropic())
    assert [r["content"] for r in results_in(run.result.messages, 2)] == [f"15 degrees in {n}" for n in range(60)]


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


# --- odd transports ---------------------------------------------------------------------------------------------------


WHOLE: list[WireEvent] = [
    message_start(),
    block_start(0, "text", text=""),
    text_delta(0, "So."),
    block_stop(0),
    message_delta("end_turn"),
    MESSAGE_STOP,
]


class OddTransport(Transport):
    """Gives some events of a reply, and raises."""

    def __init__(
        self, count: int, error: BaseException | None = None, *, at_close: BaseException | None = None
    ) -> None:
        self.request_id: str | None = None
        self._events = iter(WHOLE[:count])
        self._error = error
        self._at_close = at_close

    @asynccontextmanager
    async def open(self, request: Mapping[str, Any], limits: Limits) -> AsyncIterator[Reply]:
        """See `Transport.open`."""
        yield self
        if self._at_close is not None:
            raise self._at_close

    async def receive(self) -> list[WireEvent] | None:
        """See `Reply.receive`."""
        await anyio.lowlevel.checkpoint()
        for event in self._events:
            return [event]
        if self._error is not None:
            raise self._error
        return None


@pytest.mark.parametrize("how", ["run", "stream"])
def test_a_foreign_cancellation(how: str) -> None:
    """Whoever awaits a cancelled task lets its `CancelledError` out: that is a lost connection, and no quiet end."""

    async def main() -> None:
        transport = OddTransport(3, asyncio.CancelledError())
        with pytest.raises(StreamInterrupted):
            if how == "run":
                async with eagerstream.run(transport, **REQUEST, max_restarts=0) as run:
                    await run.finish()
            else:
                async with eagerstream.stream(transport, **REQUEST) as stream:
                    await stream.finish()

    asyncio.run(main())


@pytest.mark.anyio
@pytest.mark.parametrize("at_close", [True, False])
async def test_an_error_behind_the_message(*, at_close: bool) -> None:
    """The reply is whole: what happens to its connection then loses nothing."""
    error = OSError("gone")
    transport = OddTransport(6, at_close=error) if at_close else OddTransport(6, error)
    run = await finished(transport)
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.anyio
async def test_a_stop_iteration_of_the_transport_s() -> None:
    """It is an error that comes out, and not the end of the events."""
    with pytest.raises(RuntimeError):
        async with eagerstream.run(OddTransport(3, StopAsyncIteration()), **REQUEST) as run:
            async for _ in run:
                pass


@pytest.mark.anyio
async def test_two_consumers() -> None:
    """One of them would never be woken: it is told."""
    api = LocalAPI([message_start(), Gate()])
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.run(api.transport(), **REQUEST) as run:
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    await anext(run)
                tasks.start_soon(anext, run)
                await all_tasks_blocked()
                with pytest.raises(UsageError, match="another task"):
                    await anext(run)
                tasks.cancel_scope.cancel()
            run.cancel()
            await run.finish()
