"""Cost of a journal: runs with `journal=Journal(file)` and without, over loopback, in one benchmark.

The server is in another process. It writes a text and a call of a tool, in padded events, at the pace of a model, 80
tokens per second. A third of the characters is text. The time to the second request counts from the start of a run to
the first event of the second response, which comes at once. The sides alternate, and the medians are compared. Noise is
two standard errors of their difference. The file is in the temporary folder of the machine: the time of a commit is
mostly that of its disk (`synchronous=FULL`).

Then 1,000 runs of the same kind at once write into one file, with a server that does not wait. Their commits are shared
(group commit): the journal has many more writes than commits.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import httpx2
import numpy as np
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, RunStatus, TurnStart
from eagerstream_durable.journal import Journal
from eagerstream_durable.journal._sqlite import SQLite
from eagerstream_testing import Scenario, Timing, text, tool_use

from .served import served
from .streams import response
from .targets import Row

TARGET: Final = 1.03
TOKENS_PER_S: Final = 80.0
PACE: Final = f"at the pace of a model, {TOKENS_PER_S:g} tokens per second"
RUNS: Final = 1_000
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}


def _scenario(tokens_per_second: float | None) -> Scenario:
    call = tool_use("note", {"text": "word " * 100}, fragment_chars=16)
    timing = None if tokens_per_second is None else Timing(tokens_per_second=tokens_per_second)
    return Scenario(response(call), response(text("Done.")), timing=timing)


@eagerstream.tool
async def note(text: str) -> str:
    """Note a text."""
    return f"{len(text)} characters"


async def _run(client: Any, **options: Any) -> float:
    """Run, and return the seconds to the first event of the second response."""
    start = second_s = time.perf_counter()
    turn = 0
    async with eagerstream.run(client, tools=[note], **_REQUEST, **options) as run:
        async for event in run:
            if isinstance(event, TurnStart):
                turn = event.turn
            elif turn == 2 and second_s == start:
                second_s = time.perf_counter()
    assert run.result.status is RunStatus.COMPLETED
    assert [call.is_error for call in run.result.calls] == [False]
    return second_s - start


@dataclass
class Commits:
    """The commits of a journal: their seconds."""

    took_s: list[float] = field(default_factory=list)


@contextmanager
def _counted() -> Iterator[Commits]:
    """Measure the commits to SQLite within the block."""
    commits, commit = Commits(), SQLite.commit

    def counted(database: SQLite, statements: Any) -> Any:
        start = time.perf_counter()
        try:
            return commit(database, statements)
        finally:
            commits.took_s.append(time.perf_counter() - start)

    SQLite.commit = counted  # type: ignore[assignment, method-assign]
    try:
        yield commits
    finally:
        SQLite.commit = commit  # type: ignore[method-assign]


async def _alternate(file: Path, repeats: int) -> tuple[list[float], list[float], Commits]:
    """Return the seconds to the second request, without a journal and with one, and the commits."""
    without_s: list[float] = []
    with_s: list[float] = []
    with served(partial(_scenario, TOKENS_PER_S)) as url:
        async with httpx2.AsyncClient() as http_client, Journal(file) as journal:
            client = HTTPTransport(base_url=url, http_client=http_client)
            await _run(client, journal=journal)  # a warm-up
            with _counted() as commits:
                for number in range(repeats):
                    for has_journal in (number % 2 == 0, number % 2 == 1):
                        gc.collect()
                        took_s = await _run(client, journal=journal if has_journal else None)
                        (with_s if has_journal else without_s).append(took_s)
    return without_s, with_s, commits


async def _at_once(file: Path, runs: int) -> tuple[float, float, Commits]:
    """Return the seconds of many runs at once, without a journal and with one, and the commits."""
    took_s: list[float] = []
    with served(partial(_scenario, None)) as url, _counted() as commits:
        async with HTTPTransport(base_url=url) as client, Journal(file) as journal:
            await _run(client, journal=journal)
            commits.took_s.clear()
            for options in ({}, {"journal": journal}):
                gc.collect()
                start = time.perf_counter()
                async with anyio.create_task_group() as tasks:
                    for _ in range(runs):
                        tasks.start_soon(partial(_run, client, **options))
                took_s.append(time.perf_counter() - start)
            assert len(await journal.runs("completed", limit=runs + 2)) == runs + 1
    return took_s[0], took_s[1], commits


def _noise(one: Sequence[float], other: Sequence[float]) -> float:
    # The standard error of a median is 1.25 times that of a mean.
    error_s = 1.2533 * float(np.sqrt(np.var(one) / len(one) + np.var(other) / len(other)))
    return 2 * error_s / float(np.median(one))


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure both sides and many runs, print a table, and return the figures."""
    repeats, runs = (4, 100) if quick else (20, RUNS)
    with TemporaryDirectory() as folder:
        without_s, with_s, commits = anyio.run(_alternate, Path(folder) / "one.db", repeats)
        many_without_s, many_with_s, shared = anyio.run(_at_once, Path(folder) / "many.db", runs)
    ratio, noise = float(np.median(with_s) / np.median(without_s)), _noise(without_s, with_s)
    writes = len(commits.took_s) / repeats / 2  # two turns
    commit_ms = float(np.median(commits.took_s)) * 1e3
    per_turn_ms = sum(commits.took_s) / repeats / 2 * 1e3
    table = Table(title=f"a run with a journal in SQLite, {TOKENS_PER_S:g} tokens per second")
    for name in ("side", "second request after"):
        table.add_column(name, justify="left" if name == "side" else "right")
    table.add_row("without", f"{np.median(without_s) * 1e3:,.1f} ms")
    table.add_row("with a journal", f"{np.median(with_s) * 1e3:,.1f} ms")
    console.print(table)
    console.print(
        f"{writes:.1f} commits per turn, {commit_ms:.2f} ms each (median), {per_turn_ms:.1f} ms per turn in all"
    )
    console.print(
        f"{runs:,} runs at once on one file: {many_with_s:.1f} s, without a journal {many_without_s:.1f} s; "
        f"{len(shared.took_s) / runs:.2f} commits per run"
    )
    row = Row(
        work="time to the second request of a run with a journal (SQLite), at the pace of a model",
        against="the same run without a journal",
        pace=PACE,
        target=f"at most {TARGET} times, or no difference beyond the noise",
        measured=f"{ratio:.3f} times: {np.median(with_s) * 1e3:,.0f} and {np.median(without_s) * 1e3:,.0f} ms"
        f" (noise ±{noise:.3f}); {writes:.1f} commits per turn, {per_turn_ms:.1f} ms",
        met=ratio <= max(TARGET, 1 + noise),
        asserted=ratio > TARGET + noise,
    )
    return {
        "without_s": float(np.median(without_s)),
        "with_s": float(np.median(with_s)),
        "commits_per_turn": writes,
        "commit_ms": commit_ms,
        "ms_per_turn": per_turn_ms,
        "runs": runs,
        "runs_without_s": many_without_s,
        "runs_with_s": many_with_s,
        "commits_per_run": len(shared.took_s) / runs,
        "rows": [asdict(row)],
    }


if __name__ == "__main__":
    main(Console(), quick=True)
