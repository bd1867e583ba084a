"""Signals that end a command."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from eagerstream_lab._signals import ended_by_signals


@pytest.fixture
def background() -> Iterator[None]:
    """A command in the background of a shell: Ctrl-C is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("background")
def test_a_command_in_the_background() -> None:
    """It can be ended, although Ctrl-C does not reach it."""
    with ended_by_signals():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
