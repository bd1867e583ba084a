"""A run, a stream, events and early calls, held in every way in which programs hold a context manager.

Each way must leave nothing behind, and cancel no task of the program. `messages.stream()` of the anthropic package and
`httpx.stream` pass the same ways.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from contextvars import ContextVar
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest

import eagerstream
from eagerstream.errors import StreamInterrupted
from eagerstream.tools import tool
from tests.streams import MESSAGE_STOP, REQUEST, block_start, message_delta, message_start, text_delta
from tests.support import Gate, LocalAPI, until, whole_call
from tests.tables import rows

pytestmark = pytest.mark.anyio

_RESPONSE: list[Any] = [message_start(), *whole_call(0, "look"), block_start(1, "text", text=""), text_delta(1, "a")]

_NAMES = ["run", "stream", "events", "EarlyCalls"]

_ITEMS = 3
"""Items that come before the waiting, at least."""


class Door:
    """A way into the library, held once. Its response says a little, and then waits for ever.

    Args:
        name: The name of the function or class.
        cleaning_s: Seconds that the tool takes to end once it is cancelled.

    Attributes:
        held: The context manager.
    """

    def __init__(self, name: str, cleaning_s: float = 0.0) -> None:
        self._cleaning_s = cleaning_s
        self._api = LocalAPI([*_RESPONSE, Gate()])
        self._open = 0  # tools and responses
        self.held: Any
        match name:
            case "run":
                self.held = eagerstream.run(self._api.transport(), tools=[tool(self._look)], **REQUEST)
            case "stream":
                self.held = eagerstream.stream(self._api.transport(), **REQUEST)
            case "events":
                self.held = eagerstream.events(self._events())
            case _:
                self.held = eagerstream.EarlyCalls([tool(self._look)])

    async def _look(self) -> None:
        """Look."""
        self._open += 1
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(self._cleaning_s)
            self._open -= 1

    async def _events(self) -> AsyncGenerator[Any, None]:
        self._open += 1
        try:
            for event in _RESPONSE:
                await anyio.lowlevel.checkpoint()
                yield event
            await anyio.sleep_forever()
        finally:
            self._open -= 1

    def has_ended(self) -> bool:
        return not self._open and all(each.closed for each in self._api.exchanges)

    async def items(self) -> AsyncGenerator[Any, None]:
        """The items of the entered context manager."""
        if not isinstance(self.held, eagerstream.EarlyCalls):
            async for event in self.held:
                yield event
            return
        async with aclosing(self._events()) as events:
            async for event in events:
                self.held.feed(event)
                yield event

    async def generator(self) -> AsyncGenerator[Any, None]:
        """The generator that everybody writes first."""
        async with self.held:
            async with aclosing(self.items()) as items:
                async for item in items:
                    yield item


Way: TypeAlias = Callable[[Door], Awaitable[object]]


async def _in_a_task(work: Callable[[], Awaitable[object]]) -> None:
    async def do() -> None:
        await work()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do)


async def left_by_break(door: Door) -> None:
    """The generator is closed by whoever collects it, in whatever task."""
    async for _ in door.generator():
        break
    gc.collect()


async def closed_in_another_task(door: Door) -> None:
    """As web frameworks do with the generator of a response."""
    generator = door.generator()
    await anext(generator)
    await _in_a_task(generator.aclose)


async def each_item_in_a_task(door: Door) -> None:
    """As `wait_for` of Python 3.11 does, and every merge of iterators."""
    generator = door.generator()
    for _ in range(_ITEMS):
        await _in_a_task(generator.__anext__)
    await generator.aclose()


async def dropped_in_a_group(door: Door) -> None:
    """Begun in one task among others, and forgotten."""
    await _in_a_task(door.generator().__anext__)
    gc.collect()


async def in_a_session(door: Door) -> None:
    """An object with `start()` and `stop()`, called from two tasks, and used in a third one."""
    await _in_a_task(door.held.__aenter__)
    items = door.items()
    await anext(items)
    await _in_a_task(lambda: door.held.__aexit__(None, None, None))
    await items.aclose()


async def too_late(door: Door) -> None:
    """A deadline of the program while it waits for the next item."""
    with anyio.move_on_after(0.02) as scope:
        async for _ in door.generator():
            pass
    assert scope.cancelled_caught


async def a_sibling_fails(door: Door) -> None:
    """Which cancels the task that holds the run."""

    async def hold() -> None:
        async for _ in door.generator():
            holds.set()

    holds = anyio.Event()
    with pytest.raises(ExceptionGroup) as raised:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await holds.wait()
            raise ZeroDivisionError
    assert len(raised.value.exceptions) == 1


async def the_body_fails(door: Door) -> None:
    """Its exception comes out as it is."""
    with pytest.raises(ZeroDivisionError):
        async for _ in door.generator():
            raise ZeroDivisionError


async def left_before_it_began(door: Door) -> None:
    """Without an await in between."""
    with warnings.catch_warnings(action="ignore"):
        async with door.held:
            pass


async def wait_for(door: Door) -> None:
    async def hold() -> None:
        async for _ in door.generator():
            pass

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hold(), 0.02)


async def asyncio_timeout(door: Door) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            async for _ in door.generator():
                pass


async def cancelled_twice(door: Door) -> None:
    """By `Task.cancel`, the second time while it leaves: that waits until the tool has ended, all the same."""

    async def hold() -> None:
        async for _ in door.generator():
            pass

    task = asyncio.ensure_future(hold())
    await asyncio.sleep(0.02)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.002)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert door.has_ended()


async def cancelled_while_it_leaves(door: Door) -> None:
    """Nothing had cancelled it before, so it comes out as cancelled once all tasks have ended."""

    async def hold() -> None:
        with suppress(ZeroDivisionError):
            async with aclosing(door.generator()) as generator:
                async for _ in generator:
                    leaves.set()
                    raise ZeroDivisionError

    leaves = asyncio.Event()
    task = asyncio.ensure_future(hold())
    await leaves.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):  # the stream may have been left already
        await task
    assert door.has_ended()


async def in_a_task_group(door: Door) -> None:
    """That of asyncio."""

    async def hold() -> None:
        async for _ in door.generator():
            pass

    async def fail() -> None:
        await asyncio.sleep(0.02)
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(hold())
            tasks.create_task(fail())


_WAYS: list[Way] = [
    left_by_break,
    closed_in_another_task,
    each_item_in_a_task,
    dropped_in_a_group,
    in_a_session,
    too_late,
    a_sibling_fails,
    the_body_fails,
    left_before_it_began,
]

_ASYNCIO_WAYS: list[Way] = [
    wait_for,
    asyncio_timeout,
    cancelled_twice,
    cancelled_while_it_leaves,
    in_a_task_group,
]


def _run_on(loop: str, main: Callable[[], Awaitable[None]]) -> None:
    if loop == "eager":
        with asyncio.Runner() as runner:
            runner.get_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - from 3.12 on
            runner.run(main())  # type: ignore[arg-type]
    elif loop == "uvloop":
        pytest.importorskip("uvloop")
        anyio.run(main, backend_options={"use_uvloop": True})
    else:
        anyio.run(main, backend=loop)


def _living() -> int:
    """The number of tasks of this event loop."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio

        return trio.lowlevel.current_statistics().tasks_living


@pytest.mark.parametrize(
    "loop",
    [
        "asyncio",
        "trio",
        pytest.param("eager", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="from Python 3.12 on")),
        pytest.param("uvloop", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.filterwarnings("ignore:Async generator.*was garbage collected:ResourceWarning")
def test_every_way(name: str, loop: str) -> None:
    """The program goes on, and nothing is left: no task, no tool, no response."""
    failures: list[Exception] = []

    async def hold(way: Way) -> None:
        before = _living()
        door = Door(name, cleaning_s=0.01)
        with anyio.fail_after(30):
            await way(door)
            await until(lambda: door.has_ended() and _living() == before)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()  # a task that is cancelled by mistake learns it in its next await

    async def main() -> None:
        for way in _WAYS if loop == "trio" else [*_WAYS, *_ASYNCIO_WAYS]:
            try:
                await hold(way)
            except Exception as failure:
                failure.add_note(f"{name}: {way.__name__}")
                failures.append(failure)

    _run_on(loop, main)
    if failures:
        raise ExceptionGroup("ways", failures)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@rows("name", _NAMES)
@pytest.mark.filterwarnings("ignore:Async generator.*was garbage collected:ResourceWarning")
def test_open_at_the_end_of_the_event_loop(name: str, loop: str) -> None:
    """In a generator that is kept, or entered and never left: nothing is reported, and nothing goes on."""
    kept: list[object] = []
    told: list[object] = []
    doors = [Door(name), Door(name)]

    async def main() -> None:
        if loop == "asyncio":
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        generator = doors[0].generator()
        await anext(generator)
        await doors[1].held.__aenter__()
        items = doors[1].items()
        for _ in range(_ITEMS):
            await anext(items)
        kept.extend((generator, items))
        await anyio.lowlevel.checkpoint()  # anyio warns about a task that is cancelled before its first step

    _run_on(loop, main)
    assert all(door.has_ended() for door in doors)
    assert not told


@rows("name", _NAMES)
def test_a_fixture(name: str) -> None:
    """As pytest-asyncio runs one: what comes before its `yield`, the test, and the rest, each in a task of its own."""
    door = Door(name)

    async def fixture() -> AsyncGenerator[Any, None]:
        async with door.held:
            yield door.items()

    async def use(items: Any) -> None:
        for _ in range(_ITEMS):
            await anext(items)
        await items.aclose()

    with asyncio.Runner() as runner:
        generator = fixture()
        items = runner.run(anext(generator))
        runner.run(use(items))
        with pytest.raises(StopAsyncIteration):
            runner.run(anext(generator))
        assert door.has_ended()
        assert not asyncio.all_tasks(runner.get_loop())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelled_by_somebody_who_cancels_every_task() -> None:
    """The iteration does not end as if the response were complete."""
    door = Door("run")
    async with door.held as run:
        await anext(run)
        for task in asyncio.all_tasks():
            if task.get_name() == "Run":
                task.cancel()
        with pytest.raises(StreamInterrupted, match="the tasks of the Run were cancelled"):
            async for _ in run:
                pass


async def test_what_a_tool_sees_of_the_program() -> None:
    """The context variables of its caller, and the deadline that applied where the run was entered."""
    seen: list[tuple[str, float]] = []
    variable: ContextVar[str] = ContextVar("variable", default="none")

    @tool
    async def look() -> str:
        """Look."""
        seen.append((variable.get(), anyio.current_effective_deadline() - anyio.current_time()))
        variable.set("of a tool")
        return "seen"

    variable.set("of the program")
    calls_look = [message_start(), *whole_call(0, "look"), message_delta("tool_use"), MESSAGE_STOP]
    done = [message_start(), message_delta("end_turn"), MESSAGE_STOP]
    with anyio.fail_after(60):
        async with eagerstream.run(LocalAPI(calls_look, done).transport(), tools=[look], **REQUEST) as run:
            await run.finish()
        async with eagerstream.EarlyCalls([look]) as calls:
            for event in calls_look:
                calls.feed(event)
            await calls.finish()
    assert [name for name, _ in seen] == ["of the program"] * 2
    assert all(30 < left_s <= 60 for _, left_s in seen)
    assert variable.get() == "of the program"


async def test_a_callback_that_fails_in_a_task() -> None:
    """It reaches the body where that waits for the calls, and nothing that the body does otherwise is cancelled."""
    doors = [Door("EarlyCalls")]

    def fail(_: object) -> None:
        raise ZeroDivisionError

    @tool
    async def now() -> str:
        """Now."""
        return "noon"

    with pytest.raises(ZeroDivisionError):
        async with eagerstream.EarlyCalls([now, tool(doors[0]._look)], on_stop=fail) as calls:
            for event in (message_start(), *whole_call(0, "now"), *whole_call(1, "_look")):
                calls.feed(event)
            await anyio.sleep(0.01)
            await calls.finish()
    assert doors[0].has_ended()


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
def test_cells_of_a_notebook(name: str) -> None:
    """Entered in one cell, read in others, and left in the last one."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    door = Door(name)

    async def main() -> None:
        shell.user_ns.update(held=door.held, items=door.items())
        for cell in (
            "await held.__aenter__()",
            "await anext(items)",
            "await anext(items)",
            "await held.__aexit__(None, None, None)",
            "await items.aclose()",
        ):
            ran = await asyncio.create_task(shell.run_cell_async(cell, transformed_cell=cell))
            assert ran.success, ran
        assert door.has_ended()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
def test_a_client_that_leaves_starlette(name: str) -> None:
    """The generator of a response is closed by the server, while it waits for the next item."""
    import httpx
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    door = Door(name)

    async def lines() -> AsyncGenerator[str, None]:
        async for item in door.generator():
            yield f"{type(item).__name__}\n"

    async def respond(_: object) -> StreamingResponse:
        return StreamingResponse(lines())

    async def main() -> None:
        config = uvicorn.Config(Starlette(routes=[Route("/", respond)]), log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listener])
                url = f"http://127.0.0.1:{listener.getsockname()[1]}"
                await until(lambda: server.started)
                async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
                    async for _ in response.aiter_lines():
                        break
                await until(door.has_ended)
                server.should_exit = True

    asyncio.run(main())
