"""The example of OpenAI's deltas, run as a program of its own: only the address and the key tell it where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eagerstream.testing import Scenario, Timing, reply, text, tool_use
from tests.integrations.chat.server import ChatServer
from tests.test_examples import EXAMPLES

LINES = ["The harbour keeps its hours,", "the water knows the way."]
SCENARIO = Scenario(
    reply(tool_use("get_weather", {"city": "Oslo"}), tool_use("write_poem", {"lines": LINES})),
    reply(text("There you are.")),
    timing=Timing(tokens_per_second=100),
)


@pytest.mark.slow
def test_openai_deltas(tmp_path: Path) -> None:
    """The poem is shown line by line, while its arguments are written."""
    with ChatServer(SCENARIO) as server:
        done = subprocess.run(
            [sys.executable, EXAMPLES / "openai_deltas.py"],
            cwd=tmp_path,
            env={**os.environ, "OPENAI_BASE_URL": server.chat_url(), "OPENAI_API_KEY": "simulated"},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        results = [message["content"] for message in server.requests[1].body["messages"] if message["role"] == "tool"]
    assert results == ["Oslo: 15 degrees", "shown"]
    lines = done.stdout.splitlines()
    assert [line.strip() for line in lines if line.startswith("    ")] == LINES
    assert lines[-1] == "There you are."
    assert "--- write_poem begins, its input is still being written" in lines
