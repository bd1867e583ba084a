"""`GrowingInput`: a tool's input that can be awaited piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, NamedTuple

import anyio

from ..errors import InputInterrupted
from ..limits import Limits
from ..wire import INVALID_JSON, Outcome, Parser, ToolInput
from ..wire._values import MISSING, Path, find
from ..wire._watchers import Table


def _tell_nobody(_: int) -> None: ...


class TextPlace(NamedTuple):
    """A place in the text of an input, up to which somebody has taken it; see `GrowingInput.text_after`."""

    chars: int = 0
    blocks: int = 0
    after_blocks: int = 0


class GrowingInput(ToolInput):
    """A `ToolInput` for those with an event loop; the events of `stream` and `run` carry it.

    Paths are object keys and array indexes: `await input.field("files", 0, "name")`. Nothing here hangs: what can no
    longer come raises `KeyError` where the input is valid without it, `InputInterrupted` where the input is not. Any
    number of tasks may wait; cancelling one loses nothing.
    """

    def __init__(
        self,
        index: int,
        block: Mapping[str, Any],
        *,
        parser: Parser,
        limits: Limits,
        invalid_key: str = INVALID_JSON,
    ) -> None:
        super().__init__(index, block, parser=parser, limits=limits, invalid_key=invalid_key)
        self._waiting: dict[anyio.Event, None] = {}  # in the order in which they began to wait
        self._end: anyio.Event | None = None
        self.interrupted: str | None = None
        """Why nothing more of it is wanted; see `interrupt`."""
        self.on_wait: Callable[[int], object] = _tell_nobody
        """Told 1 when a task begins to wait for more of this input, -1 when it ends: who reads must not wait for it.

        Nobody once the input is settled: it may be kept for long, and must not keep the reader.
        """

    async def field(self, *path: str | int) -> Any:
        """The value at `path`, as soon as it is finished; usually long before the input is.

        Raises:
            KeyError: The input is valid and has no such value.
            InputInterrupted: The input was cut off or is not JSON, and the value had not finished.
        """
        while True:
            self._raise_if_interrupted(path)
            if self.is_finished(*path):
                return find(self.partial, path)
            self._raise_if_never(path)
            values: list[Any] = []
            await self._change(self._watchers.on_finish, path, values.append)
            if values and self.interrupted is None:
                return values[0]

    async def text(self, *path: str | int) -> AsyncGenerator[str, None]:
        """The string at `path` in pieces, as they arrive; joined they are the string.

        Raises:
            TypeError: The value at `path` is not a string.
            KeyError, InputInterrupted: As `field`; after pieces of an unfinished string, `InputInterrupted`.
        """
        sent = 0
        while piece := await self.next_text(path, sent):
            sent += len(piece)
            yield piece

    async def next_text(self, path: Path, sent: int) -> str:
        """What comes of the string at `path` after its first `sent` characters; empty at its end. As `text`."""
        while True:
            self._raise_if_interrupted(path)
            piece, finished = self._text_since(path, sent)
            if piece or finished:
                return piece
            self._raise_if_never(path)
            await self._change(self._watchers.on_growth, path)

    def _text_since(self, path: Path, sent: int) -> tuple[str, bool]:
        # A reference to the string, kept while waiting, would make the parser copy it with each fragment.
        value = find(self.partial, path)
        if value is MISSING:
            return "", False
        if not isinstance(value, str):
            raise TypeError(f"the value at {path!r} is not a string but {type(value).__name__}")
        return value[sent:], self.is_finished(*path)

    async def items(self, *path: str | int) -> AsyncGenerator[Any, None]:
        """The items of the array at `path`, each as soon as it is finished.

        Raises:
            TypeError: The value at `path` is not an array.
            KeyError, InputInterrupted: As `field`; after items of an unfinished array, `InputInterrupted`.
        """
        number = 0
        while found := await self.next_item(path, number):
            number += 1
            yield found[0]

    async def next_item(self, path: Path, number: int) -> tuple[Any] | None:
        """Item `number` (from 0) of the array at `path`, in a tuple; None where it has no more. As `items`."""
        while True:
            self._raise_if_interrupted(path)
            array: Any = find(self.partial, path)
            shows = array is not MISSING
            if shows and not isinstance(array, list):
                raise TypeError(f"the value at {path!r} is not an array but {type(array).__name__}")
            if shows and number < len(array) and self.is_finished(*path, number):
                return (array[number],)
            if shows and self.is_finished(*path):
                return None
            self._raise_if_never(path)
            await self._change(self._watchers.on_item, path)

    async def begun(self) -> None:
        """Wait until the input's object is open, or the input is settled."""
        while self.outcome is None and self.error is None and type(self._caught_up().value) is not dict:
            await self._change(self._watchers.on_growth)

    async def finished(self) -> Outcome:
        """How the input ended, as soon as it has; raises nothing."""
        while self.outcome is None:
            await self._change()
        return self.outcome

    async def changed(self) -> None:
        """Wait for more of the text, for its end, or for an interruption."""
        await self._change(self._watchers.on_text)

    def text_after(self, place: TextPlace) -> tuple[str, TextPlace]:
        """What has been written of the JSON text since `place`, and the place after it; O(what is new).

        What lies beyond `Limits.max_input_chars` may be left out.
        """
        blocks = self._blocks  # before `_raw` is looked at, which takes their place
        if self._raw is not None:
            text = self._raw[place.chars :]
        else:
            new = b"".join(blocks[place.blocks :]).decode("utf-8", "surrogatepass") + "".join(self._tail)
            text = new[place.after_blocks :]
        return text, TextPlace(place.chars + len(text), len(blocks), sum(map(len, self._tail)))

    async def ended(self) -> None:
        """As `finished`, for who needs to know of the end and of nothing before it: the reader may take its time."""
        while self.outcome is None:
            self._end = self._end or anyio.Event()
            await self._end.wait()

    def interrupt(self, reason: str) -> None:
        """Nothing more of this input is wanted, although it may still come: whoever waits gets `InputInterrupted`."""
        self.interrupted = self.interrupted or reason
        self._wake()

    def _raise_if_interrupted(self, path: Path) -> None:
        if self.interrupted is not None:
            raise InputInterrupted(path, self.interrupted)

    def _raise_if_never(self, path: Path) -> None:
        self._raise_if_interrupted(path)
        if self.outcome is Outcome.VALID:
            raise KeyError(path)
        if self.error is not None:
            raise InputInterrupted(path, str(self.error))

    async def _change(
        self,
        watchers: Table | None = None,
        path: Path = (),
        keep: Callable[[Any], object] | None = None,
    ) -> None:
        """Wait for a change, or until the input turns out to be wrong, is settled, or is interrupted.

        Args:
            watchers: The kind of change, a table of `Watchers`; None to wait for the end only.
            path: The place of the change.
            keep: Called with the finished value, if the kind is `on_finish`.
        """
        event = anyio.Event()

        def wake(*values: Any) -> None:
            if keep is not None:
                keep(*values)
            event.set()

        self._waiting[event] = None
        if watchers is not None:
            self._watchers.add(watchers, path, wake)
            if self._due_chars:
                self._report()
        on_wait = self.on_wait  # the one that is told of the beginning is told of the end
        on_wait(1)
        try:
            await event.wait()
        finally:
            on_wait(-1)
            del self._waiting[event]
            if watchers is not None:
                self._watchers.remove(watchers, path, wake)

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    def _fail_watchers(self) -> None:
        self._wake()

    def _finish(self, *, whole: bool) -> None:
        try:
            super()._finish(whole=whole)
        finally:  # a watcher may raise, and nobody must wait for ever because of it
            self.on_wait = _tell_nobody
            self._wake()
            if self._end is not None:
                self._end.set()
