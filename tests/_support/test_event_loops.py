"""The running event loop."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from eagerstream._support.event_loops import event_loop, has_ended, is_asyncio
from tests.support import all_tasks_blocked
from tests.tables import rows

_TASKS = 20


@rows("backend", ["asyncio", "trio"])
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


@pytest.mark.anyio
async def test_tasks_run_in_the_order_of_waking() -> None:
    """A tool's task relies on it: it is woken after the consumers of the events, and must not overtake them."""
    events = [anyio.Event() for _ in range(_TASKS)]
    ran: list[int] = []

    async def wait(number: int) -> None:
        await events[number].wait()
        ran.append(number)

    woken = [number * 7 % _TASKS for number in range(_TASKS)]
    async with anyio.create_task_group() as tasks:
        for number in range(_TASKS):
            tasks.start_soon(wait, number)
        await all_tasks_blocked()
        for number in woken:
            events[number].set()
    assert sorted(ran) == sorted(woken)
    assert ran == woken or not is_asyncio(event_loop())
