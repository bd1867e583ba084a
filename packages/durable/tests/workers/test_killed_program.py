"""A program that is killed with SIGKILL leaves no worker, and nothing that a tool has started in one."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from packages.durable.tests.workers import tools
from packages.durable.tests.workers.calls import a_call, answered, content, lines_of
from tests.killing import await_true, killed, program
from tests.support import until

from eagerstream._support.sessions import is_alive
from eagerstream.tools import Tool
from eagerstream_durable.workers import ProcessExecutor, ProcessPool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

_PROGRAM = """
    import os, re, subprocess, time
    import anyio
    from eagerstream import tool
    from eagerstream_durable.workers import ProcessExecutor, ProcessPool
    from packages.durable.tests.workers.calls import a_call, answered

    def say(pid):
        with open("pids", "a") as file:
            file.write(f"{pid}\\n")

    @tool
    async def waits() -> str:
        '''Wait on the event loop.'''
        say(os.getpid())
        await anyio.sleep_forever()

    @tool
    def sleeps() -> str:
        '''Wait in a thread.'''
        say(os.getpid())
        time.sleep(1000)

    @tool
    def never_lets_go() -> str:
        '''Keep the interpreter's lock: no other thread of the worker runs any more.'''
        say(os.getpid())
        re.match("(a+)+$", "a" * 60 + "b")

    @tool
    def runs_a_program() -> str:
        '''Start processes, and wait for one of them.'''
        say(os.getpid())
        say(subprocess.Popen(["timeout", "1000", "sleep", "1000"]).pid)
        with subprocess.Popen(["sleep", "1000"]) as child:
            say(child.pid)

    TOOLS = [waits, sleeps, never_lets_go, runs_a_program]

    async def main():
        async with ProcessPool(len(TOOLS), cancel_grace_s=0.5) as pool, anyio.create_task_group() as tasks:
            executor = ProcessExecutor(TOOLS, pool=pool)
            for each in TOOLS:
                tasks.start_soon(answered, executor, a_call(each.name))

    if __name__ == "__main__":
        anyio.run(main, backend="{backend}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_that_is_killed(tmp_path: Path, backend: str) -> None:
    """Whatever its workers do: wait, keep the interpreter's lock, wait for a program that they have started."""
    with program(tmp_path, _PROGRAM.replace("{backend}", backend), awaits=6) as (started, pids):
        assert all(map(is_alive, pids))
        killed(started)
        await_true(lambda: not any(map(is_alive, pids)))


@pytest.mark.anyio
@pytest.mark.slow
async def test_what_a_worker_leaves(tmp_path: Path) -> None:
    """A tool that is over its time ends with its worker, and so does the program that it waits for."""
    log = tmp_path / "log"
    late = Tool(tools.runs_a_program.__wrapped__, timeout_s=0.3)
    async with ProcessPool(1) as pool:
        executor = ProcessExecutor([late, tools.double], pool=pool)
        with anyio.fail_after(30):
            assert "TimeoutError" in content(await answered(executor, a_call("runs_a_program", log=str(log))))
        (pid,) = await lines_of(log, 1)
        await until(lambda: not is_alive(int(pid)))
        assert content(await answered(executor, a_call("double", n=1))) == "2"
