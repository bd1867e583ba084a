"""A run that is killed after each write of its journal, and continued from there by another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.loop import RunResult
from eagerstream_testing import Scenario
from tests.loop.durable import Played, World, check, taken_up
from tests.loop.journals import MemoryJournal, plain
from tests.loop.steered import Steered
from tests.streams import REQUEST

Tools = Callable[[World, MemoryJournal, Any], Sequence[Any]]


async def from_each_write(
    scenario: Scenario,
    tools_of: Tools = lambda world, _journal, _client: world.tools(),
    *,
    act: Callable[[Any, Any], object] = lambda _run, _event: None,
    ends: RunStatus = RunStatus.COMPLETED,
    options_of: Callable[[Sequence[Any]], dict[str, Any]] = lambda _tools: {},
    **options: Any,
) -> list[tuple[str, RunResult[Any], World]]:
    """Run to the end, and continue from each write. Each history is legal, and nothing is done twice.

    Args:
        scenario: The model.
        tools_of: The tools of a process, with its outside, its journal and its client.
        act: Gets the first run, and each of its events, at once.
        ends: The status at the end.
        options_of: Options that need the tools, for each process.
        options: Those of `run` that a journal does not keep, or may keep.

    Returns:
        For each run the kind of the last entry before the crash, the result and the outside; the first is undisturbed.
    """
    states: list[tuple[str, Any, list[str]]] = []
    client = Played(scenario).transport()

    def write() -> None:
        states.append((str(journal.runs["r"][-1]["kind"]), plain(journal.runs), list(world.effects)))

    journal, world = MemoryJournal(), World()
    journal.on_write = write
    tools = tools_of(world, journal, client)
    given = {**REQUEST, **options, **options_of(tools)}
    run = eagerstream.run(client, **given, tools=tools, journal=journal, run_id="r")
    run.observe(Steered(run, act))
    async with run:
        await run.finish()
    found = [("", run.result, world)]
    journal.on_write = lambda: None
    for kind, runs, effects in states:
        world, journal = World(), MemoryJournal(runs)
        world.effects = effects
        tools = tools_of(world, journal, client)
        given = {**options, **options_of(tools)}
        resumed = await taken_up(client, journal, tools, **given)
        found.append((kind, resumed.result, world))
    for kind, result, outside in found:
        check(result, outside)
        assert result.status is ends, (kind, result.error)
    return found
