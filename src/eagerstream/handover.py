"""How events get from the task that reads to the one that consumes: a bounded buffer, and who owns the tasks.

Used by `stream` (one request) and by `run` (as many as it takes).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

import anyio
import anyio.abc

from .errors import UsageError
from .wire import InputDelta, InputStop, TextDelta, ThinkingDelta

E = TypeVar("E")

BufferMode: TypeAlias = Literal["merge", "wait"]

_CAPACITY: Final = 256
"""Events that wait for a consumer before deltas are merged, or the reader waits."""


class _Entry:
    """An event in the buffer; the texts of deltas merged into it are joined once, when it is handed out."""

    __slots__ = ("chars", "event", "texts")

    def __init__(self, event: Any) -> None:
        self.event = event
        self.texts = [_text(event)]
        self.chars = len(self.texts[0])

    def merge(self, event: Any) -> None:
        text = _text(event)
        self.texts.append(text)
        self.chars += len(text)

    def take(self) -> Any:
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
            return None


class EventBuffer(Generic[E]):
    """Events between one producer and one consumer.

    Bounded: when `capacity` events wait, a delta is merged into the one of its block that waits (no text is lost, and
    `partial` is the newest anyway), or, with `mode="wait"`, `room` makes the producer wait. What is not a delta is
    always taken in; there are few of them, and they are bounded by `Limits.max_blocks`.

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
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        if mode not in ("merge", "wait"):
            raise UsageError(f'buffer must be "merge" or "wait", not {mode!r}')
        if min_interval_s < 0 or min_chars < 0:
            raise UsageError("min_interval_s and min_chars must not be negative")
        self._mode = mode
        self._min_interval_s = min_interval_s
        self._min_chars = min_chars
        self._thins = min_interval_s > 0 or min_chars > 0
        self._capacity = capacity
        self._clock = clock
        self._entries: deque[_Entry] = deque()
        self._latest: dict[Hashable, _Entry] = {}  # by delta key: the waiting delta that a later one may be merged into
        self._delivered_at: dict[Hashable, float] = {}  # by delta key: when the last InputDelta was handed out
        self._filled = anyio.Event()
        self._emptied = anyio.Event()
        self._closed = False
        self._discards = False
        self._error: BaseException | None = None

    def put(self, event: E) -> None:
        """Add an event; never waits."""
        if self._discards or self._closed:
            return
        key = _delta_key(event)
        waiting = self._latest.get(key) if key is not None else None
        held = self._thins and isinstance(event, InputDelta)
        if waiting is not None and (held or (self._mode == "merge" and len(self._entries) >= self._capacity)):
            waiting.merge(event)
        else:
            entry = _Entry(event)
            self._entries.append(entry)
            if key is not None:
                self._latest[key] = entry
        self._filled.set()

    async def room(self) -> None:
        """Wait until the buffer has room; at once unless `mode="wait"`."""
        while self._mode == "wait" and len(self._entries) >= self._capacity and not self._discards:
            self._emptied = anyio.Event()
            await self._emptied.wait()

    def close(self, error: BaseException | None = None) -> None:
        """No more events; what waits is still handed out, then `error` is raised, or the iteration ends."""
        if not self._closed:
            self._closed = True
            self._error = error
        self._filled.set()

    def discard(self) -> None:
        """Nobody wants the events any more: drop what waits and what comes."""
        self._discards = True
        self._entries.clear()
        self._latest.clear()
        self._emptied.set()

    async def get(self) -> E:
        """The next event. Cancelling loses none.

        Raises:
            StopAsyncIteration: After the last event.
        """
        while True:
            held_s = self._held_s()
            if held_s == 0:
                return self._take()
            if not self._entries and self._closed:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._filled = anyio.Event()
            with anyio.move_on_after(held_s):
                await self._filled.wait()

    def _held_s(self) -> float | None:
        """How long the first event is to be held yet; 0: not at all, None: until something comes."""
        if not self._entries:
            return None
        first = self._entries[0]
        if not self._thins or not isinstance(first.event, InputDelta) or len(self._entries) > 1 or self._closed:
            return 0
        if first.chars < self._min_chars:
            return None
        last = self._delivered_at.get(id(first.event.input))
        return 0 if last is None else max(0.0, last + self._min_interval_s - self._clock())

    def _take(self) -> E:
        entry = self._entries.popleft()
        key = _delta_key(entry.event)
        if key is not None and self._latest.get(key) is entry:
            del self._latest[key]
        if self._thins:
            if isinstance(entry.event, InputDelta):
                self._delivered_at[key] = self._clock()
            elif isinstance(entry.event, InputStop):
                self._delivered_at.pop(id(entry.event.input), None)
        self._emptied.set()
        event: E = entry.take()
        return event


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

    @abstractmethod
    async def _read(self) -> None:
        """Produce all events; the task that this runs in may be cancelled anywhere."""

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise UsageError(f"{type(self).__name__} can be entered once")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._read_to_the_end)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        self._buffer.discard()
        if exc is not None and isinstance(exc, anyio.get_cancelled_exc_class()):
            return await self._tasks.__aexit__(exc_type, exc, traceback)
        # The group would wrap an exception of the body in an ExceptionGroup if it saw it.
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        return False

    async def _read_to_the_end(self) -> None:
        try:
            await self._read()
        except Exception as error:
            self._failure = error
            self._buffer.close(error)
        finally:
            self._buffer.close()
            self._ended.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        """The next event; raises what the reading raised once all events before it are handed out."""
        if self._tasks is None:
            raise UsageError(f"enter the {type(self).__name__} first: async with ...")
        return await self._buffer.get()

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
