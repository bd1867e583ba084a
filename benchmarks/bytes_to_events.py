"""Bytes to events, with the partial value of the input read at every delta: eagerstream beside `messages.stream()`.

Both run through the same real anthropic client, on a transport in memory that hands out one event per chunk. A third
column is the wire core by itself, without any client. The other side re-parses the whole input at each delta, so its
largest cells would take hours: each of its cells gets `budget_s` seconds, and where that ends first, the mean of the
deltas so far stands for all of them. It grows with every delta, so the ratio is then too small, and marked with ">=".
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import anyio
import httpx2
import numpy as np
from anthropic import AsyncAnthropic
from rich.console import Console
from rich.progress import track
from rich.table import Table

import eagerstream
from eagerstream.wire import InputDelta, MessageAssembler, WireDecoder

from .streams import KINDS, arriving, body_chunks, make_input

SIZES = (1_000, 10_000, 100_000, 1_000_000)
FRAGMENTS = (4, 16, 64)
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}


@dataclass(frozen=True)
class Cell:
    """One stream: µs per event of each side. `anthropic_whole`: it finished within its budget."""

    kind: str
    input_chars: int
    fragment_chars: int
    events: int
    core_us: float
    stream_us: float
    anthropic_us: float
    anthropic_whole: bool

    @property
    def core_ratio(self) -> float:
        """How many times cheaper the wire core is than `messages.stream()`."""
        return self.anthropic_us / self.core_us

    @property
    def stream_ratio(self) -> float:
        """How many times cheaper `eagerstream.stream()` is: both through the client and its transport."""
        return self.anthropic_us / self.stream_us


def _client(chunks: list[bytes]) -> AsyncAnthropic:
    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            async for chunk in arriving(chunks):
                yield chunk

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body())

    return AsyncAnthropic(api_key="k", http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))


def _run_core(chunks: list[bytes], value: Any) -> float:
    decoder, assembler = WireDecoder(), MessageAssembler()
    start = time.perf_counter()
    for chunk in chunks:
        for wire_event in decoder.feed(chunk):
            for event in assembler.feed(wire_event):
                if isinstance(event, InputDelta):
                    event.input.partial  # noqa: B018  # the look is what is measured
    elapsed = time.perf_counter() - start
    assert assembler.inputs[0].value == value
    return elapsed


async def _run_stream(chunks: list[bytes], value: Any) -> float:
    async with _client(chunks) as client:
        start = time.perf_counter()
        async with eagerstream.stream(client, buffer="wait", **_REQUEST) as stream:
            async for event in stream:
                if isinstance(event, InputDelta):
                    event.input.partial  # noqa: B018
        elapsed = time.perf_counter() - start
    assert stream.inputs[0].value == value
    return elapsed


async def _run_anthropic(chunks: list[bytes], value: Any, budget_s: float) -> tuple[float, int]:
    """Seconds and events taken in; fewer than there are where the budget was used up."""
    taken = 0
    snapshot: Any = None
    async with _client(chunks) as client:
        start = time.perf_counter()
        async with client.messages.stream(**_REQUEST) as stream:
            async for event in stream:
                if event.type == "input_json":
                    snapshot = event.snapshot
                    taken += 1
                    if time.perf_counter() - start > budget_s:
                        return time.perf_counter() - start, taken
        elapsed = time.perf_counter() - start
    assert snapshot == value
    return elapsed, len(chunks)


def _best(run: Callable[[], float], repeats: int) -> float:
    return min(run() for _ in range(repeats))


def measure(kind: str, size: int, fragment_chars: int, *, budget_s: float) -> Cell:
    """One cell; the two sides directly after each other, ours first (a warm-up for both)."""
    value = make_input(kind, size)
    text = json.dumps(value, ensure_ascii=False)
    chunks = body_chunks(text, fragment_chars)
    repeats = max(1, min(20, 20_000 // len(chunks)))
    gc.collect()
    core_s = _best(lambda: _run_core(chunks, value), repeats)
    stream_s = _best(lambda: anyio.run(_run_stream, chunks, value), repeats)
    results = [anyio.run(_run_anthropic, chunks, value, budget_s) for _ in range(max(1, min(5, repeats)))]
    other_us = min(elapsed_s / events for elapsed_s, events in results) * 1e6
    whole = all(events == len(chunks) for _, events in results)
    count = len(chunks)
    return Cell(kind, len(text), fragment_chars, count, core_s / count * 1e6, stream_s / count * 1e6, other_us, whole)


def exponent(cells: list[Cell]) -> float:
    """How the core's total time grows with the input's size, from 10 KB on: 1 is linear, 2 quadratic."""
    large = [cell for cell in cells if cell.input_chars > 5_000]
    sizes = np.log([cell.input_chars for cell in large])
    totals = np.log([cell.core_us * cell.events for cell in large])
    slope: float = np.polyfit(sizes, totals, 1)[0]
    return slope


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all cells, print a table, and give the figures."""
    sizes = SIZES[:3] if quick else SIZES
    plan = [(kind, size, chars) for kind in KINDS for chars in FRAGMENTS for size in sizes]
    budget_s = 2.0 if quick else 20.0
    cells = [
        measure(kind, size, chars, budget_s=budget_s)
        for kind, size, chars in track(plan, "bytes to events", console=console, transient=True)
    ]
    table = Table(title="bytes to events, partial value read at every delta: µs per event")
    for name in (
        "input",
        "chars",
        "fragment",
        "wire core",
        "stream()",
        "messages.stream()",
        "ratio of core",
        "of stream()",
        "growth",
    ):
        table.add_column(name, justify="left" if name == "input" else "right", no_wrap=name in ("input", "chars"))
    growths: dict[str, float] = {}
    for kind in KINDS:
        for chars in FRAGMENTS:
            row = [cell for cell in cells if (cell.kind, cell.fragment_chars) == (kind, chars)]
            growths[f"{kind}/{chars}"] = exponent(row)
            for cell in row:
                at_least = "" if cell.anthropic_whole else ">="
                table.add_row(
                    kind,
                    f"{cell.input_chars:,}",
                    str(chars),
                    f"{cell.core_us:.1f}",
                    f"{cell.stream_us:.1f}",
                    f"{cell.anthropic_us:,.1f}",
                    f"{at_least}{cell.core_ratio:,.1f}",
                    f"{at_least}{cell.stream_ratio:,.1f}",
                    f"{growths[f'{kind}/{chars}']:.2f}" if cell is row[-1] else "",
                )
            table.add_section()
    console.print(table)
    return {
        "cells": [{**asdict(cell), "core_ratio": cell.core_ratio, "stream_ratio": cell.stream_ratio} for cell in cells],
        "growth_exponents": growths,
    }
