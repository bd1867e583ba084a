"""A value after every fragment, in parsers of several languages: Python, TypeScript, and Rust as Zed uses it.

The documents are those of `partial_values`, in fragments of 7 characters, the median of recorded streams. Each parser
gets all fragments, and its value is read after each of them. "~" marks an estimate from a sample. Python is measured in
CPU time. Node.js is measured in time that passes, because its engine also works in other threads. The best run of three
passes counts, so that a load of some minutes does not change the order.

Growth is the cost of a fragment at 100,000 characters, compared with the one at 10,000: about 1 if the whole document
takes linear time, and about 10 if it takes quadratic time.

jsonriver gets each fragment in a promise. The reading of `@anthropic-ai/sdk` is that of `input` in its snapshot, which
its own code does at the first look. pi-ai may return an older snapshot while a large container is open. google-adk
reports changes and no value.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from . import flavors
from .conformance.peers import NPM, PEERS as LIBRARIES, node
from .flavors import ROOT, Flavor
from .partial_value_cells import FLOOR, OURS, Cell, measure, rereading_us
from .peers import PEERS, Peer
from .streams import make_document

PACE: Final = "all fragments at hand, given one at a time"
SIZES: Final = (1_000, 10_000, 100_000)
FRAGMENT_CHARS: Final = 7
PASSES: Final = 3
LINEAR_BELOW: Final = 3.0
"""Growth of a parser whose documents take linear time: 1, with room for caches and noise."""

_FIXER: Final = "partial-json-fixer"
_ADK: Final = "google-adk"
_LANGUAGES: Final = {_FIXER: "Rust, from Python", OURS: "Python", FLOOR: "Python", _ADK: "Python"} | dict.fromkeys(
    PEERS, "Python"
)


def _texts() -> list[str]:
    return [json.dumps(make_document(size), ensure_ascii=False) for size in SIZES]


def _cells(side: str, figures: Iterable[tuple[float, bool]]) -> list[Cell]:
    return [
        Cell(flavor="", side=side, size=size, chars=len(text), fragment_chars=FRAGMENT_CHARS, us=us, sampled=sampled)
        for size, text, (us, sampled) in zip(SIZES, _texts(), figures, strict=True)
    ]


def _answers(command: Sequence[str], budget_s: float) -> list[Any]:
    """Return what a program answers to each document, as JSON.

    Raises:
        subprocess.CalledProcessError: It failed. stderr has the reason.
    """
    asked = {"fragment_chars": FRAGMENT_CHARS, "budget_ms": budget_s * 1000}
    lines = "".join(json.dumps({"text": text, **asked}) + "\n" for text in _texts())
    done = subprocess.run(command, cwd=ROOT, input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _from_npm(budget_s: float) -> list[Cell]:
    answers = _answers([node(), str(NPM / "speed.mjs")], budget_s)
    return [
        cell
        for side in answers[0]
        for cell in _cells(side, [(answer[side]["us"], answer[side]["sampled"]) for answer in answers])
    ]


def _from_adk(budget_s: float) -> list[Cell]:
    (adk,) = [library for library in LIBRARIES if library.package == _ADK]
    answers = _answers([str(adk.python), "-m", f"benchmarks.conformance.python.{adk.adapter}"], budget_s)
    return _cells(_ADK, [(us, True) for us in answers])


def _from_fixer(budget_s: float) -> list[Cell]:
    fixer = Peer("benchmarks.conformance.python.partial_json_fixer", "read", {})
    figures = [rereading_us(fixer, text, json.loads(text), FRAGMENT_CHARS, budget_s) for text in _texts()]
    return _cells(_FIXER, figures)


def _measure_all(missing: Mapping[str, str], budget_s: float) -> list[Cell]:
    """Return the cells of all sides, in one pass."""
    cells: list[Cell] = []
    for flavor in Flavor:
        if flavor not in missing:
            arguments = {"flavor": flavor, "sizes": SIZES, "fragments": [FRAGMENT_CHARS], "budget_s": budget_s}
            found = flavors.measure(flavor, measure, peers=[*PEERS] if flavor is Flavor.PURE else [], **arguments)
            cells += [Cell(**cell) for cell in found if flavor is Flavor.PURE or cell["side"] == OURS]
    return [*cells, *_from_fixer(budget_s), *_from_adk(budget_s), *_from_npm(budget_s)]


def table(cells: Iterable[Cell]) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns, and a row for each side: its cost at each size, and its growth."""
    sides: dict[tuple[str, str], dict[int, Cell]] = {}
    for cell in cells:
        sides.setdefault((cell.side, cell.flavor if cell.side == OURS else ""), {})[cell.size] = cell
    rows = []
    for (side, flavor), own in sides.items():
        growth = own[SIZES[-1]].us / own[SIZES[-2]].us
        name = f"{side}, {flavor}" if flavor else side
        costs = [f"{'~' if own[size].sampled else ''}{_rounded(own[size].us)}" for size in SIZES]
        form = "linear" if growth < LINEAR_BELOW else "quadratic"
        rows.append([name, _LANGUAGES.get(side, "TypeScript"), *costs, f"{growth:.1f}", form])
    heads = ["parser", "language", *(f"{size:,} characters" for size in SIZES), "growth", "time of a document"]
    return heads, rows


def _rounded(us: float) -> str:
    return f"{us:.2f}" if us < 10 else f"{us:,.0f}"


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides, print the table, and return the figures. `make conformance` installs what is compared."""
    missing = {str(flavor): why for flavor, why in flavors.available().items() if why}
    passes = [_measure_all(missing, 0.1 if quick else 1.0) for _ in range(1 if quick else PASSES)]
    cells = [min(found, key=lambda cell: cell.us) for found in zip(*passes, strict=True)]
    heads, rows = table(cells)
    shown = Table(title="A value after every fragment of 7 characters: µs per fragment")
    for at, head in enumerate(heads):
        shown.add_column(head, justify="right" if 2 <= at < len(heads) - 1 else "left")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
    for name, why in missing.items():
        console.print(f"{name}: {why}")
    engine = subprocess.run([node(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    console.print(f"Node.js {engine}")
    sides = {cell.side for cell in cells}
    versions = {library.package: library.version for library in LIBRARIES if library.package in sides}
    return {"pace": PACE, "cells": [asdict(cell) for cell in cells], "missing": missing, "versions": versions}
