"""`Running`: the runs that this process has, counted as they start and end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...streaming import FeedEnd
from ._metrics import Metrics


class Running:
    """The runs of this process that have not ended. Runs may start in any thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._ids: set[str] = set()

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._ids

    def begin(self, feed: Any) -> None:
        """Count a feed that is entered, if it is a run: a single `stream` has no id."""
        if (id := getattr(feed, "id", None)) is None:
            return
        self._ids.add(id)
        self._metrics.running.inc()
        feed.observe(_Ending(partial(self._end, id)))

    def _end(self, id: str, end: FeedEnd) -> None:
        self._ids.discard(id)
        self._metrics.running.dec()
        self._metrics.count_end(end.status)


class _Ending:
    """An observer that waits for the end."""

    wants_deltas = False

    def __init__(self, on_end: Any) -> None:
        self._on_end = on_end

    def take(self, events: Sequence[object]) -> None:
        """Do nothing: only the end is counted."""

    def end(self, end: FeedEnd) -> None:
        """Report the end."""
        self._on_end(end)
