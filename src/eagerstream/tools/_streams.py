"""`TextStream`, `ItemStream`, `Later`: parameters that a tool reads while the model is still writing them.

    @tool
    async def make_file(filename: str, lines_of_text: ItemStream[str]) -> str:
        async with await anyio.open_file(filename, "w") as file:
            async for line in lines_of_text:
                await file.write(line)

They are views of the call's growing input and keep no data of their own. A tool that reads slowly, or not at all,
delays nothing else. If the input is cut off or turns out to be unusable, reading raises `InputInterrupted`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Annotated, Any, Generic, NoReturn, Protocol, Self, TypeVar, get_args, get_origin

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from eagerstream_wire import JSON
from eagerstream_wire._values import Path, encodable

from ..errors import InputInterrupted

T = TypeVar("T")

Convert = Callable[[JSON], Any]
"""Converts a finished JSON value for the tool. Raises `ValueError` if the value does not fit."""


class _Source(Protocol):
    """The source of the values, usually a `GrowingInput`."""

    async def field(self, *path: str | int) -> Any: ...

    async def next_text(self, path: Path, sent: int) -> str: ...

    async def next_item(self, path: Path, number: int) -> tuple[Any] | None: ...


class _Whole:
    """A value that is complete from the start."""

    def __init__(self, value: Any) -> None:
        self.value = value

    async def field(self, *_path: str | int) -> Any:
        return self.value

    async def next_text(self, _path: Path, sent: int) -> str:
        text: str = self.value[sent:]
        return text

    async def next_item(self, _path: Path, number: int) -> tuple[Any] | None:
        return (self.value[number],) if number < len(self.value) else None


def _as_it_is(value: JSON) -> Any:
    return value


class _Parameter:
    """Base of the three: the name of a parameter in an input, and the default to use if a valid input lacks it."""

    def __init__(self, input: _Source, name: str, convert: Convert = _as_it_is, default: Self | None = None) -> None:
        self._input = input
        self._name = name
        self._convert = convert
        self._default = default

    @property
    def given(self) -> Any:
        """The value of a parameter made by `of`."""
        assert isinstance(self._input, _Whole)
        return self._input.value

    def _given(self, value: JSON) -> Any:
        try:
            return self._convert(value)
        except ValueError as error:
            raise InputInterrupted((self._name,), str(error)) from None

    def _interrupted(self, error: Exception) -> NoReturn:
        reason = "the parameter is missing" if isinstance(error, KeyError) else str(error)
        raise InputInterrupted((self._name,), reason) from None


class TextStream(_Parameter):
    """A string parameter, in pieces as they are written. `await` it for the complete string.

    Each iteration starts at the first character. A cancelled read loses nothing. An optional parameter has a default
    `TextStream.of(text)`, which is used if a valid input ends without the parameter.

    Raises:
        InputInterrupted: While reading: the input was cut off or is not JSON, the value is not a string, or the
            parameter is missing and has no default.
    """

    @classmethod
    def of(cls, text: str) -> Self:
        """Return a complete one, as a default, or to call a tool's function directly."""
        return cls(_Whole(text), "text")

    def __aiter__(self) -> _Pieces:
        return _Pieces(self)

    def __await__(self) -> Generator[Any, Any, str]:
        return self._whole().__await__()

    async def _whole(self) -> str:
        try:
            value: str = self._given(await self._input.field(self._name))
        except KeyError as error:
            if self._default is None:
                self._interrupted(error)
            return await self._default
        except TypeError as error:
            self._interrupted(error)
        return value

    async def next_piece(self, sent: int) -> str:
        """Wait for the text after the first `sent` characters; empty at the end. Cancelling this loses nothing.

        Raises:
            InputInterrupted: The input was cut off, is invalid or was interrupted, or its value is not a string.
        """
        try:
            piece: str = encodable(await self._input.next_text((self._name,), sent))
            return piece
        except KeyError as error:
            if self._default is None:
                self._interrupted(error)
            return await self._default.next_piece(sent)
        except TypeError as error:
            self._interrupted(error)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.str_schema()


class _Pieces:
    """One reading of a `TextStream`. A class, not a generator: readers may leave it at any point without closing it."""

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self._sent = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        piece = await self._stream.next_piece(self._sent)
        if not piece:
            raise StopAsyncIteration
        self._sent += len(piece)
        return piece


class ItemStream(_Parameter, Generic[T]):
    """An array parameter: each item is checked when it is finished. `await` it for the complete list.

    Each iteration starts at the first item. A cancelled read loses nothing. An optional parameter has a default
    `ItemStream.of(items)`, which is used if a valid input ends without the parameter.

    Raises:
        InputInterrupted: While reading: the input was cut off or is not JSON, the value is not an array, an item is not
            a `T`, or the parameter is missing and has no default.
    """

    @classmethod
    def of(cls, items: Iterable[T]) -> Self:
        """Return a complete one, as a default, or to call a tool's function directly. The items are not converted."""
        return cls(_Whole(list(items)), "items")

    def __aiter__(self) -> _Items[T]:
        return _Items(self._input, self._name, self._convert, self._default)

    def __await__(self) -> Generator[Any, Any, list[T]]:
        return self._whole().__await__()

    async def _whole(self) -> list[T]:
        return [item async for item in self]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.list_schema(handler.generate_schema(_item_type(source)))


class _Items(_Parameter, Generic[T]):
    """One reading of an `ItemStream`."""

    def __init__(self, input: _Source, name: str, convert: Convert, default: ItemStream[T] | None) -> None:
        super().__init__(input, name, convert)
        self._items_by_default = default
        self._number = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            found = await self._input.next_item((self._name,), self._number)
        except KeyError as error:
            if self._items_by_default is None:
                self._interrupted(error)
            self._input, self._convert = _Whole(self._items_by_default.given), _as_it_is
            return await anext(self)
        except TypeError as error:
            self._interrupted(error)
        if found is None:
            raise StopAsyncIteration
        try:
            item: T = self._convert(found[0])
        except ValueError as error:
            raise InputInterrupted((self._name, self._number), str(error)) from None
        self._number += 1
        return item


class Later(_Parameter, Awaitable[T]):
    """A parameter that the tool does not need at its start. `await` it when its value is needed.

    A cancelled wait loses nothing. An optional parameter has a default `Later.of(value)`.

    Raises:
        InputInterrupted: While waiting: the input was cut off or is not JSON, the value is not a `T`, or the parameter
            is missing and has no default.
    """

    @classmethod
    def of(cls, value: T) -> Self:
        """Return one whose value is complete."""
        return cls(_Whole(value), "value")

    def __await__(self) -> Generator[Any, Any, T]:
        return self._value().__await__()

    async def _value(self) -> T:
        try:
            value: T = self._given(await self._input.field(self._name))
        except KeyError as error:
            if self._default is not None:
                return await self._default
            self._interrupted(error)
        return value

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(_item_type(source))


def _item_type(source: Any) -> Any:
    arguments = get_args(source)
    return arguments[0] if arguments else Any


def value_type(hint: Any) -> Any:
    """Return the type of each item, of the value, or of the complete text, with its constraints."""
    metadata: tuple[Any, ...] = ()
    while hasattr(hint, "__metadata__"):
        metadata = (*hint.__metadata__, *metadata)
        hint = hint.__origin__
    kind = stream_kind(hint)
    if kind is not None and issubclass(kind, ItemStream):
        return _item_type(hint)  # constraints of the complete array are checked at its end
    value = str if kind is not None and issubclass(kind, TextStream) else _item_type(hint)
    return Annotated[(value, *metadata)] if metadata else value


def hides_a_stream(hint: Any) -> bool:
    """Return whether a streaming type is nested in another type, which prevents streaming."""
    return any(stream_kind(part) is not None or hides_a_stream(part) for part in get_args(_bare(hint)))


def stream_kind(hint: Any) -> type[TextStream | ItemStream[Any] | Later[Any]] | None:
    """Return the streaming type of an annotation; `None` for an ordinary type."""
    hint = _bare(hint)
    origin: Any = get_origin(hint) or hint
    return origin if isinstance(origin, type) and issubclass(origin, TextStream | ItemStream | Later) else None


def _bare(hint: Any) -> Any:
    """Return an annotation without its metadata."""
    while hasattr(hint, "__metadata__"):
        hint = hint.__origin__
    return hint


def repeated_key(raw: str) -> str | None:
    """Return a key that occurs twice in the object `raw`, nested objects excluded; `None` if there is none.

    JSON allows it, and the last one counts. A tool that has already started was given the first.
    """
    keys: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        keys[:] = [key for key, _ in pairs]  # nested objects end first: the last one is the root

    json.loads(raw, object_pairs_hook=keep)
    return next((key for number, key in enumerate(keys) if key in keys[:number]), None)
