"""`RunSummary`: the facts about a run that a list of runs shows."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from ._log import RunLog
from ._record import Record


class RunSummary(TypedDict):
    """A run in a list of runs.

    Keys:
        id: The id of the run.
        name: A name for people; None if there is none.
        started_at: The wall-clock time of its start, ISO 8601; None before its first record.
        model: The model that it asks for; None before its first record.
        status: The status with which it ended; None before.
        ended: True if no more records come.
        asks: True if a call waits for a person.
        acts: True if it takes messages, and can be cancelled.
        lost: True if the process that has the run does not answer. It may be dead, or it will go on later.
    """

    id: str
    name: str | None
    started_at: str | None
    model: str | None
    status: str | None
    ended: bool
    asks: bool
    acts: bool
    lost: bool


def summary_of(
    first: Record | None, last: Record | None, *, id: str, name: str | None = None, ended: bool = True
) -> RunSummary:
    """Return the facts of a run's first and last records. Nobody can act on it."""
    start: Any = first if first is not None and first["type"] == "run_start" else {}
    return {
        "id": id,
        "name": name or start.get("name"),
        "started_at": start.get("started_at"),
        "model": start.get("model"),
        "status": last["status"] if last is not None and last["type"] == "run_stop" else None,
        "ended": ended,
        "asks": False,
        "acts": False,
        "lost": False,
    }


def summary_of_log(log: RunLog) -> RunSummary:
    """Return the facts about the run of a log."""
    ended = log.is_closed  # read before the records
    first, last = log.ends
    return summary_of(first, last, id=log.id, name=log.name, ended=ended)
