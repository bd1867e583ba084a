"""Kill a session: a process that was started with `start_new_session=True`, and everything that it has started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROUNDS: Final = 20
"""Maximum number of searches for members of a session: they may start others while they are being killed."""


def kill_session(leader: int) -> None:
    """Kill the process group of a session's leader and, on Linux, all other members of the session.

    Members in other process groups (`timeout`, job control) are found in `/proc`; other systems have no such list. A
    process that made a session of its own (`setsid`, a daemon) is not a member. The number of the session stays taken
    while it has members, so no other process is killed. Blocks: reading `/proc` takes about 20 us per process.
    """
    kill_group(leader)
    if sys.platform != "linux":
        return
    for _ in range(_ROUNDS):
        processes = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
        members = [process for process in processes if _session_of(process) == leader]
        if not members:
            return
        for member in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member, signal.SIGKILL)


def kill_marked(variable: str) -> None:
    """Kill the processes that have an environment variable (`NAME=value`), also those in sessions of their own.

    On Linux only: other systems do not show the environments. A process can hide from this by changing its own.
    """
    if sys.platform != "linux":
        return
    for _ in range(_ROUNDS):
        marked = list(_marked(variable.encode()))
        if not marked:
            return
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def kill_group(leader: int) -> None:
    """Kill the process group of a leader; harmless if it is gone."""
    # PermissionError: none of its processes is ours (a wrapper like sudo), or, on macOS, none is alive.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Return whether there is such a process. On Linux, a zombie is not one."""
    if sys.platform == "linux":
        return _session_of(pid) is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _marked(variable: bytes) -> Iterator[int]:
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is not ours; that of a zombie is empty
            if variable in environment.read_bytes().split(b"\0"):
                yield int(environment.parent.name)


def _session_of(pid: int) -> int | None:
    """Return the session of a living process, from `/proc` (`man 5 proc_pid_stat`); None if it is gone, or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # a name may hold blanks and `)`
    return None if fields[0] in (b"Z", b"X") else int(fields[3])
