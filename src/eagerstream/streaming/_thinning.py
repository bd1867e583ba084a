"""`Thinning`: fewer `InputDelta`s, for consumers to whom each one costs something, such as pages and terminals."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio

from eagerstream_wire import InputDelta, InputStop
from eagerstream_wire._checks import check_count, check_seconds

from ._event_buffer import EventBuffer
from ._merged_event import MergedEvent

E = TypeVar("E")


class Thinning(Generic[E]):
    """Takes the events out of a buffer, and holds an `InputDelta` back until it is late enough and long enough.

    Deltas of the same input that come meanwhile are merged into it. Any other event, and the end, lets it go at once:
    the end of an input must not be late, and must not overtake its last delta.

    Args:
        buffer: The events.
        min_interval_s: Least time in seconds since the delta before it.
        min_chars: Least length of its text.
        clock: Returns the time in seconds.

    Raises:
        UsageError: A number is out of range.
    """

    def __init__(
        self,
        buffer: EventBuffer[E],
        *,
        min_interval_s: float = 0.0,
        min_chars: int = 0,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        check_seconds("min_interval_s", min_interval_s)
        check_count("min_chars", min_chars, least=0)
        self._buffer = buffer
        self._min_interval_s = min_interval_s
        self._min_chars = min_chars
        self._clock = clock
        self._ready: deque[E] = deque()
        self._held: MergedEvent | None = None  # an InputDelta
        self._delivered_at: dict[int, float] = {}  # by the id of an input that grows: the time of its last delta

    @property
    def is_read(self) -> bool:
        """True if the end, or the error at it, was handed out."""
        return self._buffer.is_read and self._held is None and not self._ready

    def discard(self) -> None:
        """See `EventBuffer.discard`."""
        self._buffer.discard()
        self._ready.clear()
        self._held = None

    async def get(self) -> E:
        """See `EventBuffer.get`. Cancelling this loses no event."""
        while not self._ready:
            # Seconds for which the delta must still be held; None: until something comes.
            held_s: float | None = None
            if self._held is not None and not len(self._buffer) and self._held.chars >= self._min_chars:
                last = self._delivered_at.get(id(self._held.event.input))
                held_s = 0 if last is None else max(0.0, last + self._min_interval_s - self._clock())
            if held_s == 0:
                self._release()
                break
            try:
                with anyio.move_on_after(held_s):
                    self._take(await self._buffer.get())
            except BaseException:
                # The end of the events comes again when the consumer asks for it.
                if not self._buffer.is_read or self._held is None:
                    raise
                self._release()
        return self._ready.popleft()

    def _take(self, event: Any) -> None:
        held = self._held
        if held is not None and isinstance(event, InputDelta) and event.input is held.event.input:
            held.merge(event)
            return
        self._release()
        if isinstance(event, InputDelta):
            self._held = MergedEvent(event)
            return
        if isinstance(event, InputStop):
            self._delivered_at.pop(id(event.input), None)
        self._ready.append(event)

    def _release(self) -> None:
        if self._held is not None:
            self._delivered_at[id(self._held.event.input)] = self._clock()
            self._ready.append(self._held.merged())
            self._held = None
