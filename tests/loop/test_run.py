"""`run`: what is sent, and how a run ends: with a history that can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import Limits, RunResult, StreamInterrupted, Tool, TurnStop, UsageError
from eagerstream.calls import RunStatus
from eagerstream.errors import APIError, LimitError
from eagerstream.loop import Run, TurnStart
from eagerstream.recordings import Recording
from eagerstream.tools import tool
from eagerstream.transports import Reply, Transport
from eagerstream_testing import (
    ReplayServer,
    Scenario,
    encode_event,
    error_event,
    http_error,
    reply,
    text,
    thinking,
    tool_use,
)
from eagerstream_wire import MessageStart, WireEvent
from tests.loop.serial import (
    DONE,
    SLOWLY_S,
    TOOLS,
    Endless,
    Serial,
    assistant,
    call,
    checked,
    error,
    fail,
    finished,
    get_weather,
    now,
    result,
    results,
    running,
    said,
)
from tests.loop.steered import Steered
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    USER,
    block_start,
    block_stop,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import Broken, Gate, LocalAPI, Piece, all_tasks_blocked, anthropic_client

pytestmark = pytest.mark.anyio

# --- requests ---------------------------------------------------------------------------------------------------------


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
    assert messages == [
        USER,
        assistant(
            {"type": "thinking", "thinking": "Two cities.", "signature": "c2lnbmVk"},
            said("Let me look."),
            call("toolu_1", "get_weather", {"city": "Oslo"}),
            call("toolu_2", "get_weather", {"city": "Rome"}),
        ),
        results(result("toolu_1", "15 degrees in Oslo"), result("toolu_2", "15 degrees in Rome")),
        assistant(
            {"type": "thinking", "thinking": "", "signature": "b3RoZXI="},
            call("toolu_3", "get_weather", {"INVALID_JSON": '{"city": Bergen}'}),
            call("toolu_4", "fail", {"how": "kindly"}),
            call("toolu_5", "now", {}),
            call("toolu_6", "nope", {}),
            call("toolu_7", "get_weather", {"town": "Oslo"}),
        ),
        results(
            error("toolu_3", '{"INVALID_JSON": "{\\"city\\": Bergen}"}'),
            error("toolu_4", "Rate limit exceeded. Retry after 60 seconds."),
            result("toolu_5", "noon"),
            error("toolu_6", "Error: Tool 'nope' not found. Available tools: fail, get_weather, now"),
            error("toolu_7", "Error: Missing required 'city' parameter; Unknown parameter 'town'"),
        ),
    ]
    assert (run.result.status, run.result.turns) == (RunStatus.COMPLETED, 3)
    assert run.result.message is not None
    assert run.result.message["content"] == [said("Done.")]
    assert run.result.messages == [*messages, assistant(said("Done."))]
    assert [made.id for made in run.result.calls] == [f"toolu_{number}" for number in range(1, 8)]
    assert [made.turn for made in run.result.calls] == [1, 1, 2, 2, 2, 2, 2]
    assert [made.ran for made in run.result.calls] == [True, True, False, True, True, False, False]


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


async def test_leaving_between_turns() -> None:
    """A run that is left after a turn has that turn in its history, with its results."""
    gate = Gate()
    api = LocalAPI([reply(tool_use("now", {}, id="toolu_0"))], [gate, DONE])
    async with running(api.anthropic(), tools=TOOLS) as run:
        async for event in run:
            if isinstance(event, TurnStop):
                break
    assert checked(run.result).status is RunStatus.CANCELLED
    assert len(run.result.messages) == 3


# --- failures ---------------------------------------------------------------------------------------------------------


async def _failed(client: Any, **options: Any) -> tuple[Run, Exception]:
    options = {"tools": TOOLS, **REQUEST, "on_interrupt": "raise", **options}
    async with running(client, **options) as run:
        try:
            async for _ in run:
                pass
        except Exception as error:
            checked(run.result)
            return run, error
    raise AssertionError("it did not fail")


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


async def test_an_error_in_the_first_request(serial: Serial) -> None:
    """Nothing came: the history is what was given."""
    async with serial.conversing(http_error(401, "authentication_error", "Who?")) as client:
        run, error = await _failed(client)
    assert isinstance(error, APIError)
    assert error.status_code == 401
    assert run.result == RunResult(RunStatus.ERROR, None, [USER], error=error.to_dict())
    assert RunResult.of(error) is run.result


async def test_a_lost_connection_while_tools_run() -> None:
    """The error comes at once, the tool is cancelled when the block is left, and nothing hangs."""
    endless = Endless()
    begun: list[Piece] = [message_start(), tool_start(0, "endless"), input_delta(0, "{}"), block_stop(0)]
    run, error = await _failed(LocalAPI([*begun, Broken()]).anthropic(), tools=[endless.tool])
    assert isinstance(error, StreamInterrupted)
    assert run.result.status is RunStatus.ERROR
    assert endless.cancelled or not endless.begun.is_set()


async def test_a_limit_in_the_middle() -> None:
    """A limit that is reached ends the run like any other error."""
    large = reply(tool_use("get_weather", {"city": "x" * 5000}, fragment_chars=5000))
    run, error = await _failed(LocalAPI([large]).anthropic(), limits=Limits(max_event_bytes=2000))
    assert isinstance(error, LimitError)
    assert run.result.status is RunStatus.ERROR


@pytest.mark.usefixtures("short_grace")
async def test_a_body_held_open_after_the_message() -> None:
    """The next turn does not wait for a peer that forgets to close."""
    run = await finished(LocalAPI([reply(tool_use("now", {})), Gate()], [DONE, Gate()]).anthropic())
    assert run.result.status is RunStatus.COMPLETED


@pytest.mark.usefixtures("short_grace")
async def test_nonsense_after_the_message() -> None:
    """The message is whole: what follows it in the body is nobody's business."""
    nonsense = b"data: nonsense\n\n" + encode_event({"type": "error", "error": {"type": "api_error"}})
    run = await finished(LocalAPI([reply(tool_use("now", {})), nonsense], [DONE, b"x" * 5000]).anthropic())
    assert run.result.status is RunStatus.COMPLETED
    limits = Limits(max_event_bytes=2000)
    run = await finished(LocalAPI([DONE, b"data: " + b"x" * 5000]).anthropic(), limits=limits)
    assert run.result.status is RunStatus.COMPLETED


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_wrong_client() -> None:
    """As for `stream`."""
    nothing: Any = object()
    with pytest.raises(UsageError, match="async"):
        eagerstream.run(nothing, **REQUEST)


async def test_before_it_is_entered() -> None:
    """Nothing is sent, and the result says that nothing came of it."""
    api = LocalAPI([DONE])
    run = eagerstream.run(api.anthropic(), **REQUEST)
    with pytest.raises(UsageError, match="async with"):
        await anext(run)
    assert api.exchanges == []
    assert checked(run.result).status is RunStatus.RUNNING


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


async def test_cancelled_by_an_observer_of_the_start_of_a_turn() -> None:
    """No response is read for a run that is over."""
    run = eagerstream.run(LocalAPI([DONE]).transport(), **REQUEST)
    run.observe(Steered(run, lambda run, event: run.cancel() if isinstance(event, TurnStart) else None))
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


@pytest.mark.parametrize("at_close", [True, False])
async def test_an_error_behind_the_message(*, at_close: bool) -> None:
    """The reply is whole: what happens to its connection then loses nothing."""
    error = OSError("gone")
    transport = OddTransport(6, at_close=error) if at_close else OddTransport(6, error)
    run = await finished(transport)
    assert run.result.status is RunStatus.COMPLETED


async def test_a_stop_iteration_of_the_transport_s() -> None:
    """It is an error that comes out, and not the end of the events."""
    with pytest.raises(RuntimeError):
        async with eagerstream.run(OddTransport(3, StopAsyncIteration()), **REQUEST) as run:
            async for _ in run:
                pass


async def test_two_consumers() -> None:
    """One of them would never be woken: it is told."""
    api = LocalAPI([message_start(), Gate()])
    async with running(api.transport()) as run:
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
