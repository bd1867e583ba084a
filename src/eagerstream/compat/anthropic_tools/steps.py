"""Calls of functions that may be sync or async, one after the other: the same steps for sync code and for async code.

def lookup(query: str) -> Steps[list[str]]:
    vector = yield partial(embedder.embed, query)
    return (yield partial(store.query, vector))
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import anyio

from ...errors import UsageError
from ...tools.invoke import invoke

T = TypeVar("T")

Steps: TypeAlias = Generator[Callable[[], Any], Any, T]
"""What yields functions to call, is sent what they return (awaited, where it can be), and returns what comes of it."""


def run_steps(steps: Steps[T]) -> T:
    """What the steps come to, for sync code.

    Each function is called in this thread. From the first one on that gives an awaitable, all is done in one event loop
    (asyncio's), which is made for it; where there is none, these steps also run inside an event loop.

    Raises:
        UsageError: Something is to be awaited, and an event loop runs in this thread already.
        Exception: Whatever the functions and the steps raise.
    """
    with closing(steps):
        step = _after(steps, None)
        while not isinstance(step, _End):
            returned = step()
            if inspect.isawaitable(returned):
                return _finish_in_loop(steps, returned)
            step = _after(steps, returned)
        return step.value


async def arun_steps(steps: Steps[T]) -> T:
    """What the steps come to, for async code: plain functions are called in threads.

    Cancelling it ends the steps, and cancels what is awaited; a plain function runs on in its thread, and what it
    returns is dropped.

    Raises:
        Exception: Whatever the functions and the steps raise.
    """
    with closing(steps):
        step = _after(steps, None)
        while not isinstance(step, _End):
            step = _after(steps, await invoke(step, None))
        return step.value


def run_async(function: Callable[[], Awaitable[T]]) -> T:
    """What an async function without arguments returns, in an event loop (asyncio's) that is made for it.

    Raises:
        UsageError: An event loop runs in this thread already.
        Exception: Whatever the function raises.
    """
    if _is_in_event_loop():
        raise UsageError("an event loop runs in this thread already: await the async form, ause_tool or asearch")
    return anyio.run(function)


@dataclass(frozen=True, slots=True)
class _End(Generic[T]):
    value: T


def _after(steps: Steps[T], returned: Any) -> Callable[[], Any] | _End[T]:
    # Apart from the call of the step: a StopIteration of the caller's own function is no end of the steps.
    try:
        return steps.send(returned)
    except StopIteration as stop:
        return _End(stop.value)


def _finish_in_loop(steps: Steps[T], awaitable: Awaitable[Any]) -> T:
    try:
        return run_async(partial(_finish, steps, awaitable))
    finally:
        if inspect.iscoroutine(awaitable):
            awaitable.close()  # where it never began


async def _finish(steps: Steps[T], awaitable: Awaitable[Any]) -> T:
    step = _after(steps, await awaitable)
    while not isinstance(step, _End):
        returned = step()
        step = _after(steps, await returned if inspect.isawaitable(returned) else returned)
    return step.value


def _is_in_event_loop() -> bool:
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:  # by its subclasses for "there is none", which differ between versions
        return False
    return True
