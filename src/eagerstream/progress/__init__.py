"""Observers of runs: they are shown what happens, and show it. What fails or stalls there reaches no run.

Events become records (`record.py`), a `Hub` keeps a log of them for each run, and whoever shows a run watches its log.
All of them read records and nothing else, so they show live runs, runs that they come to late, and runs from a file
alike. Those that need an extra are in modules of their own:

- `eagerstream.progress.terminal`: `terminal_progress`, for a terminal or a pipe (extra `cli`);
- `eagerstream.progress.web`: `serve` and `web_app`, for a browser (extra `web`);
- `eagerstream.progress.agui`: `agui_app`, for frontends that speak AG-UI (extra `agui`);
- `eagerstream.progress.vercel`: `vercel_app`, for `useChat` of the Vercel AI SDK (extra `web`);
- `eagerstream.progress.gateway`: `gateway_app`, for clients of your own, with a bound on the runs held (extra `web`).

What does reach a run: what a person decides about a call (`Hub.approve`), and, with the last three, the client that
began the run and leaves, or stops it.
"""

from ..streaming import FeedEnd, Observer
from ._fold import CallPhase
from ._hub import Hub
from ._log import Batch, RunLog, Watcher, WatcherDropped
from ._record import Record, record_schema
from ._recorder import RunRecorder
from ._saved import load_records, record_run, replay, save_records
from ._view import CallView, RunView

__all__ = [
    "Batch",
    "CallPhase",
    "CallView",
    "FeedEnd",
    "Hub",
    "Observer",
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
