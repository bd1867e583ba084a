"""`DBOSJournal`: the entries of a run as steps of the workflow that drives it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eagerstream import JSONObject
from eagerstream._support.checks import check_count
from eagerstream.errors import (
    JournalError,
    MissingExtraError,
    OwnershipLostError,
    RunExistsError,
    RunNotFoundError,
    UsageError,
)
from eagerstream.loop import RunLog

from .._engine_log import EngineLog, applied, name_of, released, summary_of

try:
    from dbos import DBOS, StepReservation, error as dbos_errors
except ImportError as error:
    raise MissingExtraError("dbos", "dbos", package="eagerstream-durable") from error

_PREFIX: Final = "eagerstream: "
_TOPIC: Final = "eagerstream"
_LOST: Final = (dbos_errors.DBOSWorkflowConflictIDError, dbos_errors.DBOSWorkflowCancelledError)
_UNFINISHED: Final = ("running", "cancelled", "error")


@dataclass(slots=True)
class _Part:
    """A part of a run: from its opening to its release, or to the last step that was recorded.

    Attributes:
        next_step: The first step that was not recorded; None if the run was released in this part.
    """

    next_step: StepReservation | None = None
    entries: list[JSONObject] = field(default_factory=list)


class DBOSJournal:
    """A journal in the workflow of DBOS that drives the run. It implements `eagerstream.loop.RunJournal`.

    Make one in each execution of a workflow. Everything that a run writes at the same time is one step. After a crash,
    DBOS executes the workflow again. The run takes its entries from the recorded steps, and continues. DBOS lets only
    one execution of a workflow record steps, so a process that has lost the workflow starts no tool.

    A workflow does one run after the other. Tools may call steps of DBOS. If their calls are repeated, so are these
    steps. The block of `async with run(...)` must call none: a recovered run repeats its last events only.

    A run that ended with an error or was cancelled continues when the workflow is resumed, unless the workflow has
    recorded other steps since. Then the run is not repeated: it raises a `JournalError`.

    Cancellation: a step that has begun is recorded all the same.

    Args:
        max_run_bytes: Maximum size of the entries of a run, as JSON.

    Raises:
        UsageError: This is not a workflow, or it is one of its steps.
        MissingExtraError: The package `dbos` is not installed. Raised by the import of the module.
    """

    def __init__(self, *, max_run_bytes: int = 256 * 1024 * 1024) -> None:
        check_count("max_run_bytes", max_run_bytes)
        workflow_id = DBOS.workflow_id
        if workflow_id is None or DBOS.step_id is not None:
            raise UsageError("make a DBOSJournal in a workflow of DBOS, outside of its steps")
        self._workflow_id: str = workflow_id
        self._max_run_bytes = max_run_bytes
        self._runs: dict[str, list[JSONObject]] = {}
        self._found: dict[str, _Part] = {}
        self._left: list[JSONObject] = []
        self._facts: JSONObject = {}
        self._owner: str | None = None
        self._fence = 0

    def __repr__(self) -> str:
        return f"DBOSJournal({self._workflow_id!r})"

    async def receive(self, timeout_s: float = 30 * 24 * 3600) -> bool:
        """Wait until somebody has sent a message for the runs of this workflow, for days if need be.

            facts = await DBOS.get_event_async(workflow_id, "eagerstream")  # which calls wait: facts["approvals"]
            await DBOS.send_async(workflow_id, message, "eagerstream")

        A message is `{"kind": "decision", "call": id, "decision": True}`, with False or the reason of a refusal, or
        `{"kind": "say", "message": text}`. The next run or `resume` with this journal takes it. The wait is a step of
        the workflow. Cancelling it loses nothing.

        Args:
            timeout_s: Maximum wait in seconds.

        Returns:
            False after the timeout.

        Raises:
            UsageError: The message is none of these.
        """
        await DBOS.set_event_async(_TOPIC, self._facts)
        message = await DBOS.recv_async(_TOPIC, timeout_s)
        if message is None:
            return False
        if not isinstance(message, Mapping) or not (
            (message.get("kind") == "say" and "message" in message)
            or (message.get("kind") == "decision" and isinstance(message.get("call"), str) and "decision" in message)
        ):
            raise UsageError('a message for a run must be {"kind": "decision" or "say", ...}')
        self._left.append(dict(message))
        return True

    async def create(self, run_id: str, entry: JSONObject) -> RunLog:
        """See `RunJournal`.

        Raises:
            RunExistsError: The workflow has such a run already.
            OwnershipLostError: Another execution has the workflow now, or it was cancelled.
            JournalError: The recorded steps are none of this run, or nothing can be recorded.
            UsageError: Another run of this workflow is under way.
        """
        self._check_free(run_id)
        if run_id in self._runs:
            raise RunExistsError("the workflow has such a run", run_id=run_id)
        part = await self._recorded(run_id)
        if part.entries or part.next_step is None:
            self._found[run_id] = part
            raise RunExistsError("the workflow has such a run", run_id=run_id)
        return await self._owned(run_id, part, [entry])

    async def open(self, run_id: str) -> RunLog:
        """See `RunJournal`.

        Raises:
            RunNotFoundError: The workflow has no such run.
            OwnershipLostError: Another execution has the workflow now, or it was cancelled.
            JournalError: The recorded steps are none of this run, or nothing can be recorded.
            UsageError: Another run of this workflow is under way.
        """
        self._check_free(run_id)
        part = self._found.pop(run_id, None) or await self._recorded(run_id)
        if not part.entries:
            raise RunNotFoundError("the workflow has no such run", run_id=run_id)
        return await self._owned(run_id, part, [])

    def _check_free(self, run_id: str) -> None:
        if DBOS.workflow_id != self._workflow_id or DBOS.step_id is not None:
            raise UsageError("a DBOSJournal belongs to the workflow that made it, outside of its steps")
        if self._owner is not None:
            raise UsageError(f"run {run_id!r}: a workflow of DBOS does one run after the other")

    async def _owned(self, run_id: str, part: _Part, added: list[JSONObject]) -> RunLog:
        entries = self._runs[run_id] = [*part.entries, *added]
        self._fence += 1
        log = EngineLog(
            run_id,
            self._fence,
            [*entries],
            None if part.next_step is None else self._record,
            self._inbox,
            max_run_bytes=self._max_run_bytes,
        )
        if part.next_step is not None:
            record: JSONObject = {"run_id": run_id, "writes": [{"entries": added}]}
            await self._step(part.next_step, record, "begin" if added else "open")
            self._owner = run_id
        return log

    async def _recorded(self, run_id: str) -> _Part:
        """Pass over the recorded steps of a part of a run.

        Raises:
            JournalError: They are none of this run, or the run failed, and the workflow continued without it.
        """
        # Outside the workflow's context, as this would be a step itself, with the result that it once had.
        steps = await asyncio.get_running_loop().run_in_executor(
            None, contextvars.Context().run, DBOS.list_workflow_steps, self._workflow_id
        )
        recorded = {step["function_id"]: step for step in steps}
        last = max(recorded, default=0)
        part = _Part(entries=[*self._runs.get(run_id, [])])
        reservation = DBOS.reserve_step()
        first = recorded.get(reservation.step_id)
        if first is not None and _record_of(first, run_id) is None:
            raise JournalError("the workflow recorded something else here: its code was changed", run_id=run_id)
        while reservation.step_id <= last:
            record = _record_of(recorded.get(reservation.step_id), run_id)
            if record is not None:
                part.entries = applied(part.entries, record)
                status = released(record)
                if status is not None and (status not in _UNFINISHED or reservation.step_id < last):
                    if status in _UNFINISHED:
                        self._runs[run_id] = part.entries
                        raise JournalError(f"it ended as {status!r} before the workflow was recovered", run_id=run_id)
                    self._facts = summary_of(record)
                    return part
            reservation = DBOS.reserve_step()
        part.next_step = reservation
        return part

    async def _record(self, record: JSONObject) -> None:
        await self._step(DBOS.reserve_step(), record, name_of(record))
        self._runs[record["run_id"]] = applied(self._runs[record["run_id"]], record)
        if released(record) is not None:
            self._owner = None
            self._facts = summary_of(record)

    async def _step(self, step: StepReservation, record: JSONObject, name: str) -> None:
        try:
            await step.run_async({"name": f"{_PREFIX}{name}"}, lambda: record)
        except _LOST as error:
            raise OwnershipLostError("this execution has lost the workflow", run_id=record["run_id"]) from error
        except Exception as error:
            raise JournalError(f"no step can be recorded: {type(error).__name__}", run_id=record["run_id"]) from error

    async def _inbox(self, after: int) -> list[tuple[int, JSONObject]]:
        return [(number, message) for number, message in enumerate(self._left, 1) if number > after]


def _record_of(step: Any, run_id: str) -> Mapping[str, Any] | None:
    """Return the record of a step; None if it is a step of a tool, or was never recorded."""
    if step is None or not step["function_name"].startswith(_PREFIX):
        return None
    record = step["output"]
    return record if isinstance(record, Mapping) and record.get("run_id") == run_id else None
