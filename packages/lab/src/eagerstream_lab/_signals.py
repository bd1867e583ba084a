"""Ctrl-C and other signals that would end the command: what was measured is kept."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ENDING: Final = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C interrupt, and other signals that would end this process do the same: the results are kept."""
    before = {number: signal.getsignal(number) for name in _ENDING if (number := getattr(signal, name, None))}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as with `nohup`, or a shell's `&`
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # this signal is not
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


@contextmanager
def interrupts_wait() -> Iterator[list[int]]:
    """Record Ctrl-C in the list until the block ends, without any other effect.

    The handler is replaced. A signal mask would block the signal only in one thread, and NumPy's threads would get it
    then.
    """
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
