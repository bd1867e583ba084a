"""Runs in workflows of DBOS. Needs the extra `dbos`, and asyncio.

::

    @DBOS.workflow()
    async def agent(question: str) -> str:
        journal = DBOSJournal()
        async with eagerstream.run(client, tools=tools, journal=journal, run_id=DBOS.workflow_id, ...) as run:
            await run.finish()
        return run.result.text

Each entry of the journal is a step of the workflow, so DBOS keeps the run, in SQLite or PostgreSQL, and continues it
when it recovers the workflow.
"""

from __future__ import annotations

from ._journal import DBOSJournal

__all__ = ["DBOSJournal"]
