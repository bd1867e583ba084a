"""The example, run as a program of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagerstream.testing import Scenario, Timing, reply, text, tool_use
from tests.test_examples import run_example

POEM = ["The harbour keeps its hours,", 'a bell says "so",', "the water knows the way."]


@pytest.mark.slow
def test_langgraph_agent(tmp_path: Path) -> None:
    """A tool of LangChain's, then one of ours inside its input; both are in the history that is sent."""
    turns = (
        reply(text("Let me see."), tool_use("word_of_the_day", {})),
        reply(tool_use("show_poem", {"title": "The harbour", "lines": POEM})),
        reply(text("There it is.")),
    )
    scenario = Scenario(*turns, timing=Timing(tokens_per_second=100))
    output, bodies = run_example("langgraph_agent.py", scenario, tmp_path)
    assert [line for line in output.splitlines() if line in POEM] == POEM
    places = [output.index(part) for part in ("Let me see.", "start word", "start show", POEM[0], "stop show", "There")]
    assert places == sorted(places)
    assert [tool["eager_input_streaming"] for tool in bodies[0]["tools"]] == [True, True]  # type: ignore[attr-defined]
    results = [body["messages"][-1]["content"][0]["content"] for body in bodies[1:]]  # type: ignore[index]
    assert results == ["harbour", "shown: 3 lines"]
