"""Cancellation: whose it is, and how the owner of a task group leaves it."""

from __future__ import annotations

import asyncio

import anyio
import anyio.abc
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


async def leave(tasks: anyio.abc.TaskGroup, error: BaseException | None) -> bool:
    """Cancel the tasks of a group that was entered by `__aenter__`, and wait for them.

    Args:
        tasks: The group.
        error: What ended the block, if anything. The group would wrap it in an `ExceptionGroup`, so that it sees only a
            cancellation, which may be its own to swallow.

    Returns:
        What `__aexit__` should return.

    Raises:
        ExceptionGroup: Tasks failed.
    """
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return bool(await tasks.__aexit__(type(error), error, error.__traceback__))
    tasks.cancel_scope.cancel()
    await tasks.__aexit__(None, None, None)
    return False
