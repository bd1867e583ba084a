"""Runs whose process is killed again and again, until they end, and the laws that hold for them."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
from packages.durable.tests.journal.conftest import empty_schema

from eagerstream import HTTPTransport
from eagerstream.errors import RunNotFoundError
from eagerstream.loop import resume
from eagerstream.tools import CallState
from eagerstream_durable.journal import Journal
from eagerstream_testing import ReplayServer
from tests.reliability.killed_child import Attempt, files_of, line_of
from tests.reliability.killed_world import UNKNOWN, Effects, Model, World, broken_laws, results_of

_ROOT: Final = Path(__file__).parents[2]
_MOST_ATTEMPTS: Final = 200
_SECTOR_BYTES: Final = 512
_KEY: Final = "k" * 43  # URL-safe Base64 of 32 bytes
_WHOLE_S: Final = 0.25
"""About the time of a conversation that nobody kills."""


@dataclass
class Tally:
    """What was tried, and what came of it."""

    conversations: int = 0
    kills: int = 0
    attempts: int = 0
    effects: int = 0
    unknown: int = 0
    decisions: int = 0
    said: int = 0
    changes: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the counts of another one."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Zygote:
    """A process that has imported everything, and forks for each attempt."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def run(self, attempt: Attempt, kill_after_s: float | None) -> int:
        """Run an attempt, and kill it after a time. Return its status, which is -9 if it was killed."""
        return await anyio.to_thread.run_sync(self._run, attempt, kill_after_s)

    def _run(self, attempt: Attempt, kill_after_s: float | None) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line_of(attempt))
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        if kill_after_s is not None:
            _kill_after(pid, kill_after_s)
        return int(self._process.stdout.readline())


def _kill_after(pid: int, seconds: float) -> None:
    """Kill a process that is no child of this one at an instant, unless it is gone before."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended = select.poll()  # `select` refuses large descriptors
        ended.register(descriptor, select.POLLIN)
        if not ended.poll(seconds * 1000):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


@contextmanager
def zygote_process() -> Iterator[subprocess.Popen[str]]:
    """A process of `killed_child.main`."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.killed_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        cwd=_ROOT,
    ) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


@contextmanager
def zygote() -> Iterator[Zygote]:
    """A process that forks."""
    with zygote_process() as process:
        yield Zygote(process)


class Killing:
    """Some runs in a journal of their own, whose process is killed until they have ended.

    Args:
        folder: For the journal and the effects.
        server: The model.
        seed: Decides everything.
        runs: Number of runs.
        where: The URL of a database for the journal; a file in the folder if it is empty.
    """

    def __init__(
        self, folder: Path, server: ReplayServer, zygote: Zygote, *, seed: int, runs: int = 2, where: str = ""
    ) -> None:
        self.tally = Tally(conversations=runs)
        self.journal = folder / "runs.db"
        self._where = where or str(self.journal)
        self._key = _KEY if seed % 2 else ""
        self._effects_path = folder / "effects.db"
        self.effects = Effects(self._effects_path)
        self._server = server
        self._zygote = zygote
        self._seed = seed
        self._random = Random(seed)
        self.runs = [f"{seed}-{number}" for number in range(runs)]
        self._is_killed = False
        self._ended: set[str] = set()
        self._results: dict[str, dict[str, str]] = {run: {} for run in self.runs}
        self._decided: dict[str, bool] = {}
        self._approved: Counter[str] = Counter()
        self._left: dict[str, list[str]] = {run: [] for run in self.runs}

    async def attempt(self, *, kill_after_s: float | None = None, **how: Any) -> bool:
        """Run one process; return True if it was killed."""
        self.tally.attempts += 1
        given: dict[str, Any] = {"runs": [run for run in self.runs if run not in self._ended], "key": self._key} | how
        attempt = Attempt(
            journal=self._where,
            effects=str(self._effects_path),
            base_url=self._server.base_url,
            seed=self._seed * 1_000 + self.tally.attempts,
            backend="trio" if self._seed % 4 == 3 else "asyncio",
            has_threads=self._seed % 3 != 0,
            **given,
        )
        status = await self._zygote.run(attempt, kill_after_s)
        self._is_killed = is_killed = status == -signal.SIGKILL
        self.tally.kills += is_killed
        if not is_killed and status:
            self._broken(f"the process ended with the status {status}")
        return is_killed

    async def at_instants(self) -> None:
        """Kill at seeded instants until the runs have ended."""
        while not await self.has_ended():
            # Later and later: also a slow machine comes to the end.
            within_s = _WHOLE_S * (1 + self.tally.attempts / 5)
            await self.attempt(kill_after_s=self._random.random() * within_s)

    async def with_changes(self) -> None:
        """Change the entries of a run after each kill, continue that run, and put the entries back.

        Nobody may continue such a run: that is an error, and no tool is called.
        """
        while not await self.has_ended():
            within_s = _WHOLE_S * (1 + self.tally.attempts / 5)
            if await self.attempt(kill_after_s=self._random.random() * within_s):
                await self._continue_changed()

    async def _continue_changed(self) -> None:
        with closing(sqlite3.connect(self.journal)) as database:
            runs = [run for (run,) in database.execute("SELECT DISTINCT run_id FROM eagerstream_entries ORDER BY 1")]
            if not runs:
                return
            run = self._random.choice(runs)
            kept = {path: path.read_bytes() for path in files_of(self.journal)}
            what = changed_entries(database, run, self._random)
            database.commit()
        before = self.effects.count(run)
        await self.attempt(runs=[run])
        self._is_killed = True  # the last process that had the entries as they are
        errors = self.effects.take_errors(run)
        if len(errors) != 1 or not errors[0].startswith("JournalError"):
            self._broken(f"{run}: {what} was not noticed: {errors}")
        if self.effects.count(run) != before:
            self._broken(f"{run}: {what}, and a tool was called")
        self.tally.changes += 1
        for path in files_of(self.journal):
            path.unlink()
        self.journal.with_name(f"{self.journal.name}-shm").unlink(missing_ok=True)
        for path, data in kept.items():
            path.touch(0o600)
            path.write_bytes(data)

    async def at_power_losses(self) -> None:
        """Let the power fail at seeded instants until the runs have ended: the files are cut back to the last sync."""
        while not await self.has_ended():
            within_s = _WHOLE_S * (1 + self.tally.attempts / 5)
            if await self.attempt(kill_after_s=self._random.random() * within_s, keeps_synced=True):
                self._cut_back()
            for folder in self.journal.parent.glob("synced-*"):
                shutil.rmtree(folder)

    def _cut_back(self) -> None:
        """Restore the files as of the last commit. Of what was written later, some sectors are there."""
        synced = [folder for folder in self.journal.parent.glob("synced-*") if not folder.suffix]
        if not synced:
            return
        last = max(synced, key=lambda folder: int(folder.name.removeprefix("synced-")))
        for saved in last.iterdir():
            path = self.journal.with_name(saved.name)
            # SQLite removes its second file when it closes the first.
            kept, written = bytearray(saved.read_bytes()), path.read_bytes() if path.exists() else b""
            for start in range(len(kept), len(written), _SECTOR_BYTES) if path != self.journal else ():
                sector = written[start : start + _SECTOR_BYTES]
                kept += sector if self._random.random() < 0.5 else bytes(len(sector))
            path.write_bytes(kept)
        self.journal.with_name(f"{self.journal.name}-shm").unlink(missing_ok=True)

    async def at_commit(self, number: int, *, before: bool) -> bool:
        """Kill at a commit, then at earlier and earlier ones. Return False if the first process had not so many."""
        is_first = await self.attempt(dies_at=number, dies_before=before)
        while not await self.has_ended():
            number = number * 2 // 3
            await self.attempt(dies_at=number, dies_before=not before)
        return is_first

    async def has_ended(self) -> bool:
        """Look at the journal; decide what is asked there, and say something. Return True if all runs have ended."""
        if self.tally.attempts > _MOST_ATTEMPTS:
            self._broken("it does not end")
            return True
        async with self._opened() as journal:
            for run in self.runs:
                if run not in self._ended:
                    await self._look(journal, run)
        return len(self._ended) == len(self.runs)

    async def _look(self, journal: Journal, run: str) -> None:
        try:
            entries: list[Any] = await journal.read(run)
        except RunNotFoundError:
            return
        summary = await journal.summary(run)
        if summary.status == "waiting" and not self._is_killed:  # else it may not have taken the run at all
            ids = {asked["call"] for name in ("asked", "approvals") for asked in summary.facts.get(name, ())}
            if old := [id for id in ids if id in self._decided]:
                self._broken(f"{run}: asked again after the decision: {old}")
        for entry in entries:
            calls = [entry["call"]] if entry["kind"] == "result" else entry.get("calls", ())
            for call in calls:
                if CallState(call["state"]).ran:
                    self._results[run][call["input"]["block"]["id"]] = str(call["result"]["content"])
            if entry["kind"] == "asked" and entry["id"] not in self._decided and self._random.random() < 0.7:
                self._decided[entry["id"]] = self._random.random() < 0.7
                await journal.leave(
                    run, {"kind": "decision", "call": entry["id"], "decision": self._decided[entry["id"]]}
                )
            if entry["kind"] == "approval":
                self._approved.setdefault(entry["id"], self._asks(run)[entry["id"]])
        if summary.status == "completed":
            self._ended.add(run)
        elif self._random.random() < 0.2 and len(self._left[run]) < 5:
            said = f"Left {run} {len(self._left[run])}"
            self._left[run].append(said)
            await journal.leave(
                run, {"kind": "say", "message": said, "when": self._random.choice(["next_turn", "now"])}
            )

    def _opened(self) -> Journal:
        return Journal(self._where, key=self._key or None)

    def _asks(self, run: str) -> Counter[str]:
        return Counter(what for what, _ in self.effects.of(run, "asked"))

    def _broken(self, what: str) -> None:
        self.tally.violations.append(f"seed {self._seed}: {what}")

    async def check(self) -> Tally:
        """Check the laws, and return what was tried."""
        async with HTTPTransport(base_url=self._server.base_url) as client, self._opened() as journal:
            for run in self.runs:
                if run in self._ended:
                    tools = World(run, self.effects).tools()
                    async with resume(client, journal, run, tools=tools) as resumed:
                        await resumed.finish()
                    self._check(run, resumed.result)
        self.effects.close()
        self.tally.decisions = len(self._decided)
        return self.tally

    def _check(self, run: str, result: Any) -> None:
        messages = result.messages
        refused = {id for id, decision in self._decided.items() if not decision}
        for broken in broken_laws(run, self.effects, messages, refused):
            self._broken(f"{run}: {broken}")
        if result.text != "Done.":
            self._broken(f"{run}: it ended with {result.text!r}")
        told = results_of(messages)
        by_id = Counter(id for _, id, _ in told)
        texts = {id: text for _, id, text in told}
        for id, content in self._results[run].items():
            if by_id[id] != 1 or texts[id] not in content:
                self._broken(f"{run}: a finished result is there {by_id[id]} times, {texts.get(id)!r} for {content!r}")
        for id, times in self._asks(run).items():
            if times > self._approved.get(id, times):
                self._broken(f"{run}: asked {times} times, also after the decision")
        said = Counter(str(message["content"]) for message in [*messages, *result.undelivered])
        sure = {*self._left[run], *(what for what, _ in self.effects.of(run, "said"))}
        for message in sure:
            if said[message] != 1:
                self._broken(f"{run}: {message!r} is there {said[message]} times")
        for message, times in said.items():
            if times > 1 and message.startswith(("Said", "Left")):
                self._broken(f"{run}: {message!r} is there {times} times")
        for error, _ in self.effects.of(run, "error"):
            self._broken(f"{run}: {error}")
        self.tally.effects += sum(len(self.effects.of(run, tool)) for tool in ("pay", "write", "transfer", "launch"))
        self.tally.unknown += sum(UNKNOWN in text for _, _, text in told)
        self.tally.said += len(sure)


def changed_entries(database: sqlite3.Connection, run: str, random: Random) -> str:
    """Change entries of a run as somebody could who may write the file, and return what was done."""
    rows = "SELECT seq FROM eagerstream_entries WHERE run_id = ? ORDER BY seq"
    numbers = [number for (number,) in database.execute(rows, (run,))]
    one, other = random.choice(numbers), random.choice(numbers)
    last = numbers[-1]

    def do(sql: str, *parameters: object) -> None:
        database.execute(sql, parameters)

    def content_of(number: int) -> object:
        found = "SELECT content FROM eagerstream_entries WHERE run_id = ? AND seq = ?"
        return database.execute(found, (run, number)).fetchone()[0]

    def put(number: int, content: object) -> None:
        do("UPDATE eagerstream_entries SET content = ? WHERE run_id = ? AND seq = ?", content, run, number)

    kinds = ["removed", "last removed", "cut off", "doubled", "counted", "torn", "empty"]
    kind = random.choice([*kinds, *(["swapped", "moved"] if one != other else [])])
    match kind:
        case "removed":
            do("DELETE FROM eagerstream_entries WHERE run_id = ? AND seq = ?", run, one)
        case "last removed":
            do("DELETE FROM eagerstream_entries WHERE run_id = ? AND seq = ?", run, last)
            do("UPDATE eagerstream_runs SET next_seq = ? WHERE run_id = ?", last, run)
        case "cut off":
            do("DELETE FROM eagerstream_entries WHERE run_id = ? AND seq >= ?", run, one)
        case "doubled":
            do("INSERT INTO eagerstream_entries VALUES (?, ?, 1, ?)", run, last + 1, content_of(one))
            do("UPDATE eagerstream_runs SET next_seq = ? WHERE run_id = ?", last + 2, run)
        case "counted":
            do("UPDATE eagerstream_runs SET next_seq = next_seq - 1 WHERE run_id = ?", run)
        case "torn":
            put(one, bytes(content_of(one))[: random.randrange(20)])  # type: ignore[call-overload]
        case "empty":
            put(one, b"")
        case "swapped":
            first, second = content_of(one), content_of(other)
            put(one, second)
            put(other, first)
        case _:
            do("UPDATE eagerstream_entries SET seq = -1 WHERE run_id = ? AND seq = ?", run, one)
            do("UPDATE eagerstream_entries SET seq = ? WHERE run_id = ? AND seq = ?", one, run, other)
            do("UPDATE eagerstream_entries SET seq = ? WHERE run_id = ? AND seq = -1", other, run)
    return f"{kind}: {one}, {other} of {numbers}"


@contextmanager
def model_server() -> Iterator[tuple[ReplayServer, Model]]:
    """A server that answers as the model."""
    model = Model()
    with ReplayServer(model.scenario, speed=float("inf")) as server:
        yield server, model


WAYS: Final = {
    "SIGKILL at seeded instants": "instants",
    "right before each write of the journal": "before",
    "right after each write of the journal": "after",
    "power loss: files cut back to the last sync": "power",
    "SIGKILL at seeded instants, on PostgreSQL": "postgres",
    "entries changed by somebody after each SIGKILL": "changes",
}
"""Ways to die, as the table names them."""


async def killed(
    folder: Path, way: str, seeds: Iterable[int], *, kills: int = 0, commits: int = 30, server: str = ""
) -> Tally:
    """Kill the conversations of each seed until they end.

    Args:
        folder: For their files.
        way: One of the values of `WAYS`.
        seeds: Each stands for some conversations.
        kills: Stop after so many; 0 for no such limit.
        commits: The first process dies at one of so many commits.
        server: The URL of a PostgreSQL server, for that way.
    """
    total = Tally()
    with model_server() as (api, model), zygote() as child:
        for seed in seeds:
            own = folder / f"{way}-{seed}"
            own.mkdir()
            where = empty_schema(server) if way == "postgres" else ""
            killing = Killing(own, api, child, seed=seed, where=where)
            match way:
                case "instants" | "postgres":
                    await killing.at_instants()
                case "changes":
                    await killing.with_changes()
                case "power":
                    await killing.at_power_losses()
                case _:
                    await killing.at_commit(1 + seed % commits, before=way == "before")
            total.add(await killing.check())
            shutil.rmtree(own)
            if 0 < kills <= total.kills:
                break
        total.violations += model.faults
    return total


def table(tallies: Mapping[str, Tally]) -> str:
    """What was tried, as Markdown."""
    names = (
        "conversations",
        "processes killed",
        "effects",
        "results nobody knows",
        "decisions",
        "messages",
        "changed runs refused",
        "violations",
    )
    lines = [f"| killed | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    for way, tally in {**tallies, "all": total}.items():
        done = (tally.conversations, tally.kills, tally.effects, tally.unknown)
        counts = (*done, tally.decisions, tally.said, tally.changes)
        cells = [f"{count:,}" for count in (*counts, len(tally.violations))]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)
