"""A whole run that a `Hub` observes, compared with the same run without one.

The run sends two requests. In the first response, the model writes a text of 20 KB, and an input of 40 KB in fragments
of 7 characters, the median of recorded streams. Its events are padded. The second response ends the run. In all cases
the consumer reads `input.partial` at each `InputDelta`. The response comes from a scripted transport in the same
process, at one of two paces: one event per chunk, and everybody gets a turn after each, as on a network; or the whole
response in one chunk, as a gateway sends it that collects. The sides are:

- looked at: no hub;
- observed: `Hub().observe(run)`, and nobody reads the records;
- watched: the same, and 100 tasks read the records of the log while they come.

The figures are CPU time, per delta of the text or the input. The sides alternate in one process, and the least of
several repetitions counts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any, Final

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table

import eagerstream
from eagerstream import HTTPTransport, InputDelta, RunStatus, TextDelta, tool
from eagerstream_progress import Hub, RunLog
from eagerstream_testing import text, tool_use

from .streams import KINDS, TEXT_FRAGMENT_CHARS, body_chunks, make_input, response, text_before
from .targets import Row

INPUT_CHARS: Final = 40_000
FRAGMENT_CHARS: Final = 7
WATCHERS: Final = 100
SIDES: Final = {"looked at": None, "observed": 0, "watched": WATCHERS}
"""Number of watchers. None: without a hub."""
PACES: Final = ("one event per chunk, without pauses", "the whole response in one chunk")
TARGETS: Final = {(PACES[0], "observed"): 1.3, (PACES[1], "observed"): 1.5, (PACES[1], "watched"): 5.0}
_TURNS: Final = 4  # of the event loop after a chunk: enough for the reader, the buffer and the consumer
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
    bodies = iter([chunks, [response(text("Done.")).body]])

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(next(bodies)))

    http_client = httpx.AsyncClient(transport=httpx.MockTransport(respond))
    return HTTPTransport(base_url="http://double", http_client=http_client)


async def _read(log: RunLog) -> str:
    """Return the texts and fragments of all records, joined."""
    pieces: list[str] = []
    async with log.watch() as watcher:
        async for batch in watcher:
            for record in batch.records:
                if record["type"] == "text_delta":
                    pieces.append(record["text"])
                elif record["type"] == "input_delta":
                    pieces.append(record["fragment"])
    return "".join(pieces)


async def _run(chunks: Sequence[bytes], watchers: int | None) -> float:
    """Return the CPU time of a complete run, in microseconds per delta."""
    request: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}
    client = _client(chunks)
    deltas = 0
    gc.collect()
    start = time.process_time()
    async with eagerstream.run(client, tools=[make_file], **request) as run:
        log = None if watchers is None else Hub().observe(run)
        reading = [asyncio.create_task(_read(log)) for _ in range(watchers or 0) if log is not None]
        async for event in run:
            if isinstance(event, InputDelta):
                assert event.input.partial is not None
            deltas += isinstance(event, InputDelta | TextDelta)
    written = await asyncio.gather(*reading)
    elapsed_s = time.process_time() - start
    assert run.result.status is RunStatus.COMPLETED
    raw = run.result.calls[0].input.raw
    before = text_before(tool_use("make_file", raw))
    assert written == [f"{before}{raw}{run.result.text}"] * len(reading)
    sizes = ((before, TEXT_FRAGMENT_CHARS), (raw, FRAGMENT_CHARS), (run.result.text, FRAGMENT_CHARS))
    assert deltas == sum(-(-len(whole) // size) for whole, size in sizes)  # the consumer got each delta separately
    return elapsed_s / deltas * 1e6


def _measure(kind: str, pace: str, repetitions: int) -> dict[str, Any]:
    chunks = body_chunks(json.dumps(make_input(kind, INPUT_CHARS), ensure_ascii=False), FRAGMENT_CHARS)
    if pace == PACES[1]:
        chunks = [b"".join(chunks)]
    best = dict.fromkeys(SIDES, math.inf)
    for _ in range(repetitions):
        for side, watchers in SIDES.items():
            best[side] = min(best[side], asyncio.run(_run(chunks, watchers)))
    return {"kind": kind, "pace": pace, **best}


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure each kind of input, print a table, and return the figures."""
    ways = track([*product(PACES, KINDS)], "hub", console=Console(stderr=True), transient=True)
    cells = [_measure(kind, pace, repetitions=2 if quick else 7) for pace, kind in ways]
    without, *others = SIDES
    table = Table(title="µs for a delta of a run whose consumer reads `partial` at each of an input, and with a hub")
    for name in ("pace", "input", without, *(head for side in others for head in (side, "times"))):
        table.add_column(name, justify="left" if name in ("pace", "input") else "right")
    for cell in cells:
        costs = [text for side in others for text in (f"{cell[side]:.1f}", f"{cell[side] / cell[without]:.2f}")]
        table.add_row(cell["pace"], cell["kind"], f"{cell[without]:.1f}", *costs)
    console.print(table)
    rows = [_row(pace, side, target, cells) for (pace, side), target in TARGETS.items()]
    return {"cells": cells, "rows": [asdict(row) for row in rows]}


def _row(pace: str, side: str, target: float, cells: Sequence[dict[str, Any]]) -> Row:
    """Return the row of the kind of input for which the hub adds most."""
    ratio, worst = max((cell[side] / cell["looked at"], cell["kind"]) for cell in cells if cell["pace"] == pace)
    (cell,) = (cell for cell in cells if cell["pace"] == pace and cell["kind"] == worst)
    return Row(
        work=f"a run that a hub observes{f' and {WATCHERS} watch' if side == 'watched' else ''}",
        against="the same without a hub; in both the consumer reads `partial` at each fragment",
        pace=pace,
        target=f"at most {target:g} times (a run fails above {target * _NOISE:.2f})",
        measured=f"{ratio:.2f} times: {cell[side]:.1f} and {cell['looked at']:.1f} µs an event ({worst})",
        met=ratio <= target,
        asserted=not target < ratio <= target * _NOISE,
    )
