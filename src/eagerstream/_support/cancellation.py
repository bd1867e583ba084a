"""Whose cancellation it is: a task's own, or one that foreign code came by and lets out."""

from __future__ import annotations

import asyncio

import anyio.lowlevel


async def raise_if_cancelled(cancelled: BaseException) -> None:
    """Raise `cancelled` again where it is this task that is cancelled; return where foreign code came by it.

    On asyncio whoever awaits a task that was cancelled gets its `CancelledError`, as if it were meant for him.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None  # there is no asyncio here
    if task is not None and task.cancelling() > 0:  # by a scope of anyio, or by its own means
        raise cancelled
    await anyio.lowlevel.checkpoint_if_cancelled()
