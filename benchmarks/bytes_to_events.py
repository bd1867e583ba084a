"""Bytes to events, with the partial value of the input read at every delta: eagerstream beside `messages.stream()`.

Both run through the same real anthropic client, on a transport in memory that hands out one event per chunk. A third
column is the wire core by itself, without any client. The other side re-parses the whole input at each delta, so its
largest cells would take hours. Where a whole run does not fit into `budget_s`, the cost of a delta is measured at
evenly spaced places instead, and their mean, marked "~", stands for all: what comes before a place arrives as one
delta, which leaves the client in the same state as many. Stopping early would leave out the dearest deltas.
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
from eagerstream.replay import encode_event
from eagerstream.wire import InputDelta, MessageAssembler, WireDecoder

from .streams import KINDS, arriving, body_chunks, make_input
from .targets import Row

SIZES = (1_000, 10_000, 100_000, 1_000_000)
FRAGMENTS = (4, 7, 16, 64)
MEDIAN_FRAGMENT = 7  # characters, of recorded streams
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
_DELTA = b"input_json_delta"
_DELTAS = 20  # that are measured at each place
_PLACES = 20


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One stream: µs per event of each side. `anthropic_sampled`: estimated from evenly spaced places."""

    kind: str
    size: int
    input_chars: int
    fragment_chars: int
    events: int
    core_us: float
    stream_us: float
    anthropic_us: float
    anthropic_sampled: bool

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


async def _run_anthropic(chunks: list[bytes], value: Any) -> float:
    snapshot: Any = None
    async with _client(chunks) as client:
        start = time.perf_counter()
        async with client.messages.stream(**_REQUEST) as stream:
            async for event in stream:
                if event.type == "input_json":
                    snapshot = event.snapshot
        elapsed = time.perf_counter() - start
    assert snapshot == value
    return elapsed


async def _run_some(chunks: list[bytes]) -> float:
    """Seconds that the last `_DELTAS` deltas of an unfinished body take."""
    deltas = sum(_DELTA in chunk for chunk in chunks)
    taken = 0
    start = 0.0
    async with _client(chunks) as client, client.messages.stream(**_REQUEST) as stream:
        async for event in stream:
            if event.type == "input_json":
                taken += 1
                if taken == deltas - _DELTAS:
                    start = time.perf_counter()
                elif taken == deltas:
                    break
        elapsed = time.perf_counter() - start
    assert taken == deltas
    return elapsed


def _entered(chunks: list[bytes], text: str, place: int, fragment_chars: int) -> list[bytes]:
    """The body up to `_DELTAS` fragments from `place` on, with all fragments before as one."""
    first = next(at for at, chunk in enumerate(chunks) if _DELTA in chunk) + 1  # after the empty one that comes first
    delta = {"type": "input_json_delta", "partial_json": text[: place * fragment_chars]}
    before = encode_event({"type": "content_block_delta", "index": 0, "delta": delta})
    return [*chunks[:first], before, *chunks[first + place : first + place + _DELTAS]]


def _sampled_s(chunks: list[bytes], text: str, fragment_chars: int) -> float:
    """Seconds that `messages.stream()` takes for a delta, as the mean of those at evenly spaced places."""
    count = -(-len(text) // fragment_chars) - _DELTAS
    places = [int((number + 0.5) * count / _PLACES) for number in range(_PLACES)]
    bodies = [_entered(chunks, text, place, fragment_chars) for place in places]
    # The mean, and not the best of several: full garbage collections are rare, and much of the cost of numbers.
    times = [anyio.run(_run_some, body) for body in bodies]
    return sum(times) / len(times) / _DELTAS


def _best(run: Callable[[], float], repeats: int) -> float:
    return min(run() for _ in range(repeats))


def _anthropic_s(chunks: list[bytes], value: Any, fragment_chars: int, budget_s: float) -> tuple[float, bool]:
    """Seconds per event of `messages.stream()`, and whether they come from a sample."""
    text = json.dumps(value, ensure_ascii=False)
    sampled_s = _sampled_s(chunks, text, fragment_chars)
    whole_s = sampled_s * len(chunks)
    if whole_s > budget_s:
        return sampled_s, True
    repeats = max(1, min(5, int(budget_s / whole_s)))
    return _best(lambda: anyio.run(_run_anthropic, chunks, value), repeats) / len(chunks), False


def measure(kind: str, size: int, fragment_chars: int, *, budget_s: float) -> Cell:
    """One cell; the two sides directly after each other, ours first (a warm-up for both)."""
    value = make_input(kind, size)
    text = json.dumps(value, ensure_ascii=False)
    chunks = body_chunks(text, fragment_chars)
    repeats = max(1, min(20, 20_000 // len(chunks)))
    gc.collect()
    core_s = _best(lambda: _run_core(chunks, value), repeats)
    stream_s = _best(lambda: anyio.run(_run_stream, chunks, value), repeats)
    other_s, sampled = _anthropic_s(chunks, value, fragment_chars, budget_s)
    return Cell(
        kind=kind,
        size=size,
        input_chars=len(text),
        fragment_chars=fragment_chars,
        events=len(chunks),
        core_us=core_s / len(chunks) * 1e6,
        stream_us=stream_s / len(chunks) * 1e6,
        anthropic_us=other_s * 1e6,
        anthropic_sampled=sampled,
    )


def exponent(cells: list[Cell]) -> float:
    """How the core's total time grows with the input's size, from 10 KB on: 1 is linear, 2 quadratic."""
    large = [cell for cell in cells if cell.input_chars > 5_000]
    sizes = np.log([cell.input_chars for cell in large])
    totals = np.log([cell.core_us * cell.events for cell in large])
    return float(np.polyfit(sizes, totals, 1)[0])


_TARGETS = (
    (1_000, KINDS, 15),
    (10_000, KINDS, 25),
    (1_000_000, ("one string",), 250),
    (1_000_000, ("numbers",), 1_500),
)
"""Of inputs of this size and of these kinds: how many times cheaper the core is to be, at the least."""


def _rows(cells: list[Cell]) -> list[Row]:
    rows = []
    for size, kinds, least in _TARGETS:
        found = [
            cell for cell in cells if (cell.size, cell.fragment_chars) == (size, MEDIAN_FRAGMENT) and cell.kind in kinds
        ]
        core = min((cell.core_ratio for cell in found), default=0.0)
        stream = min((cell.stream_ratio for cell in found), default=0.0)
        which = "any kind" if kinds is KINDS else kinds[0]
        rows.append(
            Row(
                work=f"bytes to updates with a partial at every delta, {size:,} characters, {which}",
                against="anthropic messages.stream()",
                target=f"at least {least:,} times cheaper",
                measured=f"core {core:,.0f} times, stream() {stream:,.0f} times" if found else "not in a quick run",
                met=core >= least if found else None,
            )
        )
    return rows


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all cells, print a table, and give the figures."""
    sizes = SIZES[:3] if quick else SIZES
    plan = [(kind, size, chars) for kind in KINDS for chars in FRAGMENTS for size in sizes]
    budget_s = 1.0 if quick else 5.0
    cells = [
        measure(kind, size, chars, budget_s=budget_s)
        for kind, size, chars in track(plan, "bytes to events", console=Console(stderr=True), transient=True)
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
                about = "~" if cell.anthropic_sampled else ""
                table.add_row(
                    kind,
                    f"{cell.input_chars:,}",
                    str(chars),
                    f"{cell.core_us:.1f}",
                    f"{cell.stream_us:.1f}",
                    f"{about}{cell.anthropic_us:,.1f}",
                    f"{about}{cell.core_ratio:,.1f}",
                    f"{about}{cell.stream_ratio:,.1f}",
                    f"{growths[f'{kind}/{chars}']:.2f}" if cell is row[-1] else "",
                )
            table.add_section()
    console.print(table)
    return {
        "cells": [{**asdict(cell), "core_ratio": cell.core_ratio, "stream_ratio": cell.stream_ratio} for cell in cells],
        "growth_exponents": growths,
        "rows": [asdict(row) for row in _rows(cells)],
    }
