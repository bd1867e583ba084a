"""`EventBuffer`: the events that wait between the task that reads and the one that consumes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from ..errors import LimitError, UsageError
from ..limits import DEFAULT_LIMITS
from ..wire import (
    InputDelta,
    InputStop,
    Patch,
    TextDelta,
    ThinkingDelta,
    check_choice,
    check_count,
    check_seconds,
    merge_patches,
)
from ._output import OutputDelta

E = TypeVar("E")

BufferMode: TypeAlias = Literal["merge", "wait"]

# One read from loopback has hundreds of deltas, and a consumer that keeps up should see each of them unmerged.
_CAPACITY: Final = 256
"""Events that wait for a consumer before deltas are merged, or the reader waits."""


class _Entry:
    """An event that waits to be handed out; the texts of deltas merged into it are joined once, at the end."""

    # A list, joined once: `+=` on the text of the event is quadratic if a consumer sleeps through a large input.

    __slots__ = ("chars", "event", "finished", "patches", "texts", "tokens")

    def __init__(self, event: Any) -> None:
        self.event = event
        self.patches: list[Patch] | None = []  # None: the changes of a part are not known
        self.finished: list[str] = []
        self._keep_changes(event)
        self.texts = [_text(event)]
        self.tokens = _tokens(event)
        self.chars = len(self.texts[0])

    def merge(self, event: Any) -> None:
        if not isinstance(event, InputDelta | TextDelta | ThinkingDelta | OutputDelta):
            self.event = event  # the newest counts
            return
        text = _text(event)
        self._keep_changes(event)
        self.texts.append(text)
        self.chars += len(text)
        if (tokens := _tokens(event)) is not None:
            self.tokens = tokens + (self.tokens or 0)

    def _keep_changes(self, event: Any) -> None:
        if isinstance(event, InputDelta):
            # An observer that wants changes may come or go while deltas wait. The changes of a part of them would pass
            # for all (test_changes_that_are_known_in_part_are_none).
            if event.patch is None:
                self.patches = None
            elif self.patches is not None:
                self.patches.append(event.patch)
                self.finished += event.finished

    def merged(self) -> Any:
        if len(self.texts) == 1:
            return self.event
        text = "".join(self.texts)
        match self.event:
            case InputDelta(input=input) if self.patches is not None:
                return InputDelta(input, text, merge_patches(self.patches), self.finished)
            case InputDelta(input=input):
                return InputDelta(input, text)
            case TextDelta(index=index):
                return TextDelta(index, text)
            case ThinkingDelta(index=index):
                return ThinkingDelta(index, text, self.tokens)
            case OutputDelta(index=index, output=output):
                return OutputDelta(index, output, text)
            case _:
                raise AssertionError("only deltas are merged")


def _text(event: Any) -> str:
    match event:
        case InputDelta(fragment=text) | TextDelta(text=text) | ThinkingDelta(thinking=text):
            return text
        case OutputDelta(fragment=text):
            return text
        case _:
            return ""


def _tokens(event: Any) -> int | None:
    return event.estimated_tokens if isinstance(event, ThinkingDelta) else None


def _delta_key(event: Any) -> Hashable:
    """Return the key of a delta: deltas with the same key continue one another. None for other events."""
    # An input by identity, since an index may be used twice. A held delta keeps its input alive, so the `id` is its
    # own. Texts have an index only, but a `MessageStart` between two messages separates them.
    match event:
        case InputDelta(input=input):
            return id(input)
        case TextDelta(index=index):
            return ("text", index)
        case ThinkingDelta(index=index):
            return ("thinking", index)
        case OutputDelta(output=output):
            return id(output)
        case _:
            # Events of which only the newest counts say so themselves (the progress of a tool).
            newest_of: Hashable = getattr(event, "newest_of", None)
            return newest_of


class EventBuffer(Generic[E]):
    """Events between one producer and one consumer.

    Up to `capacity` events wait as they are. Beyond that, a delta is merged into the waiting one of its block (no text
    is lost, and `partial` is the newest anyway), or, with `mode="wait"`, `is_full` asks the producer to wait for
    `room`. An event that is not a delta is always added. There are few of them; if more than `maximum` wait, `room`
    raises.

    With `min_interval_s` or `min_chars`, an `InputDelta` is held until it is that late after the one before it, and
    that long; any other event, and the end, lets it go at once.
    """

    # Not a memory object stream of anyio: its items cannot be merged, `send` is an await for each event, and a full one
    # would make tools wait for a slow consumer. Here only `get` and `room` wait, and only if there is nothing to do.

    def __init__(
        self,
        *,
        mode: BufferMode = "merge",
        min_interval_s: float = 0.0,
        min_chars: int = 0,
        capacity: int = _CAPACITY,
        maximum: int = DEFAULT_LIMITS.max_waiting_events,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        check_choice("buffer", mode, ("merge", "wait"))
        check_seconds("min_interval_s", min_interval_s)
        check_count("min_chars", min_chars, least=0)
        self._waits = mode == "wait"
        self._min_interval_s = min_interval_s
        self._min_chars = min_chars
        self._thins = min_interval_s > 0 or min_chars > 0
        self._capacity = capacity
        self._maximum = maximum
        self._clock = clock
        self._ready: deque[E] = deque()
        # Behind what is ready: events beyond the capacity, and all events while deltas are thinned out.
        self._held: deque[_Entry] = deque()
        self._held_deltas: dict[Hashable, _Entry] = {}  # by delta key: what a later delta is merged into
        self._delivered_at: dict[Hashable, float] = {}  # by delta key: when the last InputDelta was handed out
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

    def put(self, event: E) -> None:
        """Add an event; never waits."""
        if self.is_discarded or self._closed:
            return
        # Once anything is held, everything behind it is held, or events would overtake one another. Progress of tools
        # is held beyond the capacity in "wait", too: the reader can wait for room, but tools do not.
        has_room = len(self._ready) < self._capacity or (self._keeps_apart and not hasattr(event, "newest_of"))
        if has_room and not self._thins and not self._held:
            self._ready.append(event)
        else:
            self._hold(event)
        self._wake_consumer()

    def put_all(self, events: Sequence[E]) -> bool:
        """Add events; never waits. The consumer wakes once. Return True if the producer should wait for `room`."""
        # Nearly every chunk takes this path: a read may have hundreds of deltas, and `put` would ask its questions for
        # each. `_wake_consumer` is written out here, because each call is one more function on the path of a fragment
        # (test_functions_on_the_path).
        is_plain = not (self.is_discarded or self._closed or self._thins or self._held)
        if is_plain and len(self._ready) + len(events) < self._capacity:
            self._ready.extend(events)
            if self._sleeper is not None and self._filled is not None:
                self._sleeper = None
                self._filled.release()
            return False
        for event in events:
            self.put(event)
        return self.is_full or len(self._held) > self._maximum

    def _wake_consumer(self) -> None:
        if self._sleeper is not None and self._filled is not None:
            self._sleeper = None
            self._filled.release()

    def _hold(self, event: E) -> None:
        key = _delta_key(event)
        if key is None:
            # Later deltas continue what came after this event, not what came before it.
            self._held_deltas.clear()
        elif (earlier := self._held_deltas.get(key)) is not None and self._merges(event):
            earlier.merge(event)
            return
        entry = _Entry(event)
        self._held.append(entry)
        if key is not None:
            self._held_deltas[key] = entry

    @property
    def _keeps_apart(self) -> bool:
        """True if the reader waits for room instead of merging. False while a task waits for more of an input."""
        # A consumer may wait for an input inside its loop. If the reader then waited for the consumer, both would wait
        # for ever once the buffer is full (test_waiting_for_an_input_in_the_loop_does_not_hold_up_the_reader). So the
        # reader continues, and merging bounds the buffer meanwhile.
        return self._waits and not self._waits_for_input

    def _merges(self, event: E) -> bool:
        # Thinning merges deltas even while the buffer has room (test_thinned_inputs_are_bounded_and_whole).
        if self._thins and isinstance(event, InputDelta):
            return True
        keeps_apart = self._keeps_apart and isinstance(event, InputDelta | TextDelta | ThinkingDelta | OutputDelta)
        return not keeps_apart and len(self._ready) + len(self._held) >= self._capacity

    @property
    def is_full(self) -> bool:
        """True if the producer should wait for `room`."""
        if not self._waits or self.is_discarded or self._waits_for_input:
            return False
        return len(self._ready) + len(self._held) >= self._capacity

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
            # The consumer may sleep until the interval of a held delta ends. While the producer waits, nothing can be
            # merged into that delta, so it is released at once.
            self._wake_consumer()
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
        """Return the next event. Cancelling this loses none.

        Raises:
            StopAsyncIteration: After the last event.
            UsageError: Another task waits for the next event already.
            Exception: The error that the buffer was closed with, after the last event.
        """
        # No event is removed before the last await. So a consumer that gives up after a time gets the event with its
        # next try (test_cancelling_get_loses_nothing).
        while not self._ready:
            held_s = self._release() if self._held else None
            if self._ready:
                break
            if self._closed and not self._held:
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
                # Nearly always. `move_on_after(None)` makes, enters and leaves a scope: an iterated run takes 13.7 µs
                # per chunk without it and one coroutine, and 18.7 with them.
                if held_s is None:
                    await self._filled.acquire()
                else:
                    with anyio.move_on_after(held_s):
                        await self._filled.acquire()
            finally:
                if self._sleeper is sleeper:
                    self._sleeper = None
            # As the reader does: what wakes this task may always come just before anyio looks.
            await anyio.lowlevel.checkpoint_if_cancelled()
        if self._emptied is not None:
            self._emptied.set()
        return self._ready.popleft()

    def _release(self) -> float | None:
        """Make events ready that need not be held; return the seconds for which the first one must be, or None.

        None: nothing is held, or it must be held until something comes.
        """
        # The consumer does this when it wakes. A timer task would have to be cancelled and started with each event.
        while self._held:
            held_s = self._held_s()
            if held_s != 0:
                return held_s
            entry = self._held.popleft()
            key = _delta_key(entry.event)
            if self._held_deltas.get(key) is entry:
                del self._held_deltas[key]
            if self._thins and isinstance(entry.event, InputDelta):
                self._delivered_at[key] = self._clock()
            elif isinstance(entry.event, InputStop):
                self._delivered_at.pop(id(entry.event.input), None)
            self._ready.append(entry.merged())
        return None

    def _held_s(self) -> float | None:
        """Return the seconds for which the first held event must still be held; None: until something comes."""
        # A delta with anything behind it is released: a stop must not be late, and must not overtake the delta.
        first = self._held[0]
        if not (self._thins and isinstance(first.event, InputDelta)) or len(self._held) > 1:
            return 0
        if self._closed or self._emptied is not None:
            return 0
        if first.chars < self._min_chars:
            return None
        last = self._delivered_at.get(id(first.event.input))
        return 0 if last is None else max(0.0, last + self._min_interval_s - self._clock())
