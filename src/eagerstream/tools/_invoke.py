"""Running of tool functions of any kind: awaited, in a thread, or as a generator of progress.

The time in which an `async def` blocks the event loop is measured, because it blocks all other calls and the reading of
the response too.
"""

from __future__ import annotations

import inspect
import logging
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import closing
from enum import Enum
from functools import partial
from time import perf_counter
from typing import Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from .._support.event_loops import LoopThread
from ._call import ToolCall
from ._response import ToolResponse
from ._running_call import RunningCall, record_of

_log = logging.getLogger(__name__)

BLOCKED_S: Final = 0.1
"""Seconds without an `await` after which a tool is reported to block the event loop, as in asyncio's debug mode."""


class Kind(Enum):
    """The way to run a function."""

    COROUTINE = "async def"
    GENERATOR = "async generator"
    THREADED = "anything else"


def kind_of(function: Callable[..., Any]) -> Kind:
    """Return the way to run a function. Keep the result: the check takes a large share of the time to start a tool."""
    kind = _unwrapped(function)
    if inspect.iscoroutinefunction(kind):
        return Kind.COROUTINE
    return Kind.GENERATOR if inspect.isasyncgenfunction(kind) else Kind.THREADED


async def invoke(function: Callable[[], Any], call: ToolCall | RunningCall | None, *, kind: Kind | None = None) -> Any:
    """Run a function without arguments, and return its result.

    An `async def` and an async generator run here. Anything else runs in a thread; if it returns an awaitable or an
    async generator, that runs here. Each value of a generator is progress, except a response, and the last one is the
    result. A generator without values returns None. Cancelling this cancels everything that runs here; a thread
    continues, and its result is dropped.

    Args:
        function: The function.
        call: Receives the progress; None to drop it.
        kind: The result of an earlier `kind_of`, if known.
    """
    call = record_of(call) if isinstance(call, RunningCall) else call
    kind = kind or kind_of(function)
    if kind is Kind.COROUTINE:
        return await _watched(function(), call)
    if kind is Kind.GENERATOR:
        return await _watched(_last_of(function(), call), call)
    # The caller bounds the number of these threads. One that was abandoned must not take a place.
    limiter = anyio.CapacityLimiter(1)
    loop = LoopThread()
    if call is not None:
        call.enter_thread(loop)
    (returned,) = await anyio.to_thread.run_sync(
        partial(_call_in_thread, function, call, loop), abandon_on_cancel=True, limiter=limiter
    )
    if inspect.iscoroutine(returned):
        return await _watched(returned, call)
    if isinstance(returned, AsyncGenerator):
        return await _watched(_last_of(returned, call), call)
    return await returned if inspect.isawaitable(returned) else returned


def _unwrapped(function: Callable[..., Any]) -> Any:
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _call_in_thread(function: Callable[[], Any], call: ToolCall | None, loop: LoopThread) -> tuple[Any]:
    """Return the function's return value, in a tuple: trio accepts no coroutine from a thread."""
    try:
        returned = function()
        if not inspect.isgenerator(returned):
            return (returned,)
        last: Any = None
        with closing(returned):
            for last in returned:
                if call is None:
                    continue
                was_reported = loop.do(partial(_report, call, last), is_over=call.is_over)
                if not was_reported or call.is_over():
                    return (None,)  # it took too long, or the run is over: the rest is not needed
        return (last,)
    finally:
        if call is not None:
            loop.do_soon(call.leave_thread)


async def _last_of(values: AsyncGenerator[Any, None], call: ToolCall | None) -> Any:
    last: Any = None
    step = values.__anext__()
    while True:
        try:
            last = await step
        except StopAsyncIteration:
            return last
        if call is not None:
            try:
                _report(call, last)
            except BaseException:
                await values.aclose()
                raise
        try:
            await anyio.lowlevel.checkpoint()  # a generator may never wait: let other tasks run
        except anyio.get_cancelled_exc_class() as cancelled:
            # Its own scopes are open while it is suspended at its `yield`: only inside it can they handle this.
            step = values.athrow(cancelled)
        else:
            step = values.__anext__()


def _report(call: ToolCall, value: Any) -> None:
    if not isinstance(value, ToolResponse):
        call.report(value)


@types.coroutine
def _watched(coroutine: Coroutine[Any, Any, Any], call: ToolCall | None) -> Generator[Any, Any, Any]:
    """Run a coroutine, and measure each of its steps from one `await` to the next."""
    step: Callable[[], Any] = partial(coroutine.send, None)
    while True:
        started_s = perf_counter()
        try:
            waits_for = step()
        except StopIteration as stop:
            return stop.value
        finally:
            blocked_s = perf_counter() - started_s
            if blocked_s > BLOCKED_S and call is not None:
                _note(call, blocked_s)
        try:
            step = partial(coroutine.send, (yield waits_for))
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            step = partial(coroutine.throw, error)


def _note(call: ToolCall, blocked_s: float) -> None:
    if blocked_s > call.blocked_s:
        call.blocked_s = blocked_s
        _log.warning(
            "the tool %s blocked the event loop for %.1f s: make it a plain def, which runs in a thread",
            call.name,
            blocked_s,
        )
