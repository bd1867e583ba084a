"""Bytes to events, with a read of `partial` at every delta: eagerstream compared with `messages.stream()`.

Both use the same anthropic client, on a transport in memory that returns one event per chunk. The response is padded. A
third of its characters is a text, and the rest is the input of a call. The figures are for an event of either. The wire
core is also measured alone, without a client, in both flavors. `messages.stream()` parses the complete input again at
each delta. Its largest cells would take hours. If a complete run takes longer than `budget_s`, the benchmark measures
deltas at evenly spaced places. The mean of these stands for all deltas of the input, with the mark "~". All other
events are measured. The input before a place arrives as one delta, which leaves the client in the same state as many
deltas. A run that stops early would leave out the slowest deltas.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import anyio
import httpx2
import numpy as np
from anthropic import AsyncAnthropic
from rich.console import Console
from rich.progress import track
from rich.table import Table

import eagerstream
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream_testing import encode_event
from eagerstream_wire import InputDelta

from . import flavors
from .flavors import Flavor
from .streams import KINDS, arriving, body_chunks, make_input
from .targets import Row
from .wire_core import LONG_INPUTS, WireCore

PACE = "all bytes at hand, one event per chunk"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
FRAGMENTS = (4, 7, 16, 64)
MEDIAN_FRAGMENT = 7  # characters, of recorded streams
_USUAL_CHARS: Final = 100_000
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
_DELTA = b"input_json_delta"
_TEXT_DELTA = b"text_delta"
_DELTAS = 20  # measured at each place
_PLACES = 20
_BEST_S = 0.3  # time for the repetitions of a side, of which the best counts


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One stream: µs per event of each side.

    Attributes:
        kind: Kind of the input, of `KINDS`.
        size: Requested length of the input, in characters.
        input_chars: Actual length of the input, in characters.
        fragment_chars: Length of a fragment, in characters.
        events: Number of events in the body.
        core_us: Figures of the wire core, for each available flavor.
        stream_us: Figure of `eagerstream.stream()`.
        anthropic_us: Figure of `messages.stream()`.
        anthropic_sampled: `anthropic_us` is an estimate from evenly spaced places.
    """

    kind: str
    size: int
    input_chars: int
    fragment_chars: int
    events: int
    core_us: dict[str, float]
    stream_us: float
    anthropic_us: float
    anthropic_sampled: bool

    @property
    def core_ratios(self) -> dict[str, float]:
        """Time of `messages.stream()`, divided by the wire core's, by flavor."""
        return {flavor: self.anthropic_us / us for flavor, us in self.core_us.items()}

    @property
    def stream_ratio(self) -> float:
        """Time of `messages.stream()`, divided by that of `eagerstream.stream()`. Both use the client's transport."""
        return self.anthropic_us / self.stream_us


def _client(chunks: list[bytes]) -> AsyncAnthropic:
    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            async for chunk in arriving(chunks):
                yield chunk

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body())

    return AsyncAnthropic(api_key="k", http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))


def _limits(size: int) -> Limits:
    return LONG_INPUTS if size > _USUAL_CHARS else DEFAULT_LIMITS


def _run_core(chunks: list[bytes], value: Any, limits: Limits) -> float:
    core = WireCore(limits)
    start = time.perf_counter()
    for chunk in chunks:
        for event in core.feed(chunk):
            if type(event) is InputDelta:
                _ = event.input.partial  # the read of `partial` is measured
    elapsed = time.perf_counter() - start
    assert core.assembler.inputs[1].value == value
    return elapsed


async def _run_stream(chunks: list[bytes], value: Any, limits: Limits) -> float:
    async with _client(chunks) as client:
        start = time.perf_counter()
        async with eagerstream.stream(client, buffer="wait", limits=limits, **_REQUEST) as stream:
            async for event in stream:
                if type(event) is InputDelta:
                    _ = event.input.partial
        elapsed = time.perf_counter() - start
    assert stream.inputs[1].value == value
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
    """Return the seconds that the last `_DELTAS` deltas of an unfinished body take."""
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
    """Return the body up to `_DELTAS` fragments after `place`. The fragments before `place` are one.

    It has no text. The client keeps the text in another block, which does not change the cost of an input's delta.
    """
    first = next(at for at, chunk in enumerate(chunks) if _DELTA in chunk) + 1  # after the empty first delta
    delta = {"type": "input_json_delta", "partial_json": text[: place * fragment_chars]}
    before = encode_event({"type": "content_block_delta", "index": 1, "delta": delta})
    start = [chunk for chunk in chunks[:first] if _TEXT_DELTA not in chunk]
    return [*start, before, *chunks[first + place : first + place + _DELTAS]]


def _sampled_s(chunks: list[bytes], text: str, fragment_chars: int) -> float:
    """Return the seconds that `messages.stream()` takes for a delta of the input: the mean of evenly spaced places."""
    count = -(-len(text) // fragment_chars) - _DELTAS
    places = [int((number + 0.5) * count / _PLACES) for number in range(_PLACES)]
    bodies = [_entered(chunks, text, place, fragment_chars) for place in places]
    # The mean, not the best of several: full garbage collections are rare, but a large part of the cost of numbers.
    times = [anyio.run(_run_some, body) for body in bodies]
    return sum(times) / len(times) / _DELTAS


def _best(run: Callable[[], float], least_runs: int = 3) -> float:
    """Return the seconds of the shortest run. Run `least_runs` times, then until `_BEST_S` has passed."""
    end = time.perf_counter() + _BEST_S
    best_s = min(run() for _ in range(least_runs))
    while time.perf_counter() < end:
        best_s = min(best_s, run())
    return best_s


def _anthropic_s(chunks: list[bytes], value: Any, fragment_chars: int, budget_s: float) -> tuple[float, bool]:
    """Return the seconds per event of `messages.stream()`, and `True` if they come from a sample."""
    text = json.dumps(value, ensure_ascii=False)
    if len(chunks) > _DELTAS * _PLACES:  # else a complete run is not longer than the sample
        others = [chunk for chunk in chunks if _DELTA not in chunk]
        deltas_s = _sampled_s(chunks, text, fragment_chars) * (len(chunks) - len(others))
        if deltas_s > budget_s:
            return (deltas_s + anyio.run(_run_anthropic, others, None)) / len(chunks), True
    return _best(lambda: anyio.run(_run_anthropic, chunks, value), 1) / len(chunks), False


def _stream_of(kind: str, size: int, fragment_chars: int) -> tuple[Any, str, list[bytes]]:
    """Return the input, its text, and the body in chunks."""
    value = make_input(kind, size)
    text = json.dumps(value, ensure_ascii=False)
    return value, text, body_chunks(text, fragment_chars)


def measure_core(kind: str, sizes: list[int], fragment_chars: int) -> list[float]:
    """Return the microseconds per event of the wire core in the flavor of this process, for each size."""
    figures = []
    for size in sizes:
        value, _, chunks = _stream_of(kind, size, fragment_chars)
        gc.collect()
        figures.append(_best(partial(_run_core, chunks, value, _limits(size))) / len(chunks) * 1e6)
    return figures


def measure(kind: str, size: int, fragment_chars: int, core_us: dict[str, float], budget_s: float) -> Cell:
    """Measure one cell: both clients, one directly after the other. `core_us` is already measured."""
    value, text, chunks = _stream_of(kind, size, fragment_chars)
    gc.collect()
    stream_s = _best(lambda: anyio.run(_run_stream, chunks, value, _limits(size)))
    other_s, sampled = _anthropic_s(chunks, value, fragment_chars, budget_s)
    return Cell(
        kind=kind,
        size=size,
        input_chars=len(text),
        fragment_chars=fragment_chars,
        events=len(chunks),
        core_us=core_us,
        stream_us=stream_s / len(chunks) * 1e6,
        anthropic_us=other_s * 1e6,
        anthropic_sampled=sampled,
    )


def _measure_all(here: list[Flavor], *, quick: bool) -> list[Cell]:
    plan = [(kind, fragment_chars) for kind in KINDS for fragment_chars in FRAGMENTS]
    cells: list[Cell] = []
    for kind, fragment_chars in track(plan, "bytes to events", console=Console(stderr=True), transient=True):
        # 1 MB takes minutes, and its targets are for fragments of the median length of recorded streams.
        sizes = list(SIZES if fragment_chars == MEDIAN_FRAGMENT and not quick else SIZES[:-1])
        lines = {
            flavor: flavors.measure(flavor, measure_core, kind=kind, sizes=sizes, fragment_chars=fragment_chars)
            for flavor in here
        }
        for place, size in enumerate(sizes):
            core_us = {str(flavor): line[place] for flavor, line in lines.items()}
            cells.append(measure(kind, size, fragment_chars, core_us, 0.5 if quick else 2.0))
    return cells


def exponent(cells: list[Cell]) -> float:
    """Return the growth exponent of the pure core's total time, for inputs from 10 KB: 1 is linear, 2 quadratic."""
    large = [cell for cell in cells if cell.input_chars > 5_000]
    sizes = np.log([cell.input_chars for cell in large])
    totals = np.log([cell.core_us[Flavor.PURE] * cell.events for cell in large])
    return float(np.polyfit(sizes, totals, 1)[0])


_TARGETS = (
    (1_000, KINDS, 15),
    (10_000, KINDS, 25),
    (1_000_000, ("one string",), 250),
    (1_000_000, ("numbers",), 1_500),
)
"""Size and kinds of inputs, and the smallest ratio at which the better flavor of the core is cheaper."""


def _rows(cells: list[Cell], here: list[Flavor]) -> list[Row]:
    rows = []
    for size, kinds, least in _TARGETS:
        found = [
            cell for cell in cells if (cell.size, cell.fragment_chars) == (size, MEDIAN_FRAGMENT) and cell.kind in kinds
        ]
        which = "any kind" if kinds is KINDS else kinds[0]
        cores = {flavor: min((cell.core_ratios[flavor] for cell in found), default=0.0) for flavor in here}
        rows.append(
            Row(
                work=f"bytes to updates with a partial at every delta, {size:,} characters, {which}",
                against="anthropic messages.stream()",
                pace=PACE,
                target=f"the better flavor of the core at least {least:,} times cheaper",
                measured=_sides(found, here) if found else "not in a quick run",
                met=max(cores.values()) >= least if found else None,
                asserted=not any(cell.anthropic_sampled for cell in found),  # an estimate varies by 10%
            )
        )
    return rows


def _sides(cells: list[Cell], here: list[Flavor]) -> str:
    """Return the least ratio of each of our sides, with the figures of both sides in that cell."""
    shown = []
    for flavor in here:
        cell = min(cells, key=lambda cell: cell.core_ratios[flavor])
        times = f"{cell.core_ratios[flavor]:,.0f} times"
        shown.append(f"core {times} ({flavor}: {cell.core_us[flavor]:.1f} and {cell.anthropic_us:,.0f} µs)")
    cell = min(cells, key=lambda cell: cell.stream_ratio)
    shown.append(f"stream() {cell.stream_ratio:,.0f} times ({cell.stream_us:.1f} and {cell.anthropic_us:,.0f} µs)")
    return ", ".join(shown)


def _table(cells: list[Cell], growths: dict[str, float]) -> Table:
    table = Table(title="bytes to events, partial value read at every delta: µs per event, and how many times cheaper")
    for name in (
        "input",
        "chars",
        "fragment",
        *Flavor,
        "stream()",
        "messages .stream()",
        *(f"times, {flavor}" for flavor in Flavor),
        "times, stream()",
        "growth",
    ):
        table.add_column(name, justify="left" if name == "input" else "right", no_wrap=name in ("input", "chars"))
    for number, cell in enumerate(cells):
        about = "~" if cell.anthropic_sampled else ""
        is_last = number + 1 == len(cells) or _line(cells[number + 1]) != _line(cell)
        table.add_row(
            cell.kind,
            f"{cell.input_chars:,}",
            str(cell.fragment_chars),
            *(f"{cell.core_us[flavor]:.2f}" if flavor in cell.core_us else "-" for flavor in Flavor),
            f"{cell.stream_us:.1f}",
            f"{about}{cell.anthropic_us:,.1f}",
            *(f"{about}{cell.core_ratios[flavor]:,.1f}" if flavor in cell.core_us else "-" for flavor in Flavor),
            f"{about}{cell.stream_ratio:,.1f}",
            f"{growths[_line(cell)]:.2f}" if is_last else "",
            end_section=is_last and number + 1 < len(cells),
        )
    return table


def _line(cell: Cell) -> str:
    """Return the same key for all cells that differ only in size."""
    return f"{cell.kind}/{cell.fragment_chars}"


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all cells, print a table, and return the figures."""
    missing = flavors.available()
    here = [flavor for flavor in Flavor if not missing[flavor]]
    cells = _measure_all(here, quick=quick)
    growths = {
        line: exponent([cell for cell in cells if _line(cell) == line]) for line in dict.fromkeys(map(_line, cells))
    }
    console.print(_table(cells, growths))
    return {
        "cells": [
            {**asdict(cell), "core_ratios": cell.core_ratios, "stream_ratio": cell.stream_ratio} for cell in cells
        ],
        "growth_exponents": growths,
        "rows": [asdict(row) for row in _rows(cells, here)],
    }
