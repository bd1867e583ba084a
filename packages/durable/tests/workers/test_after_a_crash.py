"""Runs with a journal whose tools run in worker processes, continued from each write of the journal."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.loop.crashes import from_each_write
from tests.loop.durable import World, answers
from tests.loop.journals import MemoryJournal

import eagerstream
from eagerstream.tools import Tool
from eagerstream_durable.workers import ProcessExecutor, ProcessPool
from eagerstream_testing import Scenario, Timing, reply, text, tool_use


@eagerstream.tool
def note(path: str, what: str) -> str:
    """Note something in a file."""
    with Path(path).open("a") as file:
        file.write(f"{what}\n")
    return f"noted {what}"


@eagerstream.tool(idempotent=True)
def twice(path: str, what: str) -> str:
    """Note something in a file, also twice."""
    return note(path, what)


@pytest.mark.anyio
@pytest.mark.slow
async def test_calls_in_workers(tmp_path: Path) -> None:
    """A call that was about to be sent to a worker has begun: its tool runs no second time unless it is idempotent."""
    path = tmp_path / "notes"
    path.touch()
    looks: list[tuple[bool, int]] = []

    def tools_of(_world: World, journal: MemoryJournal, _client: Any) -> list[Tool]:
        entries = journal.runs.get("r", [])
        has_begun = any(entry["kind"] == "turn" or "'note'" in str(entry.get("call")) for entry in entries)
        looks.append((has_begun, path.read_text().count("a\n")))
        return [note, twice]

    calls = (tool_use(name, {"path": str(path), "what": what}) for name, what in (("note", "a"), ("twice", "b")))
    scenario = Scenario(reply(*calls, text("x" * 40)), reply(text("Done.")), timing=Timing(tokens_per_second=2000))
    async with ProcessPool(workers=1) as pool:
        everything = await from_each_write(
            scenario, tools_of, options_of=lambda tools: {"executor": ProcessExecutor(tools, pool=pool)}
        )
    assert answers(everything[0][1]) == ["noted a", "noted b"]
    looks.append((True, path.read_text().count("a\n")))
    for (has_begun, before), (_, after) in pairwise(looks):
        assert after - before == (0 if has_begun else 1)
    assert [has_begun for has_begun, _ in looks].count(False) == 2
