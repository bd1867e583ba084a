"""The example with a cluster of its own, run as a program."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eagerstream.testing import ReplayServer, Scenario, reply, text, tool_use

EXAMPLE = Path(__file__).parents[2] / "examples" / "remote_tools.py"
HAIKU = ["The harbour keeps its hours,", "a bell says so;", "the water knows the way."]


@pytest.mark.slow
def test_remote_tools(tmp_path: Path) -> None:
    """It starts a cluster, runs the script's own tool there while its input is written, and leaves nothing behind."""
    first = reply(text("Here it is. "), tool_use("sign_lines", {"lines": HAIKU}, fragment_chars=8))
    with ReplayServer(Scenario(first, reply(text("Signed.")))) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "simulated"}
        env.pop("RAY_ADDRESS", None)
        command = [sys.executable, str(EXAMPLE)]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=55, check=False)
        (told,) = server.requests[1].body["messages"][2]["content"]
    assert (done.returncode, done.stderr) == (0, "")
    assert told["content"] == f"3 lines, {hashlib.sha256(''.join(HAIKU).encode()).hexdigest()[:8]}"
    assert "completed" in done.stdout
    assert "Signed." in done.stdout
    assert "[line 1]" in done.stdout
