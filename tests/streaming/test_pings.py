"""Signs of life: `Ping`s for those who ask, and the age of the last byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import EarlyCalls, Ping, UsageError, tool
from eagerstream.streaming import FeedEnd
from eagerstream_testing import encode_event
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_start,
    block_stop,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import Gate, LocalAPI, Piece

pytestmark = pytest.mark.anyio

PING = {"type": "ping"}
TEXT = [block_start(0, "text", text=""), PING, PING, text_delta(0, "Hi"), block_stop(0)]
REPLY = [message_start(), PING, *TEXT, message_delta("end_turn"), MESSAGE_STOP]
CALL = [message_start(), tool_start(0, "look"), block_stop(0)]
END = [message_delta("tool_use"), MESSAGE_STOP]


def kinds(events: Sequence[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


class Seen:
    """An observer that keeps what it sees."""

    def __init__(self, *, pings: bool) -> None:
        self.wants_pings = pings
        self.events: list[Any] = []

    def take(self, events: Any) -> None:
        self.events += events

    def end(self, end: FeedEnd) -> None:
        pass


@pytest.mark.parametrize("asks", [True, False])
async def test_who_asks_gets_pings(asks: bool) -> None:
    """The consumer by an option, an observer by an attribute, and nobody else."""
    with anyio.fail_after(10):
        async with eagerstream.stream(LocalAPI(REPLY).anthropic(), **REQUEST, pings=asks) as stream:
            curious, other = Seen(pings=True), Seen(pings=False)
            stream.observe(curious)
            stream.observe(other)
            events = [event async for event in stream]
    assert kinds(events).count("Ping") == (3 if asks else 0)
    assert [event for event in events if not isinstance(event, Ping)] == other.events
    assert kinds(curious.events).count("Ping") == 3
    assert "Ping" not in kinds(other.events)


async def test_pings_that_come_together_are_one() -> None:
    """In one chunk, and while they wait for a consumer that sleeps: a peer that pings without end fills no memory."""
    chunk = encode_event(PING) * 5
    end = Gate()
    body: list[Piece] = [message_start(), *[chunk] * 1000, end, *REPLY[1:]]
    with anyio.fail_after(10):
        async with eagerstream.stream(LocalAPI(body).anthropic(), **REQUEST, pings=True) as stream:
            await end.reached.wait()
            end.opened.set()
            events = [event async for event in stream]
    assert 0 < kinds(events).count("Ping") < 300


async def test_no_boolean() -> None:
    with pytest.raises(UsageError, match="pings must be True or False"):
        eagerstream.stream(LocalAPI(REPLY).anthropic(), **REQUEST, pings=1)  # type: ignore[call-overload]


async def _source(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def test_calls_ignore_pings() -> None:
    """A loop that asks for them may feed all of its events."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    body = encode_event(PING).join(map(encode_event, [*CALL, *END]))
    with anyio.fail_after(10):
        async with EarlyCalls([look]) as calls, eagerstream.events(_source(body), pings=True) as stream:
            async for event in stream:
                calls.feed(event)
            assert [call.text for call in await calls.finish()] == ["seen"]


async def test_the_age_of_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows in a silence, a ping ends it, and there is none while no response is awaited."""
    now_s = 100.0
    monkeypatch.setattr("eagerstream.streaming._deadline.time", SimpleNamespace(monotonic=lambda: now_s))
    silent, alive = Gate(), Gate()
    ages: list[float | None] = []

    @tool(start="message")
    async def look() -> str:
        """Look."""
        ages.append(run.idle_s)
        return "seen"

    first: list[Piece] = [message_start(), silent, PING, alive, *TEXT, message_delta("end_turn"), MESSAGE_STOP]
    with anyio.fail_after(10):
        async with eagerstream.stream(LocalAPI(first).anthropic(), **REQUEST) as stream:
            ages.append(stream.idle_s)
            await silent.reached.wait()
            now_s += 7
            ages.append(stream.idle_s)
            silent.opened.set()
            await alive.reached.wait()
            ages.append(stream.idle_s)
            alive.opened.set()
            await stream.finish()
            ages.append(stream.idle_s)
        assert ages == [None, 7, 0, None]
        ages.clear()
        api = LocalAPI([*CALL, *END], REPLY)
        async with eagerstream.run(api.anthropic(), **REQUEST, tools=[look]) as run:
            await run.finish()
            assert run.idle_s is None
        assert ages == [None]
