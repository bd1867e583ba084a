"""Synchronous calls of async functions, with clients whose connections stay open between the calls.

A connection belongs to the event loop that opened it. All synchronous calls of the process therefore share one loop,
which runs in its own thread until the process ends. `asyncio.run` for each call would leave connections behind that the
next call takes and cannot use.

Plain functions run in the caller's thread, which has nothing else to do. Objects that belong to that thread (a
connection to SQLite, a `threading.local`) work as the program expects, and Ctrl-C ends the functions.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, Final, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal

from eagerstream.errors import UsageError
from eagerstream.tools import Kind, RunningCall, invoke

T = TypeVar("T")

_ENDED: Final = "the event loop of synchronous calls has ended: the program ends"
_LAST_WORDS_S: Final = 10.0
"""Maximum time for the cleanup of a call after Ctrl-C or at the end of the program, in seconds."""


_answered: ContextVar[RunningCall | None] = ContextVar("answered", default=None)


@contextmanager
def answering(call: RunningCall) -> Iterator[None]:
    """Answer a call within the block. If it is cancelled while a thread runs for it, its group waits for the thread."""
    token = _answered.set(call)
    try:
        yield
    finally:
        _answered.reset(token)


def answered_call() -> RunningCall | None:
    """Return the call that is being answered. An older tool only gets its arguments. `None` outside of a run."""
    return _answered.get()


class _Caller:
    """Thread of a synchronous call. It runs the functions that are passed to it until the call has ended."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self.has_ended = False

    async def run(self, function: Callable[[], T]) -> T:
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return await asyncio.wrap_future(future)

    def end(self) -> None:
        """End the work of the thread."""
        self.has_ended = True
        self._jobs.put(None)

    def work(self) -> None:
        """Run functions until the end. The thread itself calls this."""
        while (job := self._jobs.get()) is not None:
            _do(*job)

    def drop(self, timeout_s: float) -> None:
        """Wait for the end, and run nothing more. Raise `queue.Empty` if it does not come in time."""
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
    except StopIteration as error:  # a future does not accept it
        told = RuntimeError("a plain function raised StopIteration")
        told.__cause__ = error
        future.set_exception(told)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # the last: the function's own event loop
        future.set_exception(error)
    else:
        future.set_result(returned)


_caller: ContextVar[_Caller | None] = ContextVar("caller", default=None)


async def run_plain(function: Callable[[], T]) -> T:
    """Return the result of a plain function, run in the caller's thread of a synchronous call or in a worker thread.

    Cancelling this does not end the function. Its result is dropped.
    """
    caller = _caller.get() if SyncLoop.current() is not None else None  # threads of a call inherit the variable
    if caller is not None and not caller.has_ended:  # a task that a tool left behind may outlive the call
        return await caller.run(function)
    # In a tuple, because trio accepts no coroutine from a thread.
    (returned,) = await invoke(lambda: (function(),), answered_call(), kind=Kind.THREADED)
    return cast("T", returned)


if sys.platform == "win32":  # pragma: no cover - asyncio's default loops
    _DefaultLoop = asyncio.ProactorEventLoop
else:
    _DefaultLoop = asyncio.SelectorEventLoop


class _LastingLoop(_DefaultLoop):
    """An event loop that continues after a task raised `SystemExit`. The task keeps the exception."""

    def run_forever(self) -> None:
        while True:
            with suppress(SystemExit, KeyboardInterrupt):
                return super().run_forever()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: at exit, Python has already joined these threads.

        asyncio would start a thread to wait for them. From Python 3.12 on, no thread can start at exit.
        """


class SyncLoop:
    """Event loop of all synchronous calls, in its own thread: an anyio portal that lasts until the process ends.

    A forked process gets its own loop. It cannot use any object that belongs to the parent's loop.
    """

    _shared: SyncLoop | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._clients: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.is_ending = False
        """`True` when no call is accepted any more, and the running ones are cancelled."""
        started: Future[BlockingPortal] = Future()
        serve = partial(anyio.run, self._serve, started, backend_options={"loop_factory": _LastingLoop})
        # In its own context: the thread of the first call may run another event loop.
        self._thread = threading.Thread(
            target=Context().run, args=(serve,), name="eagerstream synchronous calls", daemon=True
        )
        self._thread.start()
        self._portal = started.result()
        atexit.register(self.end)

    @classmethod
    def shared(cls) -> SyncLoop:
        """Return the loop of this process."""
        with cls._lock:
            if cls._shared is None or cls._shared.is_ending:
                cls._shared = cls()
            return cls._shared

    @classmethod
    def current(cls) -> SyncLoop | None:
        """Return the loop that runs this, within a synchronous call. `None` in other event loops, and without one."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return None
        return cls._shared if cls._shared is not None and cls._shared.loop is running else None

    def start(
        self, function: Callable[[], Coroutine[Any, Any, T]], on_end: Callable[[], object]
    ) -> tuple[Future[T], Callable[[], bool]]:
        """Start an async function with the context variables of the caller. Return its outcome and its cancel function.

        `on_end` is called in the loop when the function has ended in any way. If the program ends, this or the outcome
        raises a `RuntimeError`.
        """
        outcome: Future[T] = Future()

        async def main() -> None:
            try:
                outcome.set_result(await function())
            except asyncio.CancelledError as error:
                outcome.set_exception(RuntimeError(_ENDED) if self.is_ending else error)
                raise
            except BaseException as error:  # must not reach the portal: `SystemExit` would end it
                outcome.set_exception(error)
            finally:
                on_end()

        if self.is_ending:
            raise RuntimeError(_ENDED)
        return outcome, self._portal.start_task_soon(main).cancel

    def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of an async function. Several threads may call this at the same time.

        The function sees the caller's context variables. Ctrl-C cancels the function, and waits up to 10 s for its
        cleanup.
        """
        caller = _Caller()

        async def main() -> T:
            _caller.set(caller)
            return await function()

        outcome, cancel = self.start(main, caller.end)
        try:
            caller.work()
        except BaseException:
            cancel()
            with suppress(queue.Empty):
                caller.drop(_LAST_WORDS_S)
            raise
        return outcome.result()

    def close_at_exit(self, client: Any) -> None:
        """Close the connections of a client at the end of the process."""
        with suppress(TypeError):  # a user's class without weak references
            self._clients[id(client)] = client

    def close_soon(self, client: Any) -> None:
        """Close an unused client. Any thread may call this, and it does not wait."""
        self._start_soon(_close, client)

    def end(self) -> None:
        """Cancel the running calls, close the clients, and end the thread. Wait up to 10 s."""
        self.is_ending = True
        self._start_soon(self._portal.stop, True)
        self._thread.join(_LAST_WORDS_S)

    def _start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and all its clients were closed
            # Never waits, because the garbage collector may call this in any thread. Does not use that thread's
            # context, because the thread may run another event loop.
            self.loop.call_soon_threadsafe(partial(self._others.start_soon, function, *args), context=self._context)

    async def _serve(self, started: Future[BlockingPortal]) -> None:
        self.loop, self._context = asyncio.get_running_loop(), copy_context()
        async with anyio.create_task_group() as self._others:
            async with BlockingPortal() as portal:
                started.set_result(portal)
                await portal.sleep_until_stopped()
            for client in list(self._clients.values()):
                await _close(client)

    @classmethod
    def forget(cls) -> None:
        """Forget the loop after a fork: the thread is the parent's, and the lock may have been held."""
        if cls._shared is not None:
            atexit.unregister(cls._shared.end)
        cls._shared, cls._lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SyncLoop.forget)


def run_sync(name: str, instead: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of an async function, for a caller without an event loop.

    Raises:
        UsageError: An event loop runs in this thread. The user called `name`, and should call `instead`.
    """
    refuse_in_event_loop(name, f"await {instead}")
    return SyncLoop.shared().call(function)


def refuse_in_event_loop(name: str, instead: str) -> None:
    """Raise a `UsageError` if an event loop runs in this thread."""
    if in_event_loop():
        raise UsageError(f"{name} would block the running event loop: use {instead}(...)")


def in_event_loop() -> bool:
    """Return whether an event loop runs in this thread."""
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
