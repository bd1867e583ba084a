"""`TemporalJournal`: the journal of a run in the workflow that executes its activity."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client, RPCTimeoutOrCancelledError, WorkflowUpdateFailedError
from temporalio.service import RPCError

from ...errors import JournalError, OwnershipLostError, RunExistsError, RunNotFoundError
from ...loop import RunLog
from ...wire import JSONObject, check_count
from .._engine_log import EngineLog


class TemporalJournal:
    """A journal in a workflow of Temporal, which is a `RunKeeper`. It implements `eagerstream.loop.RunJournal`.

    A workflow keeps one run. Use the workflow's id as that of the run. The workflow needs a worker: an activity of
    the workflow itself may use the journal, as the workflow goes on while it waits for an activity.

    Cancellation: an update that was sent may still be made. An opening that nobody uses does no harm: the next one has
    a larger number.

    Args:
        client: A client of the workflow's namespace, such as `activity.client()`.
        workflow_id: The id of the workflow.
        max_run_bytes: Maximum size of everything that an owner adds, as JSON. Temporal's own limit is 50 MB.
    """

    def __init__(self, client: Client, workflow_id: str, *, max_run_bytes: int = 40 * 1024 * 1024) -> None:
        check_count("max_run_bytes", max_run_bytes)
        self._handle = client.get_workflow_handle(workflow_id)
        self._workflow_id = workflow_id
        self._max_run_bytes = max_run_bytes

    def __repr__(self) -> str:
        return f"TemporalJournal({self._workflow_id!r})"

    async def create(self, run_id: str, entry: JSONObject) -> RunLog:
        """See `RunJournal`.

        Raises:
            RunExistsError: The workflow has a run.
            JournalError: The workflow cannot be reached, or has ended.
        """
        opened = await self._update(run_id, "eagerstream_open", entry)
        if not opened["fence"]:
            raise RunExistsError("the workflow has a run", run_id=run_id)
        return self._log(run_id, opened)

    async def open(self, run_id: str) -> RunLog:
        """See `RunJournal`. It takes the run from another owner: Temporal decides which attempt is the last.

        Raises:
            RunNotFoundError: The workflow has no run.
            JournalError: The workflow cannot be reached, or has ended.
        """
        opened = await self._update(run_id, "eagerstream_open", None)
        if opened["fence"] < 0:
            raise RunNotFoundError("the workflow has no run", run_id=run_id)
        return self._log(run_id, opened)

    def _log(self, run_id: str, opened: JSONObject) -> RunLog:
        fence: int = opened["fence"]

        async def commit(record: JSONObject) -> None:
            if not await self._update(run_id, "eagerstream_commit", fence, record):
                raise OwnershipLostError("a later attempt has the run", run_id=run_id)

        async def inbox(after: int) -> list[tuple[int, JSONObject]]:
            try:
                messages: Any = await self._handle.query("eagerstream_messages", after)
            except RPCError as error:
                raise JournalError(f"the workflow does not answer: {error.status.name}", run_id=run_id) from error
            return [*enumerate(messages, after + 1)]

        entries: list[JSONObject] = opened["entries"]
        return EngineLog(run_id, fence, entries, commit, inbox, max_run_bytes=self._max_run_bytes)

    async def _update(self, run_id: str, name: str, *args: Any) -> Any:
        try:
            return await self._handle.execute_update(name, args=args)
        except (WorkflowUpdateFailedError, RPCTimeoutOrCancelledError, RPCError) as error:
            raise JournalError(f"the workflow takes no update: {type(error).__name__}", run_id=run_id) from error
