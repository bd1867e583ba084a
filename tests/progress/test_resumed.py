"""The records of a run that a second process continues."""

from __future__ import annotations

import pytest

import eagerstream
from eagerstream.loop import resume
from eagerstream.progress import Hub
from tests.loop.durable import World, client_of, left_at, scenario
from tests.support import REQUEST

pytestmark = pytest.mark.anyio


async def test_a_resumed_run_continues_under_its_id() -> None:
    """Its turns continue to count, and the first record says after how many."""
    world = World()
    journal = await left_at("request", world, world.tools())
    hub = Hub()
    async with client_of(scenario()) as client:
        with hub.observing():
            async with resume(client, journal, "r", tools=world.tools()) as run:
                await run.finish()
    assert (run.id, run.has_journal) == ("r", True)
    records = hub.log("r").records()
    assert records[0]["type"] == "run_start"
    assert (records[0]["run"], records[0].get("resumed_after")) == ("r", run.resumed_after)
    turns = [record["turn"] for record in records if record["type"] == "turn_start"]
    assert (run.resumed_after, turns) == (1, [2, 3])


async def test_a_new_run() -> None:
    """It has no such field."""
    hub = Hub()
    async with client_of(scenario()) as client:
        with hub.observing():
            async with eagerstream.run(client, **REQUEST, tools=World().tools(), run_id="r") as run:
                await run.finish()
    assert (run.resumed_after, run.has_journal) == (None, False)
    assert "resumed_after" not in hub.log("r").records()[0]
