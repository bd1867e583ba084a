"""Feed pieces to a decoder or a parser."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar

from eagerstream_wire import Decoder, LimitError, ProtocolError

T = TypeVar("T")
ReaderT = TypeVar("ReaderT", bound=Any)


def fed(reader: ReaderT, pieces: Iterable[Any]) -> ReaderT:
    """The reader, once it has been fed all pieces, or has failed."""
    with suppress(LimitError, ProtocolError):
        for piece in pieces:
            reader.feed(piece)
    return reader


def decoded(decoder: Decoder[T], chunks: Iterable[bytes]) -> tuple[list[T], Exception | None]:
    """The events, and what ended them early; from then on every call must raise the same."""
    events: list[T] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        assert decoder.close() == []
    except (LimitError, ProtocolError) as caught:
        for call in (decoder.close, lambda: decoder.feed(b"data: x\n\n")):
            try:
                call()
            except type(caught) as again:
                assert again is caught
            else:
                raise AssertionError("a decoder that has failed must stay failed") from caught
        return events, caught
    return events, None
