"""A value after every fragment: `PartialJSON` in both flavors, parsers that read the text again, and jsonriver.

The documents are mixed: 45% is one long string with quotes, escapes and some letters beyond ASCII. The rest is records
of numbers, strings, an array, a flag and a null. "~" marks an estimate from a sample. Parsers that read the text again
are measured up to 1 MB: beyond, one parse of some takes minutes.

Counts show that jsonriver's consumer gets a value after each fragment that changes it. The case that equals `feed` and
a read of `value` has the fragments one at a time, as they arrive. jsonriver waits for each fragment, and the next one
comes after the consumer has read the value. This case is the target. If all fragments are at hand, jsonriver waits only
for its own awaits, but no stream has this advantage. A ReadableStream adds its own cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from . import flavors, jsonriver
from .flavors import Flavor
from .partial_value_cells import FLOOR, OURS, Cell, measure, measure_jsonriver
from .peers import PEERS
from .targets import Row

PACE = "all fragments at hand, given one at a time"
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
FRAGMENTS = (4, 16, 64)
PEER_SIZES = SIZES[:4]
LINEAR_FROM = 10_000  # characters; below, the parser's own start is a part of the cost
CROSSING_SIZES = (1_000, 2_000, 4_000, 8_000)
CROSSING_FRAGMENTS = (4, 7, 16)  # the median of recorded streams is 7


def exponent(cells: Iterable[Cell]) -> float:
    """Return the exponent of the total time over the document's size: 1 is linear, 2 quadratic."""
    large = [cell for cell in cells if cell.size >= LINEAR_FROM]
    totals = [cell.us * cell.chars for cell in large]  # proportional to the total time
    return float(np.polyfit(np.log([cell.chars for cell in large]), np.log(totals), 1)[0])


class Cells:
    """Cells by flavor, side, size and length of fragments."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._cells = {(cell.flavor, cell.side, cell.size, cell.fragment_chars): cell for cell in cells}

    def get(self, flavor: str, side: str, size: int, fragment_chars: int) -> Cell | None:
        """Return a cell, or None if this side was not measured on this document."""
        return self._cells.get((flavor, side, size, fragment_chars))

    def line(self, flavor: str, side: str, fragment_chars: int) -> list[Cell]:
        """Return one side at one length of fragments, sorted by size, from `LINEAR_FROM` on."""
        cells = [
            cell
            for cell in self._cells.values()
            if (cell.flavor, cell.side, cell.fragment_chars) == (flavor, side, fragment_chars)
        ]
        return sorted((cell for cell in cells if cell.size >= LINEAR_FROM), key=lambda cell: cell.size)

    def crossing(self, flavor: str) -> int | None:
        """Return the smallest size from which ours is cheaper than each other parser, or None."""
        crossing = None
        for size in reversed(CROSSING_SIZES):
            for fragment_chars in CROSSING_FRAGMENTS:
                ours = self._cells[flavor, OURS, size, fragment_chars]
                if ours.us >= self.cheapest_peer(flavor, size, fragment_chars).us:
                    return crossing
            crossing = size
        return crossing

    def closest(self, flavor: str, size: int) -> tuple[Cell, Cell]:
        """Return ours and the cheapest other parser at the length of fragments that gives the smallest ratio."""
        pairs = [
            (self._cells[flavor, OURS, size, fragment_chars], self.cheapest_peer(flavor, size, fragment_chars))
            for fragment_chars in CROSSING_FRAGMENTS
        ]
        return min(pairs, key=lambda pair: pair[1].us / pair[0].us)

    def cheapest_peer(self, flavor: str, size: int, fragment_chars: int) -> Cell:
        """Return the cheapest of the parsers that read the text again, from the same process."""
        found = [self.get(flavor, peer, size, fragment_chars) for peer in PEERS]
        return min((cell for cell in found if cell is not None), key=lambda cell: cell.us)


_SIDES: dict[str, tuple[str, str]] = {
    "pure": (Flavor.PURE, OURS),
    "compiled": (Flavor.COMPILED, OURS),
    "floor": (Flavor.PURE, FLOOR),
    **{f"jsonriver, {source}": ("", f"jsonriver, {source}") for source in jsonriver.SOURCES},
    **{peer: (Flavor.PURE, peer) for peer in PEERS},
}
"""Columns of the table, each with the flavor and the side of its cells."""


def _measure_all(*, quick: bool) -> tuple[list[Cell], list[Cell], dict[str, str]]:
    """Return the cells of all documents, the cells of the small ones, and the reason for each missing side."""
    missing = {str(flavor): why for flavor, why in flavors.available().items() if why}
    missing |= {name: "not installed" for name, peer in PEERS.items() if not peer.installed}
    peers = [name for name in PEERS if name not in missing]
    here = [flavor for flavor in Flavor if flavor not in missing]
    budget_s = 0.1 if quick else 1.0
    cells: list[Cell] = []
    for size in track(SIZES[:4] if quick else SIZES, "partial values", console=Console(stderr=True), transient=True):
        for flavor in here:
            compared = peers if flavor is Flavor.PURE and size in PEER_SIZES else []
            cells += _in_process(flavor, [size], FRAGMENTS, compared, budget_s)
        try:
            cells += measure_jsonriver(size, FRAGMENTS)
        except jsonriver.NotInstalledError as error:
            missing["jsonriver"] = str(error)
    # These take milliseconds at most: a fifth of the time is enough for a stable best run.
    small = [
        cell for flavor in here for cell in _in_process(flavor, CROSSING_SIZES, CROSSING_FRAGMENTS, peers, budget_s / 5)
    ]
    return cells, small, missing


def _in_process(
    flavor: Flavor, sizes: Sequence[int], fragments: Sequence[int], peers: Sequence[str], budget_s: float
) -> list[Cell]:
    cells = flavors.measure(
        flavor, measure, flavor=flavor, sizes=sizes, fragments=fragments, peers=peers, budget_s=budget_s
    )
    return [Cell(**cell) for cell in cells]


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _costs(cells: Cells) -> Table:
    table = _table("A value after every fragment: µs per fragment", "chars", "fragment", *_SIDES)
    for size in SIZES:
        for fragment_chars in FRAGMENTS:
            found = [cells.get(*side, size, fragment_chars) for side in _SIDES.values()]
            if any(found):
                table.add_row(f"{size:,}", str(fragment_chars), *map(_us, found))
        table.add_section()
    return table


def _us(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    return ("~" if cell.sampled else "") + (f"{cell.us:.2f}" if cell.us < 100 else f"{cell.us:,.0f}")


def _growths(cells: Cells) -> Table:
    sizes = f"{LINEAR_FROM:,} characters on"
    table = _table(f"Growth of the total time from {sizes}: 1 is linear, 2 quadratic", "fragment", *_SIDES)
    for fragment_chars in FRAGMENTS:
        lines = [cells.line(*side, fragment_chars) for side in _SIDES.values()]
        table.add_row(str(fragment_chars), *(f"{exponent(line):.2f}" if line else "-" for line in lines))
    return table


def _crossings(small: Cells) -> Table:
    columns = [column for flavor in Flavor for column in (flavor, "cheapest peer", "ratio")]
    table = _table(
        "Small documents: µs per fragment, compared with the cheapest parser that reads the text again",
        "chars",
        "fragment",
        *columns,
    )
    for size in CROSSING_SIZES:
        for fragment_chars in CROSSING_FRAGMENTS:
            texts: list[str] = []
            for flavor in Flavor:
                ours = small.get(flavor, OURS, size, fragment_chars)
                if ours is None:
                    texts += ["-", "-", "-"]
                    continue
                peer = small.cheapest_peer(flavor, size, fragment_chars)
                texts += [_us(ours), f"{peer.side} {_us(peer)}", f"{peer.us / ours.us:.1f}"]
            table.add_row(f"{size:,}", str(fragment_chars), *texts)
    return table


# --- targets ----------------------------------------------------------------------------------------------------------

_TARGETS_US = {Flavor.PURE: (1.3, 2.4, 7.5), Flavor.COMPILED: (0.5, 0.9, 2.5)}  # at fragments of 4, 16 and 64
_JITER = "jiter"
_EXPONENT = 1.03
_EXPONENT_FAILS = 1.10  # an exponent between the two may be noise
_TIMES_FLOOR = 6.0
_TIMES_JSONRIVER = 3.0
_CROSSING_CHARS = {Flavor.PURE: 4_000, Flavor.COMPILED: 2_000}
_SMALL_CHARS = 1_000  # most inputs are not longer
_MEDIAN_CHARS = 7  # of the fragments of recorded streams
_TIMES_JITER = {Flavor.PURE: 1.0, Flavor.COMPILED: 3.0}


def _rows(cells: Cells, small: Cells, missing: dict[str, str]) -> list[Row]:
    rows: list[Row] = []
    for flavor in Flavor:
        why = missing.get(flavor, "")
        rows += [_time(cells, flavor, why), _growth(cells, flavor, why), _crossing(small, flavor, why)]
        rows.append(_small(small, flavor, why or missing.get(_JITER, "")))
    no_compiler = missing.get(Flavor.COMPILED, "")
    return [
        *rows,
        _beside_floor(cells, no_compiler),
        _beside_jsonriver(cells, no_compiler or missing.get("jsonriver", "")),
    ]


def _work(flavor: Flavor) -> str:
    return f"a value after every fragment, {flavor}"


def _time(cells: Cells, flavor: Flavor, why: str) -> Row:
    # The most expensive document counts: a fragment must cost the same in all.
    figures_us = [max((cell.us for cell in cells.line(flavor, OURS, chars)), default=0.0) for chars in FRAGMENTS]
    target = " / ".join(f"{us:g}" for us in _TARGETS_US[flavor])
    return Row(
        work=_work(flavor),
        against="(a time: depends on the machine)",
        pace=PACE,
        target=f"at most {target} µs for a fragment of 4 / 16 / 64 characters, from {LINEAR_FROM:,} characters on",
        measured=why or " / ".join(f"{us:.2f}" for us in figures_us) + " µs",
        met=None if why else all(us <= most for us, most in zip(figures_us, _TARGETS_US[flavor], strict=True)),
        asserted=False,
    )


def _growth(cells: Cells, flavor: Flavor, why: str) -> Row:
    lines = [] if why else [cells.line(flavor, OURS, chars) for chars in FRAGMENTS]
    line = max(lines, key=exponent, default=[])
    worst = exponent(line) if line else 0.0
    ends = " and ".join(f"{cell.us:.2f} µs at {cell.size:,}" for cell in (*line[:1], *line[-1:]))
    is_quick = any(line[-1].size < SIZES[-1] for line in lines)  # too short for a certain result
    return Row(
        work=_work(flavor),
        against="the size of the document",
        pace=PACE,
        target=f"grows with an exponent of at most {_EXPONENT} (a run fails above {_EXPONENT_FAILS:.2f})",
        measured=why or f"{worst:.2f}: {ends} characters",
        met=None if why else worst <= _EXPONENT,
        asserted=not is_quick and not _EXPONENT < worst <= _EXPONENT_FAILS,
    )


def _crossing(small: Cells, flavor: Flavor, why: str) -> Row:
    most = _CROSSING_CHARS[flavor]
    crossing = None if why else small.crossing(flavor)
    measured = why
    if not why:
        ours, peer = small.closest(flavor, crossing or CROSSING_SIZES[-1])
        measured = "not cheaper" if crossing is None else f"from {crossing:,} characters on"
        measured += f" (closest: {ours.us:.2f} µs, {peer.side} {peer.us:.2f} µs)"
    return Row(
        work=_work(flavor),
        against=", ".join(PEERS),
        pace=PACE,
        target=f"at fragments of 4, 7 and 16, cheaper than each of them from {most:,} characters on",
        measured=measured,
        met=None if why else crossing is not None and crossing <= most,
    )


def _small(small: Cells, flavor: Flavor, why: str) -> Row:
    ours = small.get(flavor, OURS, _SMALL_CHARS, _MEDIAN_CHARS)
    theirs = small.get(flavor, _JITER, _SMALL_CHARS, _MEDIAN_CHARS)
    times = 0.0 if ours is None or theirs is None else theirs.us / ours.us
    least = _TIMES_JITER[flavor]
    return Row(
        work=_work(flavor),
        against=f"{_JITER}, which reads the text again",
        pace=PACE,
        target=f"at {_SMALL_CHARS:,} characters and fragments of {_MEDIAN_CHARS}, "
        + ("cheaper" if least == 1 else f"at least {least:g} times cheaper"),
        measured=why or f"{times:.1f} times cheaper ({ours and ours.us:.2f} µs, {theirs and theirs.us:.2f} µs)",
        met=None if why else times > least,
        asserted=False,  # the ratio depends on the version of jiter
    )


def _beside_floor(cells: Cells, why: str) -> Row:
    lines = (cells.line(Flavor.COMPILED, side, FRAGMENTS[0]) for side in (OURS, FLOOR))
    costs_us = [(ours.us, floor.us) for ours, floor in zip(*lines, strict=True)]
    ours_us, floor_us = max(costs_us, key=lambda pair: pair[0] / pair[1], default=(0.0, 1.0))
    return Row(
        work=_work(Flavor.COMPILED),
        against="the floor: append to a list, and one json.loads",
        pace=PACE,
        target=f"at most {_TIMES_FLOOR:g} times at fragments of 4, from 10 KB on",
        measured=why or f"{ours_us / floor_us:.1f} times: {ours_us:.2f} and {floor_us:.2f} µs",
        met=None if why else ours_us / floor_us <= _TIMES_FLOOR,
    )


def _beside_jsonriver(cells: Cells, why: str) -> Row:
    ours = cells.line(Flavor.COMPILED, OURS, FRAGMENTS[0])
    worst: dict[str, str] = {}
    ratios: dict[str, float] = {}
    for source in () if why else jsonriver.SOURCES:
        theirs = cells.line("", f"jsonriver, {source}", FRAGMENTS[0])
        our, their = min(zip(ours, theirs, strict=True), key=lambda pair: pair[1].us / pair[0].us)
        ratios[source] = their.us / our.us
        worst[source] = f"{ratios[source]:.1f} times, {our.us:.2f} and {their.us:.2f} µs"
    judged, *others = jsonriver.SOURCES
    return Row(
        work=_work(Flavor.COMPILED),
        against=f"jsonriver under node, fragments {judged}",
        pace=PACE,
        target=f"at least {_TIMES_JSONRIVER:g} times cheaper at fragments of 4, from 10 KB on",
        measured=why or f"{worst[judged]} ({'; '.join(f'{source}: {worst[source]}' for source in others)})",
        met=None if why else ratios[judged] >= _TIMES_JSONRIVER,
        asserted=False,  # the ratio of two engines depends on the versions of both, and on the machine
    )


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides, print the tables, and return the figures."""
    large, small, missing = _measure_all(quick=quick)
    cells, small_cells = Cells(large), Cells(small)
    for table in (_costs(cells), _growths(cells), _crossings(small_cells)):
        console.print(table)
    for name, why in missing.items():
        console.print(f"{name}: {why}")
    return {
        "cells": [asdict(cell) for cell in large],
        "small": [asdict(cell) for cell in small],
        "missing": missing,
        "rows": [asdict(row) for row in _rows(cells, small_cells, missing)],
    }
