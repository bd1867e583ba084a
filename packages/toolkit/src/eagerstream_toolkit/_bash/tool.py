"""`Bash`: the `bash` tool. Its commands run one at a time in a shell that keeps its state."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self, Unpack

import anyio
from typing_extensions import TypedDict

from eagerstream import JSONObject
from eagerstream._support.checks import check_count, check_positive
from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import Reject, RunningCall, Tool, ToolCall, ToolErrorCode, ToolResponse

from .._reporter import SHOWN_CHARS, Reporter
from .._session_process import check_start, shell_environment
from .output import Output
from .session import GONE_S, START_S, BashSession, Ended

DEFAULT_ARGV: Final = ("bash", "--noprofile", "--norc")

_DEFINITION: Final = {"type": "bash_20250124", "name": "bash"}
_MAX_COMMAND_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a command. Bash reads its script from a pipe byte by byte, about 4 MB per second."""
_MIN_OUTPUT_CHARS: Final = 100
_SLACK_S: Final = 15.0
_CANNOT_RUN: Final = {126: ToolErrorCode.PERMISSION_DENIED, 127: ToolErrorCode.NOT_FOUND}
"""Error codes by exit status, for commands that could not run (POSIX, 2.8.2)."""
_LOST: Final = "its folder, variables, functions and background jobs are gone."
_ENDED: Final = f"The shell ended with this command, and the next one will run in a new shell: {_LOST}"
_WAS_ENDED: Final = f"The shell had ended before this command, which ran in a new shell: {_LOST}"


class BashOptions(TypedDict, total=False):
    """The options from `ToolOptions` that a user may set. The tool determines the rest."""

    approve: Callable[[ToolCall], Any] | None
    approve_timeout_s: float
    guard: Callable[[JSONObject], str | Reject | None] | None
    start: Literal["input", "message"]
    on_cancel: Literal["cancel", "finish"]
    include_data: bool


class Bash(Tool):
    """Anthropic's `bash` tool (`bash_20250124`): commands run in one shell, in the order of their calls.

    The folder, variables, functions and background jobs of a command stay for the next. The first call starts the
    shell. `{"restart": true}` starts a new one. The end of `async with Bash() as bash:`, or `aclose`, ends the shell.
    Without either, it ends with this object or with the program.

    The result has stdout and stderr in one text, as written. If it is too long, its middle is omitted. Special results:

    - If the exit status is not 0, a last line says so: `(exit status 1)`. This is no error: `grep` returns 1 if it
      finds nothing.
    - If the command could not run (status 126 or 127), the result is an error with its output. The codes are
      `PERMISSION_DENIED` and `NOT_FOUND`.
    - After a timeout, the result is an error: `Error: command did not finish within {n} seconds`, and the output so
      far.
    - If the shell ended with the command (`exit`, `set -e`, `kill $$`) or before it, the result is `PARTIAL`. The next
      command runs in a new shell.

    While a command runs, its progress is the end of its output so far: up to 2,000 characters, at most ten times a
    second. The response's data is `{"exit_status": int, "truncated": bool, "lines": int}`.

    A command has no input: its stdin is `/dev/null`, and there is no terminal. Redirections by `exec` end with the
    command. The output of background jobs appears with the next command. Until then it waits in the pipe. When the pipe
    is full (64 KiB), the jobs wait, too: redirect their output to a file.

    At the end of a shell, all its processes are killed. On Linux this includes those in their own process groups,
    elsewhere only those in the shell's group. If the program is killed, even by SIGKILL, a small watchdog process kills
    them. Processes that started their own session (`setsid`, a daemon) survive.

    This is no sandbox. A command has the rights of the program's user. It can read the same files, kill this process,
    read its memory, and attack the shell with a debugger or through `/proc`. A command's output, or a file that it
    shows, can never imitate the end or the status of a command. But code inside the shell itself (`source`) can change
    later commands, and so falsify their results or make them time out. To confine commands, start the shell elsewhere,
    with `argv`.

    The shell's environment has no keys of the API. But on Linux a command can read this program's initial environment
    in `/proc/$PPID/environ`, and that of any other process of the same user. Deleting a variable from `os.environ` does
    not change that file. Only these protect it:

    - Another user: `argv=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "bash",
      "--noprofile", "--norc")` in a program that runs as root.
    - A container: `argv=("docker", "exec", "-i", ...)`, or `argv=("bwrap", "--unshare-all", "--die-with-parent",
      "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc",
      "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/usr/bin/bash", "--noprofile", "--norc")`. If the program runs as
      root, put the words of the other user before `"bwrap"`: root can write the settings of the kernel in any
      bubblewrap, and through them leave it.
    - For this process alone, if it does not run as root: `ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)` before the first call
      (`PR_SET_DUMPABLE`). It then writes no core dumps, and no debugger can attach. Its workers and its parent process
      stay readable.

    Cancelling a call kills the shell. POSIX systems only.

    Args:
        cwd: The folder in which a shell starts. It must exist. By default, the working folder of this process at that
            time.
        env: Additional environment variables. Both it and the inherited environment lose `ANTHROPIC_*`, any key of the
            API, and variables that change bash's behavior (`BASH_ENV`, exported functions and the like).
        timeout_s: Time limit of a command in seconds.
        max_output_chars: Maximum number of characters of output to keep, at least 100.
        argv: The command that starts the shell: a bash that reads its script from stdin. A wrapper (`docker exec -i
            ...`) must pass stdin, stdout and stderr through, unchanged and separately (no terminal). Delays are
            allowed. `env` and `cwd` apply to the wrapper. After a timeout it is killed with its group. If that does not
            kill its remote processes (`docker exec`, or `bwrap --new-session` without `--die-with-parent`), the command
            continues there.
        cache_control: A cache breakpoint behind the definition.
        options: See `ToolOptions`.

    Raises:
        UsageError: A setting or an option is invalid, or the platform has no process groups (Windows).
    """

    def __init__(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
        max_output_chars: int = 30_000,
        argv: Sequence[str] = DEFAULT_ARGV,
        cache_control: Mapping[str, Any] | None = None,
        **options: Unpack[BashOptions],
    ) -> None:
        check_start("a shell", cwd, env)
        check_positive("timeout_s", timeout_s, is_finite=True)
        check_count("max_output_chars", max_output_chars, least=_MIN_OUTPUT_CHARS)
        if isinstance(argv, str) or not argv or not argv[0] or not all(map(_is_word, argv)):
            raise UsageError('argv must be the program and its arguments, such as ("bash", "--norc")')
        if any(not name or "=" in name or "\0" in name + value for name, value in (env or {}).items()):
            raise UsageError("a name in env has a character, but no '=', and nothing in env has a NUL")
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._env = dict(env or {})
        self._command_timeout_s = timeout_s
        self._max_output_chars = max_output_chars
        self._argv = tuple(argv)
        self._lock = anyio.Lock()  # two runs may share this tool
        self._holder = _Holder()
        weakref.finalize(self, self._holder.end, os.getpid())
        definition = _DEFINITION | ({} if cache_control is None else {"cache_control": cache_control})
        super().__init__(
            self._call,
            definition=definition,
            group="bash",
            # Starting a shell, running the command and ending the shell each have a limit. This one is the last resort.
            timeout_s=timeout_s + START_S + _SLACK_S,
            **options,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the shell and all its processes, including a running command. A later call starts a new shell.

        This waits at most 2 seconds, and cannot be cancelled during them.
        """
        if self._holder.session is not None:
            self._holder.session.kill()
        with anyio.move_on_after(GONE_S, shield=True):
            async with self._lock:
                await self._end()

    async def _call(self, input: dict[str, Any], call: RunningCall) -> ToolResponse:
        command, restart = _checked(input)
        async with self._lock:
            if restart:
                await self._end()
            session, was_lost = await self._session()
            if command is None:
                return ToolResponse.success("Bash session restarted")
            output = Output(self._max_output_chars)
            try:
                ended = await self._run(session, command, output, call)
            except BaseException:
                session.close()
                raise
            if not ended.shell_goes_on:
                await self._end()
        if ended.exit_status is None:
            late = f"Error: command did not finish within {self._command_timeout_s:g} seconds"
            raise ToolError("\n".join([late, *_printed(output)]), code=ToolErrorCode.TIMEOUT)
        reasons = [*([_WAS_ENDED] if was_lost else []), *([] if ended.shell_goes_on else [_ENDED])]
        return _answer(ended.exit_status, output, " ".join(reasons))

    async def _session(self) -> tuple[BashSession, bool]:
        """Return the shell, started if necessary, and whether an earlier one ended unnoticed."""
        session = self._holder.session
        if session is not None and not session.has_ended:
            return session, False
        was_lost = session is not None
        if session is not None:
            session.close()
        try:
            env = shell_environment(os.environ, self._env)
            session = await BashSession.start(self._argv, cwd=self._cwd, env=env)
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolError("Error: the shell could not be started") from error
        self._holder.session = session
        return session, was_lost

    async def _end(self) -> None:
        session, self._holder.session = self._holder.session, None
        if session is not None:
            await session.aclose()

    async def _run(self, session: BashSession, command: str, output: Output, call: RunningCall | None) -> Ended:
        limit_s = self._command_timeout_s
        if call is None:
            return await session.run(command, output, timeout_s=limit_s)
        progress = Reporter(call, lambda: output.end(SHOWN_CHARS))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(progress.tell)
            ended = await session.run(command, output, timeout_s=limit_s, on_output=progress.note)
            tasks.cancel_scope.cancel()
        return ended


class _Holder:
    """The shell of a tool. It ends the shell after the tool is collected, so it holds no reference to the tool."""

    def __init__(self) -> None:
        self.session: BashSession | None = None

    def end(self, owner: int) -> None:
        """End the shell, unless this process was forked from its owner."""
        if self.session is not None and os.getpid() == owner:
            self.session.close_and_wait()


def _is_word(word: object) -> bool:
    text = os.fspath(word) if isinstance(word, str | os.PathLike) else None
    return isinstance(text, str) and "\0" not in text


def _checked(input: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return the command, and whether to restart before it.

    Raises:
        ToolError: The input is invalid. The text is for the model.
    """
    command, restart = input.get("command"), input.get("restart", False)
    fault = None
    if unknown := input.keys() - {"command", "restart"}:
        fault = f"bash takes command and restart, not {min(unknown)!r:.80}"
    elif not isinstance(restart, bool):
        fault = "restart must be true or false"
    elif command is not None and not isinstance(command, str):
        fault = "command must be a string"
    elif not command and not restart:
        fault = "bash needs a command, or restart: true"
    elif command and "\0" in command:
        fault = "command must not contain the character NUL"
    elif command and len(command.encode(errors="replace")) > _MAX_COMMAND_BYTES:
        fault = f"command must not be longer than {_MAX_COMMAND_BYTES} bytes: write it to a file in parts"
    if fault is not None:
        raise ToolError(f"Error: {fault}", code=ToolErrorCode.INVALID_PARAM)
    return command or None, bool(restart)


def _answer(exit_status: int, output: Output, reason: str) -> ToolResponse:
    """Return the result of a command that ended.

    Raises:
        ToolError: The command could not run (status 126 or 127).
    """
    said = _printed(output)
    if exit_status in _CANNOT_RUN:
        text = "\n".join([*(said or [f"(exit status {exit_status})"]), *([reason] if reason else [])])
        raise ToolError(text, code=_CANNOT_RUN[exit_status])
    text = "\n".join([*said, *([f"(exit status {exit_status})"] if exit_status else [])])
    data = {"exit_status": exit_status, "truncated": output.is_truncated, "lines": output.lines}
    stats = {"output_bytes": output.size_bytes}
    if reason:
        return ToolResponse.partial(text, data, stats, reason=reason)
    return ToolResponse.success(text, data, stats)


def _printed(output: Output) -> list[str]:
    text = output.text()
    return [text] if text else []
