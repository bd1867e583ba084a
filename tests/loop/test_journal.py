"""`RunJournal`: a run does only what its journal allows."""

from __future__ import annotations

import pytest

import eagerstream
from eagerstream.errors import OwnershipLostError
from eagerstream.loop import RunStatus
from eagerstream.testing import Scenario, reply, tool_use
from eagerstream.tools import Tool
from tests.loop.durable import World, client_of
from tests.loop.journals import MemoryJournal
from tests.support import REQUEST

pytestmark = pytest.mark.anyio


async def test_a_run_that_was_taken_over_starts_nothing() -> None:
    """Its next step fails, and the tools that run are cancelled."""
    world, journal = World(), MemoryJournal()

    @eagerstream.tool
    async def lose() -> str:
        """Let another process take the run."""
        await journal.open("r")
        return "lost"

    tools: list[Tool] = [*world.tools(), lose]
    one = Scenario(reply(tool_use("lose", {})), reply(tool_use("pay", {"amount": 1})))
    async with client_of(one) as client:
        async with eagerstream.run(client, **REQUEST, tools=tools, journal=journal, run_id="r") as run:
            with pytest.raises(OwnershipLostError):
                await run.finish()
    assert run.result.status is RunStatus.ERROR
    assert world.effects == []
    assert "r" not in journal.statuses
