"""Observers of runs. They receive the events of a run and show them; their failures and delays never reach the run.

Events become records (`_record.py`). A `Hub` keeps a log of records for each run, and each observer watches a log.
Observers read only records. They therefore show live runs, runs that they join late and runs from a file in the same
way. The ones that need an extra are in modules of their own:

- `eagerstream_progress.terminal`: `terminal_progress`, for a terminal or a pipe;
- `eagerstream_progress.notebook`: `notebook_progress`, for a notebook;
- `eagerstream_progress.web`: `serve` and `web_app`, for a browser;
- `eagerstream_progress.agui`: `agui_app`, for frontends that speak AG-UI (extra `agui`);
- `eagerstream_progress.vercel`: `vercel_app`, for `useChat` of the Vercel AI SDK;
- `eagerstream_progress.acp`: `serve_acp`, for editors that speak ACP (extra `acp`);
- `eagerstream_progress.mcp_apps`: `mcp_apps_app` and `MCPAppsEncoder`, for hosts of MCP Apps;
- `eagerstream_progress.gateway`: `gateway_app`, for clients of your own, with a limit on concurrent runs;
- `eagerstream_progress.redis`: `RedisRelay`, for the hubs of several processes (extra `redis`).

Two things do reach a run: a person's decision about a call (`Hub.approve`) and, if it started the run, the
client. A client can stop the run that it started. If it leaves, the run is cancelled, unless `vercel_app` is
`resumable`.
"""

from eagerstream.streaming import FeedEnd, Observer

from ._actions import Cancel, Decide, Say
from ._hub import Hub
from ._joined import join_records, joined_runs
from ._latency import latency_of
from ._log import RunLog, WatcherDropped
from ._record import Record, record_schema
from ._recorder import RunRecorder
from ._run_summary import RunSummary
from ._saved import load_records, record_run, replay, save_records
from ._summary import Summaries, Summary, creates, edits
from ._view import CallView, RunView, TextView

__all__ = [
    "CallView",
    "Cancel",
    "Decide",
    "FeedEnd",
    "Hub",
    "Observer",
    "Record",
    "RunLog",
    "RunRecorder",
    "RunSummary",
    "RunView",
    "Say",
    "Summaries",
    "Summary",
    "TextView",
    "WatcherDropped",
    "creates",
    "edits",
    "join_records",
    "joined_runs",
    "latency_of",
    "load_records",
    "record_run",
    "record_schema",
    "replay",
    "save_records",
]
