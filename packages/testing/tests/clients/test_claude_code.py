"""Claude Code as a program of its own, on scripted responses, as `eagerstream serve --script -- claude -p ...` runs it."""

from __future__ import annotations

import os
import subprocess
from math import inf
from pathlib import Path

import claude_agent_sdk
import pytest

from eagerstream_testing import ReplayServer, Scenario

_PROGRAM = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def _run(server: ReplayServer, folder: Path, prompt: str) -> str:
    own = {"HOME": str(folder), "CLAUDE_CONFIG_DIR": str(folder / "config")}
    environment = {**os.environ, **server.environment(), **own}
    done = subprocess.run(
        [_PROGRAM, "-p", prompt],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_its_tools_are_called_to_an_end(tmp_path: Path) -> None:
    """It runs a command in the background and reports the command's end, which must not start the next one."""
    with ReplayServer(Scenario.scripted(), speed=inf) as server:
        printed = _run(server, tmp_path, "List the files.")
        requests = server.requests
    assert printed.startswith("Done. ")
    assert "Bash returned" in printed
    assert {request.status for request in requests} == {200}
    assert 2 <= len(requests) < 8
