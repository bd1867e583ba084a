"""Command `eagerstream record`: runs a proxy until Ctrl-C, or as long as another command runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from ..errors import UsageError
from ._folder import RecordingFolder, SavedReply
from ._proxy import DEFAULT_UPSTREAM, RecordingProxy

BASE_URL: Final = "ANTHROPIC_BASE_URL"
"""Environment variable with the API's URL for clients."""

_PASSED_ON: Final = ("SIGINT", "SIGTERM", "SIGHUP")
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")


def default_upstream(environment: Mapping[str, str]) -> str:
    """Return the URL that clients in this environment use."""
    return environment.get(BASE_URL) or DEFAULT_UPSTREAM


class Report:
    """Report of each recording, with a total at the end.

    Args:
        say: Writes a line.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._write = say
        self._saved = 0

    def _say(self, line: str) -> None:
        # The reader of the lines may be gone, or the disk full. The command and its exit code do not depend on that.
        with suppress(OSError):
            self._write(line)

    def take(self, reply: SavedReply) -> None:
        """Write a line about a response: its path and measures, nothing of its content."""
        self._saved += 1
        measures = (
            f"HTTP {reply.status}, {reply.duration_s:.2f} s, {_count(reply.chunks, 'chunk')}, {reply.body_bytes} bytes"
        )
        self._say(f"{reply.path}: {measures}" + (f"; {reply.cut}" if reply.cut else ""))

    def close(self, folder: RecordingFolder) -> None:
        """Write the last line."""
        lost = f", {folder.lost} could not be written" if folder.lost else ""
        self._say(f"{_count(self._saved, 'response', 'responses')} recorded in {folder.path}{lost}")


def _count(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or f'{what}s'}"


def run_until_told(proxy: RecordingProxy, on_start: Callable[[RecordingProxy], object]) -> None:
    """Run the proxy until Ctrl-C or another signal to end. Responses received until then are kept.

    Call it in the main thread, which handles signals.

    Raises:
        UsageError: The proxy cannot start.
    """
    signals = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    others = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in others:
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        proxy.run(on_start=on_start)
    finally:
        for number in others:
            signal.signal(number, signal.SIG_DFL)


def run_recorded(command: Sequence[str], proxy: RecordingProxy) -> int:
    """Run a command whose API clients use the proxy, and return its exit code.

    Ctrl-C goes to the command: it ends when the command ends. If a signal ended the command, the exit code is 128 plus
    the number of the signal, as in a shell. Call it in the main thread, which handles signals.

    Raises:
        UsageError: The command cannot be run, or the proxy cannot start.
    """
    with proxy:
        environment = {**os.environ, BASE_URL: proxy.base_url}
        # Programs read one of the two spellings. Without them they would send requests for us to their own proxy.
        around = ",".join(
            filter(None, (os.environ.get(_NO_PROXY[1]) or os.environ.get(_NO_PROXY[0]), "127.0.0.1,localhost"))
        )
        environment.update(dict.fromkeys(_NO_PROXY, around))
        with _signals_held() as held:
            try:
                process = subprocess.Popen(list(command), env=environment)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise UsageError(f"{command[0]}: cannot be run: {reason}") from error
            held(process.send_signal)
            code = process.wait()
    return 128 - code if code < 0 else code


@contextmanager
def _signals_held() -> Iterator[Callable[[Callable[[int], object]], None]]:
    """Pass signals that would end this program to the receiver that the caller registers, earlier signals included."""
    earlier: list[int] = []
    receivers: list[Callable[[int], object]] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and _is_from_terminal():
            return  # the command has it, too
        earlier.append(number)
        deliver()

    def deliver() -> None:
        while receivers and earlier:
            receivers[0](earlier.pop(0))

    def name(receiver: Callable[[int], object]) -> None:
        receivers.append(receiver)
        deliver()

    signals = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    # Signals that are ignored here, as for a program in the background, must stay ignored in the command.
    heeded = [number for number in signals if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, pass_on) for number in heeded}
    try:
        yield name
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
