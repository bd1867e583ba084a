"""`watchdog`: a process that kills the processes of this program, if the program ends without doing so itself.

A program that is killed with SIGKILL runs no cleanup. One small process per program therefore waits at a socket whose
other end only the program holds. The program reports each session that it starts, and each that has ended. When the
program ends in any way, the system closes the socket. The watchdog then kills the sessions that are left.

`PR_SET_PDEATHSIG` is not enough. It comes when the *thread* that started a process ends, and both trio and anyio start
processes from threads that end when they have been idle for 10 seconds. It also reaches no grandchildren, and exists on
Linux only.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from .sessions import is_alive, kill_group, kill_session

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.05
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)
"""Prevents SIGPIPE, which ends a program that has restored the system's handler."""
_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The environment of the watchdog: an interpreter may need these, and it gets no secrets."""
_NOT_STARTED: Final = "processes that outlive this program will not be killed: the watchdog could not start (%s)"
_PROGRAM: Final = (
    # The fork makes it nobody's child: the program need not wait for it, and sees no process that it did not start.
    "import os; os.fork() and os._exit(0); "
    "import sys; sys.path.append(sys.argv[1]); from eagerstream._support.watchdog import main; main()"
)


class Watchdog:
    """The program's end of the socket. All methods may be called from any thread.

    There is no watchdog on Windows, and none in a frozen program, which has no interpreter to start one with.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, tuple[float, bool]] = {}
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._is_possible = sys.platform != "win32" and not getattr(sys, "frozen", False) and bool(sys.executable)
        if sys.platform != "win32":
            # A copy of the socket in a forked process would hide the end of the program.
            os.register_at_fork(after_in_child=self._close)
        atexit.register(self._close)

    def watch(self, leader: int, *, grace_s: float = 0.0, leads: bool = True) -> None:
        """Let the watchdog kill a session if the program ends. The first call starts the watchdog, in about 10 ms.

        A watchdog that is gone is replaced here. If none can be started, a warning is logged.

        Args:
            leader: The process that leads the session.
            grace_s: Seconds that the leader has to end by itself. The rest of its session is killed then, too.
            leads: False for a process that leads no session. Only this process is killed.
        """
        with self._lock:
            self._sessions[leader] = grace_s, leads
            if self._is_possible and not self._tell(_watch(leader, grace_s, leads=leads)):
                self._start()

    def forget(self, leader: int) -> None:
        """Stop watching a session that has ended."""
        with self._lock:
            self._sessions.pop(leader, None)
            self._tell(f"forget {leader}\n")

    def end(self, leader: int) -> None:
        """Let the watchdog kill the rest of a session, and stop watching it. Returns at once.

        Without a watchdog, only the process group of the leader is killed.
        """
        with self._lock:
            self._sessions.pop(leader, None)
            if not self._tell(f"end {leader}\n") and sys.platform != "win32":
                kill_group(leader)

    def _tell(self, text: str) -> bool:
        """Send a message. Return False if the watchdog is gone or does not read."""
        if self._socket is None:
            return False
        data = text.encode()
        try:
            return self._socket.send(data, _NO_SIGNAL) == len(data)
        except OSError:
            return False

    def _start(self) -> None:
        ours = None
        try:
            ours, its = socket.socketpair()
            with its:
                process = subprocess.Popen(
                    # The program's process id helps people to find its watchdog.
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parents[2]), str(os.getpid())],
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={name: os.environ[name] for name in _KEPT if name in os.environ},
                    start_new_session=True,
                )
            threading.Thread(target=_check_start, args=(process,), name="eagerstream watchdog", daemon=True).start()
        except (OSError, RuntimeError) as error:  # no descriptors, processes or threads left
            if ours is not None:
                ours.close()
            _log.warning(_NOT_STARTED, error)
            return
        ours.setblocking(False)
        if self._socket is not None:
            self._socket.close()
        self._socket = ours
        self._tell("".join(_watch(leader, grace_s, leads=leads) for leader, (grace_s, leads) in self._sessions.items()))

    def _close(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it when the process was forked
        self._sessions = {}
        if self._socket is not None:
            self._socket.close()
            self._socket = None


watchdog: Final = Watchdog()
"""The watchdog of this program."""


def _check_start(process: subprocess.Popen[bytes]) -> None:
    """Wait until the watchdog has detached itself. If it fails, log a warning."""
    code = process.wait()
    if code:
        _log.warning(_NOT_STARTED, f"exit code {code}")


def main() -> None:
    """Run the watchdog: read sessions from standard input until the program has ended, then kill the rest."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # meant for the program
        signal.signal(number, signal.SIG_IGN)
    sessions: dict[int, tuple[float, bool]] = {}
    with suppress(OSError):
        for line in sys.stdin:
            verb, leader, *how = line.split()
            if verb == "watch":
                grace_s, leads = how
                sessions[int(leader)] = float(grace_s), leads == "leads"
            else:
                sessions.pop(int(leader), None)
                if verb == "end":
                    kill_session(int(leader))
    _end(sessions)


def _end(sessions: dict[int, tuple[float, bool]]) -> None:
    """Kill each session when its leader has ended, or when its time is up."""
    start_s = time.monotonic()
    while sessions:
        waited_s = time.monotonic() - start_s
        for leader, (grace_s, leads) in [*sessions.items()]:
            if waited_s >= grace_s or not is_alive(leader):
                if leads:
                    kill_session(leader)
                else:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(leader, signal.SIGKILL)
                del sessions[leader]
        time.sleep(_LOOK_S)


def _watch(leader: int, grace_s: float, *, leads: bool) -> str:
    return f"watch {leader} {grace_s} {'leads' if leads else 'alone'}\n"
