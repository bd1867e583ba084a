"""What a value after every fragment costs: one side on one document cut into fragments.

Every side runs until its time is used up, and its best counts. Where a parser that reads the text again could not look
after every fragment in its time, looks at evenly spaced prefixes stand for all of them. Stopping early would leave out
the longest, which are most of the cost.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eagerstream.wire import PartialJSON

from . import jsonriver
from .peers import PEERS
from .streams import make_document

OURS = "eagerstream"
FLOOR = "floor"  # appended to a list, and one `json.loads` at the end
_RUNS = 3  # at least
_BATCH = 64  # prefixes in memory at once
_COUNTED_CHARS = 10_000  # up to which all values are compared, each of which is read whole for it


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One side on one document.

    Attributes:
        flavor: Of the process that it was measured in; empty for node.
        side: `eagerstream`, `floor`, a parser's name, or `jsonriver` with its source.
        size: Characters that the document was to have.
        chars: Characters that it has.
        fragment_chars: Length of a fragment.
        us: Microseconds per fragment.
        sampled: Estimated from evenly spaced prefixes.
    """

    flavor: str
    side: str
    size: int
    chars: int
    fragment_chars: int
    us: float
    sampled: bool = False


# --- measuring, in a process of one flavor ----------------------------------------------------------------------------


def _run_ours(fragments: Sequence[str]) -> tuple[float, object]:
    parser = PartialJSON()
    value = None
    start = time.perf_counter()
    for fragment in fragments:
        parser.feed(fragment)
        value = parser.value
    elapsed_s = time.perf_counter() - start
    assert parser.complete
    return elapsed_s, value


def _run_floor(fragments: Sequence[str]) -> tuple[float, object]:
    taken: list[str] = []
    take = taken.append
    start = time.perf_counter()
    for fragment in fragments:
        take(fragment)
    value = json.loads("".join(taken))
    return time.perf_counter() - start, value


_INCREMENTAL = {OURS: _run_ours, FLOOR: _run_floor}


def cut(text: str, fragment_chars: int) -> tuple[str, ...]:
    """The fragments of a text. A tuple, which the garbage collector leaves alone once it has seen that it may."""
    return tuple(text[at : at + fragment_chars] for at in range(0, len(text), fragment_chars))


def _incremental_us(text: str, document: object, fragment_chars: int, budget_s: float) -> dict[str, float]:
    """Microseconds per fragment of ours and of the floor, in turns."""
    fragments = cut(text, fragment_chars)
    best = dict.fromkeys(_INCREMENTAL, float("inf"))
    end = time.perf_counter() + budget_s
    runs = 0
    while runs < _RUNS or time.perf_counter() < end:
        runs += 1
        for side, run in _INCREMENTAL.items():
            gc.collect()
            elapsed_s, value = run(fragments)
            assert value == document
            best[side] = min(best[side], elapsed_s)
    return {side: elapsed_s / len(fragments) * 1e6 for side, elapsed_s in best.items()}


def _looks_s(parse: Callable[[Any], object], prefixes: Iterable[Any]) -> float:
    start = time.perf_counter()
    for prefix in prefixes:
        parse(prefix)
    return time.perf_counter() - start


def _rereading_us(side: str, text: str, document: object, fragment_chars: int, budget_s: float) -> tuple[float, bool]:
    """Microseconds per look of a parser that reads the prefix again, and whether they come from a sample."""
    prepare, parse = PEERS[side].prepare, PEERS[side].load()
    assert parse(prepare(text)) == document
    look_s = min(_looks_s(parse, [prepare(text[: len(text) // 2])]) for _ in range(_RUNS))
    count = -(-len(text) // fragment_chars)
    places = min(count, max(_RUNS, int(budget_s / look_s)))
    # The middle of each of `places` stretches of equal length; every fragment, where there are as many of them.
    ends = [(int((place + 0.5) * count / places) + 1) * fragment_chars for place in range(places)]
    best_s = float("inf")
    end = time.perf_counter() + budget_s
    while best_s == float("inf") or time.perf_counter() + best_s < end:
        gc.collect()
        elapsed_s = 0.0
        for at in range(0, places, _BATCH):
            elapsed_s += _looks_s(parse, [prepare(text[:chars]) for chars in ends[at : at + _BATCH]])
        best_s = min(best_s, elapsed_s)
    return best_s / places * 1e6, places < count


def measure(
    flavor: str, sizes: Sequence[int], fragments: Sequence[int], peers: Sequence[str], budget_s: float
) -> list[dict[str, Any]]:
    """The cells of these documents, as plain data: ours, the floor, and these peers. `budget_s`: for each cell."""
    cells: list[Cell] = []
    for size in sizes:
        document = make_document(size)
        text = json.dumps(document, ensure_ascii=False)
        for fragment_chars in fragments:
            figures = {
                side: (us, False) for side, us in _incremental_us(text, document, fragment_chars, budget_s).items()
            } | {side: _rereading_us(side, text, document, fragment_chars, budget_s) for side in peers}
            cells += [
                Cell(
                    flavor=flavor,
                    side=side,
                    size=size,
                    chars=len(text),
                    fragment_chars=fragment_chars,
                    us=us,
                    sampled=sampled,
                )
                for side, (us, sampled) in figures.items()
            ]
    return [asdict(cell) for cell in cells]


def _changes(fragments: Sequence[str]) -> int:
    """After how many fragments the value is another than before."""
    parser = PartialJSON()
    changes = 0
    before = ""
    for fragment in fragments:
        parser.feed(fragment)
        value = repr(parser.value)
        changes += value != before
        before = value
    return changes


def measure_jsonriver(size: int, fragments: Sequence[int]) -> list[Cell]:
    """The cells of jsonriver on one document, one for each source of its fragments.

    Raises:
        jsonriver.NotInstalledError: It cannot run here.
    """
    text = json.dumps(make_document(size), ensure_ascii=False)
    documents = [cut(text, fragment_chars) for fragment_chars in fragments]
    cells: list[Cell] = []
    for fragment_chars, document, sources in zip(fragments, documents, jsonriver.measure(documents), strict=True):
        if size <= _COUNTED_CHARS:
            changes = _changes(document)
            assert all(measured.values == changes for measured in sources.values())
        cells += [
            Cell(
                flavor="",
                side=f"jsonriver, {source}",
                size=size,
                chars=len(text),
                fragment_chars=fragment_chars,
                us=measured.seconds / len(document) * 1e6,
            )
            for source, measured in sources.items()
        ]
    return cells
