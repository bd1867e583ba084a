"""Sessions are killed with everything in them, and nothing outside."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from eagerstream._support.sessions import is_alive, kill_group, kill_session

_STARTS_ANOTHER = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0)
print(grandchild.pid, flush=True)
time.sleep(60)
"""
"""Its child has a process group of its own, in the same session."""


@pytest.fixture
def leader() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A session's leader, and the process that it has started."""
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS_ANOTHER], start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            kill_session(process.pid)


def _await_end(pid: int) -> None:
    until = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the members of a session")
def test_other_groups_of_the_session_are_killed(leader: tuple[subprocess.Popen[str], int]) -> None:
    """`timeout` and job control make groups of their own, which `killpg` does not reach."""
    process, child = leader
    kill_group(process.pid)
    process.wait(60)
    assert is_alive(child)
    kill_session(process.pid)
    _await_end(child)


def test_a_process_that_is_gone_is_not_alive(leader: tuple[subprocess.Popen[str], int]) -> None:
    """Neither is one that nobody has waited for; to kill what is gone is harmless."""
    process, _ = leader
    assert is_alive(process.pid)
    process.kill()
    if sys.platform == "linux":
        _await_end(process.pid)
    process.wait(60)
    assert not is_alive(process.pid)
    kill_group(process.pid)
