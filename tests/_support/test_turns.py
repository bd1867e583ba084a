"""Turns of the event loop."""

from __future__ import annotations

import anyio
import pytest

from eagerstream._support.turns import wakes_in_order
from tests.support import all_tasks_blocked

_TASKS = 20


@pytest.mark.anyio
async def test_tasks_run_in_the_order_of_waking(anyio_backend_name: str) -> None:
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
    assert wakes_in_order() == (anyio_backend_name == "asyncio")
    assert ran == woken or not wakes_in_order()
