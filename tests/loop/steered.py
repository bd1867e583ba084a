"""An observer that acts on a run at each of its events, before the run does anything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerstream.streaming import FeedEnd


class Steered:
    """Gives each event to a function at once. A consumer may see it when the run has gone on.

    Attributes:
        events: All events so far.
    """

    wants_deltas = True

    def __init__(self, run: Any, act: Callable[[Any, Any], object]) -> None:
        self.events: list[Any] = []
        self._run = run
        self._act = act

    def take(self, events: Sequence[object]) -> None:
        """Act on events."""
        for event in events:
            self.events.append(event)
            self._act(self._run, event)

    def end(self, end: FeedEnd) -> None:
        """Do nothing."""
