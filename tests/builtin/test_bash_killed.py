"""A program that is killed with SIGKILL leaves no shell, and nothing that one has started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eagerstream._support.sessions import is_alive
from tests.killing import await_true, killed, program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

_PROGRAM = """
    import anyio
    from eagerstream.builtin import Bash

    async def main():
        async with Bash() as bash:
            await bash.call({{"command": "echo $$ >>pids; sleep 1000 & echo $! >>pids; sleep 1000 & echo $! >>pids"}})
            await bash.call({{"command": \"\"\"{command}\"\"\"}})

    anyio.run(main, backend="{backend}")
"""


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("timeout 1000 sleep 1000 & echo $! >>pids; sleep 1000", id="a command that waits"),
        pytest.param("set -m; sleep 1000 & echo $! >>pids; while :; do :; done", id="a command that spins"),
        pytest.param("trap '' HUP INT TERM; nohup sleep 1000 & echo $! >>pids; sleep 1000", id="signals ignored"),
    ],
)
def test_a_program_that_is_killed(tmp_path: Path, command: str, backend: str) -> None:
    """The shell, what runs in it, and its background jobs, in whatever process group."""
    source = _PROGRAM.format(command=command, backend=backend)
    with program(tmp_path, source, awaits=4) as (started, pids):
        killed(started)
        await_true(lambda: not any(map(is_alive, pids)))
