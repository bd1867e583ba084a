"""A worker of Temporal, to be killed: `python -m packages.durable.tests.temporal_worker ADDRESS EFFECTS MODEL`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from tests.reliability.killed_world import Effects, World

    import eagerstream
    from eagerstream import HTTPTransport
    from eagerstream_durable.temporal import RunKeeper, TemporalJournal, heartbeating


@activity.defn
async def converse(effects_path: str, base_url: str) -> list[Any]:
    """Drive a run; return its status and its history."""
    info = activity.info()
    assert info.workflow_id is not None
    effects = Effects(Path(effects_path))
    journal = TemporalJournal(activity.client(), info.workflow_id)
    async with HTTPTransport(base_url=base_url) as client:
        async with (
            heartbeating(),
            eagerstream.run(
                client,
                model="claude-made-1",
                max_tokens=1024,
                messages=[{"role": "user", "content": f"Run {info.workflow_id}"}],
                tools=World(info.workflow_id, effects).tools(),
                journal=journal,
                run_id=info.workflow_id,
                on_truncated="continue_input",
            ) as run,
        ):
            await run.finish()
    return [str(run.result.status), run.result.messages]


@workflow.defn
class Agent(RunKeeper):
    """A run, with all its waits for decisions."""

    @workflow.run
    async def run(self, effects_path: str, base_url: str) -> list[Any]:
        """Return the history."""
        while True:
            status, messages = await workflow.execute_activity(
                converse,
                args=[effects_path, base_url],
                start_to_close_timeout=timedelta(hours=1),
                heartbeat_timeout=timedelta(seconds=2),
            )
            if status != "waiting":
                return [status, messages]
            await self.message_left()


async def main(address: str) -> None:
    """Work until killed."""
    client = await Client.connect(address)
    async with Worker(client, task_queue="agents", workflows=[Agent], activities=[converse]):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
