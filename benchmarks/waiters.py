"""A fragment with a read of `partial` while 100 watchers wait, compared with the same fragment without a watcher.

The input has 100 KB in fragments of 7 characters, the median of recorded streams. The benchmark reads `partial` after
each fragment. The watchers wait for fields that never come. Both sides alternate in one process, and the least of
several repetitions counts. The figures are costs per fragment.
"""

from __future__ import annotations

import gc
import json
import time
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from eagerstream.inputs import GrowingInput
from eagerstream_wire import InputAccumulator

from .streams import KINDS, make_input
from .targets import Row

PACE: Final = "all fragments at hand, given one at a time"
INPUT_CHARS: Final = 100_000
FRAGMENT_CHARS: Final = 7
WATCHERS: Final = 100
_TARGET: Final = 1.3
_NOISE: Final = 1.15  # a run fails only above this multiple of the target


def _run(fragments: list[str], watchers: int) -> float:
    """Return the microseconds for a fragment and a read of `partial`, while so many watchers wait."""
    accumulator = InputAccumulator(input_type=GrowingInput)
    block = {"type": "tool_use", "id": "toolu_1", "name": "make_file", "input": {}}
    accumulator.feed({"type": "content_block_start", "index": 0, "content_block": block})
    input = accumulator.inputs[0]
    for number in range(watchers):
        input.watch(f"field {number}", callback=_ignore)
    feed = accumulator.feed
    gc.collect()
    start = time.perf_counter()
    for fragment in fragments:
        feed((0, fragment))
        assert input.partial is not None
    elapsed_s = time.perf_counter() - start
    assert input.raw == "".join(fragments)
    return elapsed_s / len(fragments) * 1e6


def _ignore(_: object) -> None: ...


def _measure(kind: str, repetitions: int) -> dict[str, Any]:
    text = json.dumps(make_input(kind, INPUT_CHARS), ensure_ascii=False)
    fragments = [text[at : at + FRAGMENT_CHARS] for at in range(0, len(text), FRAGMENT_CHARS)]
    alone_us = watched_us = float("inf")
    for _ in range(repetitions):
        alone_us = min(alone_us, _run(fragments, 0))
        watched_us = min(watched_us, _run(fragments, WATCHERS))
    return {"kind": kind, "alone_us": alone_us, "watched_us": watched_us, "ratio": watched_us / alone_us}


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure each kind of input, print a table, and return the figures."""
    kinds = track(KINDS, "waiters", console=Console(stderr=True), transient=True)
    cells = [_measure(kind, repetitions=3 if quick else 10) for kind in kinds]
    table = Table(title=f"µs for a fragment with a read of `partial`, and with {WATCHERS} watchers")
    for name in ("input", "read", f"{WATCHERS} watchers", "times"):
        table.add_column(name, justify="left" if name == "input" else "right")
    for cell in cells:
        table.add_row(cell["kind"], f"{cell['alone_us']:.2f}", f"{cell['watched_us']:.2f}", f"{cell['ratio']:.2f}")
    console.print(table)
    worst = max(cells, key=lambda cell: cell["ratio"])
    row = Row(
        work=f"a fragment with a read of `partial`, with {WATCHERS} watchers",
        against="the same without watchers",
        pace=PACE,
        target=f"at most {_TARGET:g} times (a run fails above {_TARGET * _NOISE:.2f})",
        measured=f"{worst['ratio']:.2f} times: {worst['watched_us']:.2f} and {worst['alone_us']:.2f} µs"
        f" ({worst['kind']})",
        met=worst["ratio"] <= _TARGET,
        asserted=not _TARGET < worst["ratio"] <= _TARGET * _NOISE,
    )
    return {"cells": cells, "rows": [asdict(row)]}
