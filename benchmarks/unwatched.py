"""Bytes to updates without a read of `partial`, compared with `jiter.from_json` on each `data:` line.

On our side, the wire core makes events from the chunks of a body. It decodes the event stream, stores the text of each
input, checks its size, and makes an `InputDelta` for each fragment. The benchmark iterates over all events. It never
reads `partial`, and the values are made at the end. The other side gets its lines already split and discards the
decoded events: it does less work. Both alternate in one process, and the least of many repetitions counts. The figures
are costs per event.

Each synthetic input has 100 KB and its own response, with a text of 50 KB before it and padded events. The recorded
responses are those with tool inputs, one after the other. They are not part of the project, and
`EAGERSTREAM_RECORDINGS` names their folder.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

import jiter
from rich.console import Console
from rich.progress import track
from rich.table import Table

from eagerstream._support.bodies import body_events, is_fragment
from eagerstream_wire import InputStop, Outcome, ServerToolUse

from . import flavors
from .flavors import Flavor
from .streams import KINDS, body_chunks, make_input, recorded_bodies
from .targets import Row
from .wire_core import WireCore

PACE: Final = "all bytes at hand"
INPUT_CHARS: Final = 100_000
FRAGMENTS: Final = (4, 7, 16, 64)
MEDIAN_FRAGMENT: Final = 7  # characters, of recorded streams
RECORDED: Final = "recorded responses"
CHUNKINGS: Final = {"one event": 0, "1,460 bytes": 1_460}
"""Sizes of chunks in bytes. 0 means a chunk for each event. 1,460 is the size of a TCP segment."""
_RUNS: Final = 5  # at least
_TARGETS: Final = {Flavor.PURE: 4.0, Flavor.COMPILED: 2.5}
_NOISE: Final = 1.15  # a run fails only above this multiple of its target


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One body with one size of chunks.

    Attributes:
        flavor: Flavor of the measured process.
        kind: Kind of the input, or `RECORDED`.
        fragment_chars: Length of a fragment, in characters. 0 if their lengths differ.
        chunking: One of `CHUNKINGS`.
        events: Number of events in the body.
        core_us: Microseconds per event of ours.
        jiter_us: Microseconds per event of `jiter.from_json`.
    """

    flavor: str
    kind: str
    fragment_chars: int
    chunking: str
    events: int
    core_us: float
    jiter_us: float

    @property
    def ratio(self) -> float:
        """Our time, divided by that of `jiter.from_json`."""
        return self.core_us / self.jiter_us


# --- measuring, in a process of one flavor ----------------------------------------------------------------------------


def _run_core(chunks: Sequence[bytes]) -> tuple[float, WireCore]:
    core = WireCore()
    feed = core.feed
    start = time.perf_counter()
    for chunk in chunks:
        for _ in feed(chunk):
            pass
    return time.perf_counter() - start, core


def _run_jiter(lines: Sequence[bytes]) -> float:
    from_json = jiter.from_json
    start = time.perf_counter()
    for line in lines:
        from_json(line)
    return time.perf_counter() - start


def _values(core: WireCore) -> list[object]:
    """Return the values of the inputs of the last message."""
    return [input.value for input in core.assembler.inputs.values()]


def _verified(chunks: Sequence[bytes], lines: Sequence[bytes]) -> list[object]:
    """Return the expected result of `_values`. Check that no fragment is lost, and that each value equals its text."""
    core = WireCore()
    events = [event for chunk in chunks for event in core.feed(chunk)] + core.assembler.close()
    stopped = [event.input for event in events if isinstance(event, InputStop | ServerToolUse)]
    assert not core.assembler.lost_fragments
    fragments = [event["delta"]["partial_json"] for event in map(json.loads, lines) if is_fragment(event)]
    assert sum(len(input.raw) for input in stopped) == sum(map(len, fragments)) > 0
    for input in stopped:
        if input.outcome is Outcome.VALID and input.raw:
            assert input.value == json.loads(input.raw)
    return _values(core)


def _compare(chunks: Sequence[bytes], lines: Sequence[bytes], budget_s: float) -> tuple[float, float]:
    """Return the least seconds of ours and of jiter's."""
    values = _verified(chunks, lines)
    core_s = jiter_s = float("inf")
    end = time.perf_counter() + budget_s
    runs = 0
    while runs < _RUNS or time.perf_counter() < end:
        runs += 1
        gc.collect()
        elapsed_s, core = _run_core(chunks)
        core_s = min(core_s, elapsed_s)
        assert _values(core) == values
        jiter_s = min(jiter_s, _run_jiter(lines))
    return core_s, jiter_s


def _single_events(body: bytes) -> list[bytes]:
    ends = [0, *(event.end for event in body_events(body))]
    return [body[start:end] for start, end in pairwise(ends)]


def _cut(events: Sequence[bytes], size: int) -> Sequence[bytes]:
    """Return the body in chunks of so many bytes, or its events if `size` is 0."""
    if not size:
        return events
    body = b"".join(events)
    return [body[at : at + size] for at in range(0, len(body), size)]


def _bodies() -> dict[tuple[str, int], list[bytes]]:
    """Return the events of each body, by kind and length of fragments. Recorded responses are included if present."""
    bodies: dict[tuple[str, int], list[bytes]] = {}
    if recorded := recorded_bodies():
        bodies[RECORDED, 0] = [event for body in recorded for event in _single_events(body)]
    for kind in KINDS:
        text = json.dumps(make_input(kind, INPUT_CHARS), ensure_ascii=False)
        for fragment_chars in FRAGMENTS:
            bodies[kind, fragment_chars] = body_chunks(text, fragment_chars)
    return bodies


def measure(flavor: str, budget_s: float) -> list[dict[str, Any]]:
    """Measure all cells. Return them as plain data. `budget_s` is for each cell."""
    cells: list[Cell] = []
    for (kind, fragment_chars), events in _bodies().items():
        lines = [event.partition(b"data: ")[2].rstrip() for event in events]
        for chunking, size in CHUNKINGS.items():
            core_s, jiter_s = _compare(_cut(events, size), lines, budget_s)
            cells.append(
                Cell(
                    flavor=flavor,
                    kind=kind,
                    fragment_chars=fragment_chars,
                    chunking=chunking,
                    events=len(events),
                    core_us=core_s / len(events) * 1e6,
                    jiter_us=jiter_s / len(events) * 1e6,
                )
            )
    return [asdict(cell) for cell in cells]


# --- tables and targets -----------------------------------------------------------------------------------------------


def _table(cells: Sequence[Cell]) -> Table:
    table = Table(title="bytes to updates, `partial` never read: µs per event, and ratio to jiter alone")
    for name in ("input", "fragment", "chunks of", "events"):
        table.add_column(name, justify="left" if name in ("input", "chunks of") else "right", no_wrap=True)
    found: dict[tuple[str, int, str], dict[str, Cell]] = {}
    for cell in cells:
        found.setdefault((cell.kind, cell.fragment_chars, cell.chunking), {})[cell.flavor] = cell
    here = [flavor for flavor in Flavor if any(cell.flavor == flavor for cell in cells)]
    for flavor in here:
        for name in (flavor, "jiter", "times"):
            table.add_column(name, justify="right")
    last = ""
    for (kind, fragment_chars, chunking), by_flavor in found.items():
        if kind != last:
            table.add_section()
            last = kind
        figures = [
            figure
            for flavor in here
            for cell in [by_flavor[flavor]]
            for figure in (f"{cell.core_us:.2f}", f"{cell.jiter_us:.2f}", f"{cell.ratio:.2f}")
        ]
        events = by_flavor[here[0]].events
        table.add_row(kind, str(fragment_chars or "any"), chunking, f"{events:,}", *figures)
    return table


def _row(cells: Sequence[Cell], flavor: Flavor, why: str) -> Row:
    one_event = [cell for cell in cells if cell.flavor == flavor and cell.chunking == "one event"]
    judged = [cell for cell in one_event if cell.fragment_chars == MEDIAN_FRAGMENT]
    worst = max(judged, key=lambda cell: cell.ratio, default=None)
    recorded = next((_both(cell) for cell in one_event if cell.kind == RECORDED), "not here")
    most = _TARGETS[flavor]
    return Row(
        work=f"bytes to updates, `partial` never read, {flavor}",
        against="jiter.from_json on each data: line",
        pace=PACE,
        target=f"at most {most:g} times at fragments of {MEDIAN_FRAGMENT}, one event per chunk"
        f" (a run fails above {most * _NOISE:.2f})",
        measured=f"{_both(worst)} ({worst.kind}); {RECORDED}: {recorded}" if worst else why,
        met=worst.ratio <= most if worst else None,
        asserted=worst is None or not most < worst.ratio <= most * _NOISE,
    )


def _both(cell: Cell) -> str:
    return f"{cell.ratio:.2f} times, {cell.core_us:.2f} and {cell.jiter_us:.2f} µs"


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure both flavors, print a table, and return the figures."""
    missing = flavors.available()
    cells: list[Cell] = []
    here = [flavor for flavor in Flavor if not missing[flavor]]
    for flavor in track(here, "unwatched", console=Console(stderr=True), transient=True):
        found = flavors.measure(flavor, measure, flavor=flavor, budget_s=0.1 if quick else 0.5)
        cells += [Cell(**cell) for cell in found]
    console.print(_table(cells))
    if not recorded_bodies():
        console.print(f"{RECORDED}: not here; set EAGERSTREAM_RECORDINGS to their folder")
    rows = [_row(cells, flavor, missing[flavor]) for flavor in Flavor]
    return {"cells": [{**asdict(cell), "ratio": cell.ratio} for cell in cells], "rows": [asdict(row) for row in rows]}
