"""A process with a workflow of DBOS, to be killed: `python -m packages.durable.tests.dbos_child DATABASE EFFECTS MODEL RUN`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from tests.reliability.killed_world import Effects, World

import eagerstream
from eagerstream import HTTPTransport
from eagerstream.calls import RunStatus
from eagerstream.loop import RunResult, resume
from eagerstream_durable.dbos import DBOSJournal


def configured(database: str) -> DBOS:
    """DBOS on a database."""
    return DBOS(
        config={
            "name": "agents",
            "system_database_url": database,
            "application_version": "1",
            "log_level": "ERROR",
        }
    )


@DBOS.workflow()
async def converse(effects_path: str, base_url: str, run_id: str) -> list[Any]:
    """A run, with all its waits for decisions. Returns the history."""
    effects = Effects(Path(effects_path))
    tools = World(run_id, effects).tools()
    journal = DBOSJournal()
    async with HTTPTransport(base_url=base_url) as client:
        async with eagerstream.run(
            client,
            model="claude-made-1",
            max_tokens=1024,
            messages=[{"role": "user", "content": f"Run {run_id}"}],
            tools=tools,
            journal=journal,
            run_id=run_id,
            on_truncated="continue_input",
        ) as run:
            await run.finish()
        result: RunResult = run.result
        while result.status is RunStatus.WAITING:
            await journal.receive(60)
            async with resume(client, journal, run_id, tools=tools) as resumed:
                await resumed.finish()
            result = resumed.result
    await DBOS.run_step_async({"name": "later"}, effects.add, run_id, "later", result.text)
    return result.messages


async def main(database: str, effects: str, base_url: str, run_id: str) -> None:
    """Start the workflow, or recover it, and wait for its end."""
    configured(database)
    DBOS.launch()
    print("ready", flush=True)
    with SetWorkflowID(run_id):
        handle = await DBOS.start_workflow_async(converse, effects, base_url, run_id)
    await handle.get_result()
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
