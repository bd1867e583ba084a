"""`resume`: continue a run that a journal has, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Unpack

from ..errors import JournalError
from ..tools._foreign import NO_CONTEXT, ContextT, GivenTool
from ..transports import Client
from ._entries import check_entries
from ._journal import RunJournal, check_journal, check_run_id
from ._options import ConversationOptions
from ._run import Run
from ._start_run import run


class Resumed:
    """The context of a run that is resumed; made by `resume`."""

    def __init__(self, client: Client, journal: RunJournal, run_id: str, options: dict[str, Any]) -> None:
        self._client = client
        self._journal = journal
        self._run_id = run_id
        self._options = options
        self._run: Run[Any]

    async def __aenter__(self) -> Run[Any]:
        return await (await self.open()).__aenter__()

    async def open(self) -> Run[Any]:
        """Take the run over without entering it. Enter it at once: this process has it.

        Cancelling it releases the run. It raises as `async with` does.
        """
        log = await self._journal.open(self._run_id)
        try:
            check_entries(log.entries, self._run_id)
            begin = log.entries[0]
            options: dict[str, Any] = {"model": begin["model"], "max_tokens": begin["max_tokens"]}
            options |= {**dict(begin["options"]), **self._options}
            self._run = run(self._client, messages=begin["messages"], run_id=self._run_id, **options)
            self._run.keep_in(self._journal, begin, log)
        except BaseException:
            with suppress(JournalError):
                await log.release(None, {})  # a run that waits or has ended is not due by a mistake here
            raise
        return self._run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._run.__aexit__(kind, error, traceback)


def resume(
    client: Client,
    journal: RunJournal,
    run_id: str,
    *,
    tools: Sequence[GivenTool[ContextT]] = (),
    context: ContextT = NO_CONTEXT,
    **options: Unpack[ConversationOptions],
) -> Resumed:
    """Continue a run from a journal.

        async with resume(client, journal, run_id, tools=[...]) as run:
            await run.finish()

    Results that the journal has are not fetched again. A call that had begun and has no result runs again only if its
    tool is `idempotent`, or if the tool's `recover` says that it was not done. Otherwise the model learns that nobody
    knows. A response that was being written is requested again, unless something of it had begun; then its known part
    becomes the turn.

    A run that has ended has nothing to continue: its result is there at once. A run that was cancelled, or that ended
    with an error, continues.

    Args:
        client: As for `run`.
        journal: Has the run.
        run_id: The id of the run.
        tools, context: As for `run`. A journal keeps neither: give them again.
        options: Options that replace those of the run. Options that are no plain data have to be given again.

    Raises:
        UsageError: The journal is none, or the id is no string.
        RunNotFoundError: The journal has no such run. This and the following are raised by `async with`.
        UsageError: A call had begun or waits for a decision, and its tool is missing.
        RunOwnedError: Another process runs it.
        JournalError: The journal cannot be read or written.
    """
    check_journal(journal)
    check_run_id(run_id)
    return Resumed(client, journal, run_id, {**options, "tools": tools, "context": context})
