"""`EventFeed`: an async context manager and iterator over the events that a task of the library reads.

`stream` (one request) and `run` (as many as needed) are of this kind.
"""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import anyio
import anyio.lowlevel

from eagerstream_wire import TextDelta

from .._support.frames import is_all_ours, user_stacklevel
from .._support.hosted_tasks import HostedTasks
from ..errors import EagerStreamError, StreamInterrupted, UsageError
from ._delivery import Delivery
from ._observers import FeedEnd, Observer, beginnings

E = TypeVar("E")

_log = logging.getLogger(__name__)


class Driver(Protocol):
    """Produces the events of a feed."""

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to do in the tasks of the feed."""
        ...

    @property
    def idle_s(self) -> float | None:
        """See `EventFeed.idle_s`."""
        ...

    async def read(self, tasks: HostedTasks) -> None:
        """Produce all events, in one of these tasks, which may be cancelled at any await."""
        ...

    def ended(self, failure: BaseException | None, /) -> FeedEnd:
        """Return how the feed ended: called once, after `read` has returned, or when the block is left."""
        ...

    def close(self) -> None:
        """Clean up after the block was left; nothing runs any more."""
        ...


class EventFeed(ABC, Generic[E]):
    """An async context manager that reads in a task of its own, and an async iterator over the events.

    Three different tasks may enter, read and leave it. Leaving the block in any way cancels the reading and waits until
    its connection is closed. An exception of the body comes out as it is, not in a group. An exception of the reading
    is raised by the iteration (or by `finish`), after the events before it.
    """

    def __init__(self, delivery: Delivery[E], driver: Driver) -> None:
        self._delivery = delivery
        self._driver = driver
        self._tasks: HostedTasks | None = None
        self._failure: BaseException | None = None
        self._has_ended = False
        self._when_ended: anyio.Event | None = None  # made only if somebody waits for it

    @property
    @abstractmethod
    def id(self) -> str:
        """The id, by which those who watch tell it from others."""

    @property
    @abstractmethod
    def model(self) -> str:
        """The model of the requests."""

    @property
    def turn(self) -> int | None:
        """The number of the current turn of a run; None for a single request."""
        return None

    @property
    def has_journal(self) -> bool:
        """True if a journal keeps the run."""
        return False

    @property
    def resumed_after(self) -> int | None:
        """Number of turns that earlier processes had settled; None unless a run was resumed from a journal."""
        return None

    @property
    def idle_s(self) -> float | None:
        """Seconds since the last byte of the response that is being read, or since its request was sent.

        `ping`s count, so a model that thinks lets it grow to some 15 s at most, and a dead connection beyond that. Time
        in which the reading waits for its own consumer does not count. None while no response is awaited: before and
        after it, while tools run, and between two tries.
        """
        return self._driver.idle_s

    @property
    def failure(self) -> BaseException | None:
        """The exception of the reading, which the iteration raises; None if there is none."""
        return self._failure

    def observe(self, observer: Observer[E]) -> None:
        """Show an observer all events from now on, and the end, at once if that was shown before."""
        self._delivery.observe(observer)

    def _tell_end(self) -> None:
        if self._delivery.end is None:
            self._delivery.show_end(self._driver.ended(self._failure))

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError(f"{type(self).__name__} can be entered once")
        # Not in the constructor: a stream that is never entered sends nothing, and has no end for an observer to wait
        # for.
        for begins in beginnings():
            try:
                begins(self)
            except Exception as error:
                _log.warning("an observer failed to begin (%s)", type(error).__name__)
        self._tasks = HostedTasks(type(self).__name__, self._tasks_ended)
        self._tasks.begin(self._read_to_the_end)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        has_ended = self._has_ended
        # First: tools that may finish can still report progress while `leave` waits for them, and nobody takes it.
        self._delivery.discard()
        try:
            await self._tasks.leave(error, is_idle=has_ended and self._driver.is_idle)
        finally:
            self._driver.close()
            self._tell_end()
            if error is None and not self._delivery.is_used and not has_ended:
                what = f"the {type(self).__name__} was left before its end, and nothing read it"
                warnings.warn(
                    f"{what}: iterate over it, or await its finish()", RuntimeWarning, stacklevel=user_stacklevel()
                )

    async def _read_to_the_end(self) -> None:
        assert self._tasks is not None
        try:
            await self._driver.read(self._tasks)
        except Exception as error:
            # The iteration raises it, after the events before it. A body that does not iterate to the end does not get
            # it. Out of the iteration, a `StopAsyncIteration` would look like its end.
            is_misleading = isinstance(error, StopAsyncIteration)
            self._end_reading(RuntimeError("the transport raised StopAsyncIteration") if is_misleading else error)
        except BaseException:
            if self._tasks.is_left:
                self._end_reading()
            raise
        else:
            # Not after a failure: tools may then run until the block is left, and their events have to come before the
            # end.
            self._tell_end()
            self._end_reading()

    def _tasks_ended(self) -> None:
        # If nobody has left, the reading was cancelled by something else. The iteration must not end as if it were
        # complete.
        assert self._tasks is not None
        if not (self._has_ended or self._tasks.is_left):
            what = (
                f"the tasks of the {type(self).__name__} were cancelled from outside, as at the end of the event loop"
            )
            self._end_reading(self._tasks.failure or StreamInterrupted(what))

    def _end_reading(self, failure: BaseException | None = None) -> None:
        if isinstance(failure, EagerStreamError) and is_all_ours(failure):
            # It is raised in the user's frame. The way that it took through the library says nothing to them.
            failure.__traceback__ = None
        self._failure = failure
        self._delivery.buffer.close(failure)
        self._has_ended = True
        if self._when_ended is not None:
            self._when_ended.set()

    def __aiter__(self) -> Self:
        """Return the iterator, which goes on where an earlier loop was left.

        Raises:
            UsageError: The events have been read to the end, so there are no more.
        """
        if self._delivery.is_read:
            raise UsageError(f"the events of this {type(self).__name__} have been read: they come only once")
        return self

    def __anext__(self) -> Coroutine[Any, Any, E]:
        """Return the next event. After the last one, raise the exception of the reading, if any.

        Cancelling this loses no event.

        Raises:
            StopAsyncIteration: After the last event.
            UsageError: The block was not entered, or another task waits for the next event already.
        """
        # Not `async def`: returning the buffer's own coroutine saves a frame around each event.
        if self._tasks is None:
            raise UsageError(f"enter the {type(self).__name__} first: async with ...")
        self._delivery.is_used = True
        return self._delivery.get()

    async def text(self) -> AsyncGenerator[str, None]:
        """Yield the model's text alone, in pieces as they arrive. The other events are dropped.

        Read the events instead if you must know about turns or restarts (`Restarted` voids the text of its turn).
        Cancelling this loses no text.

        Raises:
            EagerStreamError: The error that the iteration would have raised.
            UsageError: The block was not entered, or another task waits for the next event already.
        """
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def _finish(self) -> None:
        """Read to the end without handing out events."""
        if self._tasks is None:
            raise UsageError(f"enter the {type(self).__name__} first: async with ...")
        self._delivery.is_used = True
        self._delivery.discard()
        if self._has_ended:
            await anyio.lowlevel.checkpoint()
        else:
            self._when_ended = self._when_ended or anyio.Event()
            await self._when_ended.wait()
        if self._failure is not None:
            raise self._failure
