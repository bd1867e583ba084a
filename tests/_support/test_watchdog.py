"""`watchdog`: a program that is killed leaves no session behind."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from eagerstream._support.sessions import is_alive, kill_session
from eagerstream._support.watchdog import Watchdog
from tests.killing import await_true, killed, program, watchdog_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

_SESSION = """
    import os, subprocess, threading, time
    from pathlib import Path
    from eagerstream._support.watchdog import watchdog

    def session(script, grace_s=0.0):
        '''The leader of a session: a shell.'''
        leader = subprocess.Popen(["bash", "-c", script], start_new_session=True)
        watchdog.watch(leader.pid, grace_s=grace_s)
        return leader.pid

    def in_a_thread(script):
        thread = threading.Thread(target=lambda: say(session(script)))
        thread.start()
        thread.join()

    def say(*pids):
        with open("pids", "a") as file:
            file.write("".join(f"{pid}\\n" for pid in pids))
"""


def test_a_program_that_is_killed(tmp_path: Path) -> None:
    """All members of its sessions go, in whatever process group; not before, though the thread that made them is gone."""
    source = (
        _SESSION
        + """
    in_a_thread("sleep 1000 & a=$!; timeout 1000 sleep 1000 & echo $a >>pids; echo $! >>pids; sleep 1000")
    time.sleep(1000)
    """
    )
    with program(tmp_path, source, awaits=3) as (started, pids):
        guard = watchdog_of(started.pid)
        os.kill(guard, signal.SIGTERM)  # as a service manager sends it to all processes of a service
        assert all(map(is_alive, pids))
        killed(started)
        await_true(lambda: not any(map(is_alive, [*pids, guard])))


def test_a_process_that_leads_no_session(tmp_path: Path) -> None:
    """Only it goes, as it shares its session with others."""
    source = (
        _SESSION
        + """
    alone, other = (subprocess.Popen(["sleep", "1000"]).pid for _ in range(2))
    watchdog.watch(alone, leads=False)
    say(alone, other)
    time.sleep(1000)
    """
    )
    with program(tmp_path, source, awaits=2) as (started, (alone, other)):
        guard = watchdog_of(started.pid)
        killed(started)
        await_true(lambda: not is_alive(alone) and not is_alive(guard))
        assert is_alive(other)


def test_a_copy_of_the_program(tmp_path: Path) -> None:
    """A process that the program forked and that lives on does not pass for the program."""
    source = (
        _SESSION
        + """
    pid = session("sleep 1000")
    copy = os.fork()
    if copy:
        say(pid, copy)
    time.sleep(1000)
    """
    )
    with program(tmp_path, source, awaits=2) as (started, (pid, copy)):
        killed(started)
        await_true(lambda: not is_alive(pid))
        assert is_alive(copy)


def test_time_to_end(tmp_path: Path) -> None:
    """A leader that ends by itself in its time does so; the rest of its session goes then, and not when it is up."""
    source = (
        _SESSION
        + """
    leader = session("sleep 1000 & echo $! >>pids; while kill -0 $PPID && [ $PPID != 1 ]; do sleep 0.05; done; touch ended", 60)
    say(leader)
    time.sleep(1000)
    """
    )
    with program(tmp_path, source, awaits=2) as (started, pids):
        killed(started)
        await_true(lambda: not any(map(is_alive, pids)))
        assert (tmp_path / "ended").exists()


def test_sessions_that_are_over(tmp_path: Path) -> None:
    """One that is forgotten is left alone; what is left of one that is ended goes while the program lives."""
    source = (
        _SESSION
        + """
    forgotten, ended, watched = (session("sleep 1000; true") for _ in range(3))
    watchdog.forget(forgotten)
    watchdog.end(ended)
    say(forgotten, ended, watched)
    time.sleep(1000)
    """
    )
    with program(tmp_path, source, awaits=3) as (started, (forgotten, ended, watched)):
        try:
            await_true(lambda: not is_alive(ended))
            assert is_alive(watched)
            killed(started)
            await_true(lambda: not is_alive(watched))
            assert is_alive(forgotten)
        finally:
            kill_session(forgotten)


def test_a_watchdog_that_is_killed(tmp_path: Path) -> None:
    """The next session has a new one, which is told of the earlier ones, too. It has no secrets."""
    source = (
        _SESSION
        + """
    os.environ["SECRET"] = "hunter2"
    first = session("sleep 1000; true")
    say(first)
    watchdog._socket.setblocking(True)
    assert watchdog._socket.recv(1) == b""  # the process that forked the watchdog has the socket, too, until it ends
    say(session("sleep 1000; true"))
    time.sleep(1000)
    """
    )
    with program(tmp_path, source, awaits=1) as (started, pids):
        guard = watchdog_of(started.pid)
        assert b"hunter2" not in Path(f"/proc/{guard}/environ").read_bytes()
        os.kill(guard, signal.SIGKILL)
        await_true(lambda: (tmp_path / "pids").read_text().count("\n") == 2)
        pids[:] = [int(line) for line in (tmp_path / "pids").read_text().split()]
        killed(started)
        await_true(lambda: not any(map(is_alive, pids)))


def test_no_descriptors_are_left(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without a watchdog, everything else goes on; a warning says that nobody will clean up."""

    def none_left() -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", none_left)
    watchdog = Watchdog()
    watchdog.watch(os.getpid())
    watchdog.forget(os.getpid())
    assert "the watchdog could not start" in caplog.text
