"""A program that is killed with SIGKILL leaves no shell, and nothing that one has started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.killing import await_true, killed, program

from eagerstream._support.sessions import is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

_COMMANDS = {
    "waits": "timeout 1000 sleep 1000 & echo $! >>pids; sleep 1000",
    "spins": "set -m; sleep 1000 & echo $! >>pids; while :; do :; done",
    "ignores signals": "trap '' HUP INT TERM; nohup sleep 1000 & echo $! >>pids; sleep 1000",
}
_PROGRAM = """
    import anyio
    from eagerstream_toolkit import Bash

    async def use(command):
        async with Bash() as bash:
            await bash.call({{"command": "echo $$ >>pids; sleep 1000 & echo $! >>pids; sleep 1000 & echo $! >>pids"}})
            await bash.call({{"command": command}})

    async def main():
        async with anyio.create_task_group() as tasks:
            for command in {commands!r}:
                tasks.start_soon(use, command)

    anyio.run(main, backend="{backend}")
"""


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def test_a_program_that_is_killed(tmp_path: Path, backend: str) -> None:
    """Its shells, what runs in them, and their background jobs, in whatever process group; one shell for each command."""
    source = _PROGRAM.format(commands=[*_COMMANDS.values()], backend=backend)
    with program(tmp_path, source, awaits=4 * len(_COMMANDS)) as (started, pids):
        killed(started)
        await_true(lambda: not any(map(is_alive, pids)))
