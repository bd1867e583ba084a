"""The process that is killed. It is forked from one that has imported everything, so that it starts in milliseconds.

`python -m tests.reliability.killed_child` reads an `Attempt` as JSON from each line of its input, forks, writes the id of the
process, and, when it is gone, its status.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import httpx2

import eagerstream
from eagerstream import EagerStreamError, HTTPTransport
from eagerstream.errors import OwnershipLostError, RunOwnedError
from eagerstream.loop import _durability
from eagerstream_durable.journal import Journal
from eagerstream_durable.journal._log import Log
from eagerstream_durable.journal._sqlite import SQLite
from tests.reliability.killed_world import Effects, World

_WHEN: Final = ("next_turn", "when_idle", "now")
_LOOK_S: Final = 0.005
_SLOW_DISK_S: Final = 0.01
_AT_ONCE: Final = 5


@dataclass(frozen=True)
class Attempt:
    """One process: it starts or continues some runs, and may be killed.

    Attributes:
        journal: Path of the journal, or the URL of its database.
        effects: Path of the effects.
        base_url: Address of the model.
        runs: Ids of the runs.
        seed: Decides if something is said, and when.
        backend: The event loop.
        dies_at: The number of the commit at which it is killed; 0 for none.
        dies_before: Right before that commit, not right after it.
        keeps_synced: Copy the files after each commit: what a power loss leaves.
        has_threads: The requests continue message threads.
        key: The key of the journal; empty if it is not encrypted.
        competes_s: The lease, if other processes compete for the runs; 0 if there are none. It works until all have ended.
    """

    journal: str
    effects: str
    base_url: str
    runs: list[str] = field(default_factory=list)
    seed: int = 0
    backend: str = "asyncio"
    dies_at: int = 0
    dies_before: bool = False
    keeps_synced: bool = False
    has_threads: bool = True
    key: str = ""
    competes_s: float = 0.0


def main() -> None:
    """Fork for each line of the input."""
    is_warm = False
    for line in sys.stdin:
        attempt = Attempt(**json.loads(line))
        if not is_warm:
            _warm_up(attempt)
            is_warm = True
        pid = os.fork()
        if pid == 0:
            _exit_after(attempt)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _warm_up(attempt: Attempt) -> None:
    """Import all that a run needs, by running one. Its threads have ended afterwards."""
    if "://" in attempt.journal:
        import eagerstream_durable.journal._postgres  # noqa: F401
    with TemporaryDirectory() as folder:
        files: dict[str, Any] = {"journal": f"{folder}/runs.db", "effects": f"{folder}/effects.db"}
        warm = replace(attempt, **files, runs=["warm"], dies_at=0, competes_s=0.0)
        for backend in ("asyncio", "trio"):
            anyio.run(_work, warm, backend=backend)
    gc.collect()
    gc.freeze()


def _exit_after(attempt: Attempt) -> None:
    status = 1
    try:
        _die_at(attempt)
        if attempt.competes_s:
            Log.check = _noted_check  # type: ignore[method-assign, assignment]
        else:
            # The parent has seen that the owner is gone: the time of its lease would only be waited for.
            Journal._is_alive = _nobody_lives  # type: ignore[method-assign, assignment]
        anyio.run(_work, attempt, backend=attempt.backend)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _die_at(attempt: Attempt) -> None:
    """Let the process be killed at a commit of the journal, on a disk that is slow."""
    commit, commits, disk = SQLite.commit, 0, Random(attempt.seed)

    def dying(database: SQLite, statements: Any) -> Any:
        nonlocal commits
        time.sleep(disk.random() * _SLOW_DISK_S)  # what is not awaited comes before its entry is there
        commits += 1
        if commits == attempt.dies_at and attempt.dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = commit(database, statements)
        if attempt.keeps_synced:
            _keep_synced(Path(attempt.journal), commits)
        if commits == attempt.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    if attempt.dies_at or attempt.keeps_synced or attempt.seed % 2:
        SQLite.commit = dying  # type: ignore[method-assign, assignment]


def _keep_synced(journal: Path, number: int) -> None:
    folder = journal.with_name(f"synced-{number}.part")
    folder.mkdir()
    for path in files_of(journal):
        shutil.copyfile(path, folder / path.name)
    folder.rename(folder.with_suffix(""))  # complete, or not there


def files_of(journal: Path) -> list[Path]:
    """The files of a journal that a power loss leaves."""
    return [path for path in (journal, journal.with_name(f"{journal.name}-wal")) if path.exists()]


async def _nobody_lives(*_: object) -> bool:
    return False


async def _work(attempt: Attempt) -> None:
    _durability._LOOK_S = _LOOK_S  # type: ignore[misc]
    effects = Effects(Path(attempt.effects))
    async with (
        httpx2.AsyncClient(verify=False) as http_client,  # no certificates to load
        Journal(attempt.journal, key=attempt.key or None, lease_s=attempt.competes_s or 30.0) as journal,
        anyio.create_task_group() as tasks,
    ):
        client = HTTPTransport(base_url=attempt.base_url, http_client=http_client)
        if attempt.competes_s:
            _noted.append(effects)
            await _compete(attempt, client, journal, effects)
            return
        for number, run in enumerate(attempt.runs):
            tasks.start_soon(_converse, attempt, client, journal, run, effects, Random(attempt.seed + number))
    effects.close()


_noted: list[Effects] = []
_check: Final = Log.check


def _noted_check(log: Log) -> None:
    """Note each step that the lease allowed: its fence, and a time before the lease was checked."""
    at_s = time.monotonic()
    _check(log)
    _noted[0].add(log.run_id, "step", str(log.fence), str(at_s))


async def _compete(attempt: Attempt, client: Any, journal: Journal, effects: Effects) -> None:
    """Take runs that are free, some at once, until all have ended."""
    random = Random(attempt.seed)
    slots = anyio.Semaphore(_AT_ONCE)

    async def work(run: str) -> None:
        async with slots:
            with suppress(RunOwnedError):
                await _converse(attempt, client, journal, run, effects, random)

    while missing := {*attempt.runs} - {each.run_id for each in await journal.runs("completed")}:
        async with anyio.create_task_group() as tasks:
            for run in random.sample(sorted(missing), len(missing)):
                tasks.start_soon(work, run)
        await anyio.sleep(_LOOK_S)  # all that are left may wait for decisions


async def _converse(
    attempt: Attempt, client: Any, journal: Journal, run_id: str, effects: Effects, random: Random
) -> None:
    say_at = random.randrange(60)
    try:
        async with eagerstream.run(
            client,
            model="claude-made-1",
            max_tokens=1024,
            messages=[{"role": "user", "content": f"Run {run_id}"}],
            tools=World(run_id, effects).tools(),
            threads="always" if attempt.has_threads else None,
            on_truncated="continue_input",
            journal=journal,
            run_id=run_id,
        ) as run:
            if attempt.competes_s:
                assert isinstance(run._driver.keeper, _durability.Durability)
                assert run._driver.keeper._log is not None
                # After the takeover: a step under an older fence that comes later still is provably stale.
                effects.add(run_id, "owner", str(run._driver.keeper._log.fence), str(time.monotonic()))
            number = 0
            async for _ in run:
                if number == say_at:
                    said = f"Said {run_id} {attempt.seed}"
                    run.say(said, random.choice(_WHEN))
                    assert isinstance(run._driver.keeper, _durability.Durability)
                    await run._driver.keeper._append()  # what was written before is durable then
                    effects.add(run_id, "said", said)
                number += 1
    except RunOwnedError:
        raise
    except OwnershipLostError:
        if not attempt.competes_s:
            raise
    except EagerStreamError as error:
        effects.add(run_id, "error", f"{type(error).__name__}: {error}")


def line_of(attempt: Attempt) -> str:
    """The attempt as a line for `main`."""
    return json.dumps(asdict(attempt)) + "\n"


if __name__ == "__main__":
    main()
