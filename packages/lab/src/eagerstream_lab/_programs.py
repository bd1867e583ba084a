"""Programs of others that a benchmark measures: their command, their name, and one run of one of them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from eagerstream._support.redaction import redact_text
from eagerstream._support.serving.command import reaching_this_machine
from eagerstream._support.wording import visible
from eagerstream.errors import EagerStreamError, UsageError
from eagerstream_testing import ReplayServer, Scenario

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, Process

PROMPT_VARIABLE: Final = "EAGERSTREAM_BENCH_PROMPT"
MODEL_VARIABLE: Final = "EAGERSTREAM_BENCH_MODEL"

_CONCURRENCY: Final = "{concurrency}"

_TAIL_BYTES: Final = 4_096
"""Bytes of a program's standard error to keep."""
_TAIL_CHARS: Final = 500
"""Characters of them to show."""
_SECRETS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""Variables whose values are masked in whatever form they have."""
_OK: Final = 200
_GRACE_S: Final = 1.0
"""Time for a program to end after SIGTERM."""


class ProgramFailed(EagerStreamError):
    """Error for a program that could not be started, or ended with another exit code than 0."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that has a loop of its own.

    Attributes:
        name: Name in tables. The arguments are not in it, because they may be secret.
        command: The command. `{prompt}` and `{model}` in an argument stand for the case's own. `{concurrency}` stands
            for the number of runs at once, under load: one process runs them all by itself then.
    """

    name: str
    command: tuple[str, ...] = field(repr=False)

    @property
    def runs_many(self) -> bool:
        """True if one process runs several at once."""
        return any(_CONCURRENCY in part for part in self.command)

    def arguments(self, *, prompt: str, model: str, concurrency: int = 1) -> list[str]:
        """Return the command of one run, or of several at once."""
        parts = [part.replace(_CONCURRENCY, f"{concurrency}") for part in self.command]
        return [part.replace("{model}", model).replace("{prompt}", prompt) for part in parts]


def of_commands(commands: Sequence[str], names: Sequence[str] = ()) -> list[Program]:
    """Return the programs of these command lines, each with its own name.

    Args:
        commands: Command lines.
        names: Names, in the same order. If it is empty, each program is named after its script or module.

    Raises:
        UsageError: A command line is empty, has an open quote, or names no program that can be run. Or there are names,
            but not one for each program, or two are equal or empty.
    """
    if names and len(names) != len(commands):
        raise UsageError(f"give --name once for each --program, in the same order: {len(names)} of {len(commands)}")
    if len({name.strip() for name in names} - {""}) < len(names):
        raise UsageError("each --name must be another one, and not empty")
    programs: list[Program] = []
    for number, line in enumerate(commands):
        try:
            command = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"--program: {error}".replace("No closing quotation", "a quote is not closed")) from error
        if not command:
            raise UsageError("--program must not be empty")
        if shutil.which(command[0]) is None:
            raise UsageError(f"--program: {command[0]!r} cannot be run: there is no such program")
        if names:
            programs.append(Program(name=names[number].strip(), command=tuple(command)))
            continue
        name = _name_of(command)
        same = sum(program.name.rpartition(" #")[0] == name or program.name == name for program in programs)
        programs.append(Program(name=f"{name} #{same + 1}" if same else name, command=tuple(command)))
    return programs


def _name_of(command: Sequence[str]) -> str:
    """Return the module, the script, or else the program itself; never another argument."""
    for before, part in pairwise(command):
        if before == "-m":
            return part
        # A suffix tells a script from an interpreter, as after `env`: python3.11 has none.
        if not part.startswith("-") and Path(part).suffix[1:].isalpha() and Path(part).is_file():
            return Path(part).name
    return Path(command[0]).name


async def first_request(program: Program, *, prompt: str, model: str, timeout_s: float) -> Mapping[str, Any] | None:
    """Run a program once, with generated responses that come at once, and return its first request with tools.

    If no request has tools, return the first one; `None` if there is none. A failure of the program is ignored: its
    measured runs will show it. Cancelling this ends the program, as for `run_program`.
    """
    with ReplayServer(Scenario.scripted()) as server:
        with suppress(ProgramFailed, TimeoutError), anyio.fail_after(timeout_s):
            await run_program(program, prompt=prompt, model=model, variables=server.environment())
        asked = [entry.body for entry in server.requests if "messages" in (entry.body or {}) and entry.status == _OK]
    return next((body for body in asked if body and body.get("tools")), next(iter(asked), None))


async def run_program(
    program: Program, *, prompt: str, model: str, variables: Mapping[str, str], concurrency: int = 1
) -> None:
    """Run a program to its end. Its output is dropped.

    Cancelling this ends the program and all processes of its group: SIGTERM, then SIGKILL a second later. Processes
    that a program leaves behind are ended, too.

    Raises:
        ProgramFailed: It could not be started, or ended with another exit code than 0. The text has the end of its
            standard error, without secrets.
    """
    environment = {**os.environ, **variables, PROMPT_VARIABLE: prompt, MODEL_VARIABLE: model}
    try:
        process = await anyio.open_process(
            program.arguments(prompt=prompt, model=model, concurrency=concurrency),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment | reaching_this_machine(environment),
            start_new_session=True,  # Ctrl-C is for the benchmark, which ends the program
        )
    except (OSError, ValueError) as error:
        raise ProgramFailed(f"it cannot be run: {getattr(error, 'strerror', None) or error}") from error
    tail = _Tail()
    try:
        async with anyio.create_task_group() as tasks:
            assert process.stderr is not None
            tasks.start_soon(tail.read, process.stderr)
            code = await process.wait()
            _signal_group(process, _KILL)  # what it left behind might hold the pipe open
            tasks.cancel_scope.deadline = anyio.current_time() + _GRACE_S
    finally:
        await _end(process)
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
        raise ProgramFailed(f"{how}{tail.words()}")


_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


async def _end(process: Process) -> None:
    try:
        if process.returncode is None:
            _signal_group(process, signal.SIGTERM)
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GRACE_S):
                await process.wait()
    finally:
        _signal_group(process, _KILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()


def _signal_group(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses signals to a group of zombies
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif process.returncode is None:
            process.terminate()


class _Tail:
    """The last bytes of a stream."""

    def __init__(self) -> None:
        self._data = b""

    async def read(self, stream: ByteReceiveStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                self._data = (self._data + await stream.receive())[-_TAIL_BYTES:]

    def words(self) -> str:
        """Return the end, to follow the reason; empty if there is nothing."""
        text = self._data.decode(errors="replace")
        for name in _SECRETS:
            text = text.replace(os.environ.get(name) or "\0", "[redacted]")
        shown = visible(redact_text(text)).strip()
        if not shown:
            return ""
        return f"; its last words: {'…' if len(shown) > _TAIL_CHARS else ''}{shown[-_TAIL_CHARS:]}"
