"""The targets of `CodeTool`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..targets import Row
from .sides import AT_END, EAGER, EARLY, IN_MONTY, NO_BUDGET, SPECULATE, STREAMING, Side
from .tasks import EDITS, FETCH, ONE_BY_ONE, PROTOTYPE, Task

Times = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Seconds of a side in a task: `{side: {task: {"effect_s": float, "end_s": float}}}`."""

_MOST_READ: Final = 2.1
_LINEAR: Final = 1.02
_AT_ONCE: Final = "without pauses"
_LATE: Final = "the same code, run at the end of its input"
_EAGER: Final = "CodeMode(eager=True) of pydantic-ai-harness"
_SPECULATE: Final = "CodeMode(eager=True, speculate=[...]) of pydantic-ai-harness"


def paced_rows(sides: Times) -> Iterator[Row]:
    """Yield the targets of the tasks."""
    end, effect = "time to the end", "time to the first effect"
    yield from _times(sides, PROTOTYPE, end, STREAMING, AT_END, _LATE, 0.75)
    yield from _times(sides, FETCH, end, STREAMING, AT_END, _LATE, 0.75)
    yield from _times(sides, PROTOTYPE, effect, STREAMING, AT_END, _LATE, 0.25)
    yield from _times(sides, FETCH, effect, STREAMING, AT_END, _LATE, 0.5)
    yield from _times(sides, EDITS, effect, STREAMING, AT_END, _LATE, 0.25)
    # The start of the process is in the first, and there is none before the model writes.
    yield from _times(sides, PROTOTYPE, effect, STREAMING, EAGER, _EAGER, 1, asserted=False)
    yield from _times(sides, PROTOTYPE, effect, IN_MONTY, EAGER, _EAGER, 0.75, asserted=False)
    yield from _times(sides, FETCH, effect, STREAMING, EAGER, _EAGER, 1, asserted=False)
    yield from _times(sides, EDITS, effect, STREAMING, EAGER, _EAGER, 0.75)
    yield from _times(sides, ONE_BY_ONE, end, EARLY, AT_END, _LATE, 0.5)
    yield from _times(sides, ONE_BY_ONE, end, EARLY, SPECULATE, _SPECULATE, 1.05, asserted=False)


def _times(
    sides: Times, task: Task, what: str, side: Side, other: Side, against: str, limit: float, *, asserted: bool = True
) -> Iterator[Row]:
    """Yield a target for the times of two sides, if the first of them was measured."""
    name = "end_s" if what == "time to the end" else "effect_s"
    ours_s, theirs_s = (sides.get(each.name, {}).get(task.name, {}).get(name) for each in (side, other))
    if ours_s is None:
        return
    measured, met = "not installed", None
    if theirs_s is not None:
        measured = f"{ours_s / theirs_s:.2f} times ({ours_s:.2f} and {theirs_s:.2f} s)"
        met = ours_s <= limit * theirs_s
    yield Row(
        work=f"{side.name}, {task.name}: {what}",
        against=against,
        pace=f"{task.tokens_per_second:,.0f} tokens per second",
        target=f"at most {limit:g} times",
        measured=measured,
        met=met,
        asserted=asserted,
    )


def _read_chars(cell: Mapping[str, Any]) -> int:
    """Return the characters that were read as Python."""
    return int(cell["code_chars"] + cell["compiled_chars"])


def _exponent(cells: Sequence[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], int]) -> float:
    """Return the exponent of growth from the first to the last cell. 1 is linear, 2 quadratic."""
    first, last = cells[0], cells[-1]
    return math.log(read(last) / read(first)) / math.log(last["chars"] / first["chars"])


def sized_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield the targets of the characters and the CPU."""
    ours, theirs, unbounded = (
        [cell for cell in cells if cell["side"] == side.name] for side in (STREAMING, EAGER, NO_BUDGET)
    )
    most = max(_read_chars(cell) / cell["chars"] for cell in ours)
    exponent = _exponent(ours, _read_chars)
    yield Row(
        work="CodeTool: characters read as Python, 1 to 100 KB of code",
        against="the length of the code",
        pace=_AT_ONCE,
        target=f"at most {_MOST_READ:g} times, exponent at most {_LINEAR:g}",
        measured=f"{most:.2f} times, exponent {exponent:.2f}",
        met=most <= _MOST_READ and exponent <= _LINEAR,
    )
    measured, met = "not installed", None
    if theirs:
        early = [f"{cell['early_chars'] / cell['chars']:.0%} of {cell['chars']:,}" for cell in theirs]
        ours_early = [cell["early_chars"] / cell["chars"] for cell in ours]
        measured = f"{min(ours_early):.0%} of each; theirs {', '.join(early)} characters"
        if unbounded:
            growth = _exponent(unbounded, lambda cell: cell["json_chars"])
            measured += f" (characters decoded as JSON, without the budget: exponent {growth:.2f})"
        met = min(ours_early) >= max(0.9, theirs[-1]["early_chars"] / theirs[-1]["chars"])
    yield Row(
        work="CodeTool: share of the code that is compiled before its end, 1 to 100 KB",
        against=_EAGER,
        pace=_AT_ONCE,
        target="at least 90% of each, and more than theirs of 100 KB",
        measured=measured,
        met=met,
        asserted=False,
    )
    if theirs:
        ratio = ours[-1]["cpu_s"] / theirs[-1]["cpu_s"]
        yield Row(
            work=f"CodeTool: CPU of a run with {ours[-1]['chars']:,} characters of code",
            against=_EAGER,
            pace=_AT_ONCE,
            target="at most 1 times",
            measured=f"{ratio:.2f} times: {ours[-1]['cpu_s']:.2f} and {theirs[-1]['cpu_s']:.2f} s",
            met=ratio <= 1,
            asserted=False,
        )
