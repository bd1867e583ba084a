"""`EventFeed`: the block around a reading task, and who ends what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream.errors import UsageError
from eagerstream.streaming import EventFeed, FeedEnd
from eagerstream.streaming._delivery import Delivery
from eagerstream.streaming._event_buffer import EventBuffer
from eagerstream_wire import BlockStart, TextDelta
from tests.streams import REQUEST, text_delta
from tests.support import Gate, LocalAPI, all_tasks_blocked

pytestmark = pytest.mark.anyio


class Numbers(EventFeed[Any]):
    """Reads the numbers that it is given, then does what `end` does."""

    id = model = "numbers"

    def __init__(self, *numbers: int, end: Callable[[], Awaitable[Any]] | None = None) -> None:
        delivery: Delivery[Any] = Delivery(EventBuffer())
        self.reading = Reading(numbers, end, delivery)
        super().__init__(delivery, self.reading)

    @property
    def cleaned_up(self) -> bool:
        return self.reading.cleaned_up


class Reading:
    """The driver of these numbers."""

    is_idle = True
    idle_s = None

    def __init__(
        self, numbers: Sequence[int], end: Callable[[], Awaitable[Any]] | None, delivery: Delivery[Any]
    ) -> None:
        self.numbers = numbers
        self.end = end
        self.delivery = delivery
        self.cleaned_up = False

    def ended(self, failure: BaseException | None) -> FeedEnd:
        return FeedEnd("error" if failure else "completed", 1, {}, None)

    async def read(self, _: object) -> None:
        try:
            for number in self.numbers:
                self.delivery.put(TextDelta(number, str(number)))
            if self.end is not None:
                await self.end()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()  # closing a connection takes a while
                self.cleaned_up = True

    def close(self) -> None:
        pass


async def _fail() -> None:
    raise ValueError("while reading")


async def test_iteration_to_the_end() -> None:
    """The ordinary life: all events, then the end, also for those who ask again."""
    async with Numbers(1, 2) as feed:
        assert [event.index async for event in feed] == [1, 2]
        with pytest.raises(StopAsyncIteration):
            await anext(feed)
    assert feed.cleaned_up


async def test_a_failure_of_the_reading_is_raised_by_the_iteration() -> None:
    """It comes after the events before it, as it is, and the block can go on."""
    got = []
    async with Numbers(1, 2, end=_fail) as feed:
        with pytest.raises(ValueError, match="while reading"):
            async for event in feed:
                got += [event.index]
        with pytest.raises(ValueError, match="while reading"):
            await feed._finish()
    assert got == [1, 2]


async def test_a_failure_of_the_reading_leaves_the_block_unwrapped() -> None:
    """Not caught in the block, it comes out of it as the exception that it is, not in a group."""
    with pytest.raises(ValueError, match="while reading"):
        async with Numbers(1, end=_fail) as feed:
            async for _ in feed:
                pass


@pytest.mark.parametrize("error", [KeyError("mine"), ExceptionGroup("mine", [KeyError()]), KeyboardInterrupt()])
async def test_an_exception_of_the_body_comes_out_as_it_is(error: BaseException) -> None:
    """Whoever catches KeyError around the block must not have to know that there are tasks in it."""
    feed = Numbers(1, end=anyio.sleep_forever)
    with pytest.raises(type(error)) as caught:
        async with feed:
            async for _ in feed:
                raise error
    assert caught.value is error
    assert feed.cleaned_up


async def test_an_exception_of_the_body_wins() -> None:
    """Where the reading has failed too, and nobody has asked, the exception of the body is the one that counts."""
    feed = Numbers(end=_fail)
    with pytest.raises(KeyError):
        async with feed:
            await all_tasks_blocked()
            raise KeyError
    assert feed.cleaned_up


async def test_break_ends_the_reading() -> None:
    """Leaving early cancels the reading, and its cleaning up is over when the block is left."""
    async with Numbers(1, 2, end=anyio.sleep_forever) as feed:
        async for _ in feed:
            break
    assert feed.cleaned_up
    assert [event async for event in feed] == []  # and a later look does not hang


async def test_return_ends_the_reading() -> None:
    """So does a return, with its value."""
    feed = Numbers(7, end=anyio.sleep_forever)

    async def first() -> int:
        async with feed:
            async for event in feed:
                return int(event.index)
        raise AssertionError

    assert await first() == 7
    assert feed.cleaned_up


async def test_cancelled_by_a_scope() -> None:
    """Cancellation from outside passes through, after the cleaning up."""
    feed = Numbers(end=anyio.sleep_forever)
    with anyio.CancelScope() as scope:
        async with feed:
            scope.cancel()
            async for _ in feed:
                raise AssertionError
    assert scope.cancelled_caught
    assert feed.cleaned_up


async def test_cancelled_inside_the_block() -> None:
    """A scope inside the block ends its own part only: the feed goes on."""
    async with Numbers(1, end=anyio.sleep_forever) as feed:
        assert (await anext(feed)).index == 1
        with anyio.move_on_after(0) as scope:
            await anext(feed)
        assert scope.cancelled_caught
        assert not feed.cleaned_up
    assert feed.cleaned_up


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled_by_asyncio_timeout() -> None:
    """asyncio's own time-out is told apart from a cancellation of the task, and becomes its TimeoutError."""
    feed = Numbers(end=anyio.sleep_forever)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), feed:
            async for _ in feed:
                raise AssertionError
    assert feed.cleaned_up
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled_by_its_task() -> None:
    """`task.cancel()` cancels, cleans up, and leaves no task behind."""
    feed = Numbers(1, end=anyio.sleep_forever)
    begun = asyncio.Event()

    async def consume() -> None:
        async with feed:
            async for _ in feed:
                begun.set()

    before = asyncio.all_tasks()
    task = asyncio.create_task(consume())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert feed.cleaned_up
    assert asyncio.all_tasks() == before


async def test_finish() -> None:
    """Reads to the end without anybody looking at the events; afterwards there are none."""
    async with Numbers(*range(1000)) as feed:
        await feed._finish()
        assert feed.cleaned_up
        assert [event async for event in feed] == []


async def test_finish_raises_what_the_iteration_would() -> None:
    """A failure is not lost for those who want no events."""
    async with Numbers(1, end=_fail) as feed:
        with pytest.raises(ValueError, match="while reading"):
            await feed._finish()


async def test_entered_twice() -> None:
    """A feed is one request: entering it again is refused, and does not disturb the first."""
    async with Numbers(1) as feed:
        with pytest.raises(UsageError, match="once"):
            async with feed:
                pass
        assert [event.index async for event in feed] == [1]
    with pytest.raises(UsageError, match="once"):
        async with feed:
            pass


async def test_not_entered() -> None:
    """Without `async with` nothing is sent: said at once, instead of waiting for ever."""
    feed = Numbers(1)
    with pytest.raises(UsageError, match="async with"):
        await anext(feed)
    with pytest.raises(UsageError, match="async with"):
        await feed._finish()


async def test_text_alone() -> None:
    """The other events are dropped."""
    async with Numbers(1, 2) as feed:
        feed._delivery.put(BlockStart(0, {"type": "text"}))
        assert [text async for text in feed.text()] == ["1", "2"]


async def test_a_block_that_was_left_unread() -> None:
    """Nothing was read, and the rest was cancelled: most likely the loop was forgotten."""
    with pytest.warns(RuntimeWarning, match="Numbers was left before its end, and nothing read it"):
        async with Numbers(end=anyio.sleep_forever):
            pass


@pytest.mark.filterwarnings("error")
async def test_a_block_that_was_left_with_a_reason() -> None:
    """Somebody read a part, an error ended the block, or everything had come."""
    async with Numbers(1, end=anyio.sleep_forever) as feed:
        await anext(feed)
    with pytest.raises(ValueError, match="mine"):
        async with Numbers(end=anyio.sleep_forever):
            raise ValueError("mine")
    async with Numbers(1):
        await all_tasks_blocked()


async def test_iterating_a_second_time() -> None:
    """It goes on where the first loop was left; once all has been read, it is an error, not an empty iteration."""
    async with Numbers(0, 1, 2) as numbers:
        async for _ in numbers:
            break
        assert [delta.text async for delta in numbers] == ["1", "2"]
        with pytest.raises(UsageError, match="the events of this Numbers have been read"):
            [number async for number in numbers]


async def test_the_warning_names_the_line_of_the_user() -> None:
    """So that each place is told once, not one for all runs of a program."""
    with pytest.warns(RuntimeWarning, match="left before its end") as warned:
        for _ in range(2):
            async with Numbers(end=anyio.sleep_forever):
                pass
        async with eagerstream.run(LocalAPI([text_delta(0, "a"), Gate()]).transport(), **REQUEST):
            pass
    first, second, third = warned
    assert {warning.filename for warning in warned} == {__file__}
    assert first.lineno == second.lineno < third.lineno
