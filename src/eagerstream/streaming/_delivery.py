"""`Delivery`: the way of events from the task that reads to those who see them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from eagerstream_wire import InputStart, Ping

from ..inputs._growing_input import GrowingInput
from ._event_buffer import EventBuffer
from ._observers import FeedEnd, Observer, RequestObserver
from ._thinning import Thinning

E = TypeVar("E")

_log = logging.getLogger(__name__)


class Delivery(Generic[E]):
    """Shows events to the observers at once, and hands them over to the one consumer, who may be slow.

    Args:
        buffer: Keeps the events that wait for the consumer.
        thinning: Thins them out; None: nothing is thinned out.
        pings: The consumer gets `Ping`s, too.

    Attributes:
        observers: Those who see the events.
        wants_deltas: Somebody has a use for `InputDelta`s.
        wants_changes: Somebody wants the `InputDelta`s to carry their changes.
        is_used: Somebody takes the events, or does without them on purpose.
        end: The end, once the observers were told; None before.
        get: See `EventBuffer.get`.
    """

    def __init__(self, buffer: EventBuffer[E], thinning: Thinning[E] | None = None, *, pings: bool = False) -> None:
        self.buffer = buffer
        self._pings = pings
        self._source = thinning or buffer
        # The method itself: returning its coroutine saves a frame around each event.
        self.get: Callable[[], Coroutine[Any, Any, E]] = self._source.get
        self.observers: tuple[Observer[E], ...] = ()
        self._chunk_observers: tuple[Observer[E], ...] = ()  # those that are shown empty chunks, too
        self.wants_deltas: bool = True
        self.wants_changes: bool = False
        self._reader_needs_deltas = False
        self.is_used = False
        self.end: FeedEnd | None = None

    @property
    def is_over(self) -> bool:
        """True if the consumer has been told the end, or wants no more events."""
        return self._source.is_read or self.buffer.is_discarded

    @property
    def is_read(self) -> bool:
        """True if the consumer has been told the end."""
        return self._source.is_read

    # --- observers ----------------------------------------------------------------------------------------------------

    def observe(self, observer: Observer[E]) -> None:
        """Show an observer all events from now on, and the end, at once if that was shown before."""
        if self.end is None:
            self._set_observers((*self.observers, observer))
        else:
            end = self.end
            self._show(lambda each: each.end(end), (observer,))

    def set_reader(self, *, needs_deltas: bool) -> None:
        """Note whether the reader itself needs `InputDelta`s from now on."""
        self._reader_needs_deltas = needs_deltas
        self._set_observers(self.observers)

    def _set_observers(self, observers: tuple[Observer[E], ...]) -> None:
        self.observers = observers
        # Computed here, when something changes, instead of for each chunk. An observer without the attribute gets
        # deltas: to leave them out must be its own choice.
        of_observers = any(getattr(each, "wants_deltas", True) for each in observers)
        self.wants_deltas = of_observers or self._reader_needs_deltas or not self.buffer.is_discarded
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
        self._set_observers(tuple(other for other in self.observers if other is not observer))

    def show_sending(self, request: Mapping[str, Any]) -> None:
        """Show the observers a request that is about to be sent by this task."""
        # By the attribute: `isinstance` with a protocol takes 55 µs on Python 3.11, and this 0.2.
        observers = [each for each in self.observers if hasattr(each, "sending")]
        self._show(lambda observer: cast("RequestObserver[E]", observer).sending(request), observers)

    def show_end(self, end: FeedEnd) -> None:
        """Show the observers the end."""
        self.end = end
        # They see no more, and a feed that is kept must not keep its observers.
        observers = self.observers
        self._set_observers(())
        self._show(lambda observer: observer.end(end), observers)

    # --- events -------------------------------------------------------------------------------------------------------

    def put(self, event: E) -> None:
        """Show an event to the observers, and hand it over to the consumer."""
        self.put_all((event,))

    def put_all(self, events: Sequence[E], then: Callable[[], object] | None = None) -> bool:
        """Show events to the observers, and hand them over to the consumer.

        Args:
            events: The events.
            then: Called when the observers have seen them, and before the consumer is woken.

        Returns:
            True if the reading should wait for room in the buffer before it continues.
        """
        # Before anybody sees the input: a task that waits for more of it needs the reader from the first moment on. A
        # settled input needs nothing more, and would keep the buffer for as long as it is kept itself.
        for event in events:
            if isinstance(event, InputStart) and isinstance(event.input, GrowingInput) and event.input.outcome is None:
                event.input.on_wait = self.buffer.on_wait
        # Observers before the buffer: they get each event unmerged and at the time when it came, however slow the
        # consumer is, and before the consumer can cancel the run. The loop of `_show` is repeated here, because its
        # lambda would be one more function on the path of each fragment.
        for observer in self.observers if events else self._chunk_observers:
            try:
                observer.take(events)
            except Exception as error:
                self._drop(observer, error)
        if then is not None:
            then()
        return bool(events) and self.buffer.put_all(events)

    def put_ping(self) -> None:
        """Show those who asked for it that the peer is alive: the consumer, and observers with `wants_pings`."""
        event = cast("E", Ping())
        observers = [each for each in self.observers if getattr(each, "wants_pings", False)]
        self._show(lambda observer: observer.take((event,)), observers)
        if self._pings:
            self.buffer.put(event)

    def discard(self) -> None:
        """Drop the events: nobody takes them any more. Deltas are then made only if an observer wants them."""
        self._source.discard()
        self._set_observers(self.observers)
