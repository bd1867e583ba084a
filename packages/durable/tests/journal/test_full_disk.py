"""A disk that becomes full: the user gets the error with the result, and the run continues when there is room again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.loop.durable import Played, World, answers, taken_up
from tests.streams import REQUEST

import eagerstream
from eagerstream.calls import RunStatus
from eagerstream.errors import JournalError
from eagerstream.loop import RunResult
from eagerstream_durable.journal import Journal
from eagerstream_durable.journal._sqlite import SQLite
from eagerstream_testing import Scenario, reply, text, tool_use


@pytest.mark.anyio
@pytest.mark.parametrize("large", ["result", "response"])
async def test_a_disk_that_becomes_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: str) -> None:
    """SQLite itself says so. When there is room again, the run continues, and no effect comes twice."""
    world, path = World(), tmp_path / "runs.db"
    size = 600_000  # the database may have 400,000 bytes

    @eagerstream.tool
    async def fetch() -> str:
        """Fetch."""
        world.effects.append("fetch")
        return "x" * (size if large == "result" else 10)

    connect = SQLite._connect

    def limited(database: SQLite) -> Any:
        connection = connect(database)
        connection.execute("PRAGMA max_page_count = 100")
        return connection

    last = reply(text("Done." + "x" * (size if large == "response" else 10), fragment_chars=size))
    limits = eagerstream.Limits(max_result_chars=2 * size)
    client = Played(Scenario(reply(tool_use("fetch", {})), last)).transport()
    monkeypatch.setattr(SQLite, "_connect", limited)
    async with Journal(path, lease_s=0.2) as journal:
        async with eagerstream.run(client, **REQUEST, tools=[fetch], limits=limits, journal=journal, run_id="r") as run:
            with pytest.raises(JournalError, match="the disk is full") as caught:
                await run.finish()
        assert RunResult.of(caught.value) is run.result
    monkeypatch.setattr(SQLite, "_connect", connect)
    async with Journal(path, lease_s=0.2) as journal:
        run = await taken_up(client, journal, [fetch], limits=limits)
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.text.startswith("Done.x")
    assert world.effects == ["fetch"]
    [told] = answers(run.result)
    assert told.startswith("Nobody knows" if large == "result" else "xxx")
