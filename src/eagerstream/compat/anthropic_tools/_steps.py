"""Calls of functions that may be sync or async, one after the other: the same steps for sync code and for async code.

def lookup(query: str) -> Steps[list[str]]:
    vector = yield partial(embedder.embed, query)
    return (yield partial(store.query, vector))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from .._sync import run_plain, run_sync

T = TypeVar("T")

Steps: TypeAlias = Generator[Callable[[], Any], Any, T]
"""What yields functions to call, is sent what they return (awaited, where it can be), and returns what comes of it."""


def run_steps(name: str, instead: str, steps: Steps[T]) -> T:
    """What the steps come to, for sync code: each function is called in this thread.

    What they give to be awaited is awaited in the event loop of all synchronous calls.

    Args:
        name: Of what the user called.
        instead: What there is for callers with an event loop.
        steps: Are closed in the end.

    Raises:
        UsageError: Something is to be awaited, and an event loop runs in this thread already.
        Exception: Whatever the functions and the steps raise.
    """
    with closing(steps):
        step = _after(steps, None)
        while not isinstance(step, _End):
            returned = step()
            if inspect.isawaitable(returned):
                try:
                    return run_sync(name, instead, partial(_finish, steps, returned))
                finally:
                    if inspect.iscoroutine(returned):
                        returned.close()  # where it never began
            step = _after(steps, returned)
        return step.value


async def arun_steps(steps: Steps[T]) -> T:
    """What the steps come to, for async code: plain functions are called as `run_plain` does.

    Cancelling it ends the steps, and cancels what is awaited; a plain function runs on in its thread, and what it
    returns is dropped.

    Raises:
        Exception: Whatever the functions and the steps raise.
    """
    with closing(steps):
        return await _go_on(steps, _after(steps, None))


@dataclass(frozen=True, slots=True)
class _End(Generic[T]):
    value: T


def _after(steps: Steps[T], returned: Any) -> Callable[[], Any] | _End[T]:
    # Apart from the call of the step: a StopIteration of the caller's own function is no end of the steps.
    try:
        return steps.send(returned)
    except StopIteration as stop:
        return _End(stop.value)


async def _finish(steps: Steps[T], awaitable: Any) -> T:
    return await _go_on(steps, _after(steps, await awaitable))


async def _go_on(steps: Steps[T], step: Callable[[], Any] | _End[T]) -> T:
    while not isinstance(step, _End):
        called = partial(_called, step)
        (returned,) = called() if inspect.iscoroutinefunction(step) else await run_plain(called)
        step = _after(steps, await returned if inspect.isawaitable(returned) else returned)
    return step.value


def _called(step: Callable[[], Any]) -> tuple[Any]:
    return (step(),)  # in a tuple: trio takes no coroutine from a thread
