"""What an input costs, counted instead of timed: lines executed, bytes allocated. The same on every machine."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any

_LINES = 3_000
"""Lines that any run may take, however small its input: making the objects, starting an event loop's task."""
_BYTES = 96 * 1024
"""Bytes that any run may take: the same objects, and caches of the standard library that fill as they like."""


def is_sampled(data: bytes, one_in: int) -> bool:
    """Counting is slow, so it is done for some inputs only; for the same ones on every run."""
    return zlib.crc32(data) % one_in == 0


def check_cost(run: Callable[[], object], size: int, *, lines_per_unit: float, bytes_per_unit: float) -> None:
    """`run`, fed `size` bytes or characters, must cost at most so much for each of them, and a constant."""
    lines = executed_lines(run)
    assert lines <= lines_per_unit * size + _LINES, f"{lines} lines for {size} bytes"
    peak = peak_bytes(run)
    assert peak <= bytes_per_unit * size + _BYTES, f"a peak of {peak} bytes for {size} bytes"


def check_kept(fill: Callable[[], object], bound: float) -> None:
    """What `fill` returns must keep no more than `bound` bytes alive, and a constant."""
    _forget_the_past()
    tracemalloc.start()
    try:
        filled = fill()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        del filled
    finally:
        tracemalloc.stop()
    assert kept <= bound + _BYTES, f"{kept} bytes are kept, of at most {bound:.0f}"


def executed_lines(run: Callable[[], object]) -> int:
    """Lines of eagerstream's own code that `run` executes. Work inside C is not seen: time limits are there for that."""
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
        return count

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        return count if "eagerstream" in frame.f_globals.get("__name__", "") else None

    earlier = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(earlier)
    return lines


@cache
def _forget_the_past() -> None:
    """Collections look only at what comes from here on: all that was imported costs 14 ms each time."""
    gc.collect()
    gc.freeze()


def peak_bytes(run: Callable[[], object]) -> int:
    """The most that `run` holds at any time."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
