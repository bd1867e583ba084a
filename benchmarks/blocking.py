"""Times for which the event loop is blocked by a chunk, by a read of `partial`, and by the end of an input.

The benchmark times synchronous calls of the wire core. Noise of the machine only adds time. So each step runs several
times on equal inputs, and its shortest time counts. The longest of all steps is reported.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from eagerstream_wire import Outcome

from .long_inputs import END_OF_INPUT, LONG_KINDS, chunks_of, events_of, fragments_of, text_of
from .targets import Row
from .wire_core import LONG_INPUTS, WireCore

PACE: Final = "all bytes at hand, in chunks of 16 or 64 KB"
TARGET_MS: Final = 1.0
FRAGMENT_CHARS: Final = 8
"""Close to the median of recorded inputs. A chunk of 64 KB contains more than 500 such fragments."""
CHUNKS: Final = {"a TLS record, 16 KB": 16_384, "a read from loopback, 64 KB": 65_536}
_CHUNKED_CHARS: Final = 100_000
_LONG_FRAGMENT_CHARS: Final = 64
_LARGE_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True)
class Block:
    """The longest step of its kind, in milliseconds."""

    step: str
    kind: str
    longest_ms: float


def _whole(kind: str, chars: int, *, end: str = "}") -> WireCore:
    """Return the core that has taken a complete input except its end. Nothing has read `partial`."""
    core = WireCore(LONG_INPUTS)
    fragments = fragments_of(text_of(kind, chars, end=end), _LONG_FRAGMENT_CHARS)
    for chunk in chunks_of(events_of(fragments), _LARGE_CHUNK_BYTES):
        core.feed(chunk)
    return core


def _timed_ms(step: Callable[..., object], *arguments: Any) -> float:
    start = time.perf_counter()
    step(*arguments)
    return (time.perf_counter() - start) * 1e3


def chunk_ms(kind: str, chunk_bytes: int, repeats: int) -> float:
    """Return the time of the slowest chunk. Reads of `partial` are not included: they are another step."""
    chunks = list(chunks_of(events_of(fragments_of(text_of(kind, _CHUNKED_CHARS), FRAGMENT_CHARS)), chunk_bytes))
    best = [float("inf")] * len(chunks)
    for _ in range(repeats):
        core = WireCore(LONG_INPUTS)
        for place, chunk in enumerate(chunks):
            best[place] = min(best[place], _timed_ms(core.feed, chunk))
        core.feed(END_OF_INPUT)
        assert core.assembler.inputs[0].outcome is Outcome.VALID
    return max(best)


def look_ms(kind: str, chars: int, repeats: int) -> float:
    """Return the time of the first read of `partial` after so many characters."""
    times = []
    for _ in range(repeats):
        input = _whole(kind, chars).assembler.inputs[0]
        gc.collect()
        times.append(_timed_ms(attrgetter("partial"), input))
        assert input.partial
    return min(times)


def end_ms(kind: str, chars: int, repeats: int, *, valid: bool) -> tuple[float, float]:
    """Return the times of the chunk that ends an input, and of the read of `message` after it."""
    ends, echoes = [], []
    for _ in range(repeats):
        core = _whole(kind, chars, end="}" if valid else "]")
        gc.collect()
        ends.append(_timed_ms(core.feed, END_OF_INPUT))
        echoes.append(_timed_ms(attrgetter("message"), core.assembler))
        assert core.assembler.inputs[0].outcome is (Outcome.VALID if valid else Outcome.INVALID)
    return min(ends), min(echoes)


def _blocks(*, quick: bool) -> Iterator[Block]:
    for what, chunk_bytes in CHUNKS.items():
        for kind in LONG_KINDS:
            yield Block(what, kind, chunk_ms(kind, chunk_bytes, 5 if quick else 20))
    large = 2_000_000 if quick else 16_000_000
    repeats = 2
    for kind in ("one string", "records"):
        for chars in (100_000, large):
            yield Block(f"a look after {chars / 1e6:g} MB", kind, look_ms(kind, chars, repeats))
        for valid in (True, False):
            how = "valid" if valid else "invalid at its last character"
            ended_ms, echoed_ms = end_ms(kind, large, repeats, valid=valid)
            yield Block(f"the end of {large / 1e6:g} MB, {how}", kind, ended_ms)
            yield Block(f"the message with {large / 1e6:g} MB, {how}", kind, echoed_ms)


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all steps, print a table, and return the figures."""
    blocks = list(track(_blocks(quick=quick), "blocking", console=console, transient=True, total=18))
    table = Table(title="longest time for which the event loop is blocked: ms")
    for name in ("by", *LONG_KINDS):
        table.add_column(name, justify="left" if name == "by" else "right")
    rows = []
    for step in dict.fromkeys(block.step for block in blocks):
        found = {block.kind: block.longest_ms for block in blocks if block.step == step}
        table.add_row(step, *(f"{found[kind]:.3f}" if kind in found else "" for kind in LONG_KINDS))
        kind, longest_ms = max(found.items(), key=lambda item: item[1])
        row = Row(
            work=f"the event loop is blocked by {step}",
            against="nothing else in the loop",
            pace=PACE,
            target=f"at most {TARGET_MS:g} ms",
            measured=f"{longest_ms:.2f} ms ({kind})",
            met=longest_ms <= TARGET_MS,
            asserted=False,  # a time, not a ratio: it depends on the machine
        )
        rows.append(row)
    console.print(table)
    return {"blocks": [asdict(block) for block in blocks], "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    main(Console(), quick=True)
