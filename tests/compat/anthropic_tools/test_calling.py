"""One `async def` for sync code and async code, whatever kind the functions are that it calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eagerstream.compat.anthropic_tools._calling import Call, call_async, run_here
from eagerstream.errors import UsageError
from tests.support import until


def plain(value: int) -> int:
    return value + 1


async def waiting(value: int) -> int:
    await anyio.lowlevel.checkpoint()
    return value + 1


def three(*functions: Callable[[int], Any]) -> Callable[[Call], Coroutine[Any, Any, int]]:
    """Call functions one after the other, each with the result of the one before."""

    async def main(call: Call) -> int:
        value = 0
        for function in functions:
            value = await call(function, value)
        return value

    return main


MIXED = [(plain, plain, plain), (waiting, plain, waiting), (plain, waiting, plain)]


@pytest.mark.parametrize("functions", MIXED)
def test_sync_code_calls_both_kinds(functions: tuple[Callable[[int], Any], ...]) -> None:
    """A program has no event loop, and need not know which of its functions want one."""
    assert run_here("use", "ause", three(*functions)) == 3


@pytest.mark.anyio
@pytest.mark.parametrize("functions", MIXED)
async def test_async_code_calls_both_kinds(functions: tuple[Callable[[int], Any], ...]) -> None:
    """The same calls give the same."""
    assert await three(*functions)(call_async) == 3


def test_plain_functions_stay_in_their_thread() -> None:
    """Connections may be bound to it."""
    assert run_here("use", "ause", three(lambda _: threading.get_ident())) == threading.get_ident()


@pytest.mark.anyio
async def test_plain_functions_run_in_threads_of_async_code() -> None:
    """They may block."""
    assert await three(lambda _: threading.get_ident())(call_async) != threading.get_ident()


@pytest.mark.anyio
async def test_plain_functions_run_inside_an_event_loop() -> None:
    """As in a notebook: where nothing is to be awaited, nothing is in the way."""
    assert run_here("use", "ause", three(plain, plain)) == 2


@pytest.mark.anyio
async def test_async_functions_are_refused_inside_an_event_loop() -> None:
    """They cannot be waited for there: said in words, and no coroutine is left that was never awaited."""
    with pytest.raises(UsageError, match="await ause"):
        run_here("use", "ause", three(waiting))


def stopping(_: int) -> int:
    return next(iter(()))


@pytest.mark.parametrize("before", [(), (waiting,)])
def test_errors_come_out_as_they_are(before: tuple[Callable[[int], Any], ...]) -> None:
    """Of a function. A `StopIteration` is not taken for the end of the calls."""
    with pytest.raises(ZeroDivisionError):
        run_here("use", "ause", three(*before, lambda value: value // 0))
    with pytest.raises(RuntimeError, match="StopIteration"):
        run_here("use", "ause", three(*before, stopping))


def test_what_is_open_is_closed_when_a_function_fails() -> None:
    """At once, and not when it is collected."""
    closed: list[str] = []

    async def main(call: Call) -> None:
        try:
            await call(lambda: 1 // 0)
        finally:
            closed.append("closed")

    with pytest.raises(ZeroDivisionError) as failed:
        run_here("use", "ause", main)
    assert closed == ["closed"]
    assert failed.value is not None


def test_nothing_but_calls_can_be_awaited() -> None:
    """There is no event loop that would resume it."""

    async def main(_: Call) -> None:
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="only a Call"):
        run_here("use", "ause", main)


@pytest.mark.anyio
async def test_cancelling_ends_the_calls() -> None:
    """What is awaited is cancelled, a thread is left behind, and no later function is called."""
    seen: list[str] = []
    began, release = threading.Event(), threading.Event()

    async def forever(_: int) -> int:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")
        return 0

    def blocked(_: int) -> int:
        began.set()
        release.wait(20)
        return 0

    for function in (forever, blocked):
        began.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(three(function, lambda _: seen.append("later")), call_async)
            await until(began.is_set)
            tasks.cancel_scope.cancel()
    release.set()
    assert seen == ["cancelled"]
