"""The example, run as a program of its own with Claude Code, and what is measured, run small."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.frameworks import claude_agent_sdk, compare
from eagerstream.testing import ReplayServer, Scenario, Timing, reply, text, tool_use
from tests.test_examples import POEM, run_example


@pytest.mark.slow
def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are on the screen while the input is still written, and the session ends with the answer."""
    for name, value in {
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }.items():
        monkeypatch.setenv(name, value)
    make_file = tool_use("mcp__eagerstream__make_file", {"filename": "poem.txt", "lines_of_text": POEM})
    scenario = Scenario(reply(make_file), reply(text("Done.")), timing=Timing(tokens_per_second=50))
    output, _ = run_example("claude_agent_sdk_progress.py", scenario, tmp_path)
    lines = output.splitlines()
    assert [line for line in lines if line in POEM] == POEM
    assert lines.index(POEM[0]) < lines.index("--- mcp__eagerstream__make_file: valid")
    assert lines[-1] == "Done."
    assert (tmp_path / "poem.txt").read_text().splitlines() == POEM


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_measured() -> None:
    """Alone, the tool has its first effect after its input; begun early, inside of it."""
    with ReplayServer(claude_agent_sdk.scenario(tokens_per_second=300, lines=12)) as server:
        [[late], [soon]] = await compare(*claude_agent_sdk.sides(server.base_url), repeats=1)
    written = [[name for name, _ in course.events[: course.place("effect")]].count("delta") for course in (late, soon)]
    assert written[1] * 2 < written[0]
    assert soon.place("effect") < soon.place("last byte")
    assert [name for name, _ in soon.events].count("effect") == 12
