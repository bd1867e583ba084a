"""`HostedTasks`: who starts them may leave them in any task, and is never cancelled by them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import weakref

import anyio
import anyio.lowlevel
import pytest

from eagerstream._support.hosted_tasks import HostedTasks

pytestmark = pytest.mark.anyio


async def _fails() -> None:
    raise ZeroDivisionError


async def _fails_when_cancelled() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise LookupError


async def test_a_task_that_fails() -> None:
    """The others are cancelled, and leaving raises the exception itself: not at once, and no group around it."""
    ended = []
    all_ended = anyio.Event()

    async def other() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("other")

    with pytest.raises(ZeroDivisionError):
        async with HostedTasks("test", all_ended.set) as tasks:
            tasks.group.start_soon(other)
            await anyio.lowlevel.checkpoint()
            tasks.group.start_soon(_fails)
            with anyio.fail_after(10):
                await all_ended.wait()
            await anyio.sleep(0.001)  # the body is not cancelled
            ended.append("body")
    assert ended == ["other", "body"]


async def test_two_tasks_that_fail() -> None:
    """Both are told."""
    with pytest.raises(ExceptionGroup) as raised:
        async with HostedTasks("test") as tasks:
            tasks.group.start_soon(_fails_when_cancelled)
            await anyio.sleep(0.01)
            tasks.group.start_soon(_fails)
            await anyio.sleep(0.01)
    assert {type(error) for error in raised.value.exceptions} == {ZeroDivisionError, LookupError}


async def test_the_exception_of_the_body_comes_first() -> None:
    """A task that fails as well does not hide it."""
    with pytest.raises(KeyError):
        async with HostedTasks("test") as tasks:
            tasks.group.start_soon(_fails_when_cancelled)
            await anyio.lowlevel.checkpoint()
            raise KeyError
    assert isinstance(tasks.failure, LookupError)


async def test_what_is_called_last_fails() -> None:
    """As a task that fails."""
    with pytest.raises(ZeroDivisionError):
        async with HostedTasks("test", lambda: 1 // 0):
            pass


async def test_left_at_once() -> None:
    """The body of the host never runs, and leaving ends."""
    ran = []

    async def body() -> None:
        ran.append(True)

    tasks = HostedTasks("test")
    tasks.begin(body)
    with anyio.fail_after(10):
        await tasks.leave(None)
    assert not ran


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled_while_it_enters() -> None:
    """By `Task.cancel`, for which no scope is a shield: the host has ended when it is raised."""

    async def hold() -> None:
        async with tasks:
            await anyio.sleep_forever()

    tasks = HostedTasks("test")
    task = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tasks.has_ended


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled_while_it_leaves() -> None:
    """The group goes away with its last reference: the exception is in no cycle with the frame that raises it."""
    held = []
    leaves, may_end = anyio.Event(), anyio.Event()

    async def slow() -> None:
        with anyio.CancelScope(shield=True):
            leaves.set()
            await may_end.wait()

    async def hold() -> None:
        async with HostedTasks("test") as tasks:
            held.append(weakref.ref(tasks))
            tasks.group.start_soon(slow)

    gc.disable()
    try:
        task = asyncio.ensure_future(hold())
        await leaves.wait()
        task.cancel()
        may_end.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        del task
        await anyio.lowlevel.checkpoint()  # the host ends in its next step
        assert held[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled_by_both_while_it_leaves() -> None:
    """`Task.cancel` after a scope of anyio: the task ends as cancelled, though the scope swallows its own exception."""

    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)

    async def hold() -> None:
        with scope:
            async with HostedTasks("test") as tasks:
                tasks.group.start_soon(slow)
                await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()

    scope = anyio.CancelScope()
    task = asyncio.ensure_future(hold())
    await asyncio.sleep(0.01)
    scope.cancel()
    await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_ctrl_c(loop: str) -> None:
    """It reaches the program wherever it comes: on trio it is raised in any task, and must not stay in ours."""
    ended = []

    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        await anyio.sleep_forever()

    async def main() -> None:
        try:
            async with HostedTasks("test") as tasks:
                tasks.group.start_soon(interrupted)
                await anyio.sleep(30)
        finally:
            ended.append(tasks.has_ended)

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=loop)
    assert ended == [True]


def test_ctrl_c_while_it_leaves() -> None:
    """On trio, where the main task gets it in its waiting: the tasks end first, as always."""
    import trio

    ended = []

    @trio.lowlevel.enable_ki_protection
    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                interrupt()
                await anyio.sleep(0.01)
            ended.append("tool")

    async def main() -> None:
        async with HostedTasks("test") as tasks:
            tasks.group.start_soon(slow)
            await anyio.sleep(0.01)
        ended.append("left")

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend="trio")
    assert ended == ["tool"]
