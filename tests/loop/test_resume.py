"""`resume`, and `run` with the id of a run that exists."""

from __future__ import annotations

from typing import Any

import pytest

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.errors import RunNotFoundError, UsageError
from eagerstream.loop import resume
from eagerstream_testing import Scenario, reply, tool_use
from tests.loop.durable import Played, World, check, kept, scenario, taken_up
from tests.loop.journals import MemoryJournal, plain
from tests.streams import REQUEST

pytestmark = pytest.mark.anyio


async def test_a_run_id_that_exists_continues() -> None:
    """`run` does the same as `resume`, with its own options. Its messages are those of the journal."""
    journal, world = MemoryJournal(), World()
    client = Played(scenario()).transport()
    async with eagerstream.run(client, **REQUEST, tools=world.tools(), max_turns=1, journal=journal, run_id="r") as run:
        await run.finish()
    assert journal.statuses["r"][0] == "limit"
    options = {**REQUEST, "messages": [{"role": "user", "content": "Something else."}]}
    async with eagerstream.run(client, **options, tools=world.tools(), journal=journal, run_id="r") as run:
        await run.finish()
    assert run.result.messages[0] == REQUEST["messages"][0]
    assert run.result.status is RunStatus.COMPLETED
    check(run.result, world)
    with pytest.raises(RunNotFoundError):
        async with resume(client, journal, "another", tools=world.tools()):
            pass


async def test_a_message_of_another_process() -> None:
    """It continues a run that had ended. A message of the program itself survives a crash."""
    world = World()
    journal = MemoryJournal()
    client = Played(scenario()).transport()
    run = await kept(client, journal, world.tools())
    journal.left["r"] = [{"kind": "say", "message": "And now?"}]
    run = await taken_up(client, journal, world.tools())
    assert run.result.text == "Again."
    assert run.result.messages[-2] == {"role": "user", "content": "And now?"}


async def test_a_run_that_has_ended_does_not_grow() -> None:
    """`resume` and `run` give its result, and write nothing. A message for `run.say` is for the journal by then."""
    world, journal = World(), MemoryJournal()
    client = Played(scenario()).transport()
    run = await kept(client, journal, world.tools())
    entries, left = [*journal.runs["r"]], journal.statuses["r"]
    again = await taken_up(client, journal, world.tools())
    again = await kept(client, journal)
    assert again.result.text == run.result.text
    assert (journal.runs["r"], journal.statuses["r"]) == (entries, left)
    with pytest.raises(UsageError, match=r"journal\.say"):
        again.say("And now?")


async def test_a_crash_between_the_last_turn_and_the_end() -> None:
    """The journal learns the end from the process that continues."""
    world, journal = World(), MemoryJournal()
    client = Played(scenario()).transport()
    await kept(client, journal, world.tools())
    assert journal.runs["r"].pop()["kind"] == "end"
    journal.statuses.clear()
    await taken_up(client, journal, world.tools())
    assert journal.runs["r"][-1]["kind"] == "end"
    assert journal.statuses["r"][0] == "completed"


@pytest.mark.parametrize("options", [{"journal": "runs.db"}, {"run_id": 5}, {"journal": "runs.db", "run_id": "r"}])
async def test_unusable_arguments(options: dict[str, Any]) -> None:
    """They are refused before the run is entered."""
    merged: dict[str, Any] = {"journal": MemoryJournal(), "run_id": "r", **options}
    client = Played(scenario()).transport()
    with pytest.raises(UsageError, match=r"must be a (journal|string)"):
        eagerstream.run(client, **REQUEST, **options)
    with pytest.raises(UsageError, match=r"must be a (journal|string)"):
        resume(client, **merged)


async def test_fewer_turns_than_it_has_had() -> None:
    """A run that continues with such a bound ends with its next turn."""
    journal, world = MemoryJournal(), World()
    states: list[Any] = []

    def write() -> None:
        if journal.kinds("r")[-1] == ("request", 3):
            states.append(plain(journal.runs))

    journal.on_write = write
    client = Played(Scenario(*(reply(tool_use("look", {"place": str(n)})) for n in range(5)))).transport()
    given: dict[str, Any] = {**REQUEST, "tools": world.tools(), "max_turns": 3}
    async with eagerstream.run(client, **given, journal=journal, run_id="r") as run:
        await run.finish()
    run = await taken_up(client, MemoryJournal(states[0]), world.tools(), max_turns=1)
    assert (run.result.status, run.result.turns) == (RunStatus.LIMIT, 3)
