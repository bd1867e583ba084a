"""`TemporalJournal`: the journal of a run in the workflow that executes its activity. `heartbeating`: signs of life."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import TemporalError

from eagerstream import JSONObject
from eagerstream._support.checks import check_count
from eagerstream.errors import JournalError, OwnershipLostError, RunExistsError, RunNotFoundError
from eagerstream.loop import RunLog

from .._engine_log import EngineLog
from ._keeper import MAX_PIECE_BYTES

_BEATS: Final = 4  # in each heartbeat timeout


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
        fence = await self._update(run_id, "eagerstream_open", await self._sent(run_id, entry))
        if not fence:
            raise RunExistsError("the workflow has a run", run_id=run_id)
        return self._log(run_id, fence, [entry])

    async def open(self, run_id: str) -> RunLog:
        """See `RunJournal`. It takes the run from another owner: Temporal decides which attempt is the last.

        Raises:
            RunNotFoundError: The workflow has no run.
            OwnershipLostError: A later attempt opened the run meanwhile.
            JournalError: The workflow cannot be reached, or has ended.
        """
        fence = await self._update(run_id, "eagerstream_open", None)
        if fence < 0:
            raise RunNotFoundError("the workflow has no run", run_id=run_id)
        # Not in the answer of the update: it would be in the history each time, and have Temporal's limit.
        text = bytearray()
        while piece := await self._query(run_id, "eagerstream_entries", fence, len(text), result_type=bytes):
            text += piece
        try:
            entries: list[JSONObject] = json.loads(text)
        except ValueError as error:
            raise OwnershipLostError("a later attempt has the run", run_id=run_id) from error
        return self._log(run_id, fence, entries)

    def _log(self, run_id: str, fence: int, entries: list[JSONObject]) -> RunLog:
        async def commit(record: JSONObject) -> None:
            sent = await self._sent(run_id, record)
            if not await self._update(run_id, "eagerstream_commit", fence, sent):
                raise OwnershipLostError("a later attempt has the run", run_id=run_id)

        async def inbox(after: int) -> list[tuple[int, JSONObject]]:
            messages: list[JSONObject] = []
            while more := await self._query(run_id, "eagerstream_messages", after + len(messages)):
                messages += more
            return [*enumerate(messages, after + 1)]

        return EngineLog(run_id, fence, entries, commit, inbox, max_run_bytes=self._max_run_bytes)

    async def _sent(self, run_id: str, value: JSONObject) -> JSONObject:
        """Return a value for an update. One that is too large for it is sent in pieces before."""
        text = json.dumps(value).encode()
        if len(text) <= MAX_PIECE_BYTES:
            return value
        id = uuid4().hex
        for at in range(0, len(text), MAX_PIECE_BYTES):
            await self._update(run_id, "eagerstream_piece", id, text[at : at + MAX_PIECE_BYTES])
        return {"pieces": id}

    async def _update(self, run_id: str, name: str, *args: Any) -> Any:
        try:
            return await self._handle.execute_update(name, args=args)
        except TemporalError as error:
            raise JournalError(f"the workflow takes no update: {type(error).__name__}", run_id=run_id) from error

    async def _query(self, run_id: str, name: str, *args: Any, result_type: type | None = None) -> Any:
        try:
            return await self._handle.query(name, args=args, result_type=result_type)
        except TemporalError as error:
            raise JournalError(f"the workflow does not answer: {type(error).__name__}", run_id=run_id) from error


@asynccontextmanager
async def heartbeating() -> AsyncIterator[None]:
    """Send heartbeats of this activity until the block is left. Without a heartbeat timeout, it sends none.

    Temporal starts another attempt if the process or its event loop stops. Cancelling the block ends the heartbeats.
    """
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    task = asyncio.create_task(_beat(timeout.total_seconds() / _BEATS))
    try:
        yield
    finally:
        task.cancel()


async def _beat(interval_s: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(interval_s)
