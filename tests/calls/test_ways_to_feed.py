"""What `EarlyCalls` takes: bytes, wire events, and the events of `eagerstream.events`; the calls are the same."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream import EagerStreamError, EarlyCalls, ItemStream, ProtocolError, Recording, Reject, tool
from eagerstream.tools import CallState
from eagerstream_testing import encode_event
from eagerstream_wire import WireDecoder
from tests.streams import (
    MESSAGE_STOP,
    block_stop,
    each_recording,
    input_delta,
    message_delta,
    message_start,
    random_pieces,
    tool_start,
    wire_events,
)

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def _by_bytes(calls: EarlyCalls, body: bytes) -> None:
    for piece in random_pieces(body, seed=7):
        calls.feed(piece)


async def _by_wire_events(calls: EarlyCalls, body: bytes) -> None:
    for event in WireDecoder().feed(body):
        calls.feed(event)


async def _source(body: bytes) -> AsyncIterator[bytes]:
    for piece in random_pieces(body, seed=7):
        yield piece
        await anyio.lowlevel.checkpoint()


async def _by_events(calls: EarlyCalls, body: bytes) -> None:
    async with eagerstream.events(_source(body), output={"type": "object"}, output_mode="prompted") as stream:
        async for event in stream:
            calls.feed(event)


async def _by_observing(calls: EarlyCalls, body: bytes) -> None:
    async with eagerstream.events(_source(body), calls=calls) as stream:
        await stream.finish()


WAYS = [_by_bytes, _by_wire_events, _by_events, _by_observing]


async def _ran(way: Callable[[EarlyCalls, bytes], Any], body: bytes) -> Any:
    """What the calls of a response come to."""
    names = {
        event["content_block"].get("name")
        for event in wire_events(body)
        if event["type"] == "content_block_start" and event["content_block"].get("type") == "tool_use"
    }

    async def echo(given: dict[str, Any]) -> str:
        return json.dumps(given, sort_keys=True)

    tools = [tool(echo, definition={"name": name, "input_schema": {"type": "object"}}) for name in sorted(names)]
    with anyio.fail_after(20):
        async with EarlyCalls(tools) as calls:
            with suppress(EagerStreamError):
                await way(calls, body)
            done = await calls.finish()
            return [(call.id, call.name, call.state, call.text, call.input.raw) for call in done]


@each_recording
async def test_every_way_gives_the_same_calls(recording: Path) -> None:
    """Of recorded responses, also of those that end with an error."""
    body = Recording.load(recording).body
    first, *others = [await _ran(way, body) for way in WAYS]
    for other in others:
        assert other == first


def _body(*events: Any) -> bytes:
    return b"".join(encode_event(event) for event in events)


CALLS = _body(
    message_start(),
    *(tool_start(0, "add", id="a"), input_delta(0, '{"a": 1, "b": 2}'), block_stop(0)),
    *(tool_start(1, "add", id="b"), input_delta(1, '{"a": 2, "b": 2}'), block_stop(1)),
)
END = _body(message_delta("tool_use"), MESSAGE_STOP)


async def test_a_tool_runs_while_the_response_continues() -> None:
    """With `calls=`, at the end of its own input, and before the consumer of the events has looked at it."""
    ran, may_end = anyio.Event(), anyio.Event()

    @tool
    async def now() -> str:
        """Run."""
        ran.set()
        return "now"

    async def body() -> AsyncIterator[bytes]:
        yield _body(message_start(), tool_start(0, "now"), input_delta(0, "{}"), block_stop(0))
        await may_end.wait()
        yield END

    with anyio.fail_after(20):
        async with EarlyCalls([now]) as calls, eagerstream.events(body(), calls=calls) as stream:
            await ran.wait()
            may_end.set()
            await stream.finish()
            assert [call.text for call in await calls.finish()] == ["now"]


async def test_streaming_tools_and_guards() -> None:
    """A tool reads an input that somebody else's reader lets grow, and a guard sees each fragment of it."""
    seen: list[Any] = []

    @tool
    async def read(items: ItemStream[int]) -> str:
        """Read."""
        return str([item async for item in items])

    def look(partial: Any) -> Reject | None:
        seen.append(dict(partial))
        return Reject("no") if partial.get("path") == "/etc" else None

    @tool(guard=look)
    async def write(path: str, text: str) -> str:
        """Write."""
        return path

    async def body() -> AsyncIterator[bytes]:
        for event in (
            *(message_start(), tool_start(0, "read"), input_delta(0, '{"items": [1,'), input_delta(0, "2]}")),
            *(block_stop(0), tool_start(1, "write"), input_delta(1, '{"path": "/etc"'), input_delta(1, ', "text": "')),
            *(input_delta(1, '"}'), block_stop(1)),
        ):
            yield encode_event(event)
            await anyio.lowlevel.checkpoint()
        yield END

    with anyio.fail_after(20):
        async with EarlyCalls([read, write]) as calls, eagerstream.events(body(), calls=calls) as stream:
            await stream.finish()
            assert [call.text for call in await calls.finish()] == ["[1, 2]", "no"]
    assert seen == [{"path": "/etc"}]


@pytest.mark.parametrize("way", WAYS)
async def test_a_response_that_breaks_off(way: Callable[[EarlyCalls, bytes], Any]) -> None:
    """What was complete has run; what was held does not start."""

    @tool(start="message")
    async def later() -> str:
        """Run at the end."""
        raise AssertionError

    body = CALLS + _body(tool_start(2, "later"), input_delta(2, "{}"), block_stop(2), tool_start(3, "add"))
    with anyio.fail_after(20):
        async with EarlyCalls([add, later]) as calls:
            with suppress(EagerStreamError):
                await way(calls, body)
            done = await calls.finish()
    assert [(call.state, call.text) for call in done[:2]] == [(CallState.ANSWERED, "3"), (CallState.ANSWERED, "4")]
    assert [call.ran for call in done[2:]] == [False] * len(done[2:])


@pytest.mark.parametrize("way", WAYS)
async def test_responses_one_after_the_other(way: Callable[[EarlyCalls, bytes], Any]) -> None:
    """Also after one that broke off in the middle of an event, or that starts anew."""
    bodies = [CALLS + END, CALLS + b"data: {", CALLS + CALLS.replace(b'"a"', b'"c"') + END, CALLS + END]
    found: list[Any] = []
    with anyio.fail_after(20):
        async with EarlyCalls([add]) as calls:
            for body in bodies:
                with suppress(EagerStreamError):
                    await way(calls, body)
                found.append([call.text for call in await calls.finish()])
            assert calls.message["stop_reason"] == "tool_use"
            assert [block["type"] for block in calls.message["content"]] == ["tool_use"] * 2
    assert [found[0], found[1], found[3]] == [["3", "4"]] * 3
    assert found[2][-2:] == ["3", "4"]


async def test_the_message_is_that_of_the_last_response() -> None:
    """Also if the next one comes in another way."""
    other = (CALLS + END).replace(b"msg_", b"msg_other_")
    with anyio.fail_after(20):
        async with EarlyCalls([add]) as calls:
            for way, body in ((_by_events, CALLS + END), (_by_bytes, other), (_by_observing, CALLS + END)):
                await way(calls, body)
                await calls.finish()
                assert calls.message["id"].startswith("msg_other_") == (body is other)


@pytest.mark.parametrize("way", [_by_bytes, _by_observing])
async def test_a_fault_in_the_middle_of_a_chunk(way: Callable[[EarlyCalls, bytes], Any]) -> None:
    """The calls behind it run all the same; whoever waits for the calls gets the error first."""
    twice = _body(tool_start(2, "add", id="a"), input_delta(2, "{}"), block_stop(2))
    last = _body(tool_start(3, "add", id="d"), input_delta(3, '{"a": 3, "b": 3}'), block_stop(3))
    errors: list[Exception] = []
    with anyio.fail_after(20):
        async with EarlyCalls([add]) as calls:
            for waiting in (lambda: _whole(way, calls, CALLS + twice + last + END), calls.finish):
                try:
                    await waiting()
                except ProtocolError as error:
                    errors.append(error)
            assert [call.text for call in await calls.finish()] == ["3", "4", "6"]
    assert [str(error) for error in errors] == ["two calls have the id 'a': their results could not be told apart"]


async def _whole(way: Callable[[EarlyCalls, bytes], Any], calls: EarlyCalls, body: bytes) -> None:
    if way is _by_bytes:
        calls.feed(body)
    else:
        await way(calls, body)


async def test_calls_that_were_not_entered() -> None:
    """Whoever waits for them is told."""
    calls = EarlyCalls([add])
    async with eagerstream.events(_source(CALLS + END), calls=calls) as stream:
        await stream.finish()
    with pytest.raises(eagerstream.UsageError, match="enter the calls first"):
        await calls.finish()
