"""`invoke`: how a tool's function is run, whatever kind it is."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from eagerstream import RunningCall
from eagerstream.limits import Limits
from eagerstream.tools import InProcessExecutor, Tool, ToolCall, ToolResponse, _invoke as invoke_module, invoke, tool
from tests.support import Heard, all_tasks_blocked
from tests.tools.calls import a_call, cancelled

pytestmark = pytest.mark.anyio

_USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


def a_watched_call(name: str = "f") -> tuple[ToolCall, list[Any]]:
    """A call, and the progress that it will tell."""
    call = a_call(name, "{}")
    told: list[Any] = []
    call.listeners = (Heard(on_progress=lambda _, value: told.append(value)),)
    return call, told


async def run(used: Tool, **options: Any) -> tuple[ToolCall, list[Any]]:
    """A call of a tool without parameters, executed; and its progress."""
    call, told = a_watched_call(used.name)
    with anyio.fail_after(10):
        await InProcessExecutor([used], **options).execute(call)
    assert call.result is not None
    return call, told


def content(call: ToolCall) -> Any:
    """What the model reads."""
    assert call.result is not None
    return call.result.get("content")


async def until(event: threading.Event) -> None:
    """Wait for something that a thread does."""
    assert await anyio.to_thread.run_sync(event.wait, 10)


# --- functions --------------------------------------------------------------------------------------------------------


async def test_async_def() -> None:
    """It runs on the event loop's own thread, and sees the context of whoever runs it."""

    async def f() -> tuple[int, str]:
        await anyio.lowlevel.checkpoint()
        return threading.get_ident(), _USER.get()

    _USER.set("ann")
    assert await invoke(f, None) == (threading.get_ident(), "ann")


async def test_def_runs_in_a_thread() -> None:
    """It may block: the event loop goes on. It sees the context, and what it sets there is its own."""
    released = threading.Event()

    def f() -> tuple[int, str]:
        assert released.wait(10)
        seen = _USER.get()
        _USER.set("the thread")
        return threading.get_ident(), seen

    async def release() -> None:
        released.set()

    _USER.set("ann")
    results: list[Any] = []

    async def keep() -> None:
        results.append(await invoke(f, None))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            await all_tasks_blocked()
            await release()
    ((thread, seen),) = results
    assert thread != threading.get_ident()
    assert seen == "ann"
    assert _USER.get() == "ann"


class _Sync:
    def __call__(self) -> str:
        return "object"


class _Async:
    async def __call__(self) -> str:
        return "async object"


class _Awaitable:
    def __await__(self) -> Generator[Any, Any, str]:
        yield from anyio.lowlevel.checkpoint().__await__()
        return "awaited"  # what an awaitable is


async def _named(name: str) -> str:
    return name


async def _stream(last: str) -> AsyncIterator[str]:
    yield "first"
    yield last


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_Sync(), "object"),
        (_Async(), "async object"),
        (partial(_named, "partial"), "partial"),
        (partial(partial(_named), "nested"), "nested"),
        (lambda: _stream("a generator from a thread"), "a generator from a thread"),
        (partial(_stream, "partial of a generator"), "partial of a generator"),
        (_Awaitable, "awaited"),
        (list, []),
    ],
    ids=["object", "async object", "partial", "nested", "generator", "partial generator", "await", "class"],
)
async def test_other_kinds(function: Callable[[], Any], expected: Any) -> None:
    """Whatever can be called gives its own result, and not a coroutine or a generator."""
    assert await invoke(function, None) == expected


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_def_that_gives_a_coroutine() -> None:
    """A plain wrapper around an async function, as many decorators make it: its coroutine runs on the event loop."""

    def wrapper() -> Any:
        return _named("a coroutine from a thread")

    assert await invoke(wrapper, None) == "a coroutine from a thread"


@pytest.mark.parametrize("error", [ValueError("x"), StopIteration(1), StopAsyncIteration(), KeyError("k")], ids=repr)
async def test_exceptions_of_a_thread(error: BaseException) -> None:
    """They come out as they are, or at least as some exception that says so; none is swallowed."""

    def f() -> None:
        raise error

    with pytest.raises((type(error), RuntimeError)):
        await invoke(f, None)


# --- generators -------------------------------------------------------------------------------------------------------


def _as_async(values: list[Any]) -> Callable[[], AsyncIterator[Any]]:
    async def f() -> AsyncIterator[Any]:
        for value in values:
            yield value

    return f


def _as_sync(values: list[Any]) -> Callable[[], Iterator[Any]]:
    def f() -> Iterator[Any]:
        yield from values

    return f


@pytest.mark.parametrize("kind", [_as_async, _as_sync])
async def test_generators(kind: Any) -> None:
    """What it yields is told as it comes, and the last value is the result; without any, the result is empty."""
    call, told = await run(tool(kind([1, {"done": 2}, "end"]), name="f"))
    assert told == [1, {"done": 2}, "end"]
    assert content(call) == "end"
    call, told = await run(tool(kind([]), name="f"))
    assert (told, call.result) == ([], {"type": "tool_result", "tool_use_id": "toolu_0"})


@pytest.mark.parametrize("kind", [_as_async, _as_sync])
async def test_a_response_is_no_progress(kind: Any) -> None:
    """A response is the answer: whoever shows progress does not get it as such."""
    call, told = await run(tool(kind(["half", ToolResponse.partial("some", reason="cut")]), name="f"))
    assert told == ["half"]
    assert content(call) == "[PARTIAL] cut\nsome"


@pytest.mark.parametrize("kind", [_as_async, _as_sync])
async def test_a_generator_that_fails(kind: Any) -> None:
    """What it told before stays told; the model reads the error."""

    def failing() -> Any:
        yield "half"
        raise ValueError("no more")

    async def failing_async() -> Any:
        yield "half"
        raise ValueError("no more")

    call, told = await run(tool(failing if kind is _as_sync else failing_async, name="f"))
    assert told == ["half"]
    assert content(call) == "ValueError: no more"


async def test_an_async_generator_lets_others_run() -> None:
    """One that waits for nothing does not keep the event loop to itself."""
    other_ran_at: list[int] = []
    count = 0

    async def busy() -> AsyncIterator[int]:
        nonlocal count
        for count in range(100):  # read by the other task
            yield count

    async def other() -> None:
        other_ran_at.append(count)

    call, _ = a_watched_call()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(invoke, busy, call)
        tasks.start_soon(other)
    assert other_ran_at[0] < 99


def _refuse(_: ToolCall, __: Any) -> None:
    raise RuntimeError("no")


async def test_an_async_generator_whose_consumer_fails() -> None:
    """Where telling of progress raises, the generator is cleaned up before the error comes out."""
    cleaned: list[str] = []

    async def f() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await anyio.lowlevel.checkpoint()
            cleaned.append("async")

    call, _ = a_watched_call()
    call.listeners = (Heard(on_progress=_refuse),)
    with pytest.raises(RuntimeError, match="no"):
        await invoke(f, call)
    assert cleaned == ["async"]


async def test_a_def_generator_whose_consumer_fails() -> None:
    """So is a plain one, in its own thread."""
    threads: list[int] = []

    def f() -> Iterator[int]:
        threads.append(threading.get_ident())
        try:
            yield 1
            yield 2
        finally:
            threads.append(threading.get_ident())

    call, _ = a_watched_call()
    call.listeners = (Heard(on_progress=_refuse),)
    with pytest.raises(RuntimeError, match="no") as caught:
        await invoke(f, call)
    assert caught.value is not None  # whoever keeps the error, a log for one, keeps its frames
    assert len(threads) == 2
    assert threads[0] == threads[1]


# --- cancellation -----------------------------------------------------------------------------------------------------


async def test_cancelling_an_async_def() -> None:
    """It sees the cancellation itself, and may await while it cleans up, under a shield."""
    started = anyio.Event()
    seen: list[str] = []

    async def f() -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            seen.append("cancelled")
            raise

    call, _ = a_watched_call()
    await cancelled(invoke, f, call, when=started.wait())
    assert seen == ["cancelled"]


async def test_scopes_inside_a_tool() -> None:
    """A tool's own time limits and task groups work: what is thrown into it arrives where it waits."""

    async def f() -> list[str]:
        seen = []
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
            seen.append("never")
        try:
            with anyio.fail_after(0):
                await anyio.sleep_forever()
        except TimeoutError:
            seen.append("timed out")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            tasks.cancel_scope.cancel()
        seen.append("end")
        return seen

    with anyio.fail_after(10):
        assert await invoke(f, a_watched_call()[0]) == ["timed out", "end"]


async def test_cancelling_an_async_generator() -> None:
    """Where it waits: it sees the cancellation. Between two values: it is closed, and may await in its cleanup."""
    started = anyio.Event()
    seen: list[str] = []

    async def waiting() -> AsyncIterator[int]:
        try:
            yield 1
            started.set()
            await anyio.sleep_forever()
            yield 2
        except anyio.get_cancelled_exc_class():
            seen.append("cancelled")
            raise

    call, told = a_watched_call()
    await cancelled(invoke, waiting, call, when=started.wait())
    assert (seen, told) == (["cancelled"], [1])

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            with anyio.CancelScope(shield=True):  # as in any coroutine that is cancelled
                await anyio.lowlevel.checkpoint()
            seen.append("closed")

    call, _ = a_watched_call()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            call.listeners = (Heard(on_progress=lambda _, __: tasks.cancel_scope.cancel()),)
            tasks.start_soon(invoke, endless, call)
    assert seen == ["cancelled", "closed"]


async def test_cancelling_a_def() -> None:
    """It cannot be stopped: it runs on in its thread, nobody waits for it, and what it returns is dropped."""
    started, released, ended = threading.Event(), threading.Event(), threading.Event()

    def f() -> str:
        started.set()
        assert released.wait(10)
        ended.set()
        return "too late"

    call, _ = a_watched_call()
    await cancelled(InProcessExecutor([tool(f)]).execute, call, when=until(started))
    assert call.result is None
    released.set()
    await until(ended)
    assert call.result is None


async def test_threads_that_were_given_up_take_no_place() -> None:
    """However many tools hang in their threads, the next one has a thread."""
    released = threading.Event()

    @tool(timeout_s=0.001)
    def hang() -> None:
        """Hang."""
        released.wait(10)

    try:
        for _ in range(50):  # anyio's own limit is 40
            call, _ = await run(hang)
            assert call.is_error
    finally:
        released.set()


async def test_a_def_generator_that_was_given_up() -> None:
    """It ends at its next value and is cleaned up in its thread; what it would have told is not told."""
    started, released, cleaned = threading.Event(), threading.Event(), threading.Event()
    threads: list[int] = []
    after: list[str] = []

    def slow() -> Iterator[str]:
        """Slow."""
        threads.append(threading.get_ident())
        try:
            yield "first"
            started.set()
            assert released.wait(10)
            yield "second"
            after.append("it went on")
            yield "third"
        finally:
            threads.append(threading.get_ident())
            cleaned.set()

    call, told = a_watched_call("slow")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(InProcessExecutor([tool(slow)]).execute, call)
        await until(started)
        call.refuse("it took too long")
        released.set()
    await until(cleaned)
    assert told == ["first"]
    assert after == []
    assert threads[0] == threads[1]
    assert content(call) == "it took too long"


async def test_a_def_generator_of_a_cancelled_run() -> None:
    """Nobody answers a cancelled call before the run is over: its generator must end all the same."""
    started, released, cleaned = threading.Event(), threading.Event(), threading.Event()
    values: list[int] = []

    def slow() -> Iterator[int]:
        """Slow."""
        try:
            for n in range(1000):
                values.append(n)
                yield n
                started.set()
                assert released.wait(10)
        finally:
            cleaned.set()

    call, _ = a_watched_call("slow")
    await cancelled(InProcessExecutor([tool(slow)]).execute, call, when=until(started))
    call.refuse("The run was cancelled.")  # as the turn does when it is settled
    released.set()
    await until(cleaned)
    assert len(values) <= 2


# --- time on the event loop -------------------------------------------------------------------------------------------


class Clock:
    """A clock that a tool puts forward, and nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(invoke_module, "perf_counter", lambda: self.now_s)


async def test_a_tool_that_blocks(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Everything else stands still in that time: the log names the tool and says what to do."""
    clock = Clock(monkeypatch)

    @tool
    async def blocking() -> str:
        """Block."""
        clock.now_s += 0.05  # not worth a word
        await anyio.lowlevel.checkpoint()
        clock.now_s += 2.5
        await anyio.lowlevel.checkpoint()
        clock.now_s += 1.0  # less than before: told once
        await anyio.lowlevel.checkpoint()
        return "done"

    with caplog.at_level(logging.WARNING, "eagerstream"):
        call, _ = await run(blocking)
    assert call.blocked_s == 2.5
    assert content(call) == "done"
    (record,) = caplog.records
    assert "the tool blocking blocked the event loop for 2.5 s" in record.getMessage()


async def test_waiting_is_not_blocking(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Time in which it awaits, or in which a thread runs, is nobody's loss."""
    clock = Clock(monkeypatch)
    resume = anyio.Event()

    @tool
    async def patient() -> None:
        """Wait."""
        await resume.wait()

    @tool
    def threaded() -> None:
        """Work in a thread."""
        clock.now_s += 60

    call, _ = a_watched_call("patient")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(InProcessExecutor([patient]).execute, call)
        await all_tasks_blocked()
        clock.now_s += 60
        resume.set()
    second, _ = await run(threaded)
    assert (call.blocked_s, second.blocked_s) == (0.0, 0.0)
    assert not caplog.records


@pytest.mark.parametrize("how", ["raise", "generator", "last step", "cleanup"])
async def test_blocking_is_noticed_in_every_step(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a step that raises or returns, in a generator, and in a cleanup."""
    clock = Clock(monkeypatch)

    async def raising() -> None:
        clock.now_s += 3
        raise ValueError("x")

    async def generator() -> AsyncIterator[int]:
        yield 1
        clock.now_s += 3
        yield 2

    async def last() -> int:
        await anyio.lowlevel.checkpoint()
        clock.now_s += 3
        return 1

    async def cleaning() -> None:
        try:
            with anyio.fail_after(0):
                await anyio.sleep_forever()
        finally:
            clock.now_s += 3

    functions: dict[str, Callable[[], Any]] = {
        "raise": raising,
        "generator": generator,
        "last step": last,
        "cleanup": cleaning,
    }
    call, _ = await run(tool(functions[how], name="f"))
    assert call.blocked_s == 3


async def test_exceptions_go_in_where_it_waits() -> None:
    """What is thrown into the wrapper is thrown into the tool, which may catch it and go on; closing closes it."""
    seen: list[str] = []

    class Wait:
        def __await__(self) -> Generator[str, Any, Any]:
            return (yield "waiting")

    async def f() -> str:
        try:
            await Wait()
        except ValueError as error:
            seen.append(str(error))
        try:
            got = await Wait()
            return f"got {got}"
        finally:
            seen.append("closed")

    def watched() -> Any:
        return invoke_module._watched(f(), a_watched_call()[0])

    steps = watched()
    assert next(steps) == "waiting"
    assert steps.throw(ValueError("thrown")) == "waiting"
    with pytest.raises(StopIteration) as stop:
        steps.send("sent")
    assert stop.value.value == "got sent"
    assert seen == ["thrown", "closed"]
    steps = watched()
    next(steps)
    steps.throw(ValueError("again"))
    steps.close()
    assert seen == ["thrown", "closed", "again", "closed"]


# --- progress ---------------------------------------------------------------------------------------------------------


async def test_progress_from_every_kind_of_tool() -> None:
    """A tool is given its call, and tells by it how far it is: on the loop, or from its thread."""

    @tool
    async def on_the_loop(call: RunningCall) -> str:
        """Tell."""
        await call.progress({"done": 1})
        call.report({"done": 2})
        return call.name

    @tool
    def in_a_thread(call: RunningCall) -> str:
        """Tell."""
        call.progress({"done": 1})
        call.report({"done": 2})
        return call.name

    @tool
    def by_anyio(call: RunningCall) -> str:
        """Tell."""
        anyio.from_thread.run(call.progress, {"done": 1})  # type: ignore[arg-type]  # it gives a coroutine there
        anyio.from_thread.run_sync(call.report, {"done": 2})
        return call.name

    @tool
    def with_a_coroutine(call: RunningCall) -> Any:
        """Tell, first in a thread, and then on the loop."""
        call.progress({"done": 1})

        async def rest() -> str:
            await call.progress({"done": 2})
            return call.name

        return rest()

    for used in (on_the_loop, in_a_thread, by_anyio, with_a_coroutine):
        call, told = await run(used)
        assert told == [{"done": 1}, {"done": 2}]
        assert content(call) == used.name


async def test_progress_after_the_end() -> None:
    """Of a call that was answered nothing is told any more."""
    kept: list[RunningCall] = []

    @tool
    async def f(call: RunningCall) -> None:
        """Keep."""
        kept.append(call)

    _, told = await run(f)
    await kept[0].progress("late")
    assert told == []


async def test_progress_can_be_cancelled() -> None:
    """A tool that does nothing but tell how far it is can be stopped."""

    @tool(timeout_s=0.01)
    async def f(call: RunningCall) -> None:
        """Tell for ever."""
        while True:
            await call.progress(1)

    call, _ = await run(f, limits=Limits())
    assert content(call) == "TimeoutError: the tool did not finish within 0.01 seconds"
