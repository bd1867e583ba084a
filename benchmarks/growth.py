"""Needs of 1,000 simultaneous runs, and the next limits: measured constants, and a cluster in virtual time.

Measured in this run are the costs of the process that holds the runs:

- Its CPU per event and per turn, over a socket from a server in another process that writes each event separately. The
  benchmark uses two lengths of response, and the slope between them. A third of the characters of a response is text,
  the rest is the input of a call, and the events are padded.
- Its memory per run, with all runs in the middle of a response.
- The cost of a call on a Ray cluster of this machine, for its event loop and for the worker.

Simulated (`growth_model`) are simultaneous runs that never pause, turn after turn. The lengths of responses are those
of the recordings in EAGERSTREAM_RECORDINGS, or else of `shared/recordings` beside the project. Without recordings, they
are 10 to 640 events. The rate is 25 events per second. The first byte takes 1 s (lognormal, sigma 0.5). A turn has 0 to
3 calls (20, 50, 20, 10 %). 4 of 5 calls wait: 2 s on average, lognormal, sigma 1, 16 at once in a worker. 1 of 5
works: 0.5 s, sigma 0.8, one at a time, on its own processor. Workers are staffed by the square-root rule, with
load + 2 √load places.

Formulas check the simulation. Turns per second follow from Little's law and the utilisation law: the smaller of the
demand of the runs and the throughput of the first saturated station. The share of calls that wait for a worker follows
from Erlang's formula for a finite source, at the simulated rate. A run fails if the simulated turns differ by more than
10 %, or the waiting calls by more than 8 % of all calls. That margin is needed: the formula assumes one call at a time,
but a turn has up to three.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, Recording, RunStatus
from eagerstream.inputs import GrowingInput
from eagerstream.tools import ToolCall
from eagerstream_durable.ray import RayExecutor, RayPool
from eagerstream_durable.workers._messages import Begin, Ended, Started
from eagerstream_testing import Scenario, Timing, text, tool_use
from eagerstream_wire import InputAccumulator

from .growth_model import Cluster, Costs, Kind, Paper, Seen, Work, simulate
from .queueing import percentile
from .served import served
from .streams import response
from .targets import Row

RUNS: Final = (100, 1_000, 3_000, 10_000)
STAFFED_FOR: Final = 1_000
KNEE: Final = 1.5
"""Runs are too many if their median turn takes longer than this many times its duration alone."""
PACE: Final = "simulated, 25 events per second of each run"
TARGET_TURNS: Final = 0.10
TARGET_WAITING: Final = 0.08
KINDS: Final = (
    Kind(name="waiting", share=0.8, mean_s=2.0, sigma=1.0, per_worker=16),
    Kind(name="working", share=0.2, mean_s=0.5, sigma=0.8, per_worker=1),
)
_REAL_DIR: Final = Path(os.environ.get("EAGERSTREAM_RECORDINGS") or Path(__file__).parents[2] / "shared" / "recordings")
_EVENTS: Final = (10, 20, 40, 80, 160, 320, 640)
_LENGTHS: Final = (4, 120)
"""Numbers of fragments of the inputs of the measured responses."""
_TIMED: Final = 70
"""Number of measured runs, with 2,700 events per second. With fewer runs, the process sleeps between events, and each
event costs two or three times the CPU. With more runs, the server sometimes writes several events at once."""
_FRAGMENT_CHARS: Final = 16
_PACE_S: Final = 0.03
_SPAN_S: Final = 120.0
_ALONE: Final = 300
_REQUEST: Final[dict[str, Any]] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}
_STATM: Final = Path("/proc/self/statm")


@eagerstream.tool
async def make_file(content: str) -> str:
    """Write a file."""
    return f"{len(content)} characters"


@eagerstream.tool
async def worker_cpu() -> str:
    """Return the CPU seconds of the process that runs this tool."""
    return repr(time.process_time())


@dataclass(frozen=True)
class Measured:
    """Measured constants.

    Attributes:
        costs: Constants of the simulation.
        call_cpu_s: CPU seconds of the process for a call, including Ray's own threads.
        calls_per_s: Largest number of calls per second from one process.
        message_bytes: Size of the messages of a call.
    """

    costs: Costs
    call_cpu_s: float
    calls_per_s: float
    message_bytes: int


def _response(fragments: int) -> Recording:
    content = {"content": "x" * fragments * _FRAGMENT_CHARS}
    return response(tool_use("make_file", content, fragment_chars=_FRAGMENT_CHARS))


def _scenario(fragments: int) -> Scenario:
    timing = Timing(tokens_per_second=_FRAGMENT_CHARS / 4 / _PACE_S)
    return Scenario(_response(fragments), response(text("Done.")), timing=timing)


async def _holding(url: str, runs: int) -> tuple[float, int]:
    """Return the CPU seconds of so many simultaneous runs, from start to end, and the process's growth in bytes."""
    most = 0
    seen = 0

    async def one(transport: HTTPTransport) -> None:
        nonlocal most, seen
        async with eagerstream.run(transport, tools=[make_file], **_REQUEST) as run:
            async for _ in run:
                seen += 1
                if seen % runs == 0:
                    most = max(most, _memory())
        assert run.result.status is RunStatus.COMPLETED

    async with HTTPTransport(base_url=url, api_key="k") as transport:
        await one(transport)  # a warm-up: loads modules
        before, start = _memory(), time.process_time()
        seen = most = 0
        async with anyio.create_task_group() as tasks:
            for _ in range(runs):
                tasks.start_soon(one, transport)
        return time.process_time() - start, max(0, most - before)


def _memory() -> int:
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_numbers = count()


async def _call(executor: RayExecutor, name: str, raw: str) -> str:
    accumulator = InputAccumulator(input_type=GrowingInput)
    block = {"type": "tool_use", "id": f"toolu_{next(_numbers)}", "name": name, "input": {}}
    accumulator.feed({"type": "content_block_start", "index": 0, "content_block": block})
    accumulator.feed((0, raw))
    accumulator.feed({"type": "content_block_stop", "index": 0})
    call = ToolCall(accumulator.inputs[0], 1)
    executor.admit(call)
    await executor.execute(call)
    assert call.response is not None
    assert not call.is_error, call.response.text
    return call.response.text


async def _ray(calls: int) -> tuple[float, float, float, float]:
    """Return the CPU seconds of a call in the event loop's thread, the process and the worker, and calls per second."""
    raw = '{"content": "' + "x" * 200 + '"}'
    async with RayPool(workers=1, num_cpus=1, calls_per_worker=16, preload=[make_file, worker_cpu]) as pool:
        executor = RayExecutor([make_file, worker_cpu], pool=pool)

        async def several(number: int) -> None:
            for _ in range(number):
                assert await _call(executor, "make_file", raw) == "200 characters"

        await several(50)
        worker_s = float(await _call(executor, "worker_cpu", "{}"))
        start, loop_s, process_s = time.perf_counter(), time.thread_time(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(16):
                tasks.start_soon(several, calls // 16)
        done = calls // 16 * 16
        took_s = time.perf_counter() - start
        loop_s, process_s = time.thread_time() - loop_s, time.process_time() - process_s
        worker_s = float(await _call(executor, "worker_cpu", "{}")) - worker_s
        return loop_s / done, process_s / done, worker_s / done, done / took_s


def measure(*, quick: bool) -> Measured:
    """Measure the constants on this machine.

    Raises:
        ModuleNotFoundError: ray is not installed.
    """
    importlib.import_module("ray")  # else the pool would raise another error
    taken: list[float] = []
    for fragments in _LENGTHS:
        with served(partial(_scenario, fragments)) as url:
            repeats = [anyio.run(_holding, url, _TIMED)[0] for _ in range(2 if quick else 4)]
            taken.append(min(repeats) / _TIMED)
    short, long = (len(_response(fragments).chunks) for fragments in _LENGTHS)
    event_s = max(0.0, taken[1] - taken[0]) / (long - short)
    turn_s = max(0.0, taken[0] - short * event_s) / 2  # each of those runs has two turns
    runs = 50 if quick else 200
    with served(partial(_scenario, _LENGTHS[1])) as url:
        _, held = anyio.run(_holding, url, runs)
    base = _memory()
    loop_s, process_s, worker_s, calls_per_s = asyncio.run(_ray(160 if quick else 1_600))
    block = {"type": "tool_use", "id": "toolu_1", "name": "make_file", "input": {}}
    messages = Begin(block, 0, 1, eagerstream.Limits(), "x" * 200, whole=True), Started(), Ended(b"x" * 300)
    size = sum(len(pickle.dumps(message)) for message in messages)
    costs = Costs(
        event_s=event_s,
        turn_s=turn_s,
        call_s=loop_s,
        worker_call_s=worker_s,
        run_bytes=held // runs,
        gateway_bytes=base,
    )
    return Measured(costs, process_s, calls_per_s, size)


def recorded_events() -> tuple[int, ...]:
    """Return the numbers of events of the complete recorded responses, or default numbers without recordings."""
    bodies = [path.read_bytes() for path in sorted(_REAL_DIR.glob("*.sse"))]
    found = tuple(body.count(b"\nevent:") + 1 for body in bodies if b"message_stop" in body)
    return found or _EVENTS


def clusters(work: Work, paper: Paper) -> Iterator[tuple[str, int, Cluster]]:
    """Return the clusters to simulate: a fixed one for each number of runs, and one that grows with the runs."""
    fixed = Cluster(gateways=1, workers={kind.name: paper.workers(STAFFED_FOR, kind) for kind in work.kinds})
    for runs in RUNS:
        yield f"staffed for {STAFFED_FOR:,}", runs, fixed
    for runs in RUNS:
        gateways = max(1, -(-runs // int(paper.gateway_knee * 0.7)))  # the loop is busy for 70 % of the time
        yield (
            "grows along",
            runs,
            Cluster(gateways=gateways, workers={kind.name: paper.workers(runs, kind) for kind in work.kinds}),
        )


def alone(work: Work, costs: Costs, span_s: float) -> Paper:
    """Return the formulas for runs that never wait for each other."""
    # Many turns, because times of tools differ widely: an error of 1 % of the mean changes the waiting calls by half.
    plenty = Cluster(gateways=_ALONE, workers={kind.name: _ALONE for kind in work.kinds})
    return Paper.of(work, costs, alone_s=simulate(_ALONE, work, costs, plenty, span_s=10 * span_s).alone_s)


def limit_of(seen: Seen) -> str:
    """Return the busiest station, with its utilisation."""
    uses = {"gateway's loop": seen.loop_use} | {f"{name} workers": use for name, use in seen.worker_use.items()}
    name = max(uses, key=uses.__getitem__)
    return f"{name} {uses[name]:.0%}"


def grown(console: Console, work: Work, measured: Measured, *, span_s: float) -> dict[str, Any]:
    """Simulate every cluster, compare it with the formulas, print the table, and return the figures."""
    costs = measured.costs
    paper = alone(work, costs, span_s)
    table = Table(title="Runs at once on a cluster, simulated; in brackets by formula")
    for head in (
        "cluster", "runs", "gateways", "workers", "turns/s", "busiest", "calls that wait",
        "wait p50/p99 s", "turn p50/p99 of alone", "memory",
    ):  # fmt: skip
        table.add_column(head, justify="left" if head in {"cluster", "busiest"} else "right")
    figures: list[dict[str, Any]] = []
    for name, runs, cluster in clusters(work, paper):
        bound = paper.turns_per_s(runs, cluster, work.kinds)
        # An overloaded cluster reaches its steady state only after each run has had its turn.
        seen = simulate(runs, work, costs, cluster, span_s=max(span_s, 3 * runs / bound))
        waiting = {
            kind.name: (seen.waited(kind.name), paper.waited(runs, seen.turns_per_s, kind, cluster.workers[kind.name]))
            for kind in work.kinds
        }
        waits = [wait for each in seen.waits_s.values() for wait in each]
        held = runs * costs.run_bytes + cluster.gateways * costs.gateway_bytes
        figures.append({
            "cluster": name, "runs": runs, "gateways": cluster.gateways, "workers": cluster.workers,
            "turns_per_s": seen.turns_per_s, "turns_per_s_paper": bound, "loop_use": seen.loop_use,
            "worker_use": seen.worker_use, "waiting": waiting, "wait_p99_s": percentile(waits, 99),
            "slowdown_p50": seen.slowdown(50), "slowdown_p99": seen.slowdown(99), "bytes": held,
        })  # fmt: skip
        table.add_row(
            name,
            f"{runs:,}",
            f"{cluster.gateways:,}",
            " + ".join(f"{number:,} {kind}" for kind, number in cluster.workers.items()),
            f"{seen.turns_per_s:.0f} ({bound:.0f})",
            limit_of(seen),
            ", ".join(f"{simulated:.1%} ({formula:.1%})" for simulated, formula in waiting.values()),
            f"{percentile(waits, 50):.2f}/{percentile(waits, 99):.2f}",
            f"{seen.slowdown(50):.2f}/{seen.slowdown(99):.2f}",
            f"{held / 1e9:.1f} GB",
        )
    console.print(table)
    _verdict(console, work, measured, paper, figures)
    return {"rows": _rows(figures), "clusters": figures, "measured": asdict(measured)}


def _verdict(console: Console, work: Work, measured: Measured, paper: Paper, figures: list[dict[str, Any]]) -> None:
    costs = measured.costs
    fixed = [each for each in figures if each["gateways"] == 1 and each["cluster"] != "grows along"]
    slow = [each["runs"] for each in fixed if each["slowdown_p50"] > KNEE]
    after = f"median turns are over {KNEE} times as long from {slow[0]:,} runs on" if slow else "no number here is over"
    console.print(
        f"One gateway's event loop is busy all the time with {paper.gateway_knee:,.0f} runs "
        f"({paper.loop_s * 1e3:.1f} ms of it in a turn of {paper.cycle_s:.1f} s): this is the knee; {after}."
    )
    rate = 1_000 / paper.cycle_s
    places = ", ".join(f"{paper.load(rate, kind):.0f} {kind.name} calls" for kind in work.kinds)
    console.print(
        f"1,000 runs ask for {rate:.0f} requests/s ({rate * 60:,.0f} a minute), {rate * work.mean_events:,.0f} events/s"
        f" and {rate * work.mean_calls:.0f} calls/s, {1_000 * costs.run_bytes / 1e6:,.0f} MB in the gateways, a socket "
        f"each, and places for {places}. Of calls alone a loop hands on {1 / costs.call_s:,.0f}/s by its CPU; "
        f"{measured.calls_per_s:,.0f}/s were seen, the worker on the same {os.cpu_count()} processors."
    )
    console.print(
        "With gateways and workers added, the next limits are outside: requests and tokens a minute of the API; "
        "sockets to one address (28,000 ephemeral ports of a machine by default, and its file descriptors). Ray's head "
        "is not on the way of a call, which goes from process to process: it takes part in starts and deaths of "
        "workers, and each gateway keeps a connection to each worker that it has."
    )


def _rows(figures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    turns = max(
        ((each["turns_per_s"], each["turns_per_s_paper"]) for each in figures),
        key=lambda both: abs(both[0] / both[1] - 1),
    )
    off_turns = abs(turns[0] / turns[1] - 1)
    # If a station is full, arrivals at the others are no longer random, and the formula does not hold.
    open_ones = [each for each in figures if each["cluster"] == "grows along"]
    waiting = max(
        (both for each in open_ones for both in each["waiting"].values()), key=lambda both: abs(both[0] - both[1])
    )
    off_waiting = abs(waiting[0] - waiting[1])
    (thousand,) = [each for each in open_ones if each["runs"] == STAFFED_FOR]
    rows = (
        Row(
            work="turns per second of every cluster, simulated",
            against="Little's law and the utilisation law",
            pace=PACE,
            target=f"within {TARGET_TURNS:.0%}",
            measured=f"{off_turns:.1%}: {turns[0]:.1f} and {turns[1]:.1f} turns per second",
            met=off_turns <= TARGET_TURNS,
        ),
        Row(
            work="calls that wait for a worker, simulated",
            against="Erlang's formula",
            pace=PACE,
            target=f"within {TARGET_WAITING:.0%} of all calls",
            measured=f"{off_waiting:.1%}: {waiting[0]:.1%} and {waiting[1]:.1%}",
            met=off_waiting <= TARGET_WAITING,
        ),
        Row(
            work="a thousand runs at once, on a cluster that is staffed for them (simulated)",
            against="each run alone",
            pace=PACE,
            target="99 of 100 turns at most twice as long",
            measured=f"{thousand['slowdown_p99']:.2f} times, {thousand['gateways']} gateways",
            met=thousand["slowdown_p99"] <= 2,
            asserted=False,  # the number of gateways depends on the measured machine
        ),
    )
    return [asdict(row) for row in rows]


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure, simulate, print the tables, and return the figures."""
    measured = measure(quick=quick)
    costs = measured.costs
    table = Table(title="Measured here: cost of a run for the process that holds it")
    for head in ("item", "cost"):
        table.add_column(head, justify="left" if head == "item" else "right")
    for what, cost in (
        ("an event, CPU", f"{costs.event_s * 1e6:.0f} µs"),
        ("a turn without its events, CPU", f"{costs.turn_s * 1e3:.2f} ms"),
        ("a call on Ray, CPU of the event loop's thread", f"{costs.call_s * 1e3:.2f} ms"),
        ("a call on Ray, CPU of the process", f"{measured.call_cpu_s * 1e3:.2f} ms"),
        ("a call on Ray, CPU of the worker", f"{costs.worker_call_s * 1e3:.2f} ms"),
        ("calls per second of one process, to one worker", f"{measured.calls_per_s:,.0f}"),
        ("messages of a call, without the tool's result", f"{measured.message_bytes:,} bytes"),
        ("a run in the middle of a response, memory", f"{costs.run_bytes / 1e3:,.0f} KB"),
    ):
        table.add_row(what, cost)
    console.print(table)
    return grown(console, Work(events=recorded_events(), kinds=KINDS), measured, span_s=40.0 if quick else _SPAN_S)


if __name__ == "__main__":
    main(Console(), quick=True)
