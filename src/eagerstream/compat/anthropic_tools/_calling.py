"""Calls of functions that may be sync or async: one `async def` serves sync code and async code.

async def lookup(query: str, call: Call) -> list[str]:
    vector = await call(embedder.embed, query)
    return await call(store.query, vector)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar

from .._sync import run_plain, run_sync

T = TypeVar("T")

Call: TypeAlias = Callable[..., Awaitable[Any]]
"""Function that calls another one with arguments, and returns its result, awaited if necessary."""


async def call_async(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function from async code, as a `Call`: an `async def` in this task, a plain function as `run_plain` does.

    Cancelling it cancels an awaited function. A plain function continues in its thread, and its result is dropped.
    """
    called = partial(_in_tuple, function, args, kwargs)
    (returned,) = called() if inspect.iscoroutinefunction(function) else await run_plain(called)
    return await _awaited(returned) if inspect.isawaitable(returned) else returned


def run_here(name: str, instead: str, main: Callable[[Call], Coroutine[Any, Any, T]]) -> T:
    """Run an async function for sync code. Its `Call` calls each function in this thread.

    If a function returns an awaitable, it is awaited in the event loop of all synchronous calls.

    Args:
        name: Name of the function that the user called.
        instead: Name of the function for callers with an event loop.
        main: Async function that awaits only its `Call`.

    Raises:
        UsageError: An awaitable was returned, and an event loop runs in this thread.
        Exception: Any error of the functions. A `StopIteration` becomes a `RuntimeError`.
    """

    async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        returned = function(*args, **kwargs)
        if not inspect.isawaitable(returned):
            return returned
        try:
            return run_sync(name, instead, partial(_awaited, returned))
        finally:
            if inspect.iscoroutine(returned):
                returned.close()  # if it never started

    try:
        main(call).send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("only a Call may be awaited here")


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _in_tuple(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any]:
    return (function(*args, **kwargs),)  # trio accepts no coroutine from a thread
