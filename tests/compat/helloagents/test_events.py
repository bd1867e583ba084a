"""Events of agents, and hooks: their form, what a run makes of them, and what becomes of hooks that fail."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import tool
from eagerstream.compat.helloagents import (
    AgentEvent,
    EventType,
    StreamBuffer,
    StreamEvent,
    StreamEventType,
    TraceLogger,
    agent_events,
    stream_to_json,
    stream_to_sse,
)
from eagerstream.compat.helloagents._events import call_hook
from eagerstream.errors import EagerStreamError
from eagerstream.testing import Fault, FaultKind, Faults, ReplayServer, Scenario, reply, text, thinking, tool_use
from eagerstream.wire import SSEDecoder
from tests.support import REQUEST, anthropic_client
from tests.tables import rows

EVENT = StreamEvent(StreamEventType.LLM_CHUNK, 1700000000.5, "小明", {"chunk": "你好", "step": 1})
DONE = reply(text("Done."), message_id="msg_done")


def test_types() -> None:
    """Their values are HelloAgents' own."""
    assert [type.value for type in StreamEventType] == [
        *("agent_start", "agent_finish", "step_start", "step_finish", "tool_call_start", "tool_call_finish"),
        *("llm_chunk", "thinking", "error"),
    ]


@rows("kinds", [StreamEventType, EventType])
def test_kinds_are_texts(kinds: type[StreamEventType | EventType]) -> None:
    """Programs print the kind of an event, and compare it with a text."""
    for kind in kinds:
        assert f"{kind}" == str(kind) == kind.value == kind


def test_sse() -> None:
    """Byte by byte what HelloAgents sends."""
    assert EVENT.to_sse() == (
        "event: llm_chunk\n"
        'data: {"type": "llm_chunk", "timestamp": 1700000000.5, "agent_name": "小明", '
        '"data": {"chunk": "你好", "step": 1}}\n'
        "\n"
    )


@rows(
    "data",
    [
        {"chunk": "a\n\nevent: error\rdata: {}\r\n\u2028"},
        {"n": float("nan")},
        {"o": object(), "s": "\ud800"},
        {1: b"\n"},
    ],
)
def test_nothing_gets_out_of_an_event(data: Any) -> None:
    """Whatever it holds: a reader sees one event, of this type, whose data is JSON."""
    event = StreamEvent.create(StreamEventType.ERROR, "a\nb", **{str(name): value for name, value in data.items()})
    (seen,) = SSEDecoder().feed(event.to_sse().encode())
    assert seen.event == "error"
    assert json.loads(seen.data, parse_constant=pytest.fail)["agent_name"] == "a\nb"


def test_buffer() -> None:
    """It keeps the newest hundred, in their order."""
    buffer = StreamBuffer()
    for number in range(150):
        kind = StreamEventType.ERROR if number % 50 == 0 else StreamEventType.LLM_CHUNK
        buffer.add(StreamEvent.create(kind, "a", n=number))
    assert [event.data["n"] for event in buffer.get_all()] == list(range(50, 150))
    assert [event.data["n"] for event in buffer.filter_by_type(StreamEventType.ERROR)] == [50, 100]
    buffer.get_all().clear()
    assert len(buffer.events) == 100
    buffer.clear()
    assert buffer.get_all() == []


async def three() -> AsyncIterator[StreamEvent]:
    for kind in (StreamEventType.AGENT_START, StreamEventType.LLM_CHUNK, StreamEventType.AGENT_FINISH):
        yield StreamEvent(kind, 1.0, "a", {})


@pytest.mark.anyio
async def test_streams() -> None:
    """As server-sent events and as lines, all or some types."""
    assert [sse.split("\n")[0] async for sse in stream_to_sse(three())] == [
        "event: agent_start",
        "event: llm_chunk",
        "event: agent_finish",
    ]
    lines = [line async for line in stream_to_json(three(), [StreamEventType.LLM_CHUNK])]
    assert lines == ['{"type": "llm_chunk", "timestamp": 1.0, "agent_name": "a", "data": {}}\n']
    assert len([sse async for sse in stream_to_sse(three(), include_types=[StreamEventType.AGENT_START])]) == 1


# --- runs -------------------------------------------------------------------------------------------------------------


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Hooks:
    """Write down what they are told."""

    def __init__(self) -> None:
        self.told: list[AgentEvent] = []
        names = ("on_start", "on_step", "on_tool_call", "on_finish", "on_error")
        self.all: dict[str, Any] = dict.fromkeys(names, self.tell)

    async def tell(self, event: AgentEvent) -> None:
        await anyio.lowlevel.checkpoint()
        self.told.append(event)


async def events_of(
    scenario: Scenario, *, faults: Faults | None = None, options: dict[str, Any] | None = None, **hooks: Any
) -> tuple[list[StreamEvent], Exception | None]:
    """What a run is told as, and what it raised."""
    events: list[StreamEvent] = []
    with ReplayServer(scenario, faults=faults) as server:
        async with anthropic_client(server.base_url) as client:
            with anyio.fail_after(20):
                async with eagerstream.run(client, tools=[add], **{**REQUEST, **(options or {})}) as run:
                    try:
                        async for event in agent_events(run, "bot", **hooks):
                            events.append(event)
                    except EagerStreamError as error:
                        return events, error
    return events, None


def shown(events: list[StreamEvent]) -> list[tuple[str, dict[str, Any]]]:
    return [(event.type.value, event.data) for event in events]


@pytest.mark.anyio
async def test_a_run() -> None:
    """Its events from start to finish; and the hooks, each before its event."""
    call = tool_use("add", {"a": 1, "b": 2}, id="t1")
    scenario = Scenario(reply(thinking("Hm."), text("I add."), call, stop_reason="tool_use"), DONE)
    hooks = Hooks()
    events, error = await events_of(scenario, **hooks.all)
    assert error is None
    told = shown(events)
    usage = told[-1][1].pop("total_tokens")
    assert usage > 0
    assert told == [
        ("agent_start", {"input_text": REQUEST["messages"][0]["content"]}),
        ("step_start", {"step": 1}),
        ("thinking", {"chunk": "Hm.", "step": 1}),
        ("llm_chunk", {"chunk": "I add.", "step": 1}),
        ("tool_call_start", {"tool_name": "add", "tool_call_id": "t1", "args": {"a": 1, "b": 2}, "step": 1}),
        (
            "tool_call_finish",
            {"tool_name": "add", "tool_call_id": "t1", "result": "3", "status": "success", "step": 1},
        ),
        ("step_finish", {"step": 1, "tool_calls": 1}),
        ("step_start", {"step": 2}),
        ("llm_chunk", {"chunk": "Done.", "step": 2}),
        ("step_finish", {"step": 2, "tool_calls": 0}),
        ("agent_finish", {"result": "Done.", "total_steps": 2, "status": "completed"}),
    ]
    assert [event.type for event in hooks.told] == [
        EventType.AGENT_START,
        EventType.STEP_START,
        EventType.TOOL_CALL,
        EventType.STEP_FINISH,
        EventType.STEP_START,
        EventType.STEP_FINISH,
        EventType.AGENT_FINISH,
    ]
    assert hooks.told[2].data["args"] == {"a": 1, "b": 2}
    assert "[tool_call] bot @ " in str(hooks.told[2])
    assert hooks.told[2].to_dict()["agent_name"] == "bot"


@pytest.mark.anyio
async def test_a_run_that_fails() -> None:
    """The error is an event, its hook is called, and it is raised; there is no finish."""
    hooks = Hooks()
    faults = Faults({0: [Fault(FaultKind.END, after_events=4)]})
    events, error = await events_of(Scenario(DONE), faults=faults, options={"on_interrupt": "raise"}, **hooks.all)
    assert error is not None
    assert events[-1].type is StreamEventType.ERROR
    assert events[-1].data == {"error": str(error), "error_type": "StreamInterrupted", "step": 1}
    assert hooks.told[-1].type is EventType.AGENT_ERROR


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "why"), [(FaultKind.END, "StreamInterrupted"), (FaultKind.SPLICE, None)])
async def test_a_step_that_begins_anew(kind: FaultKind, why: str | None) -> None:
    """What came of it is void, which is told; nothing has failed, and no hook hears of an error."""
    hooks = Hooks()
    faults = Faults({0: [Fault(kind, after_events=4)]})
    events, error = await events_of(Scenario(DONE), faults=faults, options={"restart_delay_s": 0}, **hooks.all)
    assert error is None
    (void,) = [event.data for event in events if event.type is StreamEventType.ERROR]
    assert (void["restarted"], void["error_type"], void["step"]) == (True, why, 1)
    assert EventType.AGENT_ERROR not in [event.type for event in hooks.told]
    assert events[-1].data["status"] == "completed"


@pytest.mark.anyio
async def test_steps_that_do_not_suffice() -> None:
    """As HelloAgents tells of it."""
    scenario = Scenario(reply(tool_use("add", {"a": 1, "b": 2})))
    events, _ = await events_of(scenario, options={"max_turns": 1})
    assert (events[-1].data["status"], events[-1].data["max_steps_reached"]) == ("limit", True)


@pytest.mark.anyio
async def test_ending_it_early() -> None:
    """The run is the caller's: leaving the iteration leaves it, and its block ends it."""
    with ReplayServer(Scenario(DONE)) as server:
        async with anthropic_client(server.base_url) as client:
            with anyio.fail_after(20):
                async with eagerstream.run(client, **REQUEST) as run:
                    events = agent_events(run)
                    assert (await anext(events)).type is StreamEventType.AGENT_START
                    await events.aclose()
                    await run.finish()
    assert run.result.status.value == "completed"


# --- hooks that fail --------------------------------------------------------------------------------------------------


def records(logger: TraceLogger) -> list[tuple[str, dict[str, Any]]]:
    logger.finalize()
    lines = [json.loads(line) for line in logger.jsonl_path.read_text().splitlines()]
    return [(line["event"], line["payload"]) for line in lines]


@pytest.mark.anyio
async def test_a_hook_that_raises(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run goes on; the log has the class of the error, the trace its text."""

    async def fail(event: AgentEvent) -> None:
        raise ValueError("private")

    logger = TraceLogger(tmp_path)
    events, error = await events_of(Scenario(DONE), on_start=fail, on_finish=fail, trace=logger)
    assert error is None
    assert events[-1].type is StreamEventType.AGENT_FINISH
    assert records(logger) == [
        ("hook_error", {"event_type": "agent_start", "error": "private"}),
        ("hook_error", {"event_type": "agent_finish", "error": "private"}),
    ]
    assert "private" not in caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.anyio
async def test_a_hook_that_takes_too_long(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is cancelled, which is told, and the run goes on."""
    was_cancelled = []

    async def hang(event: AgentEvent) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            was_cancelled.append(event.type)
            raise

    logger = TraceLogger(tmp_path)
    with caplog.at_level(logging.WARNING):
        events, _ = await events_of(Scenario(DONE), on_step=hang, hook_timeout_s=0.01, trace=logger)
    assert events[-1].type is StreamEventType.AGENT_FINISH
    assert was_cancelled == [EventType.STEP_START, EventType.STEP_FINISH]
    assert records(logger)[0] == ("hook_timeout", {"event_type": "step_start", "timeout": 0.01})
    assert len(caplog.records) == 2


@pytest.mark.anyio
async def test_odd_hooks(tmp_path: Path) -> None:
    """None, a plain function, and one whose own time-out passes: that is an error of its own, and no time-out of ours."""
    event = AgentEvent.create(EventType.AGENT_START, "bot")
    told: list[AgentEvent] = []

    async def times_out(event: AgentEvent) -> None:
        raise TimeoutError

    logger = TraceLogger(tmp_path)
    plain: Any = told.append
    for hook in (None, plain, times_out):
        await call_hook(hook, event, trace=logger)
    assert told == [event]
    assert [name for name, _ in records(logger)] == ["hook_error"]


@pytest.mark.anyio
async def test_cancelling_a_hook() -> None:
    """Who waits for a hook can be cancelled: that is no time-out, and passes through."""
    begun = anyio.Event()

    async def hang(event: AgentEvent) -> None:
        begun.set()
        await anyio.sleep_forever()

    async def wait() -> None:
        await call_hook(hang, AgentEvent.create(EventType.AGENT_START, "bot"))
        pytest.fail("goes on after it was cancelled")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await begun.wait()
        tasks.cancel_scope.cancel()
