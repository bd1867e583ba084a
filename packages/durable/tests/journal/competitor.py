"""A program that works on the runs of a journal until all are done, beside others that do the same.

`python -m packages.durable.tests.journal.competitor WHERE LEASE_S STEPS STOPS` prints `ready`, and begins when its input is closed. It
prints `lost` and the id of each run that another process took away. If STOPS is 1, it stops in the middle of its first
run, after it printed `stops`, the id of the run and its fence. It goes on if it gets SIGCONT.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from contextlib import suppress

import anyio

from eagerstream.errors import EagerStreamError, OwnershipLostError, RunOwnedError
from eagerstream_durable.journal import Journal
from eagerstream_durable.journal._database import Statement
from eagerstream_durable.journal._receipts import Wakes
from eagerstream_durable.journal._threads import Job


class Stop(Job):
    """Stop this process between two transactions, so that it keeps no lock."""

    run_id = ""

    def statements(self) -> list[Statement]:
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # `kill` may return before this thread stops
        return []

    def finish(self, *_: object) -> None:
        """Nobody waits for it."""

    def fail(self, error: EagerStreamError, wakes: Wakes) -> None:
        raise error


class Competitor:
    """A process that takes runs, and works on a few of them at a time."""

    def __init__(self, journal: Journal, steps: int, *, stops: bool) -> None:
        self._journal = journal
        self._steps = steps
        self._stops = stops

    async def work(self) -> None:
        """Take runs until all are completed."""
        while unfinished := await self._journal.runs("running"):
            random.shuffle(unfinished)
            unfinished.sort(key=lambda run: run.owner != "silent")
            async with anyio.create_task_group() as tasks:
                for run in unfinished[:6]:
                    tasks.start_soon(self._work_on, run.run_id)

    async def _work_on(self, run_id: str) -> None:
        """Take the next steps of a run. Each notes the fence under which it was taken."""
        with suppress(RunOwnedError):
            log = await self._journal.open(run_id)
            try:
                for step in range(len(log.entries), self._steps + 1):
                    await anyio.sleep(random.random() * 0.1)
                    if self._stops and step == self._steps // 2:
                        self._stops = False
                        print("stops", run_id, log.fence, flush=True)
                        self._journal._parts.writer.put(Stop())
                    await log.append({"kind": "step", "turn": step, "step": step, "fence": log.fence})
                await log.release("completed", {})
            except OwnershipLostError:
                print("lost", run_id, flush=True)


async def main(where: str, lease_s: float, steps: int, stops: int) -> None:
    async with Journal(where, lease_s=lease_s) as journal:
        print("ready", flush=True)
        sys.stdin.read()
        await Competitor(journal, steps, stops=bool(stops)).work()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
