"""A program in a session of its own: three pipes, and an end that leaves no processes behind."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread

from eagerstream._support.sessions import kill_group, kill_session
from eagerstream._support.watchdog import watchdog
from eagerstream.errors import UsageError


class SessionProcess:
    """A process that leads its own session, and a thread that waits for its end.

    When the process ends, the thread kills the rest of its session; see `kill_session`. If the program ends first, even
    by SIGKILL, the `watchdog` kills the session.

    The constructor takes as long as starting a program. Call it in a thread.

    Args:
        argv: The program and its arguments.
        cwd: The working folder. `None` uses the one of this process.
        env: The complete environment.
        when_over: Called in the thread after the session was killed.

    Raises:
        OSError, RuntimeError, ValueError: The process cannot start: the program or folder is missing, an argument has a
            NUL, or there are too many processes, descriptors or threads.

    Attributes:
        stdin, stdout, stderr: This side of its pipes, non-blocking.
        ended: A descriptor that becomes readable after the process has ended and the rest of its session was killed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        when_over: Callable[[], object] = lambda: None,
    ) -> None:
        self.ended, when_ended = os.pipe()
        try:
            process = self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            try:
                watchdog.watch(process.pid)  # a program that runs no command ends with its stdin
                assert process.stdin is not None
                assert process.stdout is not None
                assert process.stderr is not None
                self._pipes = process.stdin, process.stdout, process.stderr
                for pipe in self._pipes:
                    os.set_blocking(pipe.fileno(), False)
                self._watcher = threading.Thread(
                    target=self._watch, args=(when_ended, when_over), name="eagerstream session", daemon=True
                )
                self._watcher.start()
            except BaseException:
                # There is no watcher thread to kill and reap it.
                kill_group(process.pid)
                process.wait()
                watchdog.forget(process.pid)
                for each in (process.stdin, process.stdout, process.stderr):
                    if each is not None:
                        each.close()
                raise
        except BaseException:
            os.close(self.ended)
            os.close(when_ended)
            raise
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in self._pipes)
        self._is_closed = False

    @property
    def has_ended(self) -> bool:
        """True after the process ended and was waited for."""
        return not self._watcher.is_alive()

    @property
    def exit_status(self) -> int:
        """The exit status as a shell gives it: 128 plus the number of a signal. Only valid after the end."""
        status = self._process.returncode
        assert status is not None
        return 128 - status if status < 0 else status

    def kill(self) -> None:
        """Kill the process and its group, unless it has ended. This returns at once: wait for `ended`."""
        if self._process.returncode is None:
            kill_group(self._process.pid)

    def close(self) -> None:
        """Kill the process and close this side of its pipes. A second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self.kill()
            os.close(self.ended)
            for pipe in self._pipes:
                pipe.close()

    def join(self, timeout_s: float) -> None:
        """Wait for the end, at most `timeout_s` seconds. This blocks."""
        self._watcher.join(timeout_s)

    def _watch(self, when_ended: int, when_over: Callable[[], object]) -> None:
        """Wait for the end of the leader, kill the session, close `when_ended`, and call `when_over`."""
        process = self._process
        _alive.add(self)
        try:
            if sys.platform == "linux":
                # The leader stays a zombie until the rest is killed: its number, also the session's, is not reused
                # before.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                kill_session(process.pid)
                watchdog.forget(process.pid)
                process.wait()
            else:
                process.wait()
                kill_session(process.pid)
                watchdog.forget(process.pid)
        finally:
            os.close(when_ended)
            when_over()
            _alive.discard(self)


_alive: Final[set[SessionProcess]] = set()
_GONE_S: Final = 2.0
"""Seconds that killed processes may take to end, at the end of the program."""


def _end_all(owner: int) -> None:
    """Kill the processes that are left when the program ends, and wait for the threads that clean up behind them."""
    if os.getpid() == owner:  # a forked process has copies of the objects, but not of the threads
        processes = [*_alive]
        for process in processes:
            process.kill()
        for process in processes:
            process.join(_GONE_S)


atexit.register(_end_all, os.getpid())


async def start_process(make: Callable[[], SessionProcess]) -> SessionProcess:
    """Start a process in a thread. Cancelling this leaves no process.

    If asyncio itself cancels the task (`asyncio.wait_for`), the task returns at once, despite anyio's shields. Then the
    thread kills the process after its start.

    Raises:
        OSError, RuntimeError, ValueError: See `SessionProcess`.
    """
    lock = threading.Lock()
    started: SessionProcess | None = None
    is_given_up = False

    def run() -> SessionProcess:
        nonlocal started
        process = make()
        with lock:
            started = process
            if is_given_up:
                process.close()
        return process

    try:
        return await anyio.to_thread.run_sync(run)
    except BaseException:
        with lock:
            is_given_up = True
            if started is not None:
                started.close()
        raise


def check_start(program: str, cwd: object, env: Mapping[str, str] | None) -> None:
    """Check that a program can start here, in this folder and with these additional variables.

    Raises:
        UsageError: It cannot. `program` is what the text calls it.
    """
    if not hasattr(os, "killpg"):
        raise UsageError(f"this platform has no process groups, which {program} needs")
    if not isinstance(cwd, str | os.PathLike | None):
        raise UsageError(f"cwd must be the path of a folder, not {cwd!r:.80}")
    if cwd is not None and not Path(cwd).is_dir():
        raise UsageError(f"{os.fspath(cwd)} is not a folder, so no {program.split()[1]} can start in it")
    if not all(isinstance(text, str) for variable in (env or {}).items() for text in variable):
        raise UsageError("env must have only texts as names and values")


# --- its environment --------------------------------------------------------------------------------------------------

_QUIET: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "HISTFILE": "/dev/null"}
"""Settings for a shell without a terminal: no colours, no pagers, no history."""

_DISTURBING: Final = frozenset(
    {
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4"),  # code that the shell would run
        *("SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "BASH_COMPAT", "BASH_XTRACEFD"),  # other rules, and traces
        *("CDPATH", "GLOBIGNORE", "TIMEFORMAT", "TMOUT"),
    }
)
_OF_THE_API: Final = "ANTHROPIC_"
_EXPORTED_FUNCTION: Final = "BASH_FUNC_"
_BEGINS_KEY: Final = "sk-ant-"


def shell_environment(inherited: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the shell. `extra` overrides `inherited`.

    The result omits, from both:

    - variables named `ANTHROPIC_*`;
    - variables of any name that contain a key of the API (`sk-ant-...`);
    - exported functions, and variables that change bash's rules or make it run code.

    It cannot recognize other secrets: keep them out of the program's environment. Nor does it hide the program's own
    environment: see `Bash` for `/proc/$PPID/environ`.
    """
    merged = {**inherited, **_QUIET, **extra}
    return {name: value for name, value in merged.items() if not _is_left_out(name, value)}


def _is_left_out(name: str, value: str) -> bool:
    return (
        name.upper().startswith(_OF_THE_API)
        or name.startswith(_EXPORTED_FUNCTION)
        or name in _DISTURBING
        or _BEGINS_KEY in value
    )
