"""Processes that compete for the same runs, and owners that are stopped and wake up late: one owner at a time."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import pytest
from packages.durable.tests.journal.conftest import postgres, postgres_server

from eagerstream_durable.journal import Journal
from eagerstream_testing import ReplayServer
from tests.reliability.killed_child import Attempt, line_of
from tests.reliability.killed_world import Effects, World, broken_laws
from tests.reliability.killing_runs import model_server, zygote_process
from tests.sampling import SEED

__all__ = ["postgres", "postgres_server"]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks processes")

_RUNS: Final = 50
_LEASE_S: Final = 1.0
_PATIENCE_S: Final = 150


class _Owners:
    """Processes that compete, and are stopped for longer than their lease."""

    def __init__(self, attempts: list[Attempt], random: Random) -> None:
        self._random = random
        self._processes: list[subprocess.Popen[str]] = []
        self._pids: list[int] = []
        self._attempts = attempts
        self.stops = 0

    def start(self, stack: ExitStack) -> None:
        for attempt in self._attempts:
            process = stack.enter_context(zygote_process())
            assert process.stdin is not None
            process.stdin.write(line_of(attempt))
            process.stdin.flush()
            self._processes.append(process)
        for process in self._processes:
            assert process.stdout is not None
            self._pids.append(int(process.stdout.readline()))

    async def disturb(self) -> None:
        """Stop one after the other."""
        while True:
            await anyio.sleep(self._random.random() * 0.5)
            pid = self._random.choice(self._pids)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self.stops += 1
                try:
                    await anyio.sleep(_LEASE_S * (1 + self._random.random()))
                finally:
                    os.kill(pid, signal.SIGCONT)

    async def ended(self) -> list[int]:
        """Wait for all, and return their statuses."""
        lines = [
            await anyio.to_thread.run_sync(process.stdout.readline) for process in self._processes if process.stdout
        ]
        return [int(line) for line in lines]


async def _decide(journal: Journal, runs: list[str]) -> None:
    """Approve all that is asked, as another process."""
    decided: set[str] = set()
    while True:
        for run in runs:
            with suppress(Exception):
                for entry in await journal.read(run):
                    if entry["kind"] == "asked" and entry["id"] not in decided:
                        decided.add(str(entry["id"]))
                        await journal.leave(run, {"kind": "decision", "call": entry["id"], "decision": True})
        await anyio.sleep(0.2)


async def _compete(where: str, folder: Path, server: ReplayServer, owners: int) -> list[str]:
    runs = [f"{SEED}-{number}" for number in range(_RUNS)]
    path = folder / "effects.db"
    effects = Effects(path)
    attempts = [
        Attempt(where, str(path), server.base_url, runs, seed=number, competes_s=_LEASE_S) for number in range(owners)
    ]
    competing = _Owners(attempts, Random(SEED))
    broken: list[str] = []
    with ExitStack() as stack, anyio.fail_after(_PATIENCE_S):
        competing.start(stack)
        async with Journal(where, lease_s=_LEASE_S) as journal, anyio.create_task_group() as tasks:
            tasks.start_soon(competing.disturb)
            tasks.start_soon(_decide, journal, runs)
            broken += [f"status {status}" for status in await competing.ended() if status]
            tasks.cancel_scope.cancel()
            for run in runs:
                entries: list[Any] = await journal.read(run)
                broken += _broken_by(run, entries, effects)
    assert competing.stops >= 2
    effects.close()
    return broken


def _broken_by(run: str, entries: list[Any], effects: Effects) -> Iterator[str]:
    messages: list[Any] = [*entries[0]["messages"]]
    for entry in entries[1:]:
        if entry["kind"] in ("turn", "end"):
            messages = entry["messages"] if "messages" in entry else [*messages, *entry["history"]]
    yield from (f"{run}: {broken}" for broken in broken_laws(run, effects, messages, set()))
    owned_at = {int(fence): float(at_s) for fence, at_s in effects.of(run, "owner")}
    for fence, at_s in effects.of(run, "step"):
        if later := [other for other, owned_s in owned_at.items() if other > int(fence) and owned_s < float(at_s)]:
            yield f"{run}: a step under the fence {fence}, while {later} had the run"
    yield from (f"{run}: {error}" for error, _ in effects.of(run, "error"))


def _check(where: str, folder: Path, owners: int) -> None:
    with model_server() as (server, model):
        assert anyio.run(_compete, where, folder, server, owners) == []
        assert model.faults == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("owners", [5])
def test_fifty_runs_on_sqlite(tmp_path: Path, owners: int) -> None:
    """No request is sent and no tool starts under a lease that has ended."""
    _check(str(tmp_path / "runs.db"), tmp_path, owners)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("owners", [2])
def test_fifty_runs_on_postgresql(tmp_path: Path, postgres: str, owners: int) -> None:
    """The same in another database."""
    _check(postgres, tmp_path, owners)


def test_the_tools_of_the_world(tmp_path: Path) -> None:
    """They are the ones that the plans name."""
    effects = Effects(tmp_path / "effects.db")
    assert [tool.name for tool in World("r", effects).tools()] == ["look", "pay", "write", "transfer", "launch", "ship"]
    effects.close()
