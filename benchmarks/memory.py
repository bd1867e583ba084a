"""Memory of an input of 16 MB while it streams in fragments of 8 characters, as a multiple of its size.

Each kind of input has its own process, in which the wire core gets a body that is written while it is read. Two figures
are measured: the growth of the process (Linux: `VmHWM`, reset before the start), and the rest after the input has
ended, with its value and its text. Another column is the memory of the value alone, as `json.loads` makes it, without
the text, by `tracemalloc`. As a check, `tracemalloc` also reports the peak of a smaller input. It is too slow for a
large one.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import resource
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from eagerstream_wire import Outcome

from .long_inputs import END_OF_INPUT, LONG_KINDS, events_of, fragments_of, text_of
from .targets import Row
from .wire_core import LONG_INPUTS, WireCore

FRAGMENT_CHARS: Final = 8
PACE: Final = "one event per chunk, without pauses"
TARGET: Final = 3.0
_ASSERTED: Final = "one string"
_STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True)
class Use:
    """Growth in bytes: at most, and at the end."""

    peak: int
    left: int


@dataclass(frozen=True)
class Cell:
    """Figures of one kind of input, as multiples of its size in UTF-8: `size`, or `traced_size` for the traced ones."""

    kind: str
    size: int
    peak: float
    left: float
    value: float
    traced_size: int
    traced_peak: float
    traced_left: float


def _stream(kind: str, chars: int) -> WireCore:
    """Feed the complete input. Return the core that holds it."""
    core = WireCore(LONG_INPUTS)
    for event in events_of(fragments_of(text_of(kind, chars), FRAGMENT_CHARS)):
        core.feed(event)
    core.feed(END_OF_INPUT)
    assert core.assembler.inputs[0].outcome is Outcome.VALID
    return core


def _check(kind: str, chars: int, core: WireCore) -> None:
    assert core.assembler.inputs[0].value == json.loads("".join(text_of(kind, chars)))


def _resident(name: str) -> int:
    """Return `VmRSS` or `VmHWM` of this process, in bytes. Without /proc, return the peak for both."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident(kind: str, chars: int) -> Use:
    """Return the growth of the process."""
    _stream(kind, 10_000)  # a warm-up: loads modules
    gc.collect()
    if _STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")  # sets VmHWM back to VmRSS
    before = _resident("VmRSS")
    held = _stream(kind, chars)
    peak = _resident("VmHWM")
    gc.collect()
    left = _resident("VmRSS")
    _check(kind, chars, held)
    return Use(peak - before, left - before)


def traced(kind: str, chars: int) -> Use:
    """Return the memory that Python allocates."""
    _stream(kind, 10_000)
    gc.collect()
    tracemalloc.start()
    held = _stream(kind, chars)
    peak = tracemalloc.get_traced_memory()[1]
    gc.collect()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    _check(kind, chars, held)
    return Use(peak, left)


def value(kind: str, chars: int) -> int:
    """Return the bytes of the value of `json.loads`, without the text."""
    text = "".join(text_of(kind, chars))
    tracemalloc.start()
    held = json.loads(text)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held
    return size


def _in_a_process(function: Callable[[str, int], Any], kind: str, chars: int) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, kind, chars).result()


def _size(kind: str, chars: int) -> int:
    return sum(len(piece.encode()) for piece in text_of(kind, chars))


def measure(kind: str, chars: int, traced_chars: int) -> Cell:
    """Measure one kind of input."""
    size, traced_size = _size(kind, chars), _size(kind, traced_chars)
    use: Use = _in_a_process(resident, kind, chars)
    check: Use = _in_a_process(traced, kind, traced_chars)
    value_size: int = _in_a_process(value, kind, chars)
    return Cell(
        kind,
        size,
        use.peak / size,
        use.left / size,
        value_size / size,
        traced_size,
        check.peak / traced_size,
        check.left / traced_size,
    )


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all kinds, print a table, and return the figures."""
    chars, traced_chars = (2_000_000, 500_000) if quick else (16_000_000, 1_000_000)
    cells = [
        measure(kind, chars, traced_chars) for kind in track(LONG_KINDS, "memory", console=console, transient=True)
    ]
    table = Table(title=f"memory while {chars / 1e6:g} MB of input stream, as multiples of the input")
    for name in ("input", "peak", "left", "value alone", f"traced, {traced_chars / 1e6:g} MB: peak", "left"):
        table.add_column(name, justify="left" if name == "input" else "right")
    for cell in cells:
        multiples = (cell.peak, cell.left, cell.value, cell.traced_peak, cell.traced_left)
        table.add_row(cell.kind, *(f"{multiple:.2f}" for multiple in multiples))
    console.print(table)
    rows = [
        Row(
            work=f"memory while {cell.size / 1e6:.0f} MB of input stream: {cell.kind}",
            against="the size of the input in UTF-8",
            pace=PACE,
            target=f"at most {TARGET:g} times",
            measured=f"{cell.peak:.2f} times: {cell.peak * cell.size / 1e6:.1f} and {cell.size / 1e6:.1f} MB, of which"
            f" the value alone {cell.value:.2f} times; {cell.left:.2f} times are left",
            met=cell.peak <= TARGET,
            asserted=cell.kind == _ASSERTED,  # for other kinds, the value alone may exceed the target
        )
        for cell in cells
    ]
    return {"cells": [asdict(cell) for cell in cells], "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    main(Console(), quick=True)
