"""The examples of the adapters, run as programs of their own, and what benchmarks measure of frameworks, run small."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packages.adapters.tests.chat.server import ChatServer
from tests.test_examples import EXAMPLES, MAKE_FILE, POEM, run_example

from eagerstream_testing import ReplayServer, Scenario, Timing, reply, text, tool_use

pytestmark = pytest.mark.slow

DONE = reply(text("Done."))
CITIES = ("Oslo", "Vienna", "Lima")


def results_in(body: Any) -> list[Any]:
    """The contents of the results in the last message."""
    return [result["content"] for result in body["messages"][-1]["content"]]


def program(name: str, folder: Path, **variables: str) -> str:
    """Run an example that says nothing on stderr, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | variables
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=55, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


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
    assert results_in(bodies[1]) == [f"{city}: 15 degrees" for city in CITIES]


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
    assert [results_in(body) for body in bodies[1:]] == [["harbour"], ["shown: 3 lines"]]


def test_pydantic_ai_agent(tmp_path: Path) -> None:
    """The poem is on the screen while it is written, and signed before: one conversation, all results sent."""
    calls = reply(tool_use("sign", {"title": "The harbour"}), MAKE_FILE)
    scenario = Scenario(calls, DONE, timing=Timing(tokens_per_second=50))
    output, bodies = run_example("pydantic_ai_agent.py", scenario, tmp_path)
    lines = output.splitlines()
    assert [line for line in lines if line in POEM] == POEM
    assert lines.index("--- signed: The harbour by Ada") < lines.index(POEM[0])
    assert "--- make_file begins, its input is still being written" in lines
    assert lines[-1] == "Done."
    assert (tmp_path / "poem.txt").read_text().splitlines() == POEM
    assert [content[0]["text"] for content in results_in(bodies[1])] == ["The harbour is registered.", "wrote poem.txt"]


def test_claude_agent_sdk_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are on the screen while the input is still written, and the session ends with the answer."""
    for name, value in {
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }.items():
        monkeypatch.setenv(name, value)
    make_file = tool_use("mcp__eagerstream__make_file", {"filename": "poem.txt", "lines_of_text": POEM})
    scenario = Scenario(reply(make_file), DONE, timing=Timing(tokens_per_second=50))
    output, _ = run_example("claude_agent_sdk_progress.py", scenario, tmp_path)
    lines = output.splitlines()
    assert [line for line in lines if line in POEM] == POEM
    assert lines.index(POEM[0]) < lines.index("--- mcp__eagerstream__make_file: valid")
    assert lines[-1] == "Done."
    assert (tmp_path / "poem.txt").read_text().splitlines() == POEM


def test_openai_deltas(tmp_path: Path) -> None:
    """The poem is shown line by line, while its arguments are written."""
    calls = reply(tool_use("get_weather", {"city": "Oslo"}), tool_use("write_poem", {"lines": POEM}))
    scenario = Scenario(calls, reply(text("There you are.")), timing=Timing(tokens_per_second=100))
    with ChatServer(scenario) as server:
        environment = {"OPENAI_BASE_URL": server.chat_url(), "OPENAI_API_KEY": "simulated"}
        lines = program("openai_deltas.py", tmp_path, **environment).splitlines()
        results = [message["content"] for message in server.requests[1].body["messages"] if message["role"] == "tool"]
    assert results == ["Oslo: 15 degrees", "shown"]
    assert [line.strip() for line in lines if line.startswith("    ")] == POEM
    assert lines[-1] == "There you are."
    assert "--- write_poem begins, its input is still being written" in lines


def test_remote_tools(tmp_path: Path) -> None:
    """It starts a cluster, runs the script's own tool there while its input is written, and leaves nothing behind."""
    first = reply(text("Here it is. "), tool_use("sign_lines", {"lines": POEM}, fragment_chars=8))
    with ReplayServer(Scenario(first, reply(text("Signed.")))) as server:
        environment = {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"}
        output = program("remote_tools.py", tmp_path, **environment)
        [told] = results_in(server.requests[1].body)
    assert told == f"3 lines, {hashlib.sha256(''.join(POEM).encode()).hexdigest()[:8]}"
    assert [word for word in ("completed", "Signed.", "[line 1]") if word not in output] == []


def test_trace_runs() -> None:
    """It prints the tree of a run: three calls that run at the same time, one of them with an error."""
    command = [sys.executable, str(EXAMPLES / "trace_runs.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=50)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("invoke_agent ")
    assert [line.split()[0] for line in lines if re.match(r"  \S", line)] == ["chat", *["execute_tool"] * 3, "chat"]
    assert sum("look it up" in line for line in lines) == 3
    assert next(line for line in lines if "LookupError" in line).startswith("  execute_tool get_weather")
    assert re.fullmatch(
        r"the tool 'get_weather' raised LookupError\n  .*trace_runs\.py:\d+ in get_weather\n", done.stderr
    )


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_measured_of_pydantic_ai() -> None:
    """Alone, tools have their first effect after the reply; begun early, before its end."""
    from benchmarks.frameworks import compare, pydantic_ai, scenario

    with ReplayServer(scenario(tokens_per_second=500, lines=12)) as server:
        client, alone, early = pydantic_ai.sides(server.base_url, tool_s=0.05)
        async with client:
            [[late], [soon]] = await compare(alone, early, repeats=1)
    assert late.place("last byte") < late.place("effect")
    assert soon.place("effect") < soon.place("line") < soon.place("last byte")
    for course in (late, soon):
        assert [name for name, _ in course.events].count("line") == 12


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_measured_of_the_claude_agent_sdk() -> None:
    """Alone, the tool has its first effect after its input; begun early, inside of it."""
    from benchmarks.frameworks import claude_agent_sdk, compare

    with ReplayServer(claude_agent_sdk.scenario(tokens_per_second=300, lines=12)) as server:
        [[late], [soon]] = await compare(*claude_agent_sdk.sides(server.base_url), repeats=1)
    written = [[name for name, _ in course.events[: course.place("effect")]].count("delta") for course in (late, soon)]
    assert written[1] * 2 < written[0]
    assert soon.place("effect") < soon.place("last byte")
    assert [name for name, _ in soon.events].count("effect") == 12
