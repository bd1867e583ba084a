"""Cancellation: raise a task's own again, and leave a task group."""

from __future__ import annotations

import asyncio

import anyio
import anyio.abc
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


async def leave(tasks: anyio.abc.TaskGroup, error: BaseException | None, *, is_idle: bool = False) -> bool:
    """Cancel the tasks of a group that was entered by `__aenter__`, and wait for them.

    Args:
        tasks: The group.
        error: The exception that ended the block, if any. The group would wrap it in an `ExceptionGroup`, so the group
            gets only a cancellation, which it may have to swallow.
        is_idle: The tasks have ended, or do so in their next step, so there is nothing to cancel. A cancellation costs
            more than a scope: anyio describes the task in it.

    Returns:
        The value for `__aexit__` to return.

    Raises:
        ExceptionGroup: Tasks failed.
    """
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return bool(await tasks.__aexit__(type(error), error, error.__traceback__))
    if not is_idle:
        tasks.cancel_scope.cancel()
    await tasks.__aexit__(None, None, None)
    return False
