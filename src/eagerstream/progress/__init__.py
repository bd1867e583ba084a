"""Observers of runs: they are shown what happens, and show it. Never participants: nothing here changes a run.

Events become records (`record.py`), a `Hub` keeps a log of them for each run, and whoever shows a run watches its log:
`terminal.py` in a terminal, `web` in a browser, `agui` and `vercel` to the frontends of those protocols. All of them
read records and nothing else, so they show live runs, runs that they come to late, and runs from a file alike.
"""

from .hub import Hub
from .log import Batch, RunLog, Watcher, WatcherDropped
from .record import Record, record_schema
from .recorder import RunRecorder
from .saved import load_records, record_run, replay, save_records
from .view import CallPhase, CallView, RunView

__all__ = [
    "Batch",
    "CallPhase",
    "CallView",
    "Hub",
    "Record",
    "RunLog",
    "RunRecorder",
    "RunView",
    "Watcher",
    "WatcherDropped",
    "load_records",
    "record_run",
    "record_schema",
    "replay",
    "save_records",
]
