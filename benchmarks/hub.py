"""A whole run that a `Hub` observes, compared with the same run without one.

The run sends two requests. In the first response, the model writes an input of 40 KB in fragments of 7 characters, the
median of recorded streams. The second response ends the run. In all cases the consumer reads `input.partial` at each
`InputDelta`. The response comes from a scripted transport in the same process, one event per chunk, and the consumer
gets its turn after each event, as it does on a network. The sides are:

- looked at: no hub;
- observed: `Hub().observe(run)`, and nobody reads the records;
- read: the same, and a task reads the records of the log while they come.

The figures are CPU time. The sides alternate in one process, and the least of several repetitions counts. The target is
for the second side: what the third adds is the work of a reader that gets about 1,000 records at a time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, InputDelta, RunStatus, tool
from eagerstream.progress import Hub, RunLog
from eagerstream.testing import reply, text

from .streams import KINDS, body_chunks, make_input
from .targets import Row

INPUT_CHARS: Final = 40_000
FRAGMENT_CHARS: Final = 7
SIDES: Final = ("looked at", "observed", "read")
_TURNS: Final = 4  # of the event loop after a chunk: enough for the reader, the buffer and the consumer
_TARGET: Final = 1.3
_NOISE: Final = 1.15  # a run fails only above this multiple of the target


@tool
async def make_file(
    filename: str = "",
    lines_of_text: list[str] | None = None,
    text: str = "",
    table: str = "",
    rows: list[list[Any]] | None = None,
) -> str:
    """Take any of the inputs."""
    return f"{filename or table}: {len(lines_of_text or text or rows or ())}"


class _Body(httpx.AsyncByteStream):
    """A response that yields to the event loop after each chunk."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
            for _ in range(_TURNS):
                await asyncio.sleep(0)


def _client(chunks: Sequence[bytes]) -> HTTPTransport:
    """Return a client that gets these chunks first, and then a text that ends the run."""
    bodies = iter([chunks, [reply(text("Done.")).body]])

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(next(bodies)))

    http_client = httpx.AsyncClient(transport=httpx.MockTransport(respond))
    return HTTPTransport(base_url="http://double", http_client=http_client)


async def _read(log: RunLog) -> str:
    """Return the fragments of all records, joined."""
    fragments: list[str] = []
    async with log.watch() as watcher:
        async for batch in watcher:
            fragments += [record["fragment"] for record in batch.records if record["type"] == "input_delta"]
    return "".join(fragments)


async def _run(chunks: Sequence[bytes], side: str) -> float:
    """Return the CPU time of a complete run, in microseconds per `InputDelta`."""
    request: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}
    client = _client(chunks)
    deltas = 0
    gc.collect()
    start = time.process_time()
    async with eagerstream.run(client, tools=[make_file], **request) as run:
        log = Hub().observe(run) if side != "looked at" else None
        reading = asyncio.create_task(_read(log)) if log is not None and side == "read" else None
        async for event in run:
            if isinstance(event, InputDelta):
                deltas += 1
                assert event.input.partial is not None
    written = await reading if reading is not None else None
    elapsed_s = time.process_time() - start
    assert run.result.status is RunStatus.COMPLETED
    raw = run.result.calls[0].input.raw
    assert written is None or written == raw
    assert deltas == -(-len(raw) // FRAGMENT_CHARS)  # the consumer got each fragment separately
    return elapsed_s / deltas * 1e6


def _measure(kind: str, repetitions: int) -> dict[str, Any]:
    chunks = body_chunks(json.dumps(make_input(kind, INPUT_CHARS), ensure_ascii=False), FRAGMENT_CHARS)
    best = dict.fromkeys(SIDES, float("inf"))
    for _ in range(repetitions):
        for side in SIDES:
            best[side] = min(best[side], asyncio.run(_run(chunks, side)))
    return {"kind": kind, **{f"{side.replace(' ', '_')}_us": best[side] for side in SIDES}}


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure each kind of input, print a table, and return the figures."""
    kinds = track(KINDS, "hub", console=Console(stderr=True), transient=True)
    cells = [_measure(kind, repetitions=3 if quick else 10) for kind in kinds]
    table = Table(title="µs for an `InputDelta` of a run whose consumer reads `partial` at each, and with a hub")
    for name in ("input", "looked at", "observed", "times", "read", "times"):
        table.add_column(name, justify="left" if name == "input" else "right")
    for cell in cells:
        for side in SIDES[1:]:
            cell[f"{side}_ratio"] = cell[f"{side}_us"] / cell["looked_at_us"]
        costs = [(f"{cell[f'{side}_us']:.1f}", f"{cell[f'{side}_ratio']:.2f}") for side in SIDES[1:]]
        table.add_row(cell["kind"], f"{cell['looked_at_us']:.1f}", *costs[0], *costs[1])
    console.print(table)
    worst = max(cells, key=lambda cell: float(cell["observed_ratio"]))
    ratio = worst["observed_ratio"]
    row = Row(
        work="a run that a hub observes",
        against="the same without a hub; in both the consumer reads `partial` at each fragment",
        target=f"at most {_TARGET:g} times (a run fails above {_TARGET * _NOISE:.2f})",
        measured=f"{ratio:.2f} times ({worst['kind']})",
        met=ratio <= _TARGET,
        asserted=not _TARGET < ratio <= _TARGET * _NOISE,
    )
    return {"cells": cells, "rows": [asdict(row)]}
