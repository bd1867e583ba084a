"""The prototype of speculation: no result of a tried call is older than the call of the model that gets it."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import anyio
from benchmarks.speculation.prototype import Report, Rule, Speculation

import eagerstream
from tests.sampling import SEED
from tests.virtual_time import in_virtual_time

SCHEDULES = 8
CALLS = 60


async def _play(random: Random) -> Report:
    """Run calls at drawn times. Of the writes, some fail and some are cancelled."""
    changes = 0

    @eagerstream.tool(read_only=True)
    async def find(count: int) -> list[str]:
        """Find names."""
        await anyio.sleep(random.randint(0, 1))
        return ["a", "b", "c"][:count]

    @eagerstream.tool(read_only=True)
    async def read(name: str) -> int:
        """Return the number of changes at some time of the call."""
        await anyio.sleep(random.randint(0, 2))
        seen = changes
        await anyio.sleep(random.randint(0, 2))
        if random.random() < 0.1:
            raise RuntimeError(name)
        return seen

    @eagerstream.tool
    async def write(name: str) -> str:
        """Make a change at some time of the call."""
        nonlocal changes
        await anyio.sleep(random.randint(0, 1))
        changes += 1
        await anyio.sleep(random.randint(0, 1))
        if random.random() < 0.3:
            raise RuntimeError(name)
        return name

    rule = Rule(find, read, lambda found: [{"name": name} for name in found])
    async with (
        Speculation(rule, lifetime_s=6, max_calls=100).started() as speculation,
        anyio.create_task_group() as tasks,
    ):
        tools = speculation.tools([find, find, read, read, write])

        async def call() -> None:
            await anyio.sleep(random.randint(0, 2 * CALLS))
            tool = random.choice(tools)
            before = changes
            with suppress(RuntimeError), anyio.move_on_after(1 if random.random() < 0.05 else 99):
                found = await tool.call({"count": 2} if tool.name == "find" else {"name": random.choice("abc")})
                assert tool.name != "read" or before <= found <= changes

        for _ in range(CALLS):
            tasks.start_soon(call)
    return speculation.report


def test_no_result_is_stale() -> None:
    """A wrong result would be worse than any saved time, so it is the one thing that the prototype has to guarantee."""

    async def play() -> list[Report]:
        return [await _play(Random(f"{SEED} {number}")) for number in range(SCHEDULES)]

    reports = in_virtual_time(play)
    assert sum(report.hits for report in reports) > SCHEDULES
    assert all(report.started == report.hits + report.wasted for report in reports)
