"""`HostedTasks`: a task group that belongs to the library, so that any task may leave it."""

from __future__ import annotations

import contextvars
import math
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
import anyio.lowlevel

from .error_groups import alone_in
from .event_loops import event_loop, is_asyncio


class HostedTasks:
    """A task group that a task of its own, the host, enters and leaves.

    A group must be left by the task that entered it, before all that this task entered earlier, and it cancels that
    task if one of its own fails. A user holds a context manager of the library in a generator, in a fixture, or in an
    object with methods to start and stop, and none of these keeps to that. So the task of the user enters nothing: it
    starts the host, and later asks it to end, and waits.

    No task of the library raises into the event loop. What a task of the group raised is `failure`, and cancels the
    others.

    A cancellation from outside reaches the task of the user, which leaves and so cancels the group.

    As an async context manager, the group has no body, and leaving it cancels its tasks.

    Args:
        name: Name of the host, for people who list tasks.
        ended: Called last, when no task runs any more.

    Attributes:
        deadline: The deadline of anyio that applied to the task which began the group, as it was then.
        failure: The exception of a task of the group, or several in a group of exceptions. None if there was none.
        is_left: The user has left, or was cancelled.
    """

    def __init__(self, name: str, ended: Callable[[], object] | None = None) -> None:
        self._name = name
        self._ended: Callable[[], object] | None = ended or _nothing  # None once all tasks have ended, and the host
        self._group: anyio.abc.TaskGroup | None = None
        self.deadline: float = math.inf
        self.failure: BaseException | None = None
        self.is_left: bool = False
        self._when_ended: anyio.Event | None = None  # made only if somebody waits for it
        self._when_left: anyio.Event | None = None  # for a group without a body
        self._host: object = None  # asyncio keeps only weak references to its tasks

    @property
    def group(self) -> anyio.abc.TaskGroup:
        """The group. It is there when the host has run for the first time."""
        assert self._group is not None
        return self._group

    @property
    def has_ended(self) -> bool:
        """All tasks have ended, and the host."""
        return self._ended is None

    def begin(self, body: Callable[[], Awaitable[object]]) -> None:
        """Start the host, with the context of this task. It runs `body` in the group, and waits for the other tasks.

        Without a body, if the group is left before the host has run for the first time.
        """
        self.deadline = anyio.current_effective_deadline()
        loop = event_loop()
        if is_asyncio(loop):
            self._host = loop.create_task(self._run(body), name=self._name)
        else:
            import trio

            trio.lowlevel.spawn_system_task(self._run, body, name=self._name, context=contextvars.copy_context())

    async def _run(self, body: Callable[[], Awaitable[object]]) -> None:
        try:
            if not self.is_left:
                async with anyio.create_task_group() as self._group:
                    await body()
        except BaseException as error:
            self.failure = _failure_in(error)
            # trio raises it in any task of the user's code. From here, where it may not, it reaches the main task.
            is_ctrl_c = isinstance(self.failure, KeyboardInterrupt) and not is_asyncio(event_loop())
            if is_ctrl_c and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                self.failure = None
                signal.raise_signal(signal.SIGINT)
                await anyio.lowlevel.cancel_shielded_checkpoint()
        finally:
            try:
                assert self._ended is not None
                self._ended()
            except Exception as error:
                self.failure = self.failure or error
            # No cycle is left: it would keep a run until the garbage collector comes (test_a_result_keeps_no_run).
            self._ended = None
            self._host = None
            if self._when_ended is not None:
                self._when_ended.set()

    async def __aenter__(self) -> Self:
        has_begun = anyio.Event()
        self._when_left = when_left = anyio.Event()

        async def body() -> None:
            has_begun.set()
            await when_left.wait()

        self.begin(body)
        try:
            await has_begun.wait()
        except BaseException as error:
            await self.leave(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.leave(error)

    def _cancel(self) -> None:
        if self._group is not None:
            self._group.cancel_scope.cancel()

    async def leave(self, error: BaseException | None, *, is_idle: bool = False) -> None:
        """Cancel the tasks, and wait until they have ended, whatever happens to the task that waits.

        If this is cancelled, the cancellation is raised again once all tasks have ended.

        Args:
            error: The exception that ended the user's block, if any.
            is_idle: The tasks have ended, or do so in their next step, so there is nothing to cancel.

        Raises:
            BaseException: A task of the group failed, and `error` is None.
        """
        self.is_left = True
        cancelled: BaseException | None = None
        if not self.has_ended:
            if not is_idle:
                self._cancel()
            elif self._when_left is not None:
                self._when_left.set()
            # Shielded once it is cancelled: anyio would cancel it again in each pass of the event loop. `Task.cancel`
            # of asyncio goes through a shield, and must not be lost: a scope of anyio would swallow its own exception.
            with anyio.CancelScope(shield=isinstance(error, anyio.get_cancelled_exc_class())) as scope:
                while not self.has_ended:
                    try:
                        self._when_ended = self._when_ended or anyio.Event()
                        await self._when_ended.wait()
                    except (anyio.get_cancelled_exc_class(), KeyboardInterrupt) as again:  # Ctrl-C comes here on trio
                        cancelled = again
                        self._cancel()
                        scope.shield = True
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                del cancelled  # no cycle with its traceback, which has this frame
        if error is None and self.failure is not None:
            raise self.failure


def _nothing() -> None:
    pass


def _failure_in(error: BaseException) -> BaseException | None:
    """Return what went wrong in a group that raised `error`: without cancellations, and without a group around one."""
    rest: BaseException | None = error
    if isinstance(error, BaseExceptionGroup):
        _, rest = error.split(anyio.get_cancelled_exc_class())
    elif isinstance(error, anyio.get_cancelled_exc_class()):
        return None
    return None if rest is None else alone_in(rest)
