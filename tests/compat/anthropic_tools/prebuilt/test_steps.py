"""Steps: the same calls from sync code and from async code, whatever kind the functions are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eagerstream.compat.anthropic_tools._steps import Steps, arun_steps, run_steps
from eagerstream.errors import UsageError
from tests.support import until


def plain(value: int) -> int:
    return value + 1


async def waiting(value: int) -> int:
    await anyio.lowlevel.checkpoint()
    return value + 1


def three(*functions: Callable[[int], Any]) -> Steps[int]:
    value = 0
    for function in functions:
        value = yield partial(function, value)
    return value


MIXED = [(plain, plain, plain), (waiting, plain, waiting), (plain, waiting, plain)]


@pytest.mark.parametrize("functions", MIXED)
def test_sync_code_runs_steps_of_both_kinds(functions: tuple[Callable[[int], Any], ...]) -> None:
    """A program has no event loop, and need not know which of its functions want one."""
    assert run_steps("use", "ause", three(*functions)) == 3


@pytest.mark.anyio
@pytest.mark.parametrize("functions", MIXED)
async def test_async_code_runs_steps_of_both_kinds(functions: tuple[Callable[[int], Any], ...]) -> None:
    """The same steps give the same."""
    assert await arun_steps(three(*functions)) == 3


def test_plain_steps_stay_in_their_thread() -> None:
    """Connections may be bound to it."""
    assert run_steps("use", "ause", three(lambda _: threading.get_ident())) == threading.get_ident()


@pytest.mark.anyio
async def test_plain_steps_run_in_threads_of_async_code() -> None:
    """They may block."""
    assert await arun_steps(three(lambda _: threading.get_ident())) != threading.get_ident()


@pytest.mark.anyio
async def test_plain_steps_run_inside_an_event_loop() -> None:
    """As in a notebook: where nothing is to be awaited, nothing is in the way."""
    assert run_steps("use", "ause", three(plain, plain)) == 2


@pytest.mark.anyio
async def test_async_steps_are_refused_inside_an_event_loop() -> None:
    """They cannot be waited for there: said in words, and no coroutine is left that was never awaited."""
    with pytest.raises(UsageError, match="await ause"):
        run_steps("use", "ause", three(waiting))


def stopping(_: int) -> int:
    return next(iter(()))


@pytest.mark.parametrize("before", [(), (waiting,)])
def test_errors_come_out_as_they_are(before: tuple[Callable[[int], Any], ...]) -> None:
    """Of a function, and not as the end of the steps, which another StopIteration is."""
    with pytest.raises(ZeroDivisionError):
        run_steps("use", "ause", three(*before, lambda value: value // 0))
    if not before:
        with pytest.raises(StopIteration):
            run_steps("use", "ause", three(stopping))


def test_steps_are_closed_when_one_fails() -> None:
    """What they hold open is closed at once, not when they are collected."""
    closed: list[str] = []

    def steps(failing: Callable[[], Any]) -> Generator[Callable[[], Any], Any, None]:
        try:
            yield failing
        finally:
            closed.append("closed")

    with pytest.raises(ZeroDivisionError) as failed:
        run_steps("use", "ause", steps(lambda: 1 // 0))
    assert closed == ["closed"]
    assert failed.value is not None


@pytest.mark.anyio
async def test_cancelling_ends_the_steps() -> None:
    """What is awaited is cancelled, a thread is left behind, and no later step is taken."""
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
            tasks.start_soon(arun_steps, three(function, lambda _: seen.append("later")))
            await until(began.is_set)
            tasks.cancel_scope.cancel()
    release.set()
    assert seen == ["cancelled"]
