"""Much of everything: calls at once, results of megabytes, a tool that blocks, progress that nobody reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eagerstream.calls import RunStatus
from eagerstream.limits import Limits
from eagerstream.loop import ToolProgress, ToolStop
from eagerstream.streaming._event_buffer import BufferMode
from eagerstream.tools import Tool, tool
from eagerstream_testing import reply, tool_use
from tests.loop.serial import DONE, Listed, checked, finished, running
from tests.support import Gate, LocalAPI

pytestmark = pytest.mark.anyio

MANY = 30


class Crowd:
    """Many tools that wait for one another."""

    def __init__(self, together: int) -> None:
        self.running = 0
        self.most = 0
        self.arrived = 0
        self._together = together
        self._all = anyio.Event()

    def tools(self) -> list[Tool]:
        """Each with its own name."""
        return [self._tool(n) for n in range(MANY)]

    def _tool(self, n: int) -> Tool:
        async def work() -> int:
            """Work."""
            self.running += 1
            self.arrived += 1
            self.most = max(self.most, self.running)
            if self.arrived == self._together:
                self._all.set()
            await self._all.wait()
            for _ in range(MANY - n):  # the last come first
                await anyio.lowlevel.checkpoint()
            self.running -= 1
            return n

        return tool(work, name=f"work_{n}")


@pytest.mark.parametrize("most", [1, 16, 30, 500])
async def test_many_tools(most: int) -> None:
    """As many at once as may be, not one more, and the results in the order of the calls."""
    crowd = Crowd(min(most, MANY))
    api = Listed(reply(*(tool_use(f"work_{n}", {}, id=f"c{n}") for n in range(MANY))), DONE)
    await finished(api.transport(), tools=crowd.tools(), max_concurrency=most)
    assert crowd.most == min(most, MANY)
    answers = api.bodies[1]["messages"][2]["content"]
    assert [(answer["tool_use_id"], answer["content"]) for answer in answers] == [
        (f"c{n}", str(n)) for n in range(MANY)
    ]


@tool
async def read_all(chars: int) -> str:
    """Much text."""
    return "é" + "x" * (chars - 2) + "y"


@pytest.mark.parametrize("limit", [None, 20_000_000])
async def test_a_result_of_2_MB(limit: int | None) -> None:
    """Cut in its middle with a notice, within the default limit; whole where the limit was raised."""
    size = 2_000_000
    limits = Limits() if limit is None else Limits(max_result_chars=limit)
    api = Listed(reply(tool_use("read_all", {"chars": size}, id="a")), DONE)
    run = await finished(api.transport(), tools=[read_all], limits=limits)
    sent = api.bodies[1]["messages"][2]["content"][0]
    assert run.result.status is RunStatus.COMPLETED
    assert "is_error" not in sent
    assert sent["content"].endswith("xy")
    if limit is None:
        assert limits.max_result_chars <= len(sent["content"]) < limits.max_result_chars + 300
        assert sent["content"].startswith(f"[PARTIAL] The result has {size} characters")
    else:
        assert sent["content"].startswith("éx")
        assert len(sent["content"]) == size


@pytest.mark.parametrize("buffer", ["merge", "wait"])
@pytest.mark.parametrize("tools", [1, 20])
async def test_progress_that_nobody_reads(buffer: BufferMode, tools: int) -> None:
    """The events that wait are bounded, the tool is not held up, and the newest value of each call comes out."""
    values = 2000 // tools

    @tool
    async def count(n: int) -> AsyncIterator[int]:
        for value in range(values):
            yield value

    calls = reply(*(tool_use("count", {"n": n}, id=f"c{n}") for n in range(tools)))
    end = Gate()
    api = LocalAPI([calls], [end, DONE])
    async with running(api.transport(), tools=[count], buffer=buffer) as run:
        await end.reached.wait()  # the tools have ended, and nobody has read anything
        waiting = len(run._delivery.buffer)
        assert waiting <= 256 + 20 + 6 * tools
        end.opened.set()
        events = [event async for event in run]
    newest = {event.call.id: event.value for event in events if isinstance(event, ToolProgress)}
    assert newest == {f"c{n}": values - 1 for n in range(tools)}
    assert sum(isinstance(event, ToolStop) for event in events) == tools
    assert checked(run.result).messages[2]["content"][0]["content"] == str(values - 1)


@pytest.mark.parametrize("buffer", ["merge", "wait"])
async def test_progress_of_a_slow_consumer_in_order(buffer: BufferMode) -> None:
    """What comes out is a part of what was said, in order, before the call's `ToolStop`."""

    @tool
    async def count() -> AsyncIterator[int]:
        for value in range(600):
            yield value

    api = LocalAPI([reply(tool_use("count", {}, id="a"))], [DONE])
    seen: list[Any] = []
    async with running(api.transport(), tools=[count], buffer=buffer) as run:
        async for event in run:
            if isinstance(event, ToolProgress):
                seen.append(event.value)
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            elif isinstance(event, ToolStop):
                seen.append("stop")
    assert seen[-2:] == [599, "stop"]
    assert seen[:-1] == sorted(set(seen[:-1]))
