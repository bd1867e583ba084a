"""`EventFeed`: how events get from the task that reads to the one that consumes, and who owns the tasks.

Used by `stream` (one request) and by `run` (as many as it takes).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio
import anyio.abc

from .._support.cancellation import leave
from ..errors import UsageError
from ..wire import InputStart
from ._event_buffer import EventBuffer
from ._growing_input import GrowingInput
from ._observers import FeedEnd, Observer, RequestObserver, beginnings

E = TypeVar("E")

_log = logging.getLogger(__name__)


class EventFeed(ABC, Generic[E]):
    """An async context manager that reads in a task of its own, and an async iterator over the events.

    The task group is owned by `__aenter__` and `__aexit__`, and nothing is ever yielded inside it: leaving the block,
    by whatever way, cancels the reading and waits until its connection is closed. An exception of the body comes out
    as it is, not in a group; an exception of the reading is raised by the iteration (or by `finish`), after the events
    before it.
    """

    def __init__(self, buffer: EventBuffer[E]) -> None:
        self._buffer = buffer
        self._tasks: anyio.abc.TaskGroup | None = None
        self._ended = anyio.Event()
        self._failure: BaseException | None = None
        self.wants_deltas = True
        """Somebody has a use for `InputDelta`s."""
        self.wants_changes = False
        """Somebody wants each `InputDelta` to carry its changes."""
        self._needs_deltas = False  # the reader itself
        self._observers: tuple[Observer[E], ...] = ()
        self._has_told_end = False

    @property
    def failure(self) -> BaseException | None:
        """What the reading raised, and the iteration raises in its turn; None where nothing has."""
        return self._failure

    @abstractmethod
    async def _read(self) -> None:
        """Produce all events; the task that this runs in may be cancelled anywhere."""

    @abstractmethod
    def _how_it_ended(self) -> FeedEnd:
        """As of now."""

    def _close(self) -> None:
        """The block was left, and nothing runs any more."""

    def observe(self, observer: Observer[E]) -> None:
        """Show an observer all events from now on, and the end; at once where that was."""
        self._set_observers((*self._observers, observer))
        if self._has_told_end:
            self._show_end()

    def _set_observers(self, observers: tuple[Observer[E], ...]) -> None:
        self._observers = observers
        of_observers = any(getattr(each, "wants_deltas", True) for each in observers)
        self.wants_deltas = of_observers or self._needs_deltas or not self._buffer.is_discarded
        self.wants_changes = any(getattr(each, "wants_changes", False) for each in observers)

    def _show(self, tell: Callable[[Observer[E]], object], observers: Sequence[Observer[E]]) -> None:
        for observer in observers:
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
        observers = self._observers
        self._set_observers(())  # they see no more, and are not kept by this
        self._show(lambda observer: observer.end(end), observers)

    async def room(self) -> None:
        """Wait until the consumer has made room.

        Raises:
            LimitError: More events wait than may.
        """
        await self._buffer.room()

    def show_sending(self, request: Mapping[str, Any]) -> None:
        """A request is about to be sent, by this task."""

        def tell(observer: Observer[E]) -> None:
            if isinstance(observer, RequestObserver):
                observer.sending(request)

        if self._observers:
            self._show(tell, self._observers)

    def put(self, event: E) -> None:
        """Hand an event over to the consumer."""
        self.put_all((event,))

    def put_all(self, events: Sequence[E]) -> bool:
        """Hand events over to the consumer. True if the reading should wait for `room` before it continues."""
        for event in events:
            if isinstance(event, InputStart) and isinstance(event.input, GrowingInput) and event.input.outcome is None:
                event.input.on_wait = self._buffer.on_wait
        for observer in self._observers:
            try:
                observer.take(events)
            except Exception as error:
                self._drop(observer, error)
        return self._buffer.put_all(events)

    def _discard(self) -> None:
        """Nobody takes the events any more."""
        self._buffer.discard()
        self._set_observers(self._observers)

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError(f"{type(self).__name__} can be entered once")
        for begins in beginnings():
            try:
                begins(self)
            except Exception as error:
                _log.warning("an observer failed to begin (%s)", type(error).__name__)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._read_to_the_end)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        self._discard()
        try:
            return await leave(self._tasks, error)
        finally:
            self._close()
            self._tell_end()

    async def _read_to_the_end(self) -> None:
        try:
            await self._read()
        except Exception as error:
            if isinstance(error, StopAsyncIteration):  # out of the iteration it would look like its end
                error = RuntimeError("the transport raised StopAsyncIteration")
            self._failure = error
            self._buffer.close(error)
        else:
            self._tell_end()  # where it failed, tools may run on until the block is left
        finally:
            self._buffer.close()
            self._ended.set()

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, E]:
        """The next event; raises what the reading raised once all events before it are handed out."""
        if self._tasks is None:
            raise UsageError(f"enter the {type(self).__name__} first: async with ...")
        return self._buffer.get()

    async def finish(self) -> None:
        """Read to the end without handing out events, for those who want only what is left at the end.

        Raises:
            EagerStreamError: What the iteration would have raised.
        """
        if self._tasks is None:
            raise UsageError(f"enter the {type(self).__name__} first: async with ...")
        self._discard()
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure
