"""A program that works on the runs of a journal until all are done, beside others that do the same.

`python -m tests.journal.competitor WHERE LEASE_S STEPS` prints `began` for each run that it has, and `lost`
for each that another process took away.
"""

from __future__ import annotations

import random
import sys

import anyio

from eagerstream.errors import OwnershipLostError, RunOwnedError
from eagerstream.journal import Journal


async def work_on(journal: Journal, run_id: str, steps: int) -> None:
    """Take the next steps of a run. Each notes the fence under which it was taken."""
    try:
        log = await journal.open(run_id)
    except RunOwnedError:
        return
    print("began", flush=True)
    try:
        for step in range(len(log.entries), steps + 1):
            await anyio.sleep(random.random() * 0.1)
            await log.append({"kind": "step", "turn": step, "step": step, "fence": log.fence})
        await log.release("completed", {})
    except OwnershipLostError:
        print("lost", flush=True)


async def main(where: str, lease_s: float, steps: int) -> None:
    async with Journal(where, lease_s=lease_s) as journal:
        while unfinished := await journal.runs("running"):
            random.shuffle(unfinished)
            unfinished.sort(key=lambda run: run.owner != "silent")
            async with anyio.create_task_group() as tasks:
                for run in unfinished[:6]:
                    tasks.start_soon(work_on, journal, run.run_id, steps)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
