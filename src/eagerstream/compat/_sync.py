"""Synchronous calls of async functions, as often as one likes, with clients whose connections stay open between them.

A connection belongs to the event loop that opened it. So all synchronous calls of the process share one loop, in a
thread of its own, for as long as the process lives; `asyncio.run` for each call would leave connections behind that the
next one takes and cannot use. It is asyncio's loop, which takes calls from other threads while it runs.

Plain functions are not called in that thread but in the caller's, which has nothing else to do: what belongs to that
(a connection to SQLite, a `threading.local`) is there as the program expects it, and Ctrl-C ends them.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar, cast

import anyio

from ..errors import UsageError
from ..tools import Kind, invoke
from ._answering import answered_call

T = TypeVar("T")

_LAST_WORDS_S: Final = 10.0
"""How long a call that was broken off with Ctrl-C, or by the end of the program, may take to clean up."""


class _Caller:
    """The thread of a synchronous call, which runs what is given to it until the call has ended."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self.has_ended = False

    async def run(self, function: Callable[[], T]) -> T:
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return await asyncio.wrap_future(future)

    def end(self) -> None:
        """There is nothing more to run."""
        self.has_ended = True
        self._jobs.put(None)

    def work(self) -> None:
        """Run what comes, until the end. In the thread itself."""
        while (job := self._jobs.get()) is not None:
            _do(*job)

    def drop(self, timeout_s: float) -> None:
        """Wait for the end, and run nothing more. Raises `queue.Empty` where it does not come."""
        until = time.monotonic() + timeout_s
        try:
            while (job := self._jobs.get(timeout=max(until - time.monotonic(), 0.0))) is not None:
                job[0].cancel()
        finally:
            self.has_ended = True


def _do(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        returned = function()
    except StopIteration as error:  # no future takes it
        told = RuntimeError("a plain function raised StopIteration")
        told.__cause__ = error
        future.set_exception(told)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # the last of an event loop of its own
        future.set_exception(error)
    else:
        future.set_result(returned)


_caller: ContextVar[_Caller | None] = ContextVar("caller", default=None)


async def run_plain(function: Callable[[], T]) -> T:
    """What a plain function returns: run in the caller's thread within a synchronous call, else in a worker thread.

    Cancelling this does not end the function; what it returns is dropped.
    """
    caller = _caller.get() if SyncLoop.current() is not None else None  # threads of a call inherit the variable
    if caller is not None and not caller.has_ended:  # a task that a tool left behind may outlive the call
        return await caller.run(function)
    (returned,) = await invoke(lambda: (function(),), answered_call(), kind=Kind.THREADED)
    return cast("T", returned)


class SyncLoop:
    """The event loop of all synchronous calls, in its thread. Ends with the process.

    A process that is forked has one of its own, and whatever belongs to the old one is of no use to it.
    """

    _shared: SyncLoop | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clients: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._closing: set[asyncio.Task[None]] = set()
        self._callers: set[_Caller] = set()  # that wait
        self._is_ending = False
        self._thread = threading.Thread(target=self._serve, name="eagerstream synchronous calls", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    @property
    def is_alive(self) -> bool:
        """It takes calls."""
        return self._thread.is_alive()

    @property
    def runs_this(self) -> bool:
        """The caller is a task of its loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    @classmethod
    def shared(cls) -> SyncLoop:
        """The one of this process."""
        with cls._lock:
            if cls._shared is None or not cls._shared.is_alive:
                cls._shared = cls()
            return cls._shared

    @classmethod
    def current(cls) -> SyncLoop | None:
        """The one whose loop runs this, for a synchronous call; None in other event loops, and outside of them."""
        return cls._shared if cls._shared is not None and cls._shared.runs_this else None

    def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What an async function returns. Threads may call this at the same time.

        Context variables are the caller's. Ctrl-C cancels the function, and waits up to 10 s for its cleanup.

        Raises:
            RuntimeError: The program ends meanwhile.
        """
        caller = _Caller()
        tasks: list[asyncio.Task[T]] = []

        async def main() -> T:
            return await function()  # in the task: what raises in a callback would leave the caller waiting

        def begin() -> None:
            tasks.append(self._loop.create_task(main()))
            tasks[0].add_done_callback(lambda _: caller.end())

        def cancel() -> None:
            for task in tasks:
                task.cancel()
            if not tasks:  # Ctrl-C was quicker
                caller.end()

        context = copy_context()
        context.run(_caller.set, caller)
        self._callers.add(caller)  # first: whoever is heard is told of the end, too
        try:
            self._loop.call_soon_threadsafe(begin, context=context)
            caller.work()
        except BaseException:
            with suppress(queue.Empty, RuntimeError):  # or the loop has ended
                self._loop.call_soon_threadsafe(cancel)
                caller.drop(_LAST_WORDS_S)
            raise
        finally:
            self._callers.discard(caller)
        if not tasks or not tasks[0].done() or (tasks[0].cancelled() and self._is_ending):
            raise RuntimeError("the event loop of synchronous calls has ended: the program ends")
        return tasks[0].result()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a plain function in the loop, from any thread, without waiting for it. Does nothing after the end."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def close_at_exit(self, client: Any) -> None:
        """Its connections are closed at the end of the process, where nobody has done so before."""
        with suppress(TypeError):  # a class of the user's own, without weak references
            self._clients[id(client)] = client

    def close_soon(self, client: Any) -> None:
        """Close a client that nobody uses any more. From any thread; does not wait."""

        def begin() -> None:
            task = self._loop.create_task(_close(client))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

        with suppress(RuntimeError):  # the loop has ended, and all its clients were closed
            # In a context of its own: who collects garbage may run another event loop, on trio even, and anyio would
            # take this one for that.
            self._loop.call_soon_threadsafe(begin, context=Context())

    def _serve(self) -> None:
        while not self._is_ending:
            # With `run_until_complete`, anyio's worker threads would wait for it to end, and the process for them.
            with suppress(SystemExit, KeyboardInterrupt):  # of a task, which keeps it; the others go on
                self._loop.run_forever()
        try:
            self._loop.run_until_complete(self._clean_up())
        finally:
            self._loop.close()
            for caller in list(self._callers):  # whose call came too late, or would not be cancelled
                caller.end()

    async def _clean_up(self) -> None:
        await self._end_others()
        for client in list(self._clients.values()):
            await _close(client)
        await self._end_others()  # who called meanwhile
        await self._loop.shutdown_asyncgens()

    async def _end_others(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others - self._closing:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_LAST_WORDS_S / 2)

    def end(self) -> None:
        """Close what is open, and end the thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join(_LAST_WORDS_S)

    def _stop(self) -> None:
        self._is_ending = True
        self._loop.stop()

    @classmethod
    def forget(cls) -> None:
        """After a fork: the thread is the parent's, and the lock may have been held."""
        if cls._shared is not None:
            atexit.unregister(cls._shared.end)
        cls._shared, cls._lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SyncLoop.forget)


def run_sync(name: str, instead: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What an async function returns, to a caller without an event loop.

    Args:
        name: Of what the user called.
        instead: What there is for callers with one.
        function: Is run on the loop of all synchronous calls.

    Raises:
        UsageError: An event loop runs in this thread: it would stand still.
    """
    if in_event_loop():
        raise UsageError(f"{name} would block the running event loop: use await {instead}(...)")
    return SyncLoop.shared().call(function)


def in_event_loop() -> bool:
    """An event loop runs in this thread."""
    for ask in (asyncio.get_running_loop, anyio.get_current_task):
        with suppress(RuntimeError):
            ask()
            return True
    return False


async def _close(client: Any) -> None:
    close = getattr(client, "aclose", None) or getattr(client, "close", None)
    if close is None:
        return
    with suppress(Exception), anyio.move_on_after(_LAST_WORDS_S / 4):
        closing = close()
        if inspect.isawaitable(closing):
            await closing
