"""Tools in this process compared with worker processes: the cost of a call, and the time saved.

The cost of a call has two parts. The first is from the end of an input to the first line of an `async def` tool with an
input of 1 KB. The second is from there to the result. The times come from the clock that all processes of a machine
share. Calls run one at a time, alternately in this process and in a worker. The time saved is measured with eight
simultaneous calls of a plain `def` that counts. They run in threads of this process, and in two worker processes.
Meanwhile a timer measures the delay of the event loop. The reading of every response would be as late.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import anyio
import numpy as np
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import Tool
from eagerstream.inputs import GrowingInput
from eagerstream.tools import Executor, InProcessExecutor, ToolCall
from eagerstream_durable.workers import ProcessExecutor, ProcessPool
from eagerstream_wire import InputAccumulator

from .targets import Row

PACE = "no stream"
WORKERS = 2
CALLS = 8
TICK_S = 0.005
_TEXT = "x" * 1_000


@eagerstream.tool
async def edit(path: str, text: str) -> str:
    """Return the start time, on the clock that all processes share."""
    assert len(path) + len(text) > 1_000
    return str(time.clock_gettime(time.CLOCK_MONOTONIC))


@eagerstream.tool
def count(to: int) -> int:
    """Keep a processor busy."""
    total = 0
    for number in range(to):
        total += number & 3
    return total


def _call(name: str, arguments: dict[str, Any]) -> tuple[ToolCall, Callable[[], object]]:
    """Return a call, and a function that ends its input."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    accumulator.feed({"type": "content_block_start", "index": 0, "content_block": block})
    accumulator.feed((0, json.dumps(arguments)))
    return ToolCall(accumulator.inputs[0], 1), lambda: accumulator.feed({"type": "content_block_stop", "index": 0})


async def _one(executor: Executor) -> tuple[float, float]:
    """Return the milliseconds to the tool, and from there to the result."""
    call, end = _call("edit", {"path": "a.py", "text": _TEXT})
    ended_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    end()
    executor.admit(call)
    await executor.execute(call)
    over_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    assert call.result is not None
    began_s = float(call.result["content"])
    assert ended_s < began_s < over_s
    return (began_s - ended_s) * 1e3, (over_s - began_s) * 1e3


async def _many(executor: Executor, to: int) -> tuple[float, float]:
    """Return the seconds for all counting calls, and the delay of the latest timer tick meanwhile, in milliseconds."""
    late_ms = [0.0]

    async def tick() -> None:
        while True:
            due_s = time.perf_counter() + TICK_S
            await anyio.sleep(TICK_S)
            late_ms.append((time.perf_counter() - due_s) * 1e3)

    calls = []
    start_s = time.perf_counter()
    async with anyio.create_task_group() as ticking:
        ticking.start_soon(tick)
        async with anyio.create_task_group() as tasks:
            for _ in range(CALLS):
                call, end = _call("count", {"to": to})
                end()
                executor.admit(call)
                tasks.start_soon(executor.execute, call)
                calls.append(call)
        ticking.cancel_scope.cancel()
    taken_s = time.perf_counter() - start_s
    assert len({str(call.result and call.result["content"]) for call in calls}) == 1
    return taken_s, max(late_ms)


async def measure(calls: int, to: int) -> dict[str, Any]:
    """Return all figures, by place."""
    tools: list[Tool] = [edit, count]
    begun_s = time.perf_counter()
    async with ProcessPool(WORKERS, preload=tools) as pool:
        start_s = time.perf_counter() - begun_s
        places: dict[str, Executor] = {
            "in process": InProcessExecutor(tools),
            "process pool": ProcessExecutor(tools, pool=pool),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in places}
        for _ in range(calls):
            for name, executor in places.items():
                times[name].append(await _one(executor))
        work = {name: [await _many(executor, to) for _ in range(3)] for name, executor in places.items()}
    return {
        "pool_start_s": start_s,
        **{
            name: {
                "to_tool_ms": _percentiles([each[0] for each in times[name]]),
                "to_result_ms": _percentiles([each[1] for each in times[name]]),
                "work_s": min(each[0] for each in work[name]),
                "late_ms": max(each[1] for each in work[name]),
            }
            for name in places
        },
    }


def _percentiles(values: list[float]) -> dict[int, float]:
    return {percentile: float(np.percentile(values, percentile)) for percentile in (50, 99)}


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure both places, print a table, and return the figures."""
    figures = anyio.run(measure, 200 if quick else 2_000, 1_000_000 if quick else 4_000_000)
    here, pool = figures["in process"], figures["process pool"]
    table = Table(title="a call in this process, and in a process pool")
    for name in (
        "place",
        "to tool p50 ms",
        "p99",
        "to result p50 ms",
        "p99",
        f"{CALLS} counting calls s",
        "loop late ms",
    ):
        table.add_column(name, justify="left" if name == "place" else "right")
    for name in ("in process", "process pool"):
        found = figures[name]
        shown = [*found["to_tool_ms"].values(), *found["to_result_ms"].values(), found["work_s"], found["late_ms"]]
        table.add_row(name, *(f"{value:.3f}" for value in shown))
    console.print(table)
    console.print(f"the pool of {WORKERS} workers was ready after {figures['pool_start_s']:.2f} s")
    faster = here["work_s"] / pool["work_s"]
    dearer = pool["to_tool_ms"][50] / here["to_tool_ms"][50]
    rows = [
        Row(
            work=f"{CALLS} calls that keep a processor, in {WORKERS} worker processes",
            against="in threads of this process",
            pace=PACE,
            target="at least 1.5 times as fast on two free processors",
            measured=f"{faster:.2f} times as fast: {pool['work_s']:.2f} and {here['work_s']:.2f} s",
            met=faster >= 1.5,
            asserted=False,  # the machine may have only one processor, or other programs may use them
        ),
        Row(
            work="from the end of an input to its tool in a worker process, p50",
            against="to one in this process",
            pace=PACE,
            target="at most 2 ms",
            measured=f"{pool['to_tool_ms'][50]:.3f} and {here['to_tool_ms'][50]:.3f} ms, {dearer:.0f} times as long",
            met=pool["to_tool_ms"][50] <= 2,
            asserted=False,  # a time, not a ratio: it depends on the machine
        ),
    ]
    return {"figures": figures, "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    main(Console(), quick=True)
