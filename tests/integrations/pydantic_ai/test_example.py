"""The example, run as a program of its own, and what is measured, run small."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.frameworks import compare, pydantic_ai, scenario as paced
from eagerstream.testing import ReplayServer, Scenario, Timing, reply, text, tool_use
from tests.test_examples import MAKE_FILE, POEM, run_example


@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    """The poem is on the screen while it is written, and signed before: one conversation, all results sent."""
    calls = reply(tool_use("sign", {"title": "The harbour"}), MAKE_FILE)
    scenario = Scenario(calls, reply(text("Done.")), timing=Timing(tokens_per_second=50))
    output, bodies = run_example("pydantic_ai_agent.py", scenario, tmp_path)
    lines = output.splitlines()
    assert [line for line in lines if line in POEM] == POEM
    assert lines.index("--- signed: The harbour by Ada") < lines.index(POEM[0])
    assert "--- make_file begins, its input is still being written" in lines
    assert lines[-1] == "Done."
    assert (tmp_path / "poem.txt").read_text().splitlines() == POEM
    results = bodies[1]["messages"][-1]["content"]  # type: ignore[index]
    assert [result["content"][0]["text"] for result in results] == [
        "The harbour is registered.",
        "wrote poem.txt",
    ]


@pytest.mark.slow
@pytest.mark.anyio
async def test_what_is_measured() -> None:
    """Alone, tools have their first effect after the reply; begun early, before its end."""
    with ReplayServer(paced(tokens_per_second=500, lines=12)) as server:
        client, alone, early = pydantic_ai.sides(server.base_url, tool_s=0.05)
        async with client:
            [[late], [soon]] = await compare(alone, early, repeats=1)
    assert late.place("last byte") < late.place("effect")
    assert soon.place("effect") < soon.place("line") < soon.place("last byte")
    for course in (late, soon):
        assert [name for name, _ in course.events].count("line") == 12
