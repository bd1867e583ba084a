"""`Thinning`: an `InputDelta` waits until it is late and long enough, and nothing else waits."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eagerstream.errors import UsageError
from eagerstream.streaming._event_buffer import EventBuffer
from eagerstream.streaming._thinning import Thinning
from eagerstream_wire import BlockStop, InputDelta, InputStop, TextDelta
from tests.streaming.test_event_buffer import an_input, drained
from tests.support import all_tasks_blocked
from tests.tables import rows

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def thinned(**options: Any) -> tuple[EventBuffer[Any], Thinning[Any]]:
    buffer: EventBuffer[Any] = EventBuffer()
    return buffer, Thinning(buffer, **options)


async def test_min_chars() -> None:
    """Deltas are held until they are long enough; the last one comes before the stop, however short."""
    buffer, thinning = thinned(min_chars=5)
    input = an_input()
    got: list[Any] = []

    async def consume() -> None:
        while True:
            got.append(event_of(await thinning.get()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        for fragment in ("abc", "de", "f"):
            buffer.put(InputDelta(input, fragment))
            await all_tasks_blocked()
        assert got == ["abcde"]
        buffer.put(InputStop(input))
        await all_tasks_blocked()
        assert got == ["abcde", "f", "InputStop"]
        tasks.cancel_scope.cancel()


def event_of(event: Any) -> str:
    """An input event, in short."""
    return event.fragment if isinstance(event, InputDelta) else type(event).__name__


async def test_min_interval() -> None:
    """At most one delta in an interval, by the buffer's own clock; the first comes at once."""
    clock = Clock()
    buffer, thinning = thinned(min_interval_s=10, clock=clock)
    input = an_input()
    buffer.put(InputDelta(input, "a"))
    assert event_of(await thinning.get()) == "a"
    buffer.put(InputDelta(input, "b"))
    clock.now_s += 9
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thinning.get)
        await all_tasks_blocked()
        tasks.cancel_scope.cancel()  # it was still being held
    buffer.put(InputDelta(input, "c"))
    clock.now_s += 1
    assert event_of(await thinning.get()) == "bc"


async def test_a_held_delta_comes_while_the_stream_stalls() -> None:
    """When nothing more comes, what is held is let go at the end of its interval, without another event."""
    buffer, thinning = thinned(min_interval_s=0.02)
    input = an_input()
    buffer.put(InputDelta(input, "a"))
    await thinning.get()
    start_s = anyio.current_time()
    buffer.put(InputDelta(input, "b"))
    with anyio.fail_after(5):
        assert event_of(await thinning.get()) == "b"
    assert anyio.current_time() - start_s >= 0.019


async def test_other_events_are_not_held() -> None:
    """Thinning is for inputs: text comes as it came, and takes with it what is held in front of it."""
    buffer, thinning = thinned(min_interval_s=3600, min_chars=100)
    input = an_input()
    events = [TextDelta(0, "a"), TextDelta(0, "b"), InputDelta(input, "x"), BlockStop(0, {})]
    for event in events:
        buffer.put(event)
    with anyio.fail_after(5):
        assert [await thinning.get() for _ in events] == events


async def test_thinned_inputs_are_bounded_and_whole() -> None:
    """Held deltas are merged even while the buffer has room, and none of their text is lost."""
    buffer, thinning = thinned(min_chars=1000)
    input = an_input()
    for number in range(500):
        buffer.put(InputDelta(input, f"{number},"))
    (event,) = await drained(buffer, thinning)
    assert event.fragment == "".join(f"{number}," for number in range(500))


async def test_two_inputs_at_once() -> None:
    """A delta of another input lets the held one go: neither may overtake the other."""
    buffer, thinning = thinned(min_chars=1000)
    one, other = an_input(0), an_input(1)
    for input in (one, one, other, one):
        buffer.put(InputDelta(input, "x"))
    assert [(event.input, event.fragment) for event in await drained(buffer, thinning)] == [
        (one, "xx"),
        (other, "x"),
        (one, "x"),
    ]


async def test_a_held_delta_comes_before_the_error() -> None:
    """The end lets it go as any other event does, and the error comes when the consumer asks again."""
    buffer, thinning = thinned(min_chars=1000)
    buffer.put(InputDelta(an_input(), "x"))
    buffer.close(ValueError("lost"))
    assert not thinning.is_read
    assert event_of(await thinning.get()) == "x"
    for _ in range(2):
        with pytest.raises(ValueError, match="lost"):
            await thinning.get()
    assert thinning.is_read


async def test_nobody_wants_the_events() -> None:
    """What is held is dropped with what waits."""
    buffer, thinning = thinned(min_chars=1000)
    buffer.put(InputDelta(an_input(), "x"))
    with anyio.move_on_after(0):
        await thinning.get()
    thinning.discard()
    assert await drained(buffer, thinning) == []


@rows("options", [{"min_interval_s": -1}, {"min_chars": -1}])
def test_bad_settings(options: dict[str, Any]) -> None:
    """Settings that cannot be are refused at once."""
    with pytest.raises(UsageError):
        thinned(**options)
