"""Workers of Temporal are killed at any moment, and another one continues the run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from tests import sampling
from tests.reliability.killed_world import Effects, broken_laws, results_of
from tests.reliability.killing_runs import model_server
from tests.source_tree import ROOT

_SERVER = shutil.which("temporal", path=str(Path(sys.executable).parent))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_SERVER is None, reason="no server of Temporal"),
]

_MOST_KILLS = 8


async def _killed(address: str, random: Random, is_over: anyio.Event) -> int:
    """Start workers, and kill them, until the workflow has ended. Return the number of kills."""
    kills = 0
    command = [sys.executable, "-m", "packages.durable.tests.temporal_worker", address]
    while not is_over.is_set():
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as worker:  # noqa: ASYNC220 - it is quick
            assert worker.stdout is not None
            await anyio.to_thread.run_sync(worker.stdout.readline)
            with anyio.move_on_after(random.random() if kills < _MOST_KILLS else 200):
                await is_over.wait()
            kills += not is_over.is_set()
            worker.kill()
    return kills


async def _decide(handle: Any, is_over: anyio.Event) -> None:
    """Approve each call that waits, until the workflow has ended."""
    from temporalio.client import WorkflowQueryFailedError
    from temporalio.service import RPCError

    decided: set[str] = set()
    while (await handle.describe()).status.name == "RUNNING":
        await anyio.sleep(0.1)
        try:
            facts = await handle.query("eagerstream_facts", rpc_timeout=timedelta(seconds=5))
        except (RPCError, WorkflowQueryFailedError):
            continue  # there is no worker now
        for asked in facts.get("approvals", []):
            if asked["call"] not in decided:
                decided.add(asked["call"])
                message = {"kind": "decision", "call": asked["call"], "decision": True}
                await handle.signal("eagerstream_leave", message)
    is_over.set()


def test_killed_anywhere(tmp_path: Path) -> None:
    """Each effect at most once, each result once in the history, and the workflow ends."""
    from temporalio.testing import WorkflowEnvironment

    run, path = "temporal", tmp_path / "effects.db"

    async def main() -> None:
        effects = Effects(path)
        with model_server() as (server, model):
            async with await WorkflowEnvironment.start_local(dev_server_existing_path=_SERVER) as environment:
                client = environment.client
                address = client.service_client.config.target_host
                handle = await client.start_workflow(
                    "Agent", args=[str(path), server.base_url], id=run, task_queue="agents"
                )
                is_over = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_decide, handle, is_over)
                    kills = await _killed(address, Random(sampling.SEED), is_over)
                status, messages = await handle.result()
        assert status == "completed"
        assert kills
        assert model.faults == []
        assert broken_laws(run, effects, messages, set()) == []
        assert len({id for _, id, _ in results_of(messages)}) == len(results_of(messages))
        effects.close()
        print(f"{kills} kills, {len(results_of(messages))} results")

    anyio.run(main)
