"""`EventFeed`: the way of events from the task that reads to the one that consumes, and the owner of the tasks.

`stream` (one request) and `run` (as many as needed) are made of it.
"""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import anyio
import anyio.lowlevel

from .._support.frames import is_all_ours, user_stacklevel
from .._support.hosted_tasks import HostedTasks
from ..errors import EagerStreamError, StreamInterrupted, UsageError
from ..wire import InputStart, TextDelta
from ._event_buffer import EventBuffer
from ._growing_input import GrowingInput
from ._observers import FeedEnd, Observer, RequestObserver, beginnings

E = TypeVar("E")

_log = logging.getLogger(__name__)


class EventFeed(ABC, Generic[E]):
    """An async context manager that reads in a task of its own, and an async iterator over the events.

    Three different tasks may enter, read and leave it. Leaving the block in any way cancels the reading and waits until
    its connection is closed. An exception of the body comes out as it is, not in a group. An exception of the reading
    is raised by the iteration (or by `finish`), after the events before it.
    """

    def __init__(self, buffer: EventBuffer[E]) -> None:
        self._buffer = buffer
        self._tasks: HostedTasks | None = None
        self._has_ended = False
        self._when_ended: anyio.Event | None = None  # made only if somebody waits for it
        self._failure: BaseException | None = None
        self.wants_deltas: bool = True
        """Somebody has a use for `InputDelta`s."""
        self.wants_changes: bool = False
        """Somebody wants each `InputDelta` to carry its changes."""
        self._needs_deltas = False  # the reader itself
        self._observers: tuple[Observer[E], ...] = ()
        self._chunk_observers: tuple[Observer[E], ...] = ()  # those that are shown empty chunks, too
        self._has_told_end = False
        self._is_used = False  # somebody reads it, or has ended it on purpose

    @property
    def _is_over(self) -> bool:
        """True once the reading has ended and the consumer knows it, or wants no more events."""
        is_left = self._tasks is not None and self._tasks.is_left
        return self._has_ended and (is_left or self._buffer.is_read or self._buffer.is_discarded)

    @property
    def failure(self) -> BaseException | None:
        """The exception of the reading, which the iteration raises; None if there is none."""
        return self._failure

    @abstractmethod
    async def _read(self) -> None:
        """Produce all events. The task that runs this may be cancelled at any await."""

    @abstractmethod
    def _how_it_ended(self) -> FeedEnd:
        """Return how the feed ended, as of now."""

    def _is_idle(self) -> bool:
        """Return True if no task of the group has anything left to do."""
        return self._has_ended

    def _close(self) -> None:
        """Clean up after the block was left; nothing runs any more."""

    def observe(self, observer: Observer[E]) -> None:
        """Show an observer all events from now on, and the end, at once if that was shown before."""
        self._set_observers((*self._observers, observer))
        if self._has_told_end:
            self._show_end()

    def _set_observers(self, observers: tuple[Observer[E], ...]) -> None:
        self._observers = observers
        # Computed here, when something changes, instead of for each chunk. An observer without the attribute gets
        # deltas: to leave them out must be its own choice.
        of_observers = any(getattr(each, "wants_deltas", True) for each in observers)
        self.wants_deltas = of_observers or self._needs_deltas or not self._buffer.is_discarded
        self.wants_changes = any(getattr(each, "wants_changes", False) for each in observers)
        self._chunk_observers = tuple(each for each in observers if getattr(each, "wants_chunks", False))

    def _show(self, tell: Callable[[Observer[E]], object], observers: Sequence[Observer[E]]) -> None:
        for observer in observers:
            # An observer takes no part in a run, so its failure must not end the run. It is dropped, because a broken
            # one would fail and be logged with each event.
            try:
                tell(observer)
            except Exception as error:
                self._drop(observer, error)

    def _drop(self, observer: Observer[E], error: Exception) -> None:
        # The text of the error may quote what a model wrote, which does not belong in a log.
        _log.warning("%s failed as an observer (%s): dropped", type(observer).__name__, type(error).__name__)
        self._set_observers(tuple(other for other in self._observers if other is not observer))

    def _tell_end(self) -> None:
        if not self._has_told_end:
            self._has_told_end = True
            self._show_end()

    def _show_end(self) -> None:
        end = self._how_it_ended()
        # They see no more, and a feed that is kept must not keep its observers.
        observers = self._observers
        self._set_observers(())
        self._show(lambda observer: observer.end(end), observers)

    async def _room(self) -> None:
        """Wait until the consumer has made room. Cancelling this loses no event.

        Raises:
            LimitError: More than `Limits.max_waiting_events` events wait, deltas merged.
        """
        await self._buffer.room()

    def _show_sending(self, request: Mapping[str, Any]) -> None:
        """Show the observers a request that is about to be sent by this task."""
        # By the attribute: `isinstance` with a protocol takes 55 µs on Python 3.11, and this 0.2.
        observers = [each for each in self._observers if hasattr(each, "sending")]
        self._show(lambda observer: cast("RequestObserver[E]", observer).sending(request), observers)

    def _put(self, event: E) -> None:
        """Show an event to the observers, and hand it over to the consumer."""
        self._put_all((event,))

    def _put_all(self, events: Sequence[E]) -> bool:
        """Show events to the observers, and hand them over to the consumer.

        Return True if the reading should wait for `_room` before it continues.
        """
        # Before anybody sees the input: a task that waits for more of it needs the reader from the first moment on. A
        # settled input needs nothing more, and would keep the buffer for as long as it is kept itself.
        for event in events:
            if isinstance(event, InputStart) and isinstance(event.input, GrowingInput) and event.input.outcome is None:
                event.input.on_wait = self._buffer.on_wait
        # Observers before the buffer: they get each event unmerged and at the time when it came, however slow the
        # consumer is, and before the consumer can cancel the run. The loop of `_show` is repeated here, because its
        # lambda would be one more function on the path of each fragment.
        for observer in self._observers if events else self._chunk_observers:
            try:
                observer.take(events)
            except Exception as error:
                self._drop(observer, error)
        return bool(events) and self._buffer.put_all(events)

    def _discard(self) -> None:
        """Drop the events: nobody takes them any more. Deltas are then made only if an observer wants them."""
        self._buffer.discard()
        self._set_observers(self._observers)

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
        self._discard()
        try:
            await self._tasks.leave(error, is_idle=self._is_idle())
        finally:
            self._close()
            self._tell_end()
            if error is None and not self._is_used and not has_ended:
                what = f"the {type(self).__name__} was left before its end, and nothing read it"
                warnings.warn(
                    f"{what}: iterate over it, or await its finish()", RuntimeWarning, stacklevel=user_stacklevel()
                )

    async def _read_to_the_end(self) -> None:
        assert self._tasks is not None
        try:
            await self._read()
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
        self._buffer.close(failure)
        self._has_ended = True
        if self._when_ended is not None:
            self._when_ended.set()

    def __aiter__(self) -> Self:
        """Return the iterator, which goes on where an earlier loop was left.

        Raises:
            UsageError: The events have been read to the end, so there are no more.
        """
        if self._buffer.is_read:
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
        self._is_used = True
        return self._buffer.get()

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
        self._is_used = True
        self._discard()
        if self._has_ended:
            await anyio.lowlevel.checkpoint()
        else:
            self._when_ended = self._when_ended or anyio.Event()
            await self._when_ended.wait()
        if self._failure is not None:
            raise self._failure
