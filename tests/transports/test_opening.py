"""`Opening`: what it has opened is closed, however the opening ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from eagerstream.transports import Reply
from eagerstream.transports._opening import Opening

pytestmark = pytest.mark.anyio


class Source(AbstractAsyncContextManager[Any]):
    """A response, and the context of its reply; it knows what ended it."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> bool:
        self.seen.append(kind)
        return isinstance(error, KeyError)

    async def aclose(self) -> None:
        self.seen.append("closed")


def opens(source: Source, *, fails: bool = False) -> Callable[[Opening], Awaitable[Reply]]:
    async def send(opening: Opening) -> Reply:
        opening.response = source
        reply = await opening.enter(source)
        if fails:
            raise LookupError
        return reply

    return send


async def test_left() -> None:
    """The reply is closed before its response."""
    source = Source()
    reply: Any
    async with Opening(opens(source)) as reply:
        assert reply is source
        assert source.seen == []
    assert source.seen == [None, "closed"]


async def test_an_exception_in_the_block() -> None:
    """The reply is told, and may have caused it."""
    source = Source()
    with pytest.raises(ZeroDivisionError):
        async with Opening(opens(source)):
            raise ZeroDivisionError
    async with Opening(opens(source)):
        raise KeyError
    assert source.seen == [ZeroDivisionError, "closed", KeyError, "closed"]


async def test_an_opening_that_fails() -> None:
    """After the reply was entered, or before: only what is open is closed."""
    source = Source()
    with pytest.raises(LookupError):
        async with Opening(opens(source, fails=True)):
            raise AssertionError

    async def refuse(opening: Opening) -> Reply:
        opening.response = source
        raise LookupError

    with pytest.raises(LookupError):
        async with Opening(refuse):
            raise AssertionError
    assert source.seen == [LookupError, "closed", "closed"]
