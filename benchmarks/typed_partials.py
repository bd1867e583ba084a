"""A typed partial value after every fragment: `TypedPartial`, and libraries that read the text again at each.

The document is an order: a title and a list of items with an id, a name, a price and two tags. It comes in fragments of
7 characters, the median of recorded streams, and each side gives its value after each of them. The sides are:

- eagerstream: `PartialJSON.feed`, and `TypedPartial.value`: every finished item is validated;
- one string: the same, but the text is a single item with one long name;
- pydantic: `TypeAdapter.validate_json` with `experimental_allow_partial`, which validates all items each time;
- instructor: `Partial[Order].model_from_chunks`, which makes all items each time, without their validation;
- genkit: its `extract_json`, which gives dicts: nothing is validated.

The first two sides read whole documents, and the least of several repetitions counts. The others are measured for
single fragments at places spread evenly over the document, because whole documents would take an hour. Their mean
counts.
"""

from __future__ import annotations

import gc
import importlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import track
from rich.table import Table

from eagerstream.inputs import TypedPartial
from eagerstream_wire import PartialJSON

from .targets import Row

PACE: Final = "all fragments at hand, given one at a time"
SIZES: Final = (1_000, 2_000, 10_000, 100_000)
FRAGMENT_CHARS: Final = 7
OURS: Final = "eagerstream"
STRING: Final = "one string"
CHEAPER_FROM: Final = 2_000
_FLAT: Final = 1.2
_NOISE: Final = 1.15  # a run fails only above this multiple of the target
_MOST_LOOKS: Final = 24
_LEAST_LOOKS: Final = 3
_BUDGET_S: Final = 5.0


class Item(BaseModel):
    id: int
    name: str
    price: float
    tags: list[str]


class Order(BaseModel):
    title: str
    items: list[Item]


Look = Callable[[str, str], float]
"""Returns the seconds that a library takes for one fragment after a prefix."""


def document(size: int) -> str:
    """Return an order of about `size` characters."""
    items = [{"id": n, "name": f"Item {n}", "price": 1.5, "tags": ["new", "blue"]} for n in range(size // 60)]
    return json.dumps({"title": "An order", "items": items})


def one_string(size: int) -> str:
    """Return an order of one item with a long name."""
    item = {"id": 1, "price": 1.5, "tags": ["new"], "name": "a few more words " * (size // 17)}
    return json.dumps({"title": "An order", "items": [item]})


def _fragments(text: str) -> list[str]:
    return [text[at : at + FRAGMENT_CHARS] for at in range(0, len(text), FRAGMENT_CHARS)]


def _ours(text: str, repetitions: int) -> float:
    """Return the microseconds for a fragment and its typed value."""
    fragments = _fragments(text)
    best_s = float("inf")
    for _ in range(repetitions):
        parser = PartialJSON()
        typed = TypedPartial(Order, parser)
        gc.collect()
        start = time.perf_counter()
        for fragment in fragments:
            parser.feed(fragment)
            assert typed.value is not None
        best_s = min(best_s, time.perf_counter() - start)
        assert typed.fault is None
        assert typed.value == Order.model_validate_json(text)
    return best_s / len(fragments) * 1e6


def _pydantic() -> Look:
    adapter = TypeAdapter(Order)

    def look(prefix: str, fragment: str) -> float:
        text = (prefix + fragment).encode()
        start = time.perf_counter()
        try:
            adapter.validate_json(text, experimental_allow_partial="trailing-strings")
        except ValidationError:
            pass  # a required field has not arrived: it has no value then
        return time.perf_counter() - start

    return look


def _instructor() -> Look:
    partial: Any = importlib.import_module("instructor").Partial[Order]

    def look(prefix: str, fragment: str) -> float:
        values: Iterator[Any] = partial.model_from_chunks([prefix, fragment])
        next(values)
        start = time.perf_counter()
        assert next(values) is not None
        return time.perf_counter() - start

    return look


def _genkit() -> Look:
    extract_json: Any = importlib.import_module("genkit._core._extract_json").extract_json

    def look(prefix: str, fragment: str) -> float:
        text = prefix + fragment
        start = time.perf_counter()
        extract_json(text, throw_on_bad_json=False)
        return time.perf_counter() - start

    return look


PEERS: Final = {"pydantic": _pydantic, "instructor": _instructor, "genkit": _genkit}


def _at(text: str, place: float) -> tuple[str, str]:
    """Return the text before a fragment, and the fragment, at a place from 0 to 1."""
    start = round(place * len(text) / FRAGMENT_CHARS) * FRAGMENT_CHARS
    return text[:start], text[start : start + FRAGMENT_CHARS]


def _theirs(look: Look, text: str) -> float:
    """Return the mean of the microseconds for a fragment, anywhere in the document."""
    first_s = look(*_at(text, 0.5))
    looks = max(_LEAST_LOOKS, min(_MOST_LOOKS, int(_BUDGET_S / max(first_s, 1e-9))))
    places = [(number + 0.5) / looks for number in range(looks)]
    return sum(min(look(*_at(text, place)) for _ in range(3 if first_s < 0.1 else 1)) for place in places) / looks * 1e6


def _measure(*, quick: bool) -> tuple[list[dict[str, Any]], dict[str, str]]:
    sides: dict[str, Look] = {}
    missing: dict[str, str] = {}
    for name, load in PEERS.items():
        try:
            sides[name] = load()
        except ImportError as error:
            missing[name] = f"not installed: {error.name}"
    cells: list[dict[str, Any]] = []
    for size in track(SIZES, "typed partials", console=Console(stderr=True), transient=True):
        repetitions = max(3, (30_000 if quick else 200_000) // size)
        cells.append({"side": OURS, "size": size, "us": _ours(document(size), repetitions)})
        cells.append({"side": STRING, "size": size, "us": _ours(one_string(size), repetitions)})
        cells += [
            {"side": name, "size": size, "us": _theirs(look, document(size))}
            for name, look in sides.items()
            if not (quick and name == "genkit" and size == SIZES[-1])
        ]
    return cells, missing


def _flat(cells: dict[tuple[str, int], float], side: str, work: str) -> Row:
    large_us, small_us = cells[side, SIZES[-1]], cells[side, SIZES[0]]
    ratio = large_us / small_us
    return Row(
        work=work,
        against=f"the same in a document of {SIZES[0]:,} characters",
        pace=PACE,
        target=f"in one of {SIZES[-1]:,} at most {_FLAT:g} times (a run fails above {_FLAT * _NOISE:.2f})",
        measured=f"{ratio:.2f} times: {large_us:.1f} and {small_us:.1f} µs",
        met=ratio <= _FLAT,
        asserted=not _FLAT < ratio <= _FLAT * _NOISE,
    )


def _cheaper(cells: dict[tuple[str, int], float], peer: str, missing: dict[str, str]) -> Row:
    ratios = {size: cells[peer, size] / cells[OURS, size] for size in SIZES if (peer, size) in cells}
    figures = ", ".join(
        f"{ratio:,.1f} times at {size:,} ({cells[OURS, size]:.1f} and {cells[peer, size]:,.1f} µs)"
        for size, ratio in ratios.items()
    )
    return Row(
        work="a typed partial value after every fragment",
        against=peer,
        pace=PACE,
        target=f"cheaper from {CHEAPER_FROM:,} characters on",
        measured=missing.get(peer) or figures,
        met=None if peer in missing else all(ratio > 1 for size, ratio in ratios.items() if size >= CHEAPER_FROM),
    )


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all sides at all sizes, print the table, and return the figures."""
    measured, missing = _measure(quick=quick)
    cells = {(cell["side"], cell["size"]): cell["us"] for cell in measured}
    table = Table(title="µs for a fragment and the typed value after it (and as a multiple of eagerstream's)")
    table.add_column("characters", justify="right")
    sides = [OURS, STRING, *(peer for peer in PEERS if peer not in missing)]
    for side in sides:
        table.add_column(side, justify="right")
    for size in SIZES:
        row = [f"{size:,}"]
        for side in sides:
            us = cells.get((side, size))
            is_peer = side in PEERS
            times = f" ({us / cells[OURS, size]:,.1f})" if is_peer and us is not None else ""
            row.append("-" if us is None else f"{us:,.1f}{times}")
        table.add_row(*row)
    console.print(table)
    for name, why in missing.items():
        console.print(f"{name}: {why}")
    rows = [
        _flat(cells, OURS, "a typed partial value after every fragment, items"),
        _flat(cells, STRING, "a typed partial value after every fragment, one string in an open item"),
        *(_cheaper(cells, peer, missing) for peer in PEERS),
    ]
    return {"cells": measured, "missing": missing, "rows": [asdict(row) for row in rows]}
