"""The shell as a process: three pipes, a session of its own, and an end that leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Final

from ..._support.sessions import kill_group, kill_session
from ..._support.watchdog import watchdog


class ShellProcess:
    """A process that leads a session of its own, and a thread that waits for its end.

    When it ends, however it does, the thread kills what is left of its session; see `kill_session`. If the program ends
    first, even by SIGKILL, the `watchdog` does it.

    Making one takes as long as starting a program, so it belongs into a thread.

    Args:
        argv: The program and its arguments.
        cwd: The folder that it starts in; None for that of this process.
        env: Its environment.

    Raises:
        OSError, RuntimeError, ValueError: It cannot be started: no such program or folder, too many processes,
            descriptors or threads, a NUL in an argument.

    Attributes:
        stdin, stdout, stderr: This end of its pipes; none of them blocks.
        ended: A descriptor that can be read once it has ended and what it left has been killed.
    """

    def __init__(self, argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str]) -> None:
        self.ended, when_ended = os.pipe()
        try:
            self._process = _started(argv, cwd=cwd, env=env)
            try:
                watchdog.watch(self._process.pid)  # until it has a command, a shell ends with its stdin
                self._pipes = _pipes_of(self._process)
                self._watcher = threading.Thread(
                    target=_watch, args=(self._process, when_ended), name="eagerstream bash", daemon=True
                )
                self._watcher.start()
            except BaseException:
                _undo(self._process)
                raise
        except BaseException:
            os.close(self.ended)
            os.close(when_ended)
            raise
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in self._pipes)
        self._is_closed = False

    @property
    def has_ended(self) -> bool:
        """It is gone, and has been waited for."""
        return not self._watcher.is_alive()

    @property
    def exit_status(self) -> int:
        """As a shell tells it: 128 and its number for a signal. Only of a process that has ended."""
        status = self._process.returncode
        assert status is not None
        return 128 - status if status < 0 else status

    def kill(self) -> None:
        """Kill it and its group; harmless where it has ended. Returns at once: `ended` tells when it is gone."""
        if self._process.returncode is None:
            kill_group(self._process.pid)

    def close(self) -> None:
        """Kill it, and close this end of its pipes; harmless the second time."""
        if not self._is_closed:
            self._is_closed = True
            self.kill()
            os.close(self.ended)
            for pipe in self._pipes:
                pipe.close()

    def join(self, timeout_s: float) -> None:
        """Wait until it is gone, but not for longer than this; blocks."""
        self._watcher.join(timeout_s)


def _started(argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )


def _undo(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody will watch."""
    kill_group(process.pid)
    process.wait()
    watchdog.forget(process.pid)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _pipes_of(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    pipes = process.stdin, process.stdout, process.stderr
    for pipe in pipes:
        os.set_blocking(pipe.fileno(), False)
    return pipes


def _watch(process: subprocess.Popen[bytes], when_ended: int) -> None:
    """Wait for the end of a session's leader, end its session, and then tell it."""
    try:
        if sys.platform == "linux":
            # It stays a zombie until the rest is gone: nobody else gets its number, which is also the session's.
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


# --- its environment --------------------------------------------------------------------------------------------------

_QUIET: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "HISTFILE": "/dev/null"}
"""Nobody sits at a terminal: no colours, nothing that waits for a key, no history."""

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
    """What the shell is started with; `extra` counts more than what is inherited.

    Left out, from both: everything named `ANTHROPIC_*`; whatever holds a key of the API (`sk-ant-...`) under any name;
    exported functions; and variables that switch bash to other rules or have it run code. Other secrets are not known
    as such: what the shell must not see should not be in the environment of the program. Nor does this hide what is
    there: see `Bash` for `/proc/$PPID/environ`.
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
