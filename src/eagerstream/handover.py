"""How events get from the task that reads to the one that consumes: a bounded buffer, and who owns the tasks.

Used by `stream` (one request) and by `run` (as many as it takes).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

import anyio
import anyio.abc

from .errors import LimitError, UsageError
from .growing import GrowingInput
from .limits import DEFAULT_LIMITS
from .wire import InputDelta, InputStart, InputStop, TextDelta, ThinkingDelta

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)

_log = logging.getLogger(__name__)

BufferMode: TypeAlias = Literal["merge", "wait"]

_CAPACITY: Final = 256
"""Events that wait for a consumer before deltas are merged, or the reader waits."""


class _Entry:
    """An event that waits to be handed out; the texts of deltas merged into it are joined once, at the end."""

    __slots__ = ("chars", "event", "texts")

    def __init__(self, event: Any) -> None:
        self.event = event
        self.texts = [_text(event)]
        self.chars = len(self.texts[0])

    def merge(self, event: Any) -> None:
        if not isinstance(event, InputDelta | TextDelta | ThinkingDelta):
            self.event = event  # the newest counts
            return
        text = _text(event)
        self.texts.append(text)
        self.chars += len(text)

    def merged(self) -> Any:
        if len(self.texts) == 1:
            return self.event
        text = "".join(self.texts)
        match self.event:
            case InputDelta(input=input):
                return InputDelta(input, text)
            case TextDelta(index=index):
                return TextDelta(index, text)
            case ThinkingDelta(index=index):
                return ThinkingDelta(index, text)
            case _:
                raise AssertionError("only deltas are merged")


def _text(event: Any) -> str:
    match event:
        case InputDelta(fragment=text) | TextDelta(text=text) | ThinkingDelta(thinking=text):
            return text
        case _:
            return ""


def _delta_key(event: Any) -> Hashable:
    """Deltas with the same key continue one another; None for what is not a delta."""
    match event:
        case InputDelta(input=input):
            return id(input)
        case TextDelta(index=index):
            return ("text", index)
        case ThinkingDelta(index=index):
            return ("thinking", index)
        case _:
            # Events of which only the newest counts say so themselves (the progress of a tool).
            newest_of: Hashable = getattr(event, "newest_of", None)
            return newest_of


class EventBuffer(Generic[E]):
    """Events between one producer and one consumer.

    Up to `capacity` events wait as they are. Beyond that, a delta is merged into the waiting one of its block (no text
    is lost, and `partial` is the newest anyway), or, with `mode="wait"`, `is_full` asks the producer to wait for
    `room`. What is not a delta is always taken in, and is few; where a peer sends more than `maximum` of them, `check`
    raises.

    With `min_interval_s` or `min_chars`, an `InputDelta` is held until it is that late after the one before it, and
    that long; any other event, and the end, lets it go at once.
    """

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
        if mode not in ("merge", "wait"):
            raise UsageError(f'buffer must be "merge" or "wait", not {mode!r}')
        thinning: dict[str, object] = {"min_interval_s": min_interval_s, "min_chars": min_chars}
        for name, least in thinning.items():
            if not isinstance(least, int | float) or not 0 <= least < inf:
                raise UsageError(f"{name} must be a number that is not negative, not {least!r}")
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
        self._filled: anyio.Event | None = None  # set by the producer while the consumer sleeps
        self._emptied: anyio.Event | None = None  # set by the consumer while the producer sleeps
        self._waits_for_input = 0  # tasks that wait for more of an input: the producer must go on for them
        self._closed = False
        self._discards = False
        self._error: BaseException | None = None

    def put(self, event: E) -> None:
        """Add an event; never waits."""
        if self._discards or self._closed:
            return
        has_room = len(self._ready) < self._capacity or (self._keeps_apart and not hasattr(event, "newest_of"))
        if has_room and not self._thins and not self._held:
            self._ready.append(event)
        else:
            self._hold(event)
        self._wake_consumer()

    def put_all(self, events: Sequence[E]) -> None:
        """Add events; never waits. The consumer wakes once."""
        is_plain = not (self._discards or self._closed or self._thins or self._held)
        if is_plain and len(self._ready) + len(events) <= self._capacity:
            self._ready.extend(events)
            self._wake_consumer()
        else:
            for event in events:
                self.put(event)

    @property
    def wants_deltas(self) -> bool:
        """Somebody may still get what is put in."""
        return not self._discards

    def check(self) -> None:
        """The producer may go on.

        Raises:
            LimitError: More events wait than may.
        """
        if len(self._held) > self._maximum:
            raise LimitError("max_waiting_events", self._maximum, "what waits for the consumer of events")

    def _wake_consumer(self) -> None:
        if self._filled is not None:
            self._filled.set()
            self._filled = None

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
        """It is the reader that waits for room; but not while somebody needs more of the input from it."""
        return self._waits and not self._waits_for_input

    def _merges(self, event: E) -> bool:
        if self._thins and isinstance(event, InputDelta):
            return True
        keeps_apart = self._keeps_apart and isinstance(event, InputDelta | TextDelta | ThinkingDelta)
        return not keeps_apart and len(self._ready) + len(self._held) >= self._capacity

    @property
    def is_full(self) -> bool:
        """The producer should wait for `room`."""
        if not self._waits or self._discards or self._waits_for_input:
            return False
        return len(self._ready) + len(self._held) >= self._capacity

    def on_wait(self, change: int) -> None:
        """One more task waits for an input, or one less; while any does, the buffer is never full."""
        self._waits_for_input += change
        if self._emptied is not None:
            self._emptied.set()

    async def room(self) -> None:
        """Wait while the buffer is full."""
        while self.is_full:
            self._emptied = anyio.Event()
            self._wake_consumer()  # what it holds back must not hold up the producer
            await self._emptied.wait()
        self._emptied = None

    def close(self, error: BaseException | None = None) -> None:
        """No more events; what waits is still handed out, then `error` is raised, or the iteration ends."""
        if not self._closed:
            self._closed = True
            self._error = error
        self._wake_consumer()

    def discard(self) -> None:
        """Nobody wants the events any more: drop what waits and what comes."""
        self._discards = True
        self._ready.clear()
        self._held.clear()
        self._held_deltas.clear()
        if self._emptied is not None:
            self._emptied.set()

    async def get(self) -> E:
        """The next event. Cancelling loses none.

        Raises:
            StopAsyncIteration: After the last event.
        """
        while not self._ready:
            held_s = self._release()
            if self._ready:
                break
            if self._closed and not self._held:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            if self._filled is not None:
                raise UsageError("another task waits for the next event already: one at a time")
            filled = self._filled = anyio.Event()
            try:
                if held_s is None:  # nearly always, and a time-out costs more than all the rest
                    await filled.wait()
                else:
                    with anyio.move_on_after(held_s):
                        await filled.wait()
            finally:
                if self._filled is filled:
                    self._filled = None
        if self._emptied is not None:
            self._emptied.set()
        return self._ready.popleft()

    def _release(self) -> float | None:
        """Make ready what need not be held; where something must, how long yet (None: until something comes)."""
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
        """How long the first held event must be held yet; 0: not at all, None: until something comes."""
        first = self._held[0]
        if not (self._thins and isinstance(first.event, InputDelta)) or len(self._held) > 1:
            return 0
        if self._closed or self._emptied is not None:
            return 0
        if first.chars < self._min_chars:
            return None
        last = self._delivered_at.get(id(first.event.input))
        return 0 if last is None else max(0.0, last + self._min_interval_s - self._clock())


@dataclass(frozen=True, slots=True)
class FeedEnd:
    """How a feed ended.

    Attributes:
        status: A value of `RunStatus`; of a single request `completed`, `cancelled` or `error`.
        turns: Replies received whole.
        usage: As the API has it.
        error: Its `type` and `text`, where something was raised; else None.
    """

    status: str
    turns: int
    usage: Mapping[str, Any]
    error: Mapping[str, str] | None


class Observer(Protocol[E_contra]):
    """Sees the events of a feed as they come, before its consumer does; never takes part in it.

    It is called from the task that reads, which waits for it: it must return at once. One that raises is dropped, and
    told of in the log.
    """

    def take(self, events: Sequence[E_contra], /) -> object:
        """These events came, in this order; `InputDelta`s are not merged here."""
        ...

    def end(self, end: FeedEnd, /) -> object:
        """Nothing more comes."""
        ...


_beginnings: ContextVar[tuple[Callable[[EventFeed[Any]], object], ...]] = ContextVar("beginnings", default=())


@contextmanager
def on_feed(begins: Callable[[EventFeed[Any]], object]) -> Iterator[None]:
    """Within the block, in this task and those that it starts, each feed is shown to `begins` when it is entered."""
    token = _beginnings.set((*_beginnings.get(), begins))
    try:
        yield
    finally:
        _beginnings.reset(token)


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
        self._observers: tuple[Observer[E], ...] = ()
        self._has_told_end = False

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
        self._observers = (*self._observers, observer)
        if self._has_told_end:
            self._show_end()

    def _show(self, tell: Callable[[Observer[E]], object], observers: Sequence[Observer[E]]) -> None:
        for observer in observers:
            try:
                tell(observer)
            except Exception as error:
                # Its text may quote what a model wrote, which does not belong in a log.
                _log.warning("%s failed as an observer (%s): dropped", type(observer).__name__, type(error).__name__)
                self._observers = tuple(other for other in self._observers if other is not observer)

    def _tell_end(self) -> None:
        if not self._has_told_end:
            self._has_told_end = True
            self._show_end()

    def _show_end(self) -> None:
        end = self._how_it_ended()
        observers, self._observers = self._observers, ()  # they see no more, and are not kept by this
        self._show(lambda observer: observer.end(end), observers)

    @property
    def is_full(self) -> bool:
        """The reading should wait for `room` before it goes on.

        Raises:
            LimitError: More events wait than may.
        """
        self._buffer.check()
        return self._buffer.is_full

    async def room(self) -> None:
        """Wait until the consumer has made room."""
        await self._buffer.room()

    @property
    def wants_deltas(self) -> bool:
        """Somebody may still get them."""
        return self._buffer.wants_deltas or bool(self._observers)

    def put(self, event: E) -> None:
        """Hand an event over to the consumer."""
        self.put_all((event,))

    def put_all(self, events: Sequence[E]) -> None:
        """Hand events over to the consumer."""
        for event in events:
            if isinstance(event, InputStart) and isinstance(event.input, GrowingInput) and event.input.outcome is None:
                event.input.on_wait = self._buffer.on_wait
        if self._observers:
            self._show(lambda observer: observer.take(events), self._observers)
        self._buffer.put_all(events)

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError(f"{type(self).__name__} can be entered once")
        for begins in _beginnings.get():
            try:
                begins(self)
            except Exception as error:
                _log.warning("an observer failed to begin (%s)", type(error).__name__)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._read_to_the_end)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        self._buffer.discard()
        try:
            if exc is not None and isinstance(exc, anyio.get_cancelled_exc_class()):
                return await self._tasks.__aexit__(exc_type, exc, traceback)
            # The group would wrap an exception of the body in an ExceptionGroup if it saw it.
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)
            return False
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
        self._buffer.discard()
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure
