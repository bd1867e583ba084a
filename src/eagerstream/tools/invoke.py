"""How a tool's function is run, whatever kind it is: awaited, in a thread, or as a generator of progress.

Time in which an `async def` blocks the event loop is measured: all other calls, and the reading of the reply, stand
still in it.
"""

from __future__ import annotations

import inspect
import logging
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from functools import partial
from time import perf_counter
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from .call import ToolCall
from .response import ToolResponse

_log = logging.getLogger(__name__)

BLOCKED_S: Final = 0.1
"""A tool that keeps the event loop for longer, without an `await`, is told of; asyncio's debug mode says the same."""

_CLEANUP_S: Final = 5.0
"""How long a generator that was given up may take to clean up."""


async def invoke(function: Callable[[], Any], call: ToolCall | None) -> Any:
    """The result of a function without arguments.

    An `async def` and an async generator run here; anything else runs in a thread, and where it gives an awaitable or
    an async generator, that runs here. Of a generator, each value but a response is progress, and the last one is the
    result; one that yields nothing returns None.
    """
    kind = _unwrapped(function)
    if inspect.iscoroutinefunction(kind):
        return await _watched(function(), call)
    if inspect.isasyncgenfunction(kind):
        return await _watched(_last_of(function(), call), call)
    # One at a time of these threads is bounded by who calls this; one that was given up must not take a place.
    limiter = anyio.CapacityLimiter(1)
    returned = await anyio.to_thread.run_sync(
        partial(_call_in_thread, function, call), abandon_on_cancel=True, limiter=limiter
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


def _call_in_thread(function: Callable[[], Any], call: ToolCall | None) -> Any:
    returned = function()
    return _last_in_thread(returned, call) if inspect.isgenerator(returned) else returned


def _last_in_thread(values: Iterator[Any], call: ToolCall | None) -> Any:
    last: Any = None
    for last in values:
        if call is not None:
            if call.result is not None:
                return None  # it took too long, or the run is over: nobody wants the rest
            anyio.from_thread.run_sync(_report, call, last)
    return last


async def _last_of(values: AsyncGenerator[Any, None], call: ToolCall | None) -> Any:
    last: Any = None
    try:
        async for last in values:
            if call is not None:
                _report(call, last)
                # A generator need not wait for anything: others must have their turn all the same.
                await anyio.lowlevel.checkpoint()
    finally:
        with anyio.move_on_after(_CLEANUP_S, shield=True):
            await values.aclose()
    return last


def _report(call: ToolCall, value: Any) -> None:
    if not isinstance(value, ToolResponse):
        call.report(value)


@types.coroutine
def _watched(coroutine: Coroutine[Any, Any, Any], call: ToolCall | None) -> Generator[Any, Any, Any]:
    """Run a coroutine, and take the time of each of its steps from one `await` to the next."""
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
