"""`RunKeeper`: the workflow that keeps the entries of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from .._engine_log import applied, released, summary_of

MAX_PIECE_BYTES: Final = 1024 * 1024
"""Maximum size of a piece. Temporal carries 2 MiB. A workflow with a larger update or answer is stuck: Temporal
executes its task again and again."""


class RunKeeper:
    """Base class of a workflow whose activity drives a run. Temporal's history of the workflow is the journal.

    Entries come as updates, so they are durable when the activity goes on. Each opening of the run has a larger number,
    and updates with an older one are refused: an attempt whose heartbeats were late changes nothing any more.

    Others send a signal `eagerstream_leave` with a message: `{"kind": "decision", "call": id, "decision": True}`, with
    False or the reason of a refusal, or `{"kind": "say", "message": text}`. The query `eagerstream_facts` returns the
    status, and the calls that wait.

    Temporal accepts 2,000 updates in one execution, which is some hundred turns, and 2 MB in each. What is larger comes
    in pieces.
    """

    def __init__(self) -> None:
        self._eagerstream_fence = 0
        self._eagerstream_entries: list[dict[str, Any]] = []
        self._eagerstream_pieces: dict[str, bytes] = {}
        self._eagerstream_inbox: list[dict[str, Any]] = []
        self._eagerstream_seen = 0
        self._eagerstream_facts: dict[str, Any] = {"status": "running"}

    async def message_left(self) -> None:
        """Wait until a message is there that no earlier call of this has waited for. Cancelling it loses none."""
        await workflow.wait_condition(lambda: len(self._eagerstream_inbox) > self._eagerstream_seen)
        self._eagerstream_seen = len(self._eagerstream_inbox)

    @workflow.update(name="eagerstream_piece")
    def _eagerstream_piece(self, id: str, piece: bytes) -> None:
        """Take the next piece of the JSON of something large, which a later update names."""
        self._eagerstream_pieces[id] = self._eagerstream_pieces.get(id, b"") + piece

    def _eagerstream_whole(self, given: dict[str, Any]) -> dict[str, Any]:
        if "pieces" not in given:
            return given
        whole: dict[str, Any] = json.loads(self._eagerstream_pieces.pop(given["pieces"]))
        return whole

    @workflow.update(name="eagerstream_open")
    def _eagerstream_open(self, begin: dict[str, Any] | None) -> int:
        """Own the run; with `begin`, only if there is none. Return the fence, or 0 if there is one, or -1 if none."""
        if (begin is None) is not bool(self._eagerstream_entries):
            return 0 if begin is not None else -1
        with _refusing():
            if begin is not None:
                self._eagerstream_entries = [self._eagerstream_whole(begin)]
        self._eagerstream_pieces.clear()  # of owners before
        self._eagerstream_fence += 1
        self._eagerstream_facts = {"status": "running"}
        return self._eagerstream_fence

    @workflow.query(name="eagerstream_entries")
    def _eagerstream_entries_from(self, fence: int, offset_bytes: int) -> bytes:
        """Return a piece of the entries as JSON; nothing at their end, or if the run has another owner."""
        if fence != self._eagerstream_fence:
            return b""
        return json.dumps(self._eagerstream_entries).encode()[offset_bytes : offset_bytes + MAX_PIECE_BYTES]

    @workflow.update(name="eagerstream_commit")
    def _eagerstream_commit(self, fence: int, record: dict[str, Any]) -> bool:
        """Take a record, if it is of the owner."""
        if fence != self._eagerstream_fence:
            return False
        with _refusing():
            whole = self._eagerstream_whole(record)
            entries, status = applied(self._eagerstream_entries, whole), released(whole)
            if status is not None:
                self._eagerstream_facts = {**summary_of(whole), "status": status}
        self._eagerstream_entries = entries
        return True

    @workflow.signal(name="eagerstream_leave")
    def _eagerstream_leave(self, message: dict[str, Any]) -> None:
        """Leave a message."""
        if isinstance(message, dict):  # None passes Temporal's check
            self._eagerstream_inbox.append(message)

    @workflow.query(name="eagerstream_messages")
    def _eagerstream_messages(self, after: int) -> list[dict[str, Any]]:
        """Return the messages after a number, as many as fit into an answer."""
        messages: list[dict[str, Any]] = []
        size_bytes = 0
        for message in self._eagerstream_inbox[max(0, after) :]:
            size_bytes += len(json.dumps(message))
            if messages and size_bytes > MAX_PIECE_BYTES:
                break
            messages.append(message)
        return messages

    @workflow.query(name="eagerstream_facts")
    def _eagerstream_current_facts(self) -> dict[str, Any]:
        """Return the status and the summary of the run."""
        return self._eagerstream_facts


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse an update that has another form. With any other error, Temporal would execute it again and again."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ApplicationError(f"no update of a run: {type(error).__name__}") from error
