"""The example of MCP tools, run as a program of its own, with its server as another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagerstream.testing import Scenario, reply, text, tool_use
from tests.test_examples import run_example

CITIES = ("Oslo", "Vienna", "Lima")


@pytest.mark.slow
def test_mcp_tools(tmp_path: Path) -> None:
    """Each city is asked for at the server, whose progress and results are shown, and sent."""
    calls = reply(*(tool_use("get_weather", {"city": city}) for city in CITIES))
    output, bodies = run_example("mcp_tools.py", Scenario(calls, reply(text("15 degrees."))), tmp_path)
    for city in CITIES:
        assert f"--- get_weather begins: {{'city': '{city}'}}" in output
        assert f"{{'city': '{city}'}}: reading the answer" in output
        assert f"--- {city}: 15 degrees" in output
    assert "completed" in output
    assert bodies[0]["tools"][0]["description"] == "Current weather in a city."  # type: ignore[index]
    results = bodies[1]["messages"][-1]["content"]  # type: ignore[index]
    assert [result["content"] for result in results] == [f"{city}: 15 degrees" for city in CITIES]
