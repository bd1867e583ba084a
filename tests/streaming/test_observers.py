"""Observers that are told of requests: in which task, and what is made for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.to_thread
import pytest

import eagerstream
from eagerstream import InputDelta, ToolStart, tool
from eagerstream.errors import APIError
from eagerstream.streaming import EventFeed, FeedEnd, on_every_feed, on_feed
from eagerstream_testing import error_event, reply, text, tool_use
from tests.streaming.streams import finished
from tests.streams import REQUEST
from tests.virtual_time import Playing

pytestmark = pytest.mark.anyio

place: ContextVar[str] = ContextVar("place", default="outside")


class Placing:
    """Sets a context variable where things happen, and counts what it is shown."""

    wants_deltas = False

    def __init__(self) -> None:
        self.requests: list[Mapping[str, Any]] = []
        self.events: list[Any] = []
        self.ended = 0

    def sending(self, request: Mapping[str, Any]) -> None:
        self.requests.append(request)
        place.set(f"request {len(self.requests)}")

    def take(self, events: Sequence[Any]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, ToolStart):
                place.set(f"tool {event.call.name}")

    def end(self, _: FeedEnd) -> None:
        self.ended += 1


class Where(Playing):
    """Remembers the context that each request is sent in."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.places: list[str] = []

    def open(self, request: Any, limits: Any) -> Any:
        self.places.append(place.get())
        return super().open(request, limits)


@tool
async def on_the_loop(city: str) -> str:
    """Tell."""
    await anyio.lowlevel.checkpoint()
    return place.get() + city


@tool
def in_a_thread(city: str) -> str:
    """Tell."""
    return place.get() + city


CALLS = reply(tool_use("on_the_loop", {"city": ""}), tool_use("in_a_thread", {"city": ""}))
DONE = reply(text("Done."), message_id="msg_done")


async def test_what_is_set_holds_for_the_request_and_for_the_tool() -> None:
    """Each in its own task: the request is sent in what `sending` set, each tool runs in what its `ToolStart` set."""
    observer = Placing()
    transport = Where(CALLS, DONE)
    run = eagerstream.run(transport, tools=[on_the_loop, in_a_thread], **REQUEST)
    run.observe(observer)
    async with run:
        await run.finish()
    assert transport.places == ["request 1", "request 2"]
    results = {call.name: call.result and call.result["content"] for call in run.result.calls}
    assert results == {"on_the_loop": "tool on_the_loop", "in_a_thread": "tool in_a_thread"}
    assert place.get() == "outside"
    assert observer.requests[0]["messages"] == REQUEST["messages"]
    assert len(observer.requests[1]["messages"]) == 3
    assert observer.ended == 1


async def test_a_single_request_is_told_of() -> None:
    """`stream` as well."""
    observer = Placing()
    transport = Where(DONE)
    stream = eagerstream.stream(transport, **REQUEST)
    stream.observe(observer)
    async with stream:
        await stream.finish()
    assert transport.places == ["request 1"]
    assert [request["model"] for request in observer.requests] == [REQUEST["model"]]


@pytest.mark.parametrize("consumer", ["finishes", "iterates"])
async def test_deltas_are_made_for_who_wants_them(consumer: str) -> None:
    """An observer that does without sees none where nobody else wants any; with a consumer it sees them too."""
    observer = Placing()
    run = eagerstream.run(Playing(CALLS, DONE), tools=[on_the_loop, in_a_thread], **REQUEST)
    run.observe(observer)
    async with run:
        if consumer == "iterates":
            async for _ in run:
                pass
        await run.finish()
    assert any(isinstance(event, InputDelta) for event in observer.events) == (consumer == "iterates")


@pytest.mark.parametrize("wants_chunks", [False, True])
async def test_chunks_without_events(*, wants_chunks: bool) -> None:
    """Only who asks for them is shown them: the marks do, and nobody else expects an empty sequence."""

    class Counting:
        def __init__(self) -> None:
            self.wants_deltas = False
            self.wants_chunks = wants_chunks
            self.empty = 0

        def take(self, events: Sequence[Any]) -> None:
            self.empty += not events

        def end(self, end: FeedEnd) -> None: ...

    observer = Counting()
    run = eagerstream.run(Playing(CALLS, DONE), tools=[on_the_loop, in_a_thread], **REQUEST)
    run.observe(observer)
    async with run:
        await run.finish()
    assert bool(observer.empty) is wants_chunks


async def test_an_observer_that_fails_at_a_request_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """As one that fails at an event; the run goes on."""

    class Failing(Placing):
        def sending(self, request: Mapping[str, Any]) -> None:
            raise RuntimeError("secret words")

    observer, other = Failing(), Placing()
    run = eagerstream.run(Playing(DONE), **REQUEST)
    run.observe(observer)
    run.observe(other)
    async with run:
        await run.finish()
    assert ([type(event).__name__ for event in observer.events], observer.ended) == (["TurnStart"], 0)
    assert other.ended == 1
    assert "Failing failed as an observer (RuntimeError)" in caplog.text
    assert "secret" not in caplog.text


async def test_every_feed_of_the_process() -> None:
    """In tasks that began before it, too; until it is stopped, which may be said twice."""
    begun: list[EventFeed[Any]] = []
    nested: list[EventFeed[Any]] = []
    go = anyio.Event()

    async def early() -> None:
        await go.wait()
        await finished(DONE)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(early)
        await anyio.lowlevel.checkpoint()
        stop = on_every_feed(begun.append)
        go.set()
    with on_feed(nested.append):
        stream = await finished(DONE)
    assert (len(begun), len(nested)) == (2, 1)
    assert begun[1] is nested[0] is stream
    stop()
    stop()
    await finished(DONE)
    assert len(begun) == 2


async def test_how_a_stream_ended() -> None:
    """An observer learns whether it was whole, and what it failed of, in words without the reply's own."""
    ends: list[FeedEnd] = []

    class Ending(Placing):
        def end(self, how: FeedEnd) -> None:
            ends.append(how)

    for transport in (Playing(DONE), Playing(reply(text("Let me"), error_event("overloaded_error", "no room")))):
        with suppress(APIError):
            stream = eagerstream.stream(transport, **REQUEST)
            stream.observe(Ending())
            async with stream:
                await stream.finish()
    whole, failed = ends
    assert (whole.status, whole.error) == ("completed", None)
    assert failed.status == "error"
    assert failed.error is not None
    assert failed.error["type"] == "APIError"
