"""What `eagerstream record` does: a proxy until Ctrl-C, or for as long as a command runs."""

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
"""The environment variable by which clients of the API know where it is."""

_PASSED_ON: Final = ("SIGINT", "SIGTERM", "SIGHUP")
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")


def default_upstream(environment: Mapping[str, str]) -> str:
    """Where the clients of this environment would go."""
    return environment.get(BASE_URL) or DEFAULT_UPSTREAM


class Report:
    """Tells people of each recording, and at the end of all.

    Args:
        say: Writes a line.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._write = say
        self._saved = 0

    def _say(self, line: str) -> None:
        # Whoever read the lines may be gone, or the disk full: nothing to do with the command and its exit code.
        with suppress(OSError):
            self._write(line)

    def take(self, reply: SavedReply) -> None:
        """A line for a reply: where it is, and its measures; nothing of what was said."""
        self._saved += 1
        measures = (
            f"HTTP {reply.status}, {reply.duration_s:.2f} s, {_count(reply.chunks, 'chunk')}, {reply.body_bytes} bytes"
        )
        self._say(f"{reply.path}: {measures}" + (f"; {reply.cut}" if reply.cut else ""))

    def close(self, folder: RecordingFolder) -> None:
        """The last line."""
        lost = f", {folder.lost} could not be written" if folder.lost else ""
        self._say(f"{_count(self._saved, 'reply', 'replies')} recorded in {folder.path}{lost}")


def _count(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or f'{what}s'}"


def run_until_told(proxy: RecordingProxy, on_start: Callable[[RecordingProxy], object]) -> None:
    """Run the proxy until Ctrl-C, or until it is told to end in another way: what came until then is kept.

    To be called in the main thread, which handles signals.

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
    """Run a command whose clients of the API go through the proxy, and give its exit code.

    Ctrl-C is the command's: it ends as it likes, and this with it. A command that a signal ended gives 128 and the
    number of the signal, as in a shell. To be called in the main thread, which handles signals.

    Raises:
        UsageError: The command cannot be run, or the proxy cannot start.
    """
    with proxy:
        environment = {**os.environ, BASE_URL: proxy.base_url}
        # Of the two spellings programs read one or the other; without them they would look for us behind their proxy.
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
    """Signals that ask a program to end do not end this one; they go to whom is named, also those before it was."""
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
    # What is ignored here, as for programs in the background, the command is to ignore, too.
    heeded = [number for number in signals if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, pass_on) for number in heeded}
    try:
        yield name
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_from_terminal() -> bool:
    """Ctrl-C at a terminal reaches all programs in its foreground, of which this is one."""
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
