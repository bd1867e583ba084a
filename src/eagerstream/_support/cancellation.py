"""`raise_if_cancelled`: raise the cancellation of a task again, but not that of foreign code."""

from __future__ import annotations

import asyncio

import anyio.lowlevel


async def raise_if_cancelled(cancelled: BaseException) -> None:
    """Raise `cancelled` again if this task is cancelled. Return if only foreign code was cancelled.

    On asyncio, a task that awaits a cancelled task gets its `CancelledError`, as if it were cancelled itself.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None  # there is no asyncio here
    if task is not None and task.cancelling() > 0:  # by a scope of anyio, or by `Task.cancel`
        raise cancelled
    await anyio.lowlevel.checkpoint_if_cancelled()
