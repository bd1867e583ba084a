"""`EventBuffer`: events from the task that reads to the one that consumes, merged on the way."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st

from eagerstream.errors import UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.limits import DEFAULT_LIMITS
from eagerstream.streaming._event_buffer import BufferMode, EventBuffer
from eagerstream.streaming._thinning import Thinning
from eagerstream_wire import (
    BlockStart,
    BlockStop,
    InputAccumulator,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    PartialJSON,
    TextDelta,
    ThinkingDelta,
    apply_patch,
)
from eagerstream_wire._assistant_message import empty_message
from tests.streams import input_delta, one_by_one, tool_start
from tests.support import all_tasks_blocked

pytestmark = pytest.mark.anyio


def an_input(index: int = 0) -> GrowingInput:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": "tool", "input": {}}
    return GrowingInput(index, block, parser=PartialJSON, limits=DEFAULT_LIMITS)


async def drained(buffer: EventBuffer[Any], thinning: Thinning[Any] | None = None) -> list[Any]:
    """What is left in a buffer that is closed here."""
    buffer.close()
    events = []
    while True:
        try:
            events.append(await (thinning or buffer).get())
        except StopAsyncIteration:
            return events


# --- the buffer -------------------------------------------------------------------------------------------------------


async def test_events_come_out_in_order() -> None:
    """The ordinary case: a consumer that keeps up sees each event as it was put, deltas unmerged."""
    buffer: EventBuffer[Any] = EventBuffer()
    events = [BlockStart(0, {}), TextDelta(0, "a"), TextDelta(0, "b"), ThinkingDelta(1, "c"), BlockStop(0, {})]
    for event in events:
        buffer.put(event)
    assert all(out is event for out, event in zip(await drained(buffer), events, strict=True))


async def test_get_waits_for_put() -> None:
    """A consumer that is ahead waits, and is woken by the next event."""
    buffer: EventBuffer[Any] = EventBuffer()
    got: list[Any] = []

    async def consume() -> None:
        got.append(await buffer.get())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        await all_tasks_blocked()
        assert got == []
        buffer.put(TextDelta(0, "a"))
    assert got == [TextDelta(0, "a")]


async def test_a_full_buffer_merges_deltas() -> None:
    """A slow consumer loses no text, and the buffer does not grow with what it is behind."""
    buffer: EventBuffer[Any] = EventBuffer(capacity=4)
    input = an_input()
    buffer.put(InputStart(input))
    for number in range(1000):
        buffer.put(InputDelta(input, f"{number},"))
        buffer.put(TextDelta(1, f"{number};"))
        buffer.put(ThinkingDelta(1, f"{number}."))
    buffer.put(InputStop(input))
    events = await drained(buffer)
    assert len(events) <= 8  # four as they came, a merged delta for each of three blocks, and the stop
    assert "".join(e.fragment for e in events if isinstance(e, InputDelta)) == "".join(f"{n}," for n in range(1000))
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "".join(f"{n};" for n in range(1000))
    assert "".join(e.thinking for e in events if isinstance(e, ThinkingDelta)) == "".join(f"{n}." for n in range(1000))


async def test_merged_deltas_carry_all_changes() -> None:
    """Whoever rebuilds the value from the changes gets the same value, however slow it is."""
    buffer: EventBuffer[Any] = EventBuffer(capacity=2)
    accumulator = InputAccumulator(reports=True)
    for wire_event in [tool_start(0), *(input_delta(0, piece) for piece in one_by_one('{"a": "xy", "b": [1, 2]}'))]:
        for event in accumulator.feed(wire_event):
            buffer.put(event)
    deltas = [event for event in await drained(buffer) if isinstance(event, InputDelta)]
    assert len(deltas) == 2
    value: Any = None
    for delta in deltas:
        assert delta.patch is not None
        value = apply_patch(value, delta.patch)
    assert value == {"a": "xy", "b": [1, 2]}
    assert [*deltas[0].finished, *deltas[1].finished] == ["a", "b"]


async def test_changes_that_are_known_in_part_are_none() -> None:
    """A delta merged of some that carry their changes and some that do not would show a part as the whole."""
    buffer: EventBuffer[Any] = EventBuffer(capacity=1)
    input = an_input()
    buffer.put(InputStart(input))
    buffer.put(InputDelta(input, "a"))
    buffer.put(InputDelta(input, "b", [{"op": "append", "path": "/x", "value": "b"}], ["x"]))
    (delta,) = [event for event in await drained(buffer) if isinstance(event, InputDelta)]
    assert (delta.fragment, delta.patch) == ("ab", None)


async def test_what_is_not_a_delta_is_always_taken_in() -> None:
    """A full buffer drops nothing: starts and stops go in all the same."""
    buffer: EventBuffer[Any] = EventBuffer(capacity=2)
    events = [BlockStart(number, {}) for number in range(10)]
    for event in events:
        buffer.put(event)
    assert await drained(buffer) == events


async def test_blocks_of_different_messages_are_not_merged() -> None:
    """Two replies both have a block 0: text of the second must not move into the first."""
    buffer: EventBuffer[Any] = EventBuffer(capacity=1)
    for text in ("first", "second"):
        for event in (
            MessageStart(empty_message()),
            BlockStart(0, {}),
            TextDelta(0, text),
            BlockStop(0, {}),
            MessageStop(empty_message(), None),
        ):
            buffer.put(event)
    assert [e.text for e in await drained(buffer) if isinstance(e, TextDelta)] == ["first", "second"]


async def test_wait_makes_the_producer_wait() -> None:
    """With "wait" nothing is merged: the producer goes on when there is room."""
    buffer: EventBuffer[Any] = EventBuffer(mode="wait", capacity=2)
    put: list[int] = []

    async def produce() -> None:
        for number in range(6):
            await buffer.room()
            buffer.put(TextDelta(0, str(number)))
            put.append(number)
        buffer.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(produce)
        await all_tasks_blocked()
        assert put == [0, 1]
        assert await buffer.get() == TextDelta(0, "0")
        await all_tasks_blocked()
        assert put == [0, 1, 2]
        rest: list[Any] = []
        while len(rest) < 5:
            rest.append(await buffer.get())
    assert rest == [TextDelta(0, str(number)) for number in range(1, 6)]


async def test_discard_lets_the_producer_go_on() -> None:
    """Where nobody wants the events any more, nothing waits for room, and nothing is kept."""
    buffer: EventBuffer[Any] = EventBuffer(mode="wait", capacity=1)
    buffer.put(TextDelta(0, "a"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(buffer.room)
        await all_tasks_blocked()
        buffer.discard()
    await buffer.room()
    buffer.put(TextDelta(0, "b"))
    assert await drained(buffer) == []


async def test_the_end_comes_after_the_events() -> None:
    """An error is raised once all that came before it is handed out, and then again and again."""
    buffer: EventBuffer[Any] = EventBuffer()
    buffer.put(TextDelta(0, "a"))
    buffer.close(ValueError("first"))
    buffer.close(ValueError("second"))
    buffer.put(TextDelta(0, "too late"))
    assert await buffer.get() == TextDelta(0, "a")
    for _ in range(2):
        with pytest.raises(ValueError, match="first"):
            await buffer.get()


async def test_close_wakes_the_consumer() -> None:
    """A consumer that waits when the last event has gone is told of the end."""
    buffer: EventBuffer[Any] = EventBuffer()
    ended: list[bool] = []

    async def consume() -> None:
        with pytest.raises(StopAsyncIteration):
            await buffer.get()
        ended.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        await all_tasks_blocked()
        buffer.close()
    assert ended


async def test_cancelling_get_loses_nothing() -> None:
    """A consumer with a time-out of its own gets the event with its next try."""
    buffer: EventBuffer[Any] = EventBuffer()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await buffer.get()
    buffer.put(TextDelta(0, "a"))
    assert await buffer.get() == TextDelta(0, "a")


def test_a_mode_that_is_none() -> None:
    """It is refused at once."""
    mode: Any = "drop"
    with pytest.raises(UsageError, match="buffer"):
        EventBuffer(mode=mode)


# --- any stream, any pace ---------------------------------------------------------------------------------------------

_BLOCKS = st.lists(
    st.tuples(st.sampled_from(["text", "thinking", "input"]), st.lists(st.text("ab", min_size=1, max_size=3))),
    min_size=1,
    max_size=4,
)


def _message(draw: st.DrawFn, number: int) -> list[Any]:
    """The events of one message whose blocks are written at the same time."""
    events: list[Any] = [MessageStart({**empty_message(), "id": str(number)})]
    open_blocks: list[list[Any]] = []
    for index, (kind, pieces) in enumerate(draw(_BLOCKS)):
        if kind == "input":
            input = an_input(index)
            deltas = [InputDelta(input, piece) for piece in pieces]
            open_blocks.append([InputStart(input), *deltas, InputStop(input)])
        else:
            delta: Any = TextDelta if kind == "text" else ThinkingDelta
            deltas = [delta(index, piece) for piece in pieces]
            open_blocks.append([BlockStart(index, {"type": kind}), *deltas, BlockStop(index, {"type": kind})])
    while open_blocks:
        block = draw(st.sampled_from(open_blocks))
        events.append(block.pop(0))
        if not block:
            open_blocks.remove(block)
    return [*events, MessageStop({**empty_message(), "id": str(number)}, None)]


@st.composite
def _streams(draw: st.DrawFn) -> list[Any]:
    return [event for number in range(draw(st.integers(1, 3))) for event in _message(draw, number)]


def _told(events: list[Any]) -> list[Any]:
    """For each message its blocks in order, each with its whole text; fails where an order is broken."""
    messages: list[Any] = []
    open_blocks: dict[int, str] | None = None
    for event in events:
        match event:
            case MessageStart(message=message):
                assert open_blocks is None
                open_blocks = {}
                messages.append((message["id"], []))
            case MessageStop(message=message):
                assert messages[-1][0] == message["id"]
                assert open_blocks == {}
                open_blocks = None
            case BlockStart(index=index) | InputStart(input=GrowingInput(index=index)):
                assert open_blocks is not None
                assert index not in open_blocks
                open_blocks[index] = ""
            case InputDelta(input=GrowingInput(index=index), fragment=text):
                assert open_blocks is not None
                open_blocks[index] += text
            case TextDelta(index=index, text=text) | ThinkingDelta(index=index, thinking=text):
                assert open_blocks is not None
                open_blocks[index] += text
            case BlockStop(index=index) | InputStop(input=GrowingInput(index=index)):
                assert open_blocks is not None
                messages[-1][1].append((index, open_blocks.pop(index)))
            case _:
                raise AssertionError(event)
    return messages


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@settings(max_examples=25)
@given(
    stream=_streams(),
    paces=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    capacity=st.integers(1, 5),
    mode=st.sampled_from(["merge", "wait"]),
    min_chars=st.sampled_from([0, 0, 4]),
)
def test_nothing_is_lost_at_any_pace(
    backend: str, stream: list[Any], paces: list[int], capacity: int, mode: BufferMode, min_chars: int
) -> None:
    """However slow the consumer: each block of each message keeps its text, between its own start and stop."""

    async def hand_over() -> list[Any]:
        buffer: EventBuffer[Any] = EventBuffer(mode=mode, capacity=capacity)
        source = Thinning(buffer, min_chars=min_chars) if min_chars else buffer

        async def produce() -> None:
            for at, event in enumerate(stream):
                await buffer.room()
                buffer.put(event)
                if at % paces[at % len(paces)] == 0 if paces[at % len(paces)] else False:
                    await anyio.lowlevel.checkpoint()
            buffer.close()

        got: list[Any] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(produce)
            for pace in range(10**6):
                for _ in range(paces[pace % len(paces)]):
                    await anyio.lowlevel.checkpoint()
                try:
                    got.append(await source.get())
                except StopAsyncIteration:
                    break
        return got

    got = anyio.run(hand_over, backend=backend)
    if mode == "wait" and not min_chars:
        assert got == stream
    assert _told(got) == _told(stream)
