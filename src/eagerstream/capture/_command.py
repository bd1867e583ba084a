"""Command `eagerstream record`: runs a proxy until Ctrl-C, or as long as another command runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from .._serving.command import PASSED_ON, run_command
from ._folder import RecordingFolder, SavedReply
from ._proxy import DEFAULT_UPSTREAM, RecordingProxy

BASE_URL: Final = "ANTHROPIC_BASE_URL"
"""Environment variable with the API's URL for clients."""


def default_upstream(environment: Mapping[str, str]) -> str:
    """Return the URL that clients in this environment use."""
    return environment.get(BASE_URL) or DEFAULT_UPSTREAM


class Report:
    """Report of each recording, with a total at the end."""

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
    signals = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    others = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in others:
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        proxy.run(on_start=on_start)
    finally:
        for number in others:
            signal.signal(number, signal.SIG_DFL)


def run_recorded(command: Sequence[str], proxy: RecordingProxy) -> int:
    """Run a command whose API clients use the proxy, and return its exit code, see `run_command`.

    Raises:
        UsageError: The command cannot be run, or the proxy cannot start.
    """
    with proxy:
        return run_command(command, {BASE_URL: proxy.base_url})
