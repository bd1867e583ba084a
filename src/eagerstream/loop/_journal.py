"""`RunJournal`: the interface by which a run writes down what must not be lost, and gets it back."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from eagerstream_wire import JSONObject

from ..errors import UsageError


def check_journal(journal: object) -> None:
    """Refuse anything except a journal, before it is used.

    Raises:
        UsageError: It is something else.
    """
    if not all(callable(getattr(journal, name, None)) for name in ("create", "open")):
        raise UsageError(f"journal must be a journal, such as Journal('runs.db'), not {type(journal).__name__}")


def check_run_id(run_id: object) -> None:
    """Refuse anything except a string.

    Raises:
        UsageError: It is something else.
    """
    if not isinstance(run_id, str):
        raise UsageError(f"run_id must be a string, not {type(run_id).__name__}")


class RunLog(Protocol):
    """The journal of one run, in the hands of the one process that owns the run.

    Attributes:
        run_id: The id of the run.
        fence: The number of this ownership: each later owner has a larger one. Give it to systems that can refuse the
            work of earlier owners.
        entries: The entries as of the opening, in order. Each is `{"kind": str, "turn": int, ...}`.
    """

    @property
    def run_id(self) -> str: ...

    @property
    def fence(self) -> int: ...

    @property
    def entries(self) -> Sequence[JSONObject]: ...

    def append(self, *entries: JSONObject) -> Awaitable[None]:
        """Add entries in one transaction, after all those added before. They are queued at once, without waiting.

        Awaiting the result waits until they are durable. Cancelling that only stops the wait. Nothing has to be
        awaited: if an entry cannot be written, the next call raises.

        Two fields have a meaning for the journal. `"notes"` is for people, not needed to resume: secrets in it are
        masked. `"inbox"` is the number of a message: the messages up to it are in the entries, and leave the inbox.

        Raises:
            OwnershipLostError: Another process owns the run now. (`append` itself, if that is known already.)
            JournalError: They could not be written. The log then stays failed.
            LimitError: An entry or the run would become too large. `append` itself raises it. Nothing is added.
            UsageError: An entry has no JSON form, or lacks `kind` or `turn`. `append` itself raises it.
        """
        ...

    def settle(self, entry: JSONObject) -> Awaitable[None]:
        """Add the entry of a settled turn in place of all entries since the one before. Otherwise as `append`.

        Before the first settled turn, the first entry stays.
        """
        ...

    def check(self) -> None:
        """Return if this process certainly still owns the run, by its own monotonic clock. Takes no time.

        Raises:
            OwnershipLostError: The lease may have ended, for example because the process was stopped (SIGSTOP). Append
                something to find out.
        """
        ...

    async def inbox(self, after: int) -> list[tuple[int, JSONObject]]:
        """Return the messages that other processes left for the run, with their numbers above `after`.

        Cancelling it loses nothing: the messages stay.
        """
        ...

    async def release(self, status: str | None, summary: JSONObject) -> None:
        """Give the run up, after everything that was appended: another process may open it at once.

        Cancelling it only stops the wait.

        Args:
            status: The `RunStatus` at the end, `"waiting"`, or `"running"` if the run continues later. None if nothing
                was appended: the status and the summary stay as they were.
            summary: Facts for lists: model, turns, tokens, the approvals it waits for. Nothing that was said.
        """
        ...


class RunJournal(Protocol):
    """A journal of runs."""

    async def create(self, run_id: str, entry: JSONObject) -> RunLog:
        """Create a run with its first entry, and own it. If it is cancelled, no run remains.

        Raises:
            RunExistsError: There is such a run.
        """
        ...

    async def open(self, run_id: str) -> RunLog:
        """Own an existing run, if no living process does. If it is cancelled, the run has no owner.

        If an owner holds it, wait for at most the length of its lease to see whether the owner is alive.

        Raises:
            RunNotFoundError: There is no such run.
            RunOwnedError: Another process owns it, and lives.
        """
        ...
