"""`RunKeeper`: the workflow that keeps the entries of a run."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from .._engine_log import applied, released, summary_of


class RunKeeper:
    """Base class of a workflow whose activity drives a run. Temporal's history of the workflow is the journal.

    Entries come as updates, so they are durable when the activity goes on. Each opening of the run has a larger number,
    and updates with an older one are refused: an attempt whose heartbeats were late changes nothing any more.

    Others send a signal `eagerstream_leave` with a message: `{"kind": "decision", "call": id, "decision": True}`, with
    False or the reason of a refusal, or `{"kind": "say", "message": text}`. The query `eagerstream_facts` returns the
    status, and the calls that wait.

    Temporal accepts 2,000 updates in one execution, which is some hundred turns, and 2 MB in each.
    """

    def __init__(self) -> None:
        self._eagerstream_fence = 0
        self._eagerstream_entries: list[dict[str, Any]] = []
        self._eagerstream_inbox: list[dict[str, Any]] = []
        self._eagerstream_seen = 0
        self._eagerstream_facts: dict[str, Any] = {"status": "running"}

    async def message_left(self) -> None:
        """Wait until a message is there that no earlier call of this has waited for. Cancelling it loses none."""
        await workflow.wait_condition(lambda: len(self._eagerstream_inbox) > self._eagerstream_seen)
        self._eagerstream_seen = len(self._eagerstream_inbox)

    @workflow.update(name="eagerstream_open")
    def _eagerstream_open(self, begin: dict[str, Any] | None) -> dict[str, Any]:
        """Own the run; with `begin`, only if there is none."""
        if begin is not None and self._eagerstream_entries:
            return {"fence": 0, "entries": []}
        if begin is None and not self._eagerstream_entries:
            return {"fence": -1, "entries": []}
        if begin is not None:
            self._eagerstream_entries = [begin]
        self._eagerstream_fence += 1
        self._eagerstream_facts = {"status": "running"}
        return {"fence": self._eagerstream_fence, "entries": self._eagerstream_entries}

    @workflow.update(name="eagerstream_commit")
    def _eagerstream_commit(self, fence: int, record: dict[str, Any]) -> bool:
        """Take a record, if it is of the owner."""
        if fence != self._eagerstream_fence:
            return False
        self._eagerstream_entries = applied(self._eagerstream_entries, record)
        if (status := released(record)) is not None:
            self._eagerstream_facts = {**summary_of(record), "status": status}
        return True

    @workflow.signal(name="eagerstream_leave")
    def _eagerstream_leave(self, message: dict[str, Any]) -> None:
        """Leave a message."""
        self._eagerstream_inbox.append(message)

    @workflow.query(name="eagerstream_messages")
    def _eagerstream_messages(self, after: int) -> list[dict[str, Any]]:
        """Return the messages after a number."""
        return self._eagerstream_inbox[after:]

    @workflow.query(name="eagerstream_facts")
    def _eagerstream_current_facts(self) -> dict[str, Any]:
        """Return the status and the summary of the run."""
        return self._eagerstream_facts
