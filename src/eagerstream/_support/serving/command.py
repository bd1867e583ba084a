"""A command that runs as long as a server of this process, whose clients use that server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Final

from eagerstream_wire import UsageError

PASSED_ON: Final = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that end a program. A command gets those that reach this program."""

_NO_PROXY: Final = ("NO_PROXY", "no_proxy")


def run_command(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command with more environment variables, and return its exit code.

    Its requests to this machine pass no proxy. Ctrl-C goes to the command: it ends when the command ends. If a signal
    ended the command, the exit code is 128 plus the number of the signal, as in a shell. Call it in the main thread,
    which handles signals.

    Raises:
        UsageError: The command cannot be run.
    """
    environment = {**os.environ, **variables, **reaching_this_machine(os.environ)}
    process: subprocess.Popen[bytes] | None = None
    held: list[int] = []  # signals for the command that it has not got yet

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and _is_from_terminal():
            return  # the command has it, too
        held.append(number)
        deliver()

    def deliver() -> None:
        while process is not None and held:
            process.send_signal(held.pop(0))

    signals = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    # Signals that are ignored here, as for a program in the background, must stay ignored in the command.
    heeded = [number for number in signals if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, pass_on) for number in heeded}
    try:
        try:
            process = subprocess.Popen(list(command), env=environment)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"{command[0]}: cannot be run: {reason}") from error
        deliver()
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code


def reaching_this_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables with which requests of a program to this machine pass no proxy."""
    # Programs read one of the two spellings.
    around = ",".join(
        filter(None, (environment.get(_NO_PROXY[1]) or environment.get(_NO_PROXY[0]), "127.0.0.1,localhost"))
    )
    return dict.fromkeys(_NO_PROXY, around)


def _is_from_terminal() -> bool:
    """Return True if this program is in a terminal's foreground: Ctrl-C reaches all programs there."""
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False  # there is none
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
