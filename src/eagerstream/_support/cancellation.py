"""Cancellation: tell that of a task from that of foreign code, and end an iteration by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.lowlevel

_CLOSE_TIMEOUT_S: Final = 5.0
_MAX_BUFFERED_CHUNKS: Final = 1_000  # that a client may yield before it waits for the connection again


async def raise_if_cancelled(cancelled: BaseException) -> None:
    """Raise `cancelled` again if this task is cancelled. Return if only foreign code was cancelled.

    On asyncio, a task that awaits a cancelled task gets its `CancelledError`, as if it were cancelled itself.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None  # there is no asyncio here
    if task is not None and task.cancelling() > 0:  # by a scope of anyio, or by `Task.cancel`
        try:
            raise cancelled
        finally:
            # Its traceback has this frame: the cycle would keep the run until the garbage collector comes.
            del cancelled
    await anyio.lowlevel.checkpoint_if_cancelled()


async def unwind(chunks: AsyncIterator[object]) -> None:
    """End an iteration before its natural end.

    HTTP clients nest async generators. Closing the outermost leaves the inner ones to the garbage collector, and trio
    warns about that. Cancelling the innermost wait ends all of them, one after the other.
    """
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            for _ in range(_MAX_BUFFERED_CHUNKS):
                if await anext(chunks, None) is None:
                    return
        except Exception:
            return  # the iteration is over
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


async def close_quietly(response: Any) -> None:
    """Close a response, also when cancelled, because a connection must not outlive the task that opened it.

    Closing is shielded from cancellation and therefore bounded: 5 seconds.
    """
    if getattr(response, "is_closed", False) is True:
        return  # nearly always: a client closes a response whose body it has read to the end
    with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True), suppress(Exception):
        await (response.aclose() if hasattr(response, "aclose") else response.close())
