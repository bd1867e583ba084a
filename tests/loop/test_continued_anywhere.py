"""Odd responses, and a program that is gone after each write of its journal: another one continues to the same end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerstream
from eagerstream import ToolStart
from eagerstream.calls import RunStatus
from eagerstream.errors import JournalError, LimitError
from eagerstream.recordings import Recording
from eagerstream.tools import Reject, Tool
from eagerstream_testing import Scenario, Scripted, reply, text, tool_use
from tests.loop.durable import Played, World, answers, check, taken_up
from tests.loop.journals import MemoryJournal, MemoryLog, Written, plain
from tests.streams import REQUEST

pytestmark = pytest.mark.anyio


def pay(amount: int, id: str | None = None) -> Scripted:
    return tool_use("pay", {"amount": amount}, id=id)


async def continued_from_each_write(
    *replies: Recording, tools_of: Callable[[World], list[Tool]] = World.tools, act: Callable[..., object] | None = None
) -> list[list[str]]:
    """Run, and continue from each write. Return the results of each run in its history; the first is undisturbed."""
    states: list[tuple[Any, list[str]]] = []
    told: list[list[str]] = []
    client = Played(Scenario(*replies, *[reply(text("Done."))] * 3)).transport()
    journal, world = MemoryJournal(), World()
    journal.on_write = lambda: states.append((plain(journal.runs), list(world.effects)))
    async with eagerstream.run(client, **REQUEST, tools=tools_of(world), journal=journal, run_id="r") as run:
        async for event in run:
            if act is not None:
                act(run, event)
    assert run.result.text == "Done."
    told.append(answers(run.result))
    for runs, effects in states:
        world = World()
        world.effects = effects
        resumed = await taken_up(client, MemoryJournal(runs), tools_of(world))
        check(resumed.result, world)
        assert (resumed.result.status, resumed.result.text) == (RunStatus.COMPLETED, "Done.")
        told.append(answers(resumed.result))
    return told


async def test_an_id_that_comes_again() -> None:
    """The answer of a salvaged call is not that of a later call with its id."""
    told = await continued_from_each_write(*(reply(pay(amount, "x")) for amount in (1, 2, 3)))
    for results in told:
        for number, result in enumerate(results, 1):
            assert result == f"paid {number}" or result.startswith("Nobody knows")


async def test_a_response_that_a_guard_cut() -> None:
    """The guard cuts it again, and the run continues."""

    def tools_of(world: World) -> list[Tool]:
        @eagerstream.tool(guard=lambda partial: Reject("no", cut=True) if "bad" in str(partial) else None)
        async def guarded(x: str) -> str:
            """Check."""
            return x

        return [world.pay, guarded]

    cut = tool_use("guarded", {"x": "bad" + "y" * 100}, fragment_chars=8)
    told = await continued_from_each_write(reply(pay(1), cut, pay(2)), tools_of=tools_of)
    assert told[0] == ["paid 1", "no"]


async def test_a_response_that_the_user_cut() -> None:
    """It has no stop reason, and the run does not end with it."""

    def act(run: Any, event: object) -> None:
        if isinstance(event, ToolStart) and event.call.turn == 1:
            run.say("Wait.", "now")

    # What was cut off is written again by a model.
    await continued_from_each_write(reply(pay(1), text("x " * 500)), act=act)


class FullJournal(MemoryJournal):
    """It fails at a kind of entries."""

    def __init__(self, kind: str, error: Exception) -> None:
        super().__init__()
        self.kind, self.fault = kind, error

    async def create(self, run_id: str, entry: Any) -> MemoryLog:
        await super().create(run_id, entry)
        return FullLog(self, run_id, 1)


class FullLog(MemoryLog):
    """See `FullJournal`."""

    def append(self, *entries: Any) -> Written:
        assert isinstance(self._journal, FullJournal)
        if any(entry["kind"] == self._journal.kind for entry in entries):
            raise self._journal.fault
        return super().append(*entries)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("request", JournalError("the disk is full")),
        ("start", JournalError("the disk is full")),
        ("progress", LimitError("max_run_bytes", 1, "the journal")),
        ("result", JournalError("the disk is full")),
    ],
)
async def test_a_journal_that_fails(kind: str, error: Exception) -> None:
    """The run ends with the error, and no tool starts behind it."""
    world = World()
    journal = FullJournal(kind, error)
    client = Played(Scenario(reply(pay(1)), reply(pay(2)), reply(text("Done.")))).transport()
    run = eagerstream.run(client, **REQUEST, tools=world.tools(), journal=journal, run_id="r")
    with pytest.raises(type(error)):
        async with run:
            await run.finish()
    assert run.result.status is RunStatus.ERROR
    assert world.effects == ([] if kind != "result" else ["pay 1"])
