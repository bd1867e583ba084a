"""`raise_if_cancelled`: a task's own cancellation passes, one of foreign code does not."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from eagerstream._support.cancellation import raise_if_cancelled


@pytest.mark.anyio
async def test_a_cancelled_scope_passes() -> None:
    """Whoever cancelled the task must get it to its end."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            await raise_if_cancelled(cancelled)
            pytest.fail("the cancellation was swallowed")
    assert scope.cancelled_caught


def test_a_cancelled_task_passes() -> None:
    """`Task.cancel` is the task's own cancellation, too, and the same exception comes out."""

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("enough")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as cancelled:
            await raise_if_cancelled(cancelled)

    with pytest.raises(asyncio.CancelledError, match="enough"):
        asyncio.run(main())


def test_the_cancellation_of_another_task_is_an_error_like_others() -> None:
    """Awaiting a task that was cancelled raises its `CancelledError`, which is not meant for the one who waits."""

    async def main() -> str:
        other = asyncio.ensure_future(asyncio.sleep(60))
        other.cancel()
        try:
            await other
        except asyncio.CancelledError as cancelled:
            await raise_if_cancelled(cancelled)
        return "went on"

    assert asyncio.run(main()) == "went on"
