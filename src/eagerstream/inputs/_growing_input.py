"""`GrowingInput`: a tool's input that can be awaited piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, overload

import anyio
import anyio.lowlevel

from eagerstream_wire import INVALID_JSON, Outcome, ParserFactory, PartialJSON, ToolInput
from eagerstream_wire._values import MISSING, Path, find
from eagerstream_wire._watchers import Table

from ..errors import InputInterrupted, UsageError
from ..limits import Limits
from ._faults import InputError
from ._typed_partial import T, TypedPartial


def _tell_nobody(_: int) -> None: ...


class TypedTool(Protocol):
    """A tool whose parameters have types; `Tool` is one."""

    @property
    def input_type(self) -> Any:
        """The TypedDict of its parameters."""
        ...


class TextPlace(NamedTuple):
    """The place in the text of an input up to which somebody has taken it; see `GrowingInput.text_after`."""

    # Three counts, because the text is kept in two forms: blocks in UTF-8, and the newest fragments after them. When
    # those fragments become a block, `after_blocks` is the number of its characters that were taken before.

    chars: int = 0
    blocks: int = 0
    after_blocks: int = 0


_ITEMS_IN_ONE_GO: Final = 64
_COMPARED_CHARS: Final = 64  # of a string that may have been written twice


class GrowingInput(ToolInput):
    """A `ToolInput` for those with an event loop; the events of `stream` and `run` carry it.

    Paths are object keys and array indexes: `await input.field("files", 0, "name")`. Nothing here hangs: if a value can
    no longer come, waiting for it raises `KeyError` if the input is valid, and `InputInterrupted` otherwise. Any number
    of tasks may wait; cancelling one loses nothing.
    """

    # Each method looks at the input, waits for a change, and looks again. So no task has a queue of values that it has
    # not read yet, and a slow tool costs no memory.

    def __init__(
        self,
        index: int,
        block: Mapping[str, Any],
        *,
        parser: ParserFactory,
        limits: Limits,
        invalid_key: str = INVALID_JSON,
    ) -> None:
        super().__init__(index, block, parser=parser, limits=limits, invalid_key=invalid_key)
        # A dict as an ordered set: tasks wake in the order in which they started to wait.
        self._waiting: dict[anyio.Event, None] = {}
        # Made when a task waits for the end: the inputs of a plain `stream` usually need none.
        self._end: anyio.Event | None = None
        # The number of characters that were read of a string, and the last ones: all would cost too much to compare.
        self._read_texts: dict[Path, tuple[int, str]] = {}
        self._typed: dict[Any, TypedPartial[Any]] | None = None  # the typed values, by model
        self.interrupted: str | None = None
        """The reason why nothing more of it is wanted; see `interrupt`."""
        self.on_wait: Callable[[int], object] = _tell_nobody
        """Called with 1 when a task starts to wait for more of this input, with -1 when it stops waiting.

        Meanwhile the reader must continue. Does nothing once the input is settled: an input may be kept for long, and
        must not keep the reader.
        """

    def _repr_html_(self) -> str:
        from .._support.markup import element

        # Without the input itself, like `repr`: notebooks are saved and shared with their outputs.
        return element("code", repr(self))

    async def field(self, *path: str | int) -> Any:
        """Return the value at `path` as soon as it is finished, usually long before the input is.

        Cancelling this loses nothing: call it again.

        Raises:
            KeyError: The input is valid and has no such value.
            InputInterrupted: The input was cut off, is not JSON or was interrupted, and the value had not finished.
        """
        while True:
            self._raise_if_interrupted(path)
            if self.is_finished(*path):
                return find(self.partial, path)
            self._raise_if_never(path)
            # The value is kept when it finishes. When this task runs again, a repeated key may have started the value
            # over (test_a_repeated_key_hangs_nobody). If a guard has interrupted in between, the value is not returned
            # (test_a_guard_keeps_the_value_from_the_tool).
            values: list[Any] = []
            await self._change(self._watchers.on_finish, path, values.append)
            if values and self.interrupted is None:
                return values[0]

    async def text(self, *path: str | int) -> AsyncGenerator[str, None]:
        """Yield the string at `path` in pieces, as they arrive; joined, they are the string.

        If the iteration is cancelled, a new one starts with the first character.

        Raises:
            TypeError: The value at `path` is not a string.
            KeyError, InputInterrupted: As `field`; after pieces of an unfinished string, or of one that is written a
                second time (a repeated key), `InputInterrupted`.
        """
        sent = 0
        while piece := await self.next_text(path, sent):
            sent += len(piece)
            yield piece

    async def next_text(self, path: Path, sent: int) -> str:
        """Wait for the text of the string at `path` after its first `sent` characters; empty at its end.

        Cancelling this loses nothing.

        Raises:
            TypeError, KeyError, InputInterrupted: As `text`.
        """
        while True:
            self._raise_if_interrupted(path)
            piece, finished = self._text_since(path, sent)
            if piece or finished:
                read, end = self._read_texts.get(path, (0, ""))
                known = end + piece if sent == read else piece
                self._read_texts[path] = sent + len(piece), known[-_COMPARED_CHARS:]
                return piece
            self._raise_if_never(path)
            await self._change(self._watchers.on_growth, path)

    def _text_since(self, path: Path, sent: int) -> tuple[str, bool]:
        # In a function of its own, so that no frame that waits refers to the string: CPython appends in place only to a
        # string without another reference, and the parser would copy it with each fragment.
        value = find(self.partial, path)
        if value is MISSING:
            return "", False
        if not isinstance(value, str):
            raise TypeError(f"the value at {path!r} is not a string but {type(value).__name__}")
        # A repeated key starts the value over: the rest of the new one does not belong to what was read of the old one.
        read, end = self._read_texts.get(path, (0, ""))
        if sent == read and value[sent - len(end) : sent] != end:
            raise InputInterrupted(path, "the value was written twice")
        return value[sent:], self.is_finished(*path)

    async def items(self, *path: str | int) -> AsyncGenerator[Any, None]:
        """Yield the items of the array at `path`, each as soon as it is finished.

        If the iteration is cancelled, a new one starts with the first item.

        Raises:
            TypeError: The value at `path` is not an array.
            KeyError, InputInterrupted: As `field`; after items of an unfinished array, `InputInterrupted`.
        """
        number = 0
        while found := await self.next_item(path, number):
            number += 1
            yield found[0]

    async def next_item(self, path: Path, number: int) -> tuple[Any] | None:
        """Wait for item `number` (from 0) of the array at `path`; return it in a tuple, or None if there is no more.

        Cancelling this loses nothing.

        Raises:
            TypeError, KeyError, InputInterrupted: As `items`.
        """
        if number % _ITEMS_IN_ONE_GO == _ITEMS_IN_ONE_GO - 1:
            await anyio.lowlevel.checkpoint()  # all items may be there, and nothing else waits in a loop over them
        # In a tuple, because None may be an item.
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

    @overload
    def partial_as(self, model: TypedTool) -> Mapping[str, Any]: ...
    @overload
    def partial_as(self, model: type[T]) -> T: ...
    def partial_as(self, model: Any) -> Any:
        """Return the input so far as an instance of a model; see `TypedPartial` for its rules.

        Fields that have not arrived are None. Finished items are validated, each one once. The open one shows its
        fields so far. The first call for a model reads the text so far. Each further call costs O(new text).

        The value is live: it grows when this is called again. An item that does not fit stays as it was written, and
        is reported by `fault_as`. Nothing here affects the call: a tool checks its complete input itself.

        Args:
            model: A pydantic model, a dataclass, a TypedDict or a `msgspec.Struct`. Or a `Tool`: the value is then a
                mapping of its parameters that have arrived.

        Raises:
            UsageError: The model is none of these, or the input has a parser that is no `PartialJSON`.
        """
        return self._typed_partial(model).value

    def fault_as(self, model: Any) -> InputError | None:
        """Return the first fault of the finished items, for a model as for `partial_as`; None if they fit.

        It is known when the item is finished, long before the input ends: `fault.place` is `items[3].price`.

        Raises:
            UsageError: As for `partial_as`.
        """
        return self._typed_partial(model).fault

    def _typed_partial(self, model: Any) -> TypedPartial[Any]:
        parser = self._caught_up()
        model = getattr(model, "input_type", model) if not isinstance(model, type) else model
        is_given = not self.chars and (self._given is not None or self.outcome is Outcome.VALID)
        if not isinstance(parser, PartialJSON):
            raise UsageError("typed values need the parser PartialJSON, or a subclass of it")
        self._typed = {} if self._typed is None else self._typed
        try:
            typed = self._typed.get((model, is_given))
        except TypeError as error:
            raise UsageError(f"{model!r:.200} is no type for partial values") from error
        if typed is None:
            if is_given:  # it came complete, without a text to parse
                parser = PartialJSON()
                parser.feed(self.raw or "{}")
                parser.close()
            typed = self._typed[model, is_given] = TypedPartial(model, parser)
        return typed

    async def begun(self) -> None:
        """Wait until the object of the input is open, or the input is settled. Cancelling this loses nothing."""
        # A streaming tool must not start on a list or a number: the first character proves it, or nothing is proved.
        while self.outcome is None and self.error is None and type(self._caught_up().value) is not dict:
            await self._change(self._watchers.on_growth)

    async def finished(self) -> Outcome:
        """Wait for the end of the input, and return its outcome. This raises nothing.

        Cancelling this does not end the input.
        """
        while self.outcome is None:
            await self._change()
        return self.outcome

    async def changed(self) -> None:
        """Wait for more of the text, for its end, or for an interruption. Cancelling this loses nothing."""
        await self._change(self._watchers.on_text)

    def text_after(self, place: TextPlace) -> tuple[str, TextPlace]:
        """Return the JSON text since `place`, and the place after it; O(length of the new text).

        Text beyond `Limits.max_input_chars` may be left out.
        """
        # For workers in other processes, which parse the text themselves. `raw` would join all of it for each fragment.
        blocks = self._blocks  # before `_raw` is looked at, which takes their place
        if self._raw is not None:
            text = self._raw[place.chars :]
        else:
            new = b"".join(blocks[place.blocks :]).decode("utf-8", "surrogatepass") + "".join(self._tail)
            text = new[place.after_blocks :]
        return text, TextPlace(place.chars + len(text), len(blocks), sum(map(len, self._tail)))

    async def ended(self) -> None:
        """Wait for the end of the input, without keeping the reader from waiting for a slow consumer.

        Cancelling this does not end the input.
        """
        # Unlike `finished`, this does not call `on_wait`. The task of each call waits here, so with `buffer="wait"` the
        # reader would never wait for a slow consumer.
        while self.outcome is None:
            self._end = self._end or anyio.Event()
            await self._end.wait()

    def interrupt(self, reason: str) -> None:
        """Raise `InputInterrupted` in all tasks that wait: no more of this input is wanted, although it may come."""
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
        # An event for each wait: one for the input would wake all tasks with each fragment. The paths of a fragment's
        # changes are looked up among the watchers, so that 100 of them cost 1.24 times as much as none.
        event = anyio.Event()

        def wake(*values: Any) -> None:
            if keep is not None:
                keep(*values)
            event.set()

        self._waiting[event] = None
        if watchers is not None:
            self._watchers.add(watchers, path, wake)
            # Without watchers fragments are only kept. From now on each one is parsed when it comes.
            if self._due_chars:
                self._report()
        # Kept, because the end of the input replaces it, and the buffer's count must get its -1
        # (test_who_is_told_of_waiting).
        on_wait = self.on_wait
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
        # A watcher may raise in there, and nobody must wait for ever because of it.
        try:
            super()._finish(whole=whole)
        finally:
            self.on_wait = _tell_nobody
            self._wake()
            if self._end is not None:
                self._end.set()
