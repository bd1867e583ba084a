"""Cost of a value after every fragment: one side on one document in fragments.

Every side runs until its time is over, and the CPU time of its best run counts. A parser that reads the text again may
be too slow to parse after every fragment. Then evenly spaced prefixes stand for all. A run that stops early would leave
out the longest prefixes, which are most of the cost.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eagerstream_wire import PartialJSON

from . import jsonriver
from .peers import PEERS, Peer
from .streams import make_document

OURS = "eagerstream"
FLOOR = "floor"  # append to a list, and one `json.loads` at the end
_RUNS = 3  # at least
_RUN_CHARS = 10_000  # at least, between two garbage collections, which leave cold caches to the first document
_BATCH = 64  # prefixes in memory at once
_COUNTED_CHARS = 10_000  # up to this size all values are compared, which reads each completely


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One side on one document.

    Attributes:
        flavor: Flavor of the measured process. Empty for node.
        side: `eagerstream`, `floor`, a parser's name, or `jsonriver` with its source.
        size: Requested length of the document, in characters.
        chars: Actual length of the document, in characters.
        fragment_chars: Length of a fragment, in characters.
        us: Microseconds of CPU time per fragment.
        sampled: `us` is an estimate from evenly spaced prefixes.
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
    start = time.process_time()
    for fragment in fragments:
        parser.feed(fragment)
        value = parser.value
    elapsed_s = time.process_time() - start
    assert parser.complete
    return elapsed_s, value


def _run_floor(fragments: Sequence[str]) -> tuple[float, object]:
    taken: list[str] = []
    take = taken.append
    start = time.process_time()
    for fragment in fragments:
        take(fragment)
    value = json.loads("".join(taken))
    return time.process_time() - start, value


_INCREMENTAL = {OURS: _run_ours, FLOOR: _run_floor}


def cut(text: str, fragment_chars: int) -> tuple[str, ...]:
    """Return the fragments of a text, in a tuple: the garbage collector stops tracking tuples of strings."""
    return tuple(text[at : at + fragment_chars] for at in range(0, len(text), fragment_chars))


def _incremental_us(text: str, document: object, fragment_chars: int, budget_s: float) -> dict[str, float]:
    """Return the microseconds per fragment of ours and of the floor, measured alternately."""
    fragments = cut(text, fragment_chars)
    best = dict.fromkeys(_INCREMENTAL, float("inf"))
    repeats = _repeats(text)
    end = time.perf_counter() + budget_s
    runs = 0
    while runs < _RUNS or time.perf_counter() < end:
        runs += 1
        for side, run in _INCREMENTAL.items():
            gc.collect()
            results = [run(fragments) for _ in range(repeats)]
            assert all(value == document for _, value in results)
            best[side] = min(best[side], *(elapsed_s for elapsed_s, _ in results))
    return {side: elapsed_s / len(fragments) * 1e6 for side, elapsed_s in best.items()}


def _repeats(text: str) -> int:
    """Return the number of runs between two garbage collections."""
    return -(-_RUN_CHARS // len(text))


def _looks_s(parse: Callable[[Any], object], prefixes: Iterable[Any]) -> float:
    start = time.process_time()
    for prefix in prefixes:
        parse(prefix)
    return time.process_time() - start


def rereading_us(peer: Peer, text: str, document: object, fragment_chars: int, budget_s: float) -> tuple[float, bool]:
    """Return the microseconds per parse of a parser that reads the prefix again, and `True` if from a sample."""
    prepare, parse = peer.prepare, peer.load()
    assert parse(prepare(text)) == document
    look_s = min(_looks_s(parse, [prepare(text[: len(text) // 2])]) for _ in range(_RUNS))
    count = -(-len(text) // fragment_chars)
    places = min(count, max(_RUNS, int(budget_s / look_s)))
    # The middle of each of `places` equal stretches. If `places` is `count`, this is every fragment.
    ends = [(int((place + 0.5) * count / places) + 1) * fragment_chars for place in range(places)]
    best_s = float("inf")
    repeats = _repeats(text)
    end = time.perf_counter() + budget_s
    while best_s == float("inf") or time.perf_counter() + best_s * repeats < end:
        gc.collect()
        for _ in range(repeats):
            elapsed_s = 0.0
            for at in range(0, places, _BATCH):
                elapsed_s += _looks_s(parse, [prepare(text[:chars]) for chars in ends[at : at + _BATCH]])
            best_s = min(best_s, elapsed_s)
    return best_s / places * 1e6, places < count


def measure(
    flavor: str, sizes: Sequence[int], fragments: Sequence[int], peers: Sequence[str], budget_s: float
) -> list[dict[str, Any]]:
    """Return the cells of these documents, as plain data: ours, the floor, and `peers`. `budget_s` is for each cell."""
    cells: list[Cell] = []
    for size in sizes:
        document = make_document(size)
        text = json.dumps(document, ensure_ascii=False)
        for fragment_chars in fragments:
            figures = {
                side: (us, False) for side, us in _incremental_us(text, document, fragment_chars, budget_s).items()
            } | {side: rereading_us(PEERS[side], text, document, fragment_chars, budget_s) for side in peers}
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
    """Return the number of fragments that change the value."""
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
    """Return the cells of jsonriver on one document, one for each source of its fragments.

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
