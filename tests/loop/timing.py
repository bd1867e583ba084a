"""Runs whose every moment is known: responses of timed fragments, tools of known length, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import Recording, RunningCall, tool
from eagerstream.loop import RunLatency
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.virtual_time import Playing, in_virtual_time, timed

DONE = timed((0.25, message_start(id="msg_2")), (0.5, message_delta("end_turn")), (0.75, MESSAGE_STOP))


@tool
async def quick(city: str) -> str:
    """Half a second."""
    await anyio.sleep(0.5)
    return city


@tool
async def slow(city: str, call: RunningCall) -> str:
    """Two seconds, and tells of the first."""
    await anyio.sleep(1)
    await call.progress("half")
    await anyio.sleep(0.5)
    await call.progress("more")
    await anyio.sleep(0.5)
    return city


def call_events(index: int, name: str, start_s: float, *, fragments: Sequence[str], gap_s: float = 0.5) -> list[Any]:
    """The events of a call: a fragment each `gap_s`, the end with the last of them."""
    events: list[Any] = [(start_s, tool_start(index, name))]
    for number, fragment in enumerate(fragments, 1):
        events.append((start_s + number * gap_s, input_delta(index, fragment)))
    return [*events, (start_s + len(fragments) * gap_s, block_stop(index))]


def calls(*events: tuple[float, Any], stop_s: float, reason: str = "tool_use") -> Recording:
    """A reply with these events."""
    end = (stop_s, message_delta(reason)), (stop_s, MESSAGE_STOP)
    return timed((0.25, message_start(id="msg_1")), *sorted(events, key=lambda event: event[0]), *end)


CITY = ['{"city": ', '"Paris"}']


def latency_of(*turns: Recording | Any, tools: Sequence[Any], **options: Any) -> RunLatency:
    """Of a run with these replies, in virtual time."""

    async def main() -> RunLatency:
        transport = Playing(*turns)
        async with eagerstream.run(transport, tools=tools, clock=anyio.current_time, **REQUEST, **options) as run:
            await run.finish()
        return run.latency

    return in_virtual_time(main)


def about(value: float | None) -> Any:
    """Nothing takes time there but what waits."""
    return None if value is None else pytest.approx(value, abs=1e-6)
