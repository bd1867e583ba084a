"""The running event loop."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from eagerstream._support.event_loops import event_loop, has_ended, is_asyncio


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_loop(backend: str) -> None:
    """The same object for all that runs in one loop, another one for the next, and whether it has ended if it can tell."""

    async def look() -> object:
        loop = event_loop()
        assert event_loop() is loop
        assert is_asyncio(loop) == (backend == "asyncio")
        assert not has_ended(loop)
        return loop

    first, second = anyio.run(look, backend=backend), anyio.run(look, backend=backend)
    assert first is not second
    assert has_ended(first) == (backend == "asyncio")


def test_outside() -> None:
    """It is an error where nothing runs."""
    with pytest.raises(RuntimeError):
        event_loop()
    loop = asyncio.new_event_loop()
    loop.close()
    assert has_ended(loop)
