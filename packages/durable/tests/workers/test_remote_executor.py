"""`RemoteExecutor`: what comes at an inconvenient moment, told by a line that does it to the point."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from packages.durable.tests.workers import tools
from packages.durable.tests.workers.calls import Written, a_call, answered, content
from tests.support import all_tasks_blocked

from eagerstream.errors import ToolError
from eagerstream.tools import Tool, ToolCall, ToolResponse
from eagerstream_durable.workers import RemoteExecutor
from eagerstream_durable.workers._crossing import response_as_bytes
from eagerstream_durable.workers._messages import Cancel, Ended, FromWorker, Line, More, Started, ToWorker

pytestmark = pytest.mark.anyio


class _Scripted:
    """A pool with one line: says what it is to say, and notes what it is told."""

    def __init__(self, receive: Callable[[], Awaitable[FromWorker]]) -> None:
        self.told: list[ToWorker] = []
        self.max_chars = 1000
        self._receive = receive

    def fault_of(self, _: Tool) -> None:
        return None

    @asynccontextmanager
    async def line(self, _call: ToolCall, _tool: Tool, _owner: object, /) -> AsyncIterator[Line]:
        yield self

    async def send(self, message: ToWorker) -> None:
        if isinstance(message, More) and len(message.text) > self.max_chars:
            raise ToolError("too large")
        self.told.append(message)

    async def receive(self) -> FromWorker:
        return await self._receive()


async def _nothing() -> FromWorker:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


async def test_cancelled_in_the_moment_of_the_last_word() -> None:
    """What the tool said counts, and nobody waits for another word."""
    said: list[FromWorker] = [Started(), Ended(response_as_bytes(ToolResponse.success("all of it")))]
    scope = anyio.CancelScope()
    written = Written("first_line")
    written.write('{"lines": ["a"')

    async def receive() -> FromWorker:
        if not said:
            return await _nothing()
        if len(said) == 1:
            scope.cancel()
        return said.pop(0)

    pool = _Scripted(receive)
    executor = RemoteExecutor([tools.first_line], pool=pool, cancel_grace_s=60)
    with anyio.fail_after(30), scope:
        executor.admit(written.call)
        await executor.execute(written.call)
    assert not any(isinstance(message, Cancel) for message in pool.told)
    assert written.call.response is not None
    assert written.call.response.text == "all of it"


@pytest.mark.parametrize("grows", [False, True])
async def test_a_worker_that_says_nothing(monkeypatch: pytest.MonkeyPatch, *, grows: bool) -> None:
    """It has its time to begin, from the end of the input on; the tool's own has not begun."""
    monkeypatch.setattr("eagerstream_durable.workers._executor._BEGIN_S", 0.02)
    executor = RemoteExecutor([Tool(tools.first_line.__wrapped__, timeout_s=0.02)], pool=_Scripted(_nothing))
    written = Written("first_line")
    written.write('{"lines": ["a"')
    async with anyio.create_task_group() as tasks:
        if grows:
            tasks.start_soon(answered, executor, written)
            await anyio.sleep(0.06)  # three times as long
            assert written.call.result is None
        written.write("]}")
        written.end()
        if not grows:
            await answered(executor, written)
    assert content(written.call) == "TimeoutError: the worker did not call the tool within 0.02 seconds"
    assert not written.call.ran


async def test_more_of_an_input_than_a_message_holds() -> None:
    """The model is told so, in the words of the line."""
    executor = RemoteExecutor([tools.first_line], pool=_Scripted(_nothing))
    written = Written("first_line")
    written.write('{"lines": ["a"')
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answered, executor, written)
        await all_tasks_blocked()
        written.write(f', "{"b" * 2000}"]}}')
        written.end()
    assert content(written.call) == "too large"


async def test_a_line_that_fails() -> None:
    """What a line of another kind raises is told as it is."""

    async def receive() -> FromWorker:
        raise OSError("the line is bad")

    call = await answered(RemoteExecutor([tools.double], pool=_Scripted(receive)), a_call("double", n=1))
    assert content(call) == "OSError: the line is bad"


async def test_cancelled_before_it_is_known_that_the_tool_has_begun() -> None:
    """A tool that is to finish once it has begun does so: the worker knows whether it has."""
    scope = anyio.CancelScope()
    said: list[FromWorker] = [Started(), Ended(response_as_bytes(ToolResponse.success("finished")))]

    async def receive() -> FromWorker:
        if not scope.cancel_called:
            scope.cancel()
            await _nothing()
        if len(said) == 1:
            await anyio.lowlevel.checkpoint()  # it is shielded by now
        return said.pop(0)

    pool = _Scripted(receive)
    executor = RemoteExecutor([tools.finishes], pool=pool)
    written = a_call("finishes", log="", gate="")
    with anyio.fail_after(30), scope:
        executor.admit(written.call)
        await executor.execute(written.call)
    assert pool.told[-1] == Cancel(unless_begun=True)
    assert content(written.call) == "finished"
