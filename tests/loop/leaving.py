"""Leave the block of a run in every way that Python has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, assert_never

import anyio

from eagerstream.loop import Run
from tests.loop.serial import SLOWLY_S

Way: TypeAlias = Literal["leave", "raise", "scope", "outer scope", "cancel()"]

WAYS: list[Way] = ["leave", "raise", "scope", "outer scope"]
"""The ways in which no method of the run is called."""


class _Enough(Exception):
    """The consumer's own."""


async def leave(run: Run, way: Way, *, after: Callable[[], Awaitable[object]]) -> None:
    """Enter a run, wait for `after`, and leave the run."""

    async def consume(scope: anyio.CancelScope) -> None:
        async with run:
            await after()
            match way:
                case "leave":
                    return
                case "raise":
                    raise _Enough
                case "scope" | "outer scope":
                    scope.cancel()
                    await anyio.sleep_forever()
                case "cancel()":
                    run.cancel()
                    await run.finish()
                case _:
                    assert_never(way)

    with anyio.fail_after(SLOWLY_S):
        try:
            if way == "outer scope":
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consume, tasks.cancel_scope)
            else:
                with anyio.CancelScope() as scope:
                    await consume(scope)
        except _Enough:
            assert way == "raise"
