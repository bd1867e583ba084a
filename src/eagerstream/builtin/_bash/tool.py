"""`Bash`: the `bash` tool, whose commands run one after the other in a shell that keeps its state."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, Unpack

import anyio
from typing_extensions import TypedDict

from ...errors import ToolError, UsageError
from ...tools import Reject, Tool, ToolCall, ToolErrorCode, ToolResponse
from ...wire import JSONObject, check_count, check_positive
from .output import Output
from .process import shell_environment
from .session import GONE_S, START_S, BashSession, Ended

DEFAULT_ARGV: Final = ("bash", "--noprofile", "--norc")

_DEFINITION: Final = {"type": "bash_20250124", "name": "bash"}
_MAX_COMMAND_BYTES: Final = 2 * 1024 * 1024
"""Bash reads its script from a pipe byte by byte: some 4 MB a second."""
_MIN_OUTPUT_CHARS: Final = 100
_SHOWN_CHARS: Final = 2_000
_SHOWN_EVERY_S: Final = 0.1
_SLACK_S: Final = 15.0
_CANNOT_RUN: Final = {126: ToolErrorCode.PERMISSION_DENIED, 127: ToolErrorCode.NOT_FOUND}
"""What a shell's exit status says of a command that could not be run (POSIX, 2.8.2)."""
_LOST: Final = "its folder, variables, functions and background jobs are gone."
_ENDED: Final = f"The shell ended with this command, and the next one will run in a new shell: {_LOST}"
_WAS_ENDED: Final = f"The shell had ended before this command, which ran in a new shell: {_LOST}"


class BashOptions(TypedDict, total=False):
    """Those of `ToolOptions` that are for the user to say; the rest follows from the tool."""

    approve: Callable[[ToolCall], Any] | None
    approve_timeout_s: float
    guard: Callable[[JSONObject], str | Reject | None] | None
    start: Literal["input", "message"]
    on_cancel: Literal["cancel", "finish"]
    include_data: bool


class Bash(Tool):
    """Anthropic's `bash` tool (`bash_20250124`): commands that run in one shell, in the order of their calls.

    The folder, variables, functions and background jobs of one command are there for the next. The shell starts at the
    first call; `{"restart": true}` starts a new one. `async with Bash() as bash:` ends it on leaving, and so does
    `aclose`; without either it ends when this object, or the program, does.

    The model is shown stdout and stderr as they were written, in one text, without the middle where it is long, and

    - of a status that is not 0 a last line `(exit status 1)`: `grep` that finds nothing is no error;
    - an error of its output where the command could not be run: status 126 and 127, "Permission denied" and "command
      not found" (codes `PERMISSION_DENIED` and `NOT_FOUND`);
    - an error `Error: command did not finish within {n} seconds`, and the output so far, where the time was up;
    - a `PARTIAL` result where the shell ended with the command (`exit`, `set -e`, `kill $$`), or was found to have
      ended. The next command runs in a new one.

    While a command runs, its progress is the end of what it has printed so far, up to 2,000 characters, ten times a
    second at most. The response's data is `{"exit_status": int, "truncated": bool, "lines": int}`.

    A command reads nothing: its stdin is `/dev/null`, and there is no terminal. What `exec` redirects comes back at
    the end of the command. What background jobs print comes with the next command; until then it waits in the pipe,
    and they do, once that is full (64 KiB): send it to a file.

    At the end of a shell all its processes are killed, also those in process groups of their own (on Linux; elsewhere
    only those of the shell's group). If the program is killed, even by SIGKILL, a small process of its own does the
    same. What has made itself a session (`setsid`, a daemon) lives on.

    This is no sandbox. A command has the rights of the user that the program runs as: it can read the same files, kill
    this process, read its memory, and attack the shell with a debugger or through `/proc`. What a command prints, or a
    file that it shows, can never pass for the end of a command or its status. But code that runs inside the shell
    itself (`source`) can change what later commands do, and so lie about them, or have them run into their time limit.
    To confine it all, start the shell elsewhere, with `argv`.

    The shell's environment has no keys of the API. But on Linux a command can read the environment that this program
    was started with in `/proc/$PPID/environ`, and that of any other process of the same user. Deleting a variable from
    `os.environ` does not change that file. Only these keep it from commands:

    - Another user: `argv=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "bash",
      "--noprofile", "--norc")` in a program that runs as root.
    - A container: `argv=("docker", "exec", "-i", ...)`.
    - For this process alone, if it does not run as root: `ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)` before the first call
      (`PR_SET_DUMPABLE`). It writes no core dumps then, and no debugger can attach. Its workers, and the program that
      started it, can still be read.

    Cancelling a call kills the shell. POSIX systems only.

    Args:
        cwd: The folder that a shell starts in, which must exist; by default the one of this process at that time.
        env: Added to the environment. `ANTHROPIC_*`, anything that holds a key of the API, and what makes bash behave
            otherwise (`BASH_ENV`, exported functions and the like) are left out, also from this.
        timeout_s: Seconds that a command may take.
        max_output_chars: Characters of output that are kept; at least 100.
        argv: What starts the shell: a bash that reads its script from stdin. A wrapper (`docker exec -i ...`) passes on
            stdin, stdout and stderr, each unchanged and by itself (no terminal); they may come late. `env` and `cwd`
            are its own: it passes them on as it does. It is killed with its group; where that does not kill what
            it has started elsewhere (`docker exec`), a command that is over its time lives on there.
        cache_control: A cache breakpoint behind the definition.
        options: See `ToolOptions`.

    Raises:
        UsageError: A setting or an option is none.
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
        check_positive("timeout_s", timeout_s, is_finite=True)
        check_count("max_output_chars", max_output_chars, least=_MIN_OUTPUT_CHARS)
        if isinstance(argv, str) or not argv or not all(isinstance(word, str | os.PathLike) for word in argv):
            raise UsageError('argv must be the program and its arguments, such as ("bash", "--norc")')
        if not isinstance(cwd, str | os.PathLike | None):
            raise UsageError(f"cwd must be the path of a folder, not {cwd!r:.80}")
        if cwd is not None and not Path(cwd).is_dir():
            raise UsageError(f"{os.fspath(cwd)} is no folder to start a shell in")
        if not all(isinstance(text, str) for variable in (env or {}).items() for text in variable):
            raise UsageError("env must have texts only, as names and as values")
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._env = dict(env or {})
        self._command_timeout_s = timeout_s
        self._max_output_chars = max_output_chars
        self._argv = tuple(argv)
        self._lock = anyio.Lock()  # two runs may have this tool at the same time
        self._holder = _Holder()
        weakref.finalize(self, self._holder.end, os.getpid())
        definition = _DEFINITION | ({} if cache_control is None else {"cache_control": cache_control})
        super().__init__(
            self._call,
            definition=definition,
            group="bash",
            # Of starting a shell, the command and ending it each has a limit of its own; this one is behind them.
            timeout_s=timeout_s + START_S + _SLACK_S,
            **options,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the shell and all that runs in it; a command that is running ends with it. A later call starts a new one.

        It waits 2 seconds at most, and in them it cannot be cancelled.
        """
        if self._holder.session is not None:
            self._holder.session.kill()
        with anyio.move_on_after(GONE_S, shield=True):
            async with self._lock:
                await self._end()

    async def _call(self, input: dict[str, Any], call: ToolCall) -> ToolResponse:
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
        """The shell, started where there is none; and whether there was one that ended without anybody being told."""
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

    async def _run(self, session: BashSession, command: str, output: Output, call: ToolCall | None) -> Ended:
        limit_s = self._command_timeout_s
        if call is None:
            return await session.run(command, output, timeout_s=limit_s)
        progress = _Progress(call, output)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(progress.tell)
            ended = await session.run(command, output, timeout_s=limit_s, on_output=progress.note)
            tasks.cancel_scope.cancel()
        return ended


class _Holder:
    """The shell of a tool, apart from the tool: what ends it when the tool is gone must not keep the tool."""

    def __init__(self) -> None:
        self.session: BashSession | None = None

    def end(self, owner: int) -> None:
        """End the shell, unless this is a process that was forked from its owner."""
        if self.session is not None and os.getpid() == owner:
            self.session.close_and_wait()


class _Progress:
    """Tells what is printed: at once where nothing was told lately, otherwise a little later, all of it together."""

    def __init__(self, call: ToolCall, output: Output) -> None:
        self._call = call
        self._output = output
        self._is_new = anyio.Event()

    def note(self) -> None:
        """There is more."""
        self._is_new.set()

    async def tell(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._is_new.wait()
            self._is_new = anyio.Event()
            self._call.report(self._output.end(_SHOWN_CHARS))
            await anyio.sleep(_SHOWN_EVERY_S)


def _checked(input: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The command and whether to restart before it.

    Raises:
        ToolError: In words for the model.
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
    """What the model is told of a command that came to an end.

    Raises:
        ToolError: The command could not be run.
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
