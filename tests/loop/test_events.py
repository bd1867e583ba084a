"""The events of a run, in their order."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from eagerstream import ToolStart, ToolStop, TurnStop
from eagerstream.inputs import GrowingInput
from eagerstream.loop import Restarted, TurnStart
from eagerstream.tools import Reject, tool
from eagerstream_testing import reply, tool_use
from eagerstream_wire import InputDelta
from tests.loop.cases import cut_off, one_call
from tests.loop.serial import DONE, TOOLS, Serial, events_of, finished, now, running
from tests.streams import MESSAGE_STOP, message_delta, message_start
from tests.support import Gate, LocalAPI, Piece, all_tasks_blocked, whole_call

pytestmark = pytest.mark.anyio


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


async def test_inputs_of_a_run_grow() -> None:
    """The inputs in the events are `GrowingInput`s."""
    events, _ = await events_of(LocalAPI([reply(tool_use("get_weather", {"city": "Oslo"}))], [DONE]).anthropic())
    deltas = [event for event in events if isinstance(event, InputDelta)]
    assert deltas
    assert isinstance(deltas[0].input, GrowingInput)
    assert await deltas[0].input.field("city") == "Oslo"


async def test_a_retry_is_told(serial: Serial) -> None:
    """Who watches learns that what came is void: one `Restarted`, no second `TurnStart`, one `TurnStop`."""
    async with serial.conversing(cut_off("a"), one_call("b"), DONE) as client:
        async with running(client, tools=TOOLS, on_truncated="retry") as run:
            events = [event async for event in run]
    marks = [event for event in events if isinstance(event, TurnStart | TurnStop | Restarted | ToolStart)]
    assert [type(event).__name__ for event in marks] == [
        "TurnStart",
        "Restarted",
        "ToolStart",
        "TurnStop",
        "TurnStart",
        "TurnStop",
    ]
    restarted = marks[1]
    assert isinstance(restarted, Restarted)
    assert (restarted.turn, restarted.reason, restarted.usage_is_lower_bound) == (1, "max_tokens", False)
    assert restarted.usage["output_tokens"] > 0
    assert [made.turn for made in run.result.calls] == [1, 1]


async def test_empty_is_told(serial: Serial) -> None:
    """A model that ends without a word is told of as such, and nothing is sent again."""
    async with serial.conversing(one_call("a"), reply()) as client:
        run = await finished(client)
    assert run.result.is_empty
    assert len(serial.bodies) == 2


async def test_a_turn_stops_after_its_calls() -> None:
    """Each call's `ToolStop` comes before its `TurnStop`, also of one that was kept from running."""
    begun, waits = anyio.Event(), anyio.Event()

    @tool
    async def hold() -> str:
        begun.set()
        await waits.wait()
        return "held"

    gate = Gate()
    end: list[Piece] = [gate, message_delta("max_tokens"), MESSAGE_STOP]
    api = LocalAPI([message_start(), *whole_call(0, "hold"), *whole_call(1, "now"), *whole_call(2, "now"), *end])
    async with running(api.transport(), tools=[now, hold], max_concurrency=1) as run:
        await begun.wait()
        gate.opened.set()
        await all_tasks_blocked()
        waits.set()
        names = [type(event).__name__ async for event in run]
    assert names.count("ToolStop") == 3
    assert names[-1] == "TurnStop"


async def _never(_: object) -> bool:
    await anyio.sleep_forever()
    return True


@pytest.mark.parametrize("kind", ["held", "waits for approval", "rejected"])
async def test_each_call_of_a_turn_stops(kind: str) -> None:
    """Before its turn does, also where it never began."""
    kinds: dict[str, dict[str, Any]] = {
        "held": {"start": "message"},
        "waits for approval": {"approve": _never},
        "rejected": {"guard": lambda _: Reject("No.", cut=True)},
    }
    options = kinds[kind]

    @tool(**options)
    async def pay() -> None:
        raise AssertionError

    api = LocalAPI([message_start(), *whole_call(0, "pay"), message_delta("max_tokens"), MESSAGE_STOP], [DONE])
    async with running(api.transport(), tools=[pay]) as run:
        names = [type(event) async for event in run if isinstance(event, ToolStart | ToolStop | TurnStop)]
    assert names[:2] == [ToolStop, TurnStop]
