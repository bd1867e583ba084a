"""`ProcessSandbox`: an interpreter in a process of its own."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import anyio

from eagerstream._support.checks import check_count, check_positive
from eagerstream._support.sessions import kill_marked
from eagerstream.errors import ToolError, UsageError

from .._session_process import SessionProcess, check_start, shell_environment, start_process
from .sandbox import CodeFunction
from .worker_session import START, WorkerSession

_MEBIBYTE: Final = 1024 * 1024
_MIN_MEMORY_BYTES: Final = 64 * _MEBIBYTE
_START_S: Final = 30.0
"""Seconds that an interpreter may take to start. One in a container takes longer than a plain one."""
_MAX_OPEN_FILES: Final = 256
_KEPT: Final = ("PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables of this program that the plain interpreter gets, apart from `LC_*`."""
_MARK: Final = "EAGERSTREAM_CODE_FOLDER"
"""Variable by which the processes of a session are found."""
_NOT_STARTED: Final = "the interpreter for the code could not be started"


class ProcessSandbox:
    """Runs code in a Python process of its own, one for each run.

    This is no security boundary. The code has the rights of this program's user: it can read and write the same files,
    use the network, signal or debug this program, and read its initial environment (see `Bash`). This sandbox protects
    the program from code that is wrong, not from code that attacks it. To confine the code, start the interpreter
    elsewhere with `argv`, or use `MontySandbox`.

    These bounds hold for each process, as far as the platform has them:

    - address space: `max_memory_bytes`
    - processes and threads of the user: `max_processes` more than at the start; not for root
    - size of a file: `max_file_bytes`
    - open files: 256
    - core dumps: none

    At the end of a session, its process and everything that it has started are killed, also if the program is killed by
    SIGKILL. Processes that started their own session (a daemon) are found by their environment, on Linux and if the
    program lives. If the code does not react to its cancellation, a signal interrupts it, so that its `finally` blocks
    run. After `grace_s`, the process is killed.

    The code starts in an empty temporary folder, which is removed at the end. `HOME` and `TMPDIR` are this folder, too.
    Of this program's environment, the code gets `PATH`, `TZ` and the locale. It can import the standard library only.
    It has no input. What other programs write to stdout and stderr is part of its output.

    POSIX systems only. The first statement can run about 60 ms after the start.

    Args:
        argv: The command that starts the interpreter, Python 3.9 or later; by default, this program's. `-c` and a
            program are added to it. A wrapper (`("docker", "exec", "-i", NAME, "python3", "-I")`) must pass stdin,
            stdout and stderr through, unchanged and separately. `env` and `cwd` apply to the wrapper. It gets the
            environment of this program without the keys of the API, as in `Bash`, and the working folder of this
            program. If killing it does not kill its remote processes (`docker exec`), the worker there ends when its
            stdin is closed.
        packages: True to let the code import the packages of this program's environment. The start takes longer.
        cwd: The folder in which the interpreter starts. It must exist.
        env: Additional environment variables. Those with keys of the API are left out.
        max_memory_bytes: Maximum address space of a process, at least 64 MiB. An interpreter takes about 40 MiB.
        max_processes: Maximum number of processes and threads to start.
        max_file_bytes: Maximum size of a file that the code writes.
        grace_s: Seconds for the `finally` blocks of cancelled code.

    Raises:
        UsageError: A setting is invalid, or the platform has no process groups (Windows).
    """

    def __init__(
        self,
        *,
        argv: Sequence[str] | None = None,
        packages: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        max_memory_bytes: int = 512 * _MEBIBYTE,
        max_processes: int = 64,
        max_file_bytes: int = 256 * _MEBIBYTE,
        grace_s: float = 2.0,
    ) -> None:
        check_start("an interpreter in a process", cwd, env)
        if argv is not None and (
            isinstance(argv, str) or not argv or not all(isinstance(word, str | os.PathLike) for word in argv)
        ):
            raise UsageError('argv must be the interpreter and its arguments, such as ("python3", "-I")')
        if argv is not None and packages:
            raise UsageError("packages is for the interpreter of this program: argv is another one")
        if argv is None and (not sys.executable or getattr(sys, "frozen", False)):
            raise UsageError("this program has no interpreter of its own: name one in argv")
        check_count("max_memory_bytes", max_memory_bytes, least=_MIN_MEMORY_BYTES)
        check_count("max_processes", max_processes, least=0)
        check_count("max_file_bytes", max_file_bytes, least=0)
        check_positive("grace_s", grace_s, is_finite=True)
        self._argv = None if argv is None else tuple(map(os.fspath, argv))
        self._packages = packages
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._env = dict(env or {})
        self._grace_s = grace_s
        self._limits = {
            "AS": max_memory_bytes,
            "CORE": 0,
            "FSIZE": max_file_bytes,
            "NOFILE": _MAX_OPEN_FILES,
            "NPROC": max_processes,
        }

    async def open(self, functions: Sequence[CodeFunction]) -> WorkerSession:
        """Start an interpreter. Cancelling this leaves no process.

        Raises:
            ToolError: It could not be started. The text is for the model.
        """
        try:
            process = await start_process(self._plain if self._argv is None else partial(self._wrapped, self._argv))
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolError(_NOT_STARTED) from error
        session = WorkerSession(process, grace_s=self._grace_s)
        try:
            with anyio.fail_after(_START_S):
                await session.start(functions, self._limits)
        except BaseException as error:
            session.close()
            if isinstance(error, TimeoutError | ValueError):
                raise ToolError(_NOT_STARTED) from error
            raise
        return session

    def _wrapped(self, argv: Sequence[str]) -> SessionProcess:
        return SessionProcess([*argv, *START], cwd=self._cwd, env=shell_environment(os.environ, self._env))

    def _plain(self) -> SessionProcess:
        options = ["-I"] if self._packages else ["-I", "-S"]
        folder = tempfile.mkdtemp(prefix="eagerstream-code-")
        env = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
        # One arena of glibc: each thread would reserve 64 MiB of the address space for its own.
        env |= {"HOME": folder, "TMPDIR": folder, _MARK: folder, "MALLOC_ARENA_MAX": "1"}
        try:
            return SessionProcess(
                [sys.executable, *options, *START],
                cwd=self._cwd or folder,
                env=shell_environment(env, self._env),
                when_over=partial(_clean_up, folder),
            )
        except BaseException:
            _clean_up(folder)
            raise


def _clean_up(folder: str) -> None:
    """Kill the daemons of a session, and remove its folder as far as possible: the code may have changed the rights."""
    kill_marked(f"{_MARK}={folder}")
    with suppress(Exception):
        shutil.rmtree(folder, ignore_errors=True)
