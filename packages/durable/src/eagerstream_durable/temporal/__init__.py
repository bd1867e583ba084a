"""Runs in activities of Temporal, whose workflow is their journal. Needs the extra `temporal`, and asyncio.

::

    @activity.defn
    async def converse(question: str) -> str:
        info = activity.info()
        journal = TemporalJournal(activity.client(), info.workflow_id)
        async with (
            heartbeating(),
            eagerstream.run(client, journal=journal, run_id=info.workflow_id, tools=tools, ...) as run,
        ):
            await run.finish()
        return run.result.status


    @workflow.defn
    class Agent(RunKeeper):
        @workflow.run
        async def run(self, question: str) -> None:
            while await workflow.execute_activity(converse, question, ...) == "waiting":
                await self.message_left()

Import it in the module of a workflow with `workflow.unsafe.imports_passed_through()`.
"""

from __future__ import annotations

try:
    from ._journal import TemporalJournal, heartbeating
    from ._keeper import RunKeeper
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("temporalio"):
        raise
    from eagerstream.errors import MissingExtraError

    raise MissingExtraError("temporal", "temporalio", package="eagerstream-durable") from _error

__all__ = ["RunKeeper", "TemporalJournal", "heartbeating"]
