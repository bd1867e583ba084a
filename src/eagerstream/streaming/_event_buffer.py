"""`EventBuffer`: the events that wait between the task that reads and the one that consumes."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from eagerstream_wire import InputDelta, TextDelta, ThinkingDelta
from eagerstream_wire._checks import check_choice

from ..errors import LimitError, UsageError
from ..limits import DEFAULT_LIMITS
from ._merged_event import MergedEvent, merge_key
from ._output import OutputDelta

E = TypeVar("E")

BufferMode: TypeAlias = Literal["merge", "wait"]

# One read from loopback has hundreds of deltas, and a consumer that keeps up should see each of them unmerged.
_CAPACITY: Final = 256
"""Events that wait for a consumer before deltas are merged, or the reader waits."""


class EventBuffer(Generic[E]):
    """Events between one producer and one consumer. Its length is the number of those that wait.

    Up to `capacity` events wait as they are. Beyond that, a delta is merged into the waiting one of its block (no text
    is lost, and `partial` is the newest anyway), or, with `mode="wait"`, `is_full` asks the producer to wait for
    `room`. An event that is not a delta is always added. There are few of them; if more than `maximum` wait, `room`
    raises.
    """

    # Not a memory object stream of anyio: its items cannot be merged, `send` is an await for each event, and a full one
    # would make tools wait for a slow consumer. Here only `get` and `room` wait, and only if there is nothing to do.

    def __init__(
        self,
        *,
        mode: BufferMode = "merge",
        capacity: int = _CAPACITY,
        maximum: int = DEFAULT_LIMITS.max_waiting_events,
    ) -> None:
        check_choice("buffer", mode, ("merge", "wait"))
        self._waits = mode == "wait"
        self._capacity = capacity
        self._maximum = maximum
        self._ready: deque[E] = deque()
        # Behind what is ready: the events beyond the capacity.
        self._held: deque[MergedEvent] = deque()
        self._held_deltas: dict[Hashable, MergedEvent] = {}  # by key: what a later delta is merged into
        # Made once, when a consumer first waits. An event for each wait would cost each chunk 2 µs more.
        self._filled: anyio.Semaphore | None = None
        self._sleeper: object | None = None  # the wait of the consumer; None if it does not wait
        self._emptied: anyio.Event | None = None  # set by the consumer while the producer sleeps
        self._asked: anyio.Event | None = None  # set by the consumer once it asks for more than there is
        self._waits_for_input = 0  # tasks that wait for more of an input: the producer must go on for them
        self._closed = False
        self.is_discarded: bool = False
        """True if nobody wants the events: they are dropped."""
        self.is_read: bool = False
        """True if the end, or the error at it, was handed out."""
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._ready) + len(self._held)

    def put(self, event: E) -> None:
        """Add an event; never waits."""
        if self.is_discarded or self._closed:
            return
        # Once anything is held, everything behind it is held, or events would overtake one another. Progress of tools
        # is held beyond the capacity in "wait", too: the reader can wait for room, but tools do not.
        has_room = len(self._ready) < self._capacity or (self._keeps_apart and not hasattr(event, "newest_of"))
        if has_room and not self._held:
            self._ready.append(event)
        elif (
            (key := merge_key(event)) is not None
            and (earlier := self._held_deltas.get(key)) is not None
            and len(self) >= self._capacity
            and not (self._keeps_apart and isinstance(event, InputDelta | TextDelta | ThinkingDelta | OutputDelta))
        ):
            earlier.merge(event)
        else:
            entry = MergedEvent(event)
            self._held.append(entry)
            if key is None:
                # Later deltas continue what came after this event, not what came before it.
                self._held_deltas.clear()
            else:
                self._held_deltas[key] = entry
        self._wake_consumer()

    def put_all(self, events: Sequence[E]) -> bool:
        """Add events; never waits. The consumer wakes once. Return True if the producer should wait for `room`."""
        # Nearly every chunk takes this path: a read may have hundreds of deltas, and `put` would ask its questions for
        # each. `_wake_consumer` is written out here, because each call is one more function on the path of a fragment
        # (test_functions_on_the_path).
        is_plain = not (self.is_discarded or self._closed or self._held)
        if is_plain and len(self._ready) + len(events) < self._capacity:
            self._ready.extend(events)
            if self._sleeper is not None and self._filled is not None:
                self._sleeper = None
                self._filled.release()
            return False
        for event in events:
            self.put(event)
        return self.must_wait

    def _wake_consumer(self) -> None:
        if self._sleeper is not None and self._filled is not None:
            self._sleeper = None
            self._filled.release()

    @property
    def _keeps_apart(self) -> bool:
        """True if the reader waits for room instead of merging. False while a task waits for more of an input."""
        # A consumer may wait for an input inside its loop. If the reader then waited for the consumer, both would wait
        # for ever once the buffer is full (test_waiting_for_an_input_in_the_loop_does_not_hold_up_the_reader). So the
        # reader continues, and merging bounds the buffer meanwhile.
        return self._waits and not self._waits_for_input

    @property
    def must_wait(self) -> bool:
        """True if `room` would wait, or raise an error."""
        return self.is_full or len(self._held) > self._maximum

    @property
    def is_full(self) -> bool:
        """True if the producer should wait for `room`."""
        if not self._waits or self.is_discarded or self._waits_for_input:
            return False
        return len(self) >= self._capacity

    def on_wait(self, change: int) -> None:
        """Count the tasks that wait for an input, by 1 or -1; while there is one, the buffer is never full."""
        # A count, not a flag: several tasks may wait, and one that stops waiting must not stop the reader for the
        # others.
        self._waits_for_input += change
        if self._emptied is not None:
            self._emptied.set()

    async def room(self) -> None:
        """Wait while the buffer is full. Cancelling it loses nothing.

        Raises:
            LimitError: More than `Limits.max_waiting_events` events wait, deltas merged.
        """
        # Raised here and not in `put`, which tools and clean-up call, too. The reader calls this, and its peer is the
        # one that sends too much (test_events_that_nobody_takes).
        if len(self._held) > self._maximum:
            raise LimitError("max_waiting_events", self._maximum, "what waits for the consumer of events")
        while self.is_full:
            self._emptied = anyio.Event()
            await self._emptied.wait()
        self._emptied = None

    def close(self, error: BaseException | None = None) -> None:
        """Take no more events. Those that wait are still handed out; then `error` is raised, or the iteration ends."""
        # The first close counts: the reader closes with its error, and again without one in its `finally`.
        if not self._closed:
            self._closed = True
            self._error = error
        self._wake_consumer()

    def discard(self) -> None:
        """Drop the events that wait and all that come: nobody wants them any more."""
        self.is_discarded = True
        self._ready.clear()
        self._held.clear()
        self._held_deltas.clear()
        for event in (self._emptied, self._asked):
            if event is not None:
                event.set()

    async def asked(self) -> None:
        """Wait until the consumer has taken all events and asks for another one, or nobody wants them any more."""
        if self.is_discarded or (self._sleeper is not None and not self._held):
            return
        # Once is enough, and is remembered: a consumer that asks with a time limit of 0 has given up by the time the
        # producer looks.
        self._asked = anyio.Event()
        await self._asked.wait()

    async def get(self) -> E:
        """Return the next event; do not wait if there is one. Cancelling this loses none.

        Raises:
            StopAsyncIteration: After the last event.
            UsageError: Another task waits for the next event already.
            Exception: The error that the buffer was closed with, after the last event.
        """
        # No event is removed before the last await. So a consumer that gives up after a time gets the event with its
        # next try (test_cancelling_get_loses_nothing).
        while not self._ready:
            if self._held:
                self._ready.extend(entry.merged() for entry in self._held)
                self._held.clear()
                self._held_deltas.clear()
                break
            if self._closed:
                self.is_read = True
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            # There is one place for a waiter: a second one would take it, and the first would never be woken
            # (test_two_consumers).
            if self._sleeper is not None:
                raise UsageError("another task waits for the next event already: one at a time")
            if self._asked is not None:
                self._asked.set()
            if self._filled is None:
                self._filled = anyio.Semaphore(0, fast_acquire=True)
            sleeper = self._sleeper = object()
            try:
                await self._filled.acquire()
            finally:
                if self._sleeper is sleeper:
                    self._sleeper = None
            # As the reader does: what wakes this task may always come just before anyio looks.
            await anyio.lowlevel.checkpoint_if_cancelled()
        if self._emptied is not None:
            self._emptied.set()
        return self._ready.popleft()
